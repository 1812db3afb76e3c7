"""Encode any Python value as a plain tree with tags (docs/format.md, 3.1).

Nearly all values are plain already; one pass recognises them, and they are returned unchanged. Otherwise a container is
copied only if something inside it has to be written differently.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from onrecord.core import hashing
from onrecord.core.canonical import MAX_DEPTH, OddFloats, canonical_bytes, plain_text, stored_bytes
from onrecord.core.codec import scalars
from onrecord.core.codec.failures import MAX_CHAIN, read_error
from onrecord.core.codec.registry import Registry, default_registry, label_of, recorded_label
from onrecord.core.codec.shapes import FORMS, form_of
from onrecord.core.codec.unresolved import Erased, NonReplayable, Plain, UnknownTag
from onrecord.core.codec.walk import Inner, Walk
from onrecord.errors import InvalidValue

ARTIFACT_BYTES = 65_536  # longer bytes are stored beside the tree


class Encoded:
    """An encoded value: the tree, the artifacts it refers to, and whether replay can restore it.

    `opaque` is the path of the first object that it cannot restore. For a value that was plain already, `stored` holds
    its stored bytes and `odd` its odd floats (see `plain_text`).
    """

    __slots__ = ("artifacts", "odd", "opaque", "stored", "tree")

    def __init__(
        self,
        tree: Any,
        artifacts: dict[bytes, bytes],
        opaque: str | None,
        stored: bytes | None = None,
        odd: OddFloats | None = None,
    ) -> None:
        self.tree = tree
        self.artifacts = artifacts
        self.opaque = opaque
        self.stored = stored
        self.odd = odd

    @property
    def replayable(self) -> bool:
        return self.opaque is None


def encode(value: Any, *, registry: Registry | None = None) -> Encoded:
    """Encode a value. Raise `InvalidValue` only for a value that contains itself or is nested deeper than 1,000."""
    plain = plain_text(value)
    if plain is not None:
        return Encoded(value, {}, None, plain[0], plain[1])
    encoder = _Encoder(registry or default_registry)
    tree = encoder.run(value)
    if encoder.deepest > MAX_DEPTH - 4:
        stored_bytes(tree)  # tags of leaves add levels: this refuses too many and names the path
    return Encoded(tree, encoder.artifacts, encoder.opaque)


class _Encoder(Walk):
    refusal = InvalidValue

    def __init__(self, registry: Registry) -> None:
        super().__init__()
        self.registry = registry
        self.artifacts: dict[bytes, bytes] = {}
        self.opaque: str | None = None

    def step(self, value: Any) -> Any:
        handler = _HANDLERS.get(type(value))
        return handler(self, value) if handler is not None else self.encode_other(value)

    def encode_other(self, value: Any) -> Any:
        """Encode a value whose class is not a plain built-in."""
        cls = type(value)
        registered = self.registry.for_class(cls)
        if registered is not None:
            fields = {"value": registered.to_data(value)}
            return self.encode_object(value, registered.name, "registered", {"fields": fields})
        if isinstance(value, BaseException):
            return self.encode_error(value)
        for base, handler in _HANDLERS_BY_BASE:
            if isinstance(value, base):
                return handler(self, value)
        form = form_of(cls)
        if form is None:
            return self.encode_opaque(value)
        return self.encode_object(value, recorded_label(cls), form, FORMS[form].read(value))

    def encode_object(self, value: Any, label: str, form: str, members: dict[str, Any]) -> Inner:
        names = list(members)

        def finish(done: list[Any]) -> Any:
            return {"$object": {"type": label, "form": form, **dict(zip(names, done, strict=True))}}

        return Inner(value, list(members.values()), finish, names=names, levels=2)

    def encode_error(self, value: BaseException) -> Any:
        above = [inner.source for inner in self.stack if isinstance(inner.source, BaseException)]
        if any(error is value for error in above):
            return {"$opaque": {"type": label_of(type(value)), "note": "this error stands above already"}}
        members = read_error(value)
        for name in ("cause", "context"):
            # Cut a chain that is long or that returns to an enclosing error.
            if len(above) >= MAX_CHAIN or any(members.get(name) is error for error in (*above, value)):
                members.pop(name, None)
        names = list(members)

        def finish(done: list[Any]) -> Any:
            return {"$error": dict(zip(names, done, strict=True))}

        # A value that cannot be recorded in an error's attributes (a response object) keeps the error replayable.
        soft = names.index("attributes") if "attributes" in names else -1
        return Inner(value, list(members.values()), finish, names=names, levels=2, soft=soft)

    def encode_opaque(self, value: Any) -> Any:
        return self.encode_opaque_as(label_of(type(value)), "a function" if callable(value) else "no value of its own")

    def encode_opaque_as(self, label: str, note: str) -> Any:
        if self.opaque is None and not any(len(inner.done) == inner.soft for inner in self.stack):
            self.opaque = f"{self.path()} ({label})"
        return {"$opaque": {"type": label, "note": note}}

    def encode_or_opaque(self, tree: Any, value: Any) -> Any:
        return self.encode_opaque(value) if tree is None else tree

    def encode_bytes(self, kind: str, value: bytes) -> Any:
        if len(value) <= ARTIFACT_BYTES:
            return scalars.encode_bytes(f"${kind}", value)
        data = bytes(value)
        address = hashing.artifact_address(data)
        self.artifacts[address] = data
        return {"$artifact": {"digest": hashing.render(address), "size": len(data), "type": kind}}

    def encode_memoryview(self, value: memoryview) -> Any:
        try:
            return self.encode_bytes("bytes", value.tobytes())
        except ValueError:  # released
            return self.encode_opaque(value)

    def integer(self, value: int) -> Any:
        return self.encode_or_opaque(scalars.encode_integer(value), value)

    def encode_list(self, value: list[Any]) -> Inner:
        parts = value.copy()

        def finish(done: list[Any]) -> Any:
            for before, after in zip(parts, done, strict=True):
                if before is not after:
                    return done
            return value

        return Inner(value, parts, finish)

    def encode_dict(self, value: dict[Any, Any]) -> Inner:
        keys = list(value)
        for key in keys:
            if type(key) is not str or not scalars.is_text(key):
                return self.encode_pairs(value)
        parts = list(value.values())

        def finish(done: list[Any]) -> Any:
            if len(keys) == 1 and keys[0].startswith("$"):
                return {"$" + keys[0]: done[0]}
            for before, after in zip(parts, done, strict=True):
                if before is not after:
                    return dict(zip(keys, done, strict=True))
            return value

        return Inner(value, parts, finish, names=keys)

    def encode_pairs(self, value: dict[Any, Any]) -> Inner:
        parts = [part for pair in value.items() for part in pair]

        def finish(done: list[Any]) -> Any:
            return {"$dict": [[done[i], done[i + 1]] for i in range(0, len(done), 2)]}

        return Inner(value, parts, finish, levels=3)


def _encode_sequence(tag: str) -> Callable[[_Encoder, Any], Any]:
    def handler(_: _Encoder, value: Any) -> Any:
        return Inner(value, list(value), lambda done: {tag: done}, levels=2)

    return handler


def _encode_set(tag: str) -> Callable[[_Encoder, Any], Any]:
    """Return a handler that writes sets in one order, independent of the hash seed."""

    def handler(_: _Encoder, value: Any) -> Any:
        return Inner(value, list(value), lambda done: {tag: sorted(done, key=canonical_bytes)}, levels=2)

    return handler


def _encode_enum(_: _Encoder, value: Enum) -> Any:
    label = recorded_label(type(value))

    def finish(done: list[Any]) -> Any:
        return {"$enum": {"type": label, "name": value._name_, "value": done[0]}}

    return Inner(value, [value._value_], finish, names=["value"], levels=2)


def _encode_integers(tag: str, read: Callable[[Any], list[int]]) -> Callable[[_Encoder, Any], Any]:
    def handler(_: _Encoder, value: Any) -> Any:
        return Inner(value, read(value), lambda done: {tag: done}, levels=2)

    return handler


def _encode_zone(encoder: _Encoder, value: tzinfo) -> Any:
    data = scalars.zone_data(value)
    return encoder.encode_opaque(value) if data is None else {"$zone": data}


def _encode_plain(encoder: _Encoder, value: Plain) -> Any:
    if value.form != "enum":
        return encoder.encode_object(value, value.label, value.form, {"fields": value.fields, **value.members})
    label, name = value.label, value.fields["name"]

    def finish(done: list[Any]) -> Any:
        return {"$enum": {"type": label, "name": name, "value": done[0]}}

    return Inner(value, [value.fields["value"]], finish, levels=2)


def _keep(_: _Encoder, value: Any) -> Any:
    return value


_HANDLERS: dict[type, Callable[[_Encoder, Any], Any]] = {
    str: lambda _, value: scalars.encode_text(value),
    int: _Encoder.integer,
    bool: _keep,
    type(None): _keep,
    float: lambda _, value: scalars.encode_real(value),
    dict: _Encoder.encode_dict,
    list: _Encoder.encode_list,
    tuple: _encode_sequence("$tuple"),
    set: _encode_set("$set"),
    frozenset: _encode_set("$frozenset"),
    bytes: lambda encoder, value: encoder.encode_bytes("bytes", value),
    bytearray: lambda encoder, value: encoder.encode_bytes("bytearray", value),
    memoryview: _Encoder.encode_memoryview,
    complex: lambda _, value: scalars.encode_complex(value),
    datetime: lambda encoder, value: encoder.encode_or_opaque(scalars.encode_moment("$datetime", value), value),
    date: lambda _, value: {"$date": value.isoformat()},
    time: lambda encoder, value: encoder.encode_or_opaque(scalars.encode_moment("$time", value), value),
    timedelta: _encode_integers("$timedelta", lambda value: [value.days, value.seconds, value.microseconds]),
    timezone: _encode_zone,
    ZoneInfo: _encode_zone,
    Decimal: lambda _, value: {"$decimal": str(value)},
    Fraction: _encode_integers("$fraction", lambda value: [value.numerator, value.denominator]),
    UUID: lambda _, value: {"$uuid": str(value)},
    range: _encode_integers("$range", lambda value: [value.start, value.stop, value.step]),
    Plain: _encode_plain,
    NonReplayable: lambda encoder, value: encoder.encode_opaque_as(value.label, value.note),
    UnknownTag: lambda _, value: value.tree,
    Erased: lambda *_: {"$erased": {}},
}

# Tried in order, by base class; enums first, because an enum may also derive from a built-in.
_HANDLERS_BY_BASE: tuple[tuple[type, Callable[[_Encoder, Any], Any]], ...] = (
    (Enum, _encode_enum),
    (PurePath, lambda _, value: scalars.encode_path(value)),
    (UUID, lambda _, value: {"$uuid": str(value)}),
)
