"""The forms of `$object`: how an instance becomes data, and is built again without its own code.

Building never calls `__init__`, `__new__`, `__post_init__` or a validator of the class: the recorded value was valid
when it was made, and must be restored even if the code is stricter now.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from onrecord.core.codec.annotations import hints_of
from onrecord.core.codec.subclasses import build_subclass, builtin_base, read_subclass


class Form(NamedTuple):
    matches: Callable[[type], bool]
    read: Callable[[Any], dict[str, Any]]
    build: Callable[[type, dict[str, Any]], Any]
    hints: Callable[[type], dict[str, Any]]


class MismatchError(Exception):
    """The class has other fields than were recorded: it has changed since."""


def form_of(cls: type) -> str | None:
    """Return the form under which instances of a class are recorded, or None for a class without a value."""
    return next((name for name, form in FORMS.items() if form.matches(cls)), None)


def _has_no_builtin_base(cls: type) -> bool:
    return builtin_base(cls) is None and not issubclass(cls, BaseException)


def _check_names(fields: Any, names: typing.Collection[str]) -> dict[str, Any]:
    if type(fields) is not dict or not fields.keys() <= set(names):
        raise MismatchError
    return fields


def _set_all(made: Any, fields: dict[str, Any]) -> Any:
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


# --- dataclasses and attrs ---


def _read_named(value: Any, names: typing.Iterable[str]) -> dict[str, Any]:
    missing = object()
    found = ((name, getattr(value, name, missing)) for name in names)
    return {"fields": {name: item for name, item in found if item is not missing}}


def _build_dataclass(cls: type, members: dict[str, Any]) -> Any:
    declared = dataclasses.fields(cls)
    fields = _check_names(members["fields"], [field.name for field in declared])
    made = _set_all(object.__new__(cls), fields)
    for field in declared:  # fields that the class has gained since
        if field.name not in fields:
            if field.default is not dataclasses.MISSING:
                object.__setattr__(made, field.name, field.default)
            elif field.default_factory in (list, dict, set):
                object.__setattr__(made, field.name, field.default_factory())
    return made


def _attrs_names(cls: Any) -> list[str]:
    return [attribute.name for attribute in cls.__attrs_attrs__]


def _build_attrs(cls: type, members: dict[str, Any]) -> Any:
    return _set_all(object.__new__(cls), _check_names(members["fields"], _attrs_names(cls)))


# --- pydantic, recognised by its attributes so that it need not be installed ---


def _is_pydantic(cls: type) -> bool:
    return hasattr(cls, "__pydantic_fields_set__") and hasattr(cls, "model_fields") and _has_no_builtin_base(cls)


def _model_fields(cls: Any) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(cls, "__pydantic_fields__", None) or cls.model_fields
    return fields


def _read_pydantic(value: Any) -> dict[str, Any]:
    held = value.__dict__
    fields = {name: held[name] for name in _model_fields(type(value)) if name in held}
    members: dict[str, Any] = {"fields": fields}
    extra, private = value.__pydantic_extra__, value.__pydantic_private__
    given = value.__pydantic_fields_set__
    if given != fields.keys() | (extra or {}).keys():
        members["set"] = sorted(given)
    if extra is not None:
        members["extra"] = dict(extra)
    if private is not None:
        members["private"] = dict(private)
    return members


def _build_pydantic(cls: Any, members: dict[str, Any]) -> Any:
    fields = _check_names(members["fields"], _model_fields(cls))
    extra, private = members.get("extra"), members.get("private")
    if private is not None:
        _check_names(private, cls.__private_attributes__)
    given = set(members["set"]) if "set" in members else fields.keys() | (extra or {}).keys()
    made = object.__new__(cls)
    held = {"__dict__": dict(fields), "__pydantic_fields_set__": set(given)}
    return _set_all(made, {**held, "__pydantic_extra__": extra, "__pydantic_private__": private})


def _pydantic_hints(cls: Any) -> dict[str, Any]:
    return {name: field.annotation for name, field in _model_fields(cls).items()}


# --- named tuples, msgspec ---


def _is_namedtuple(cls: Any) -> bool:
    names = getattr(cls, "_fields", None)
    return issubclass(cls, tuple) and isinstance(names, tuple) and all(type(name) is str for name in names)


def _read_namedtuple(value: Any) -> dict[str, Any]:
    return {"fields": dict(zip(type(value)._fields, tuple.__iter__(value), strict=True))}


def _build_namedtuple(cls: Any, members: dict[str, Any]) -> Any:
    fields = _check_names(members["fields"], cls._fields)
    if len(fields) != len(cls._fields):
        raise MismatchError
    return tuple.__new__(cls, [fields[name] for name in cls._fields])


def _build_msgspec(cls: Any, members: dict[str, Any]) -> Any:
    fields = _check_names(members["fields"], cls.__struct_fields__)
    if hasattr(cls, "__post_init__"):  # msgspec always calls it, and it is user code
        raise TypeError
    try:
        return cls(**fields)
    except TypeError:
        raise MismatchError from None


FORMS: dict[str, Form] = {
    "pydantic": Form(_is_pydantic, _read_pydantic, _build_pydantic, _pydantic_hints),
    "namedtuple": Form(_is_namedtuple, _read_namedtuple, _build_namedtuple, hints_of),
    "msgspec": Form(
        lambda cls: issubclass(cls, msgspec.Struct),
        lambda value: _read_named(value, value.__struct_fields__),
        _build_msgspec,
        hints_of,
    ),
    "dataclass": Form(
        lambda cls: dataclasses.is_dataclass(cls) and _has_no_builtin_base(cls),
        lambda value: _read_named(value, [field.name for field in dataclasses.fields(value)]),
        _build_dataclass,
        hints_of,
    ),
    "attrs": Form(
        lambda cls: hasattr(cls, "__attrs_attrs__") and _has_no_builtin_base(cls),
        lambda value: _read_named(value, _attrs_names(type(value))),
        _build_attrs,
        hints_of,
    ),
    "subclass": Form(
        lambda cls: builtin_base(cls) is not None and not _is_namedtuple(cls),
        lambda value: {"fields": read_subclass(value)},
        lambda cls, members: build_subclass(cls, members["fields"]),
        lambda _: {},
    ),
}
