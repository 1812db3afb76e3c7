"""Exceptions as data, so that `except MyError` works on replay as it did when the error was real."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from reenact.core.codec.registry import label_of
from reenact.core.codec.standins import RecordedError

MAX_CHAIN = 10  # how many errors deep causes are followed
MAX_BASES = 32  # how many classes that an error derived from are looked for
MEMBERS = (
    *("type", "message", "args", "attributes", "cause", "context"),
    *("suppress_context", "notes", "members", "bases"),
)
_HEAP_TYPE = 1 << 9

# What built-in exceptions keep outside arguments and dictionary (but AttributeError.obj, the object itself).
_BUILT_IN: dict[type, tuple[str, ...]] = {
    OSError: ("errno", "strerror", "filename", "filename2"),
    ImportError: ("name", "path"),
    NameError: ("name",),
    AttributeError: ("name",),
}


def _built_in(cls: type) -> tuple[str, ...]:
    return next((names for base, names in _BUILT_IN.items() if issubclass(cls, base)), ())


def read_error(error: BaseException) -> dict[str, Any]:
    """Everything of an exception but its traceback, which names places and not values; empty members left out."""
    cause, context = error.__cause__, error.__context__
    notes = error.__dict__.get("__notes__")
    members = {
        **(_read_recorded(error) if isinstance(error, RecordedError) else _read_real(error)),
        "cause": cause,
        "context": None if context is cause else context,
        "suppress_context": error.__suppress_context__,
        "notes": notes if type(notes) is list else None,
    }
    return {name: members[name] for name in MEMBERS if not _is_empty(members[name])}


def _is_empty(member: Any) -> bool:
    """By type: an exception may have a length or a truth value of its own."""
    return member is None or member is False or (type(member) in (str, list, dict) and not member)


def _read_recorded(error: RecordedError) -> dict[str, Any]:
    kept = error.__dict__
    return {
        "type": kept["label"],
        "message": kept["message"],
        "args": list(_args(error)),
        "attributes": kept["attributes"],
        "members": list(kept["members"]),
        "bases": list(kept["bases"]),
    }


def _read_real(error: BaseException) -> dict[str, Any]:
    cls = type(error)
    attributes = {name: value for name, value in error.__dict__.items() if name != "__notes__"}
    known = ((name, getattr(error, name, None)) for name in _built_in(cls))
    attributes.update((name, value) for name, value in known if value is not None)
    group: Any = error if isinstance(error, BaseExceptionGroup) else None
    return {
        "type": label_of(cls),
        "message": _message(error),
        "args": [group.message] if group is not None else list(_args(error)),
        "attributes": attributes,
        "members": list(group.exceptions) if group is not None else None,
        "bases": [label_of(base) for base in cls.__mro__[1:] if base is not object],
    }


def _args(error: BaseException) -> tuple[Any, ...]:
    # The built-in's own: a subclass may have a property of that name.
    args: tuple[Any, ...] = BaseException.args.__get__(error)  # type: ignore[attr-defined]
    return args


def _message(error: BaseException) -> str:
    try:
        return str.__str__(str(error))
    except Exception:  # a user's __str__
        return ""


def build_error(cls: type | None, members: dict[str, Any], known: Callable[[list[Any]], list[type]]) -> BaseException:
    """The exception again; a `RecordedError` if its class is missing or needs its own code to be made.

    `known` gives those of the classes that it derived from that are at hand, the nearest first.
    """
    args, attributes = tuple(members.get("args", ())), members.get("attributes", {})
    inner = tuple(members.get("members", ()))
    if type(members.get("message", "")) is not str:
        raise TypeError
    error = _instance(cls, args, attributes, inner) if cls is not None else None
    if error is None:
        message, bases = members.get("message", ""), members.get("bases", [])
        error = _stand_in(known(bases), (members["type"], message, args, attributes, inner, tuple(bases)))
    for name, absent in (("cause", None), ("context", None), ("suppress_context", False)):
        object.__setattr__(error, f"__{name}__", members.get(name, absent))  # a class may set attributes its own way
    if "notes" in members:
        error.__dict__["__notes__"] = members["notes"]
    return error


def _instance(
    cls: type, args: tuple[Any, ...], attributes: dict[str, Any], inner: tuple[Any, ...]
) -> BaseException | None:
    """Made by the built-in exception that the class derives from, never by the class itself."""
    base: Any = next(base for base in cls.__mro__ if not base.__flags__ & _HEAP_TYPE)
    group = issubclass(cls, BaseExceptionGroup)
    try:
        if group:
            made: Any = BaseExceptionGroup.__new__(cls, args[0], list(inner))
        else:
            made = base.__new__(cls, *args)
            base.__init__(made, *args)
    except Exception:  # arguments that were replaced after the error was made, or a group of what are no errors
        try:
            made = base.__new__(cls)
        except Exception:
            return None
    if not isinstance(made, cls) or not isinstance(made, BaseException):
        return None
    if not group:
        BaseException.args.__set__(made, args)  # type: ignore[attr-defined]
    built_in = _built_in(cls)
    for name, value in attributes.items():
        if name in built_in:
            object.__setattr__(made, name, value)
        else:
            made.__dict__[name] = value
    return made


def _stand_in(known: Sequence[type], kept: tuple[Any, ...]) -> BaseException:
    """One that an `except` for any of the known classes finds, if that can be had without running code of theirs."""
    nearest: list[type] = []
    for base in known:
        if _runs_no_code(base) and not any(issubclass(one, base) for one in (RecordedError, *nearest)):
            nearest.append(base)
    _, message, args, attributes, inner, _ = kept
    for bases in (tuple(nearest), tuple(nearest[:1])):
        cls = _derived(bases) if bases else None
        made: BaseException | None = _bare(cls, message, args, inner) if cls is not None else None
        if isinstance(made, RecordedError):
            RecordedError.__init__(made, *kept)
            for name in _built_in(type(made)):
                with suppress(Exception):
                    object.__setattr__(made, name, attributes.get(name))
            return made
    return RecordedError(*kept)


def _runs_no_code(cls: type) -> bool:
    """Deriving from it tells nobody."""
    users = [one for one in cls.__mro__ if one.__flags__ & _HEAP_TYPE]
    return type(cls) is type and not any("__init_subclass__" in vars(one) for one in users)


@lru_cache(maxsize=256)
def _derived(bases: tuple[type, ...]) -> type[RecordedError] | None:
    try:
        return type("RecordedError", (RecordedError, *bases), {"__module__": RecordedError.__module__})
    except TypeError:  # built-in exceptions that do not go together
        return None


def _bare(cls: type[RecordedError], message: str, args: tuple[Any, ...], inner: tuple[Any, ...]) -> Any:
    if issubclass(cls, BaseExceptionGroup):
        text = args[0] if args and type(args[0]) is str else message
        with suppress(Exception):  # of nothing, or of what are no errors
            return BaseExceptionGroup.__new__(cls, text, list(inner))
        return None
    for base in cls.__mro__:
        if not base.__flags__ & _HEAP_TYPE and issubclass(base, BaseException):
            with suppress(TypeError):  # another of them is the one that can make it
                made = base.__new__(cls)
                with suppress(Exception):
                    base.__init__(made, *args)
                return made
    return None
