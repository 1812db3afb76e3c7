"""Exceptions as data, so that `except MyError` works on replay as it did in the recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from onrecord.core.codec.registry import recorded_label
from onrecord.core.codec.unresolved import RecordedError

MAX_CHAIN = 10  # how many causes deep errors are recorded
MAX_BASES = 32  # how many base classes of an error are looked up
MEMBERS = (
    *("type", "message", "args", "attributes", "cause", "context"),
    *("suppress_context", "notes", "members", "bases"),
)
_HEAP_TYPE = 1 << 9

# Attributes that built-in exceptions keep outside `args` and `__dict__` (without AttributeError.obj, a live object).
_BUILT_IN: dict[type, tuple[str, ...]] = {
    OSError: ("errno", "strerror", "filename", "filename2"),
    ImportError: ("name", "path"),
    NameError: ("name",),
    AttributeError: ("name",),
}


def _list_built_in_attributes(cls: type) -> tuple[str, ...]:
    return next((names for base, names in _BUILT_IN.items() if issubclass(cls, base)), ())


def read_error(error: BaseException) -> dict[str, Any]:
    """Return everything of an exception but its traceback, which names no values. Empty members are left out."""
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
    """Check by type: an exception may define its own length or truth value."""
    return member is None or member is False or (type(member) in (str, list, dict) and not member)


def _read_recorded(error: RecordedError) -> dict[str, Any]:
    recorded = error.__dict__
    return {
        "type": recorded["label"],
        "message": recorded["message"],
        "args": list(_read_args(error)),
        "attributes": recorded["attributes"],
        "members": list(recorded["members"]),
        "bases": list(recorded["bases"]),
    }


def _read_real(error: BaseException) -> dict[str, Any]:
    cls = type(error)
    attributes = {name: value for name, value in error.__dict__.items() if name != "__notes__"}
    known = ((name, getattr(error, name, None)) for name in _list_built_in_attributes(cls))
    attributes.update((name, value) for name, value in known if value is not None)
    group: Any = error if isinstance(error, BaseExceptionGroup) else None
    return {
        "type": recorded_label(cls),
        "message": _read_message(error),
        "args": [group.message] if group is not None else list(_read_args(error)),
        "attributes": attributes,
        "members": list(group.exceptions) if group is not None else None,
        "bases": [recorded_label(base) for base in cls.__mro__[1:] if base is not object],
    }


def _read_args(error: BaseException) -> tuple[Any, ...]:
    # Read by the built-in descriptor: a subclass may have a property of that name.
    args: tuple[Any, ...] = BaseException.args.__get__(error)  # type: ignore[attr-defined]
    return args


def _read_message(error: BaseException) -> str:
    try:
        return str.__str__(str(error))
    except Exception:  # a user's __str__
        return ""


def build_error(cls: type | None, members: dict[str, Any], known: Callable[[list[Any]], list[type]]) -> BaseException:
    """Build the exception; a `RecordedError` if its class is missing or cannot be made without running its code.

    `known` returns the available base classes for a list of labels, the nearest first.
    """
    args, attributes = tuple(members.get("args", ())), members.get("attributes", {})
    inner = tuple(members.get("members", ()))
    if type(members.get("message", "")) is not str:
        raise TypeError
    error = _make_instance(cls, args, attributes, inner) if cls is not None else None
    if error is None:
        message, bases = members.get("message", ""), members.get("bases", [])
        error = _make_stand_in(known(bases), (members["type"], message, args, attributes, inner, tuple(bases)))
    for name, absent in (("cause", None), ("context", None), ("suppress_context", False)):
        object.__setattr__(error, f"__{name}__", members.get(name, absent))  # a class may override __setattr__
    if "notes" in members:
        error.__dict__["__notes__"] = members["notes"]
    return error


def _make_instance(
    cls: type, args: tuple[Any, ...], attributes: dict[str, Any], inner: tuple[Any, ...]
) -> BaseException | None:
    """Create the exception with the constructor of its built-in base, never with the constructor of the class."""
    base: Any = next(base for base in cls.__mro__ if not base.__flags__ & _HEAP_TYPE)
    group = issubclass(cls, BaseExceptionGroup)
    try:
        if group:
            made: Any = BaseExceptionGroup.__new__(cls, args[0], list(inner))
        else:
            made = base.__new__(cls, *args)
            base.__init__(made, *args)
    except Exception:  # args replaced after the error was made, or a group with members that are no errors
        try:
            made = base.__new__(cls)
        except Exception:
            return None
    if not isinstance(made, cls) or not isinstance(made, BaseException):
        return None
    if not group:
        BaseException.args.__set__(made, args)  # type: ignore[attr-defined]
    built_in = _list_built_in_attributes(cls)
    for name, value in attributes.items():
        if name in built_in:
            object.__setattr__(made, name, value)
        else:
            made.__dict__[name] = value
    return made


def _make_stand_in(known: Sequence[type], recorded: tuple[Any, ...]) -> BaseException:
    """Return a `RecordedError` that also derives from the known classes, as far as no code of theirs runs."""
    nearest: list[type] = []
    for base in known:
        if _runs_no_code(base) and not any(issubclass(cls, base) for cls in (RecordedError, *nearest)):
            nearest.append(base)
    _, message, args, attributes, inner, _ = recorded
    for bases in (tuple(nearest), tuple(nearest[:1])):
        cls = _derive_class(bases) if bases else None
        made: BaseException | None = _make_bare(cls, message, args, inner) if cls is not None else None
        if isinstance(made, RecordedError):
            RecordedError.__init__(made, *recorded)
            for name in _list_built_in_attributes(type(made)):
                with suppress(Exception):
                    object.__setattr__(made, name, attributes.get(name))
            return made
    return RecordedError(*recorded)


def _runs_no_code(cls: type) -> bool:
    """Return True if deriving from the class runs no user code."""
    users = [base for base in cls.__mro__ if base.__flags__ & _HEAP_TYPE]
    return type(cls) is type and not any("__init_subclass__" in vars(base) for base in users)


@lru_cache(maxsize=256)
def _derive_class(bases: tuple[type, ...]) -> type[RecordedError] | None:
    try:
        return type("RecordedError", (RecordedError, *bases), {"__module__": RecordedError.__module__})
    except TypeError:  # built-in exceptions with conflicting layouts
        return None


def _make_bare(cls: type[RecordedError], message: str, args: tuple[Any, ...], inner: tuple[Any, ...]) -> Any:
    if issubclass(cls, BaseExceptionGroup):
        text = args[0] if args and type(args[0]) is str else message
        with suppress(Exception):  # an empty group, or members that are no errors
            return BaseExceptionGroup.__new__(cls, text, list(inner))
        return None
    for base in cls.__mro__:
        if not base.__flags__ & _HEAP_TYPE and issubclass(base, BaseException):
            with suppress(TypeError):  # this base cannot make it; another can
                made = base.__new__(cls)
                with suppress(Exception):
                    base.__init__(made, *args)
                return made
    return None
