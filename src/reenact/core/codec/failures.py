"""Exceptions as data, so that `except MyError` works on replay as it did when the error was real."""

from __future__ import annotations

from typing import Any

from reenact.core.codec.registry import label_of
from reenact.core.codec.standins import RecordedError

MAX_CHAIN = 10  # how many errors deep causes are followed
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
        **(_read_recorded(error) if type(error) is RecordedError else _read_real(error)),
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
    return {
        "type": error.label,
        "message": error.message,
        "args": list(error.args),
        "attributes": error.attributes,
        "members": list(error.members),
        "bases": list(error.bases),
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


def build_error(cls: type | None, members: dict[str, Any]) -> BaseException:
    """The exception again; a `RecordedError` if its class is missing or needs its own code to be made."""
    args, attributes = tuple(members.get("args", ())), members.get("attributes", {})
    inner = tuple(members.get("members", ()))
    if type(members.get("message", "")) is not str:
        raise TypeError
    error = _instance(cls, args, attributes, inner) if cls is not None else None
    if error is None:
        message, bases = members.get("message", ""), tuple(members.get("bases", ()))
        error = RecordedError(members["type"], message, args, attributes, inner, bases)
    error.__cause__ = members.get("cause")
    error.__context__ = members.get("context")
    error.__suppress_context__ = members.get("suppress_context", False)
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
