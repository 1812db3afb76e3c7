"""From any Python value to a plain tree with tags (docs/format.md, 3.1).

A value that is plain already, which nearly all are, is recognised in one pass and returned as it is.
Otherwise containers are copied only where something inside them had to be written differently.
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

from reenact.core import hashing
from reenact.core.canonical import MAX_DEPTH, Odd, canonical_bytes, plain_text, stored_bytes
from reenact.core.codec import scalars
from reenact.core.codec.failures import MAX_CHAIN, read_error
from reenact.core.codec.registry import Registry, default_registry, label_of
from reenact.core.codec.shapes import FORMS, form_of
from reenact.core.codec.standins import Erased, NonReplayable, Plain, UnknownTag
from reenact.core.codec.walk import Inner, Walk
from reenact.errors import InvalidValue

ARTIFACT_BYTES = 65_536  # bytes longer than this are kept beside the tree


class Encoded:
    """An encoded value: the tree, the artifacts it names by address, and whether replay can give it back.

    A value that was plain already comes with its stored bytes and its odd floats (see `plain_text`).
    """

    __slots__ = ("artifacts", "odd", "replayable", "stored", "tree")

    def __init__(
        self,
        tree: Any,
        artifacts: dict[bytes, bytes],
        replayable: bool,
        stored: bytes | None = None,
        odd: Odd | None = None,
    ) -> None:
        self.tree = tree
        self.artifacts = artifacts
        self.replayable = replayable
        self.stored = stored
        self.odd = odd


def encode(value: Any, *, registry: Registry | None = None) -> Encoded:
    """`InvalidValue` only for a value that contains itself or is nested deeper than 1,000."""
    plain = plain_text(value)
    if plain is not None:
        return Encoded(value, {}, True, plain[0], plain[1])
    encoder = _Encoder(registry or default_registry)
    tree = encoder.run(value)
    if encoder.deepest > MAX_DEPTH - 4:
        stored_bytes(tree)  # the tags of leaves add levels of their own; this refuses, naming the path
    return Encoded(tree, encoder.artifacts, encoder.replayable)


class _Encoder(Walk):
    refusal = InvalidValue

    def __init__(self, registry: Registry) -> None:
        super().__init__()
        self.registry = registry
        self.artifacts: dict[bytes, bytes] = {}
        self.replayable = True

    def step(self, value: Any) -> Any:
        handler = _HANDLERS.get(type(value))
        return handler(self, value) if handler is not None else self.other(value)

    def other(self, value: Any) -> Any:
        """A value of a class that is not a plain built-in."""
        cls = type(value)
        registered = self.registry.for_class(cls)
        if registered is not None:
            fields = {"value": registered.to_data(value)}
            return self.object_of(value, registered.name, "registered", {"fields": fields})
        if isinstance(value, BaseException):
            return self.error(value)
        for base, handler in _KINDS:
            if isinstance(value, base):
                return handler(self, value)
        form = form_of(cls)
        if form is None:
            return self.opaque(value)
        return self.object_of(value, label_of(cls), form, FORMS[form].read(value))

    def object_of(self, value: Any, label: str, form: str, members: dict[str, Any]) -> Inner:
        names = list(members)

        def finish(done: list[Any]) -> Any:
            return {"$object": {"type": label, "form": form, **dict(zip(names, done, strict=True))}}

        return Inner(value, list(members.values()), finish, names=names, levels=2)

    def error(self, value: BaseException) -> Any:
        above = [inner.source for inner in self.stack if isinstance(inner.source, BaseException)]
        if any(error is value for error in above):
            return {"$opaque": {"type": label_of(type(value)), "note": "this error stands above already"}}
        members = read_error(value)
        for name in ("cause", "context"):
            # Chains are cut where they grow long, and where they come back to an error that stands above.
            if len(above) >= MAX_CHAIN or any(members.get(name) is error for error in (*above, value)):
                members.pop(name, None)
        names = list(members)

        def finish(done: list[Any]) -> Any:
            return {"$error": dict(zip(names, done, strict=True))}

        # A response object on an API error does not unmake the error.
        soft = names.index("attributes") if "attributes" in names else -1
        return Inner(value, list(members.values()), finish, names=names, levels=2, soft=soft)

    def opaque(self, value: Any) -> Any:
        return self.opaque_as(label_of(type(value)), "a function" if callable(value) else "no value of its own")

    def opaque_as(self, label: str, note: str) -> Any:
        if not any(len(inner.done) == inner.soft for inner in self.stack):
            self.replayable = False
        return {"$opaque": {"type": label, "note": note}}

    def or_opaque(self, tree: Any, value: Any) -> Any:
        return self.opaque(value) if tree is None else tree

    def binary(self, kind: str, value: bytes) -> Any:
        if len(value) <= ARTIFACT_BYTES:
            return scalars.short_bytes(f"${kind}", value)
        data = bytes(value)
        address = hashing.artifact_address(data)
        self.artifacts[address] = data
        return {"$artifact": {"digest": hashing.render(address), "size": len(data), "type": kind}}

    def memory(self, value: memoryview) -> Any:
        try:
            return self.binary("bytes", value.tobytes())
        except ValueError:  # released
            return self.opaque(value)

    def integer(self, value: int) -> Any:
        return self.or_opaque(scalars.integer(value), value)

    def list_of(self, value: list[Any]) -> Inner:
        parts = value.copy()

        def finish(done: list[Any]) -> Any:
            for before, after in zip(parts, done, strict=True):
                if before is not after:
                    return done
            return value

        return Inner(value, parts, finish)

    def dict_of(self, value: dict[Any, Any]) -> Inner:
        keys = list(value)
        for key in keys:
            if type(key) is not str or not scalars.is_text(key):
                return self.pairs_of(value)
        parts = list(value.values())

        def finish(done: list[Any]) -> Any:
            if len(keys) == 1 and keys[0].startswith("$"):
                return {"$" + keys[0]: done[0]}
            for before, after in zip(parts, done, strict=True):
                if before is not after:
                    return dict(zip(keys, done, strict=True))
            return value

        return Inner(value, parts, finish, names=keys)

    def pairs_of(self, value: dict[Any, Any]) -> Inner:
        parts = [part for pair in value.items() for part in pair]

        def finish(done: list[Any]) -> Any:
            return {"$dict": [[done[i], done[i + 1]] for i in range(0, len(done), 2)]}

        return Inner(value, parts, finish, levels=3)


def _tagged(tag: str) -> Callable[[_Encoder, Any], Any]:
    def handler(_: _Encoder, value: Any) -> Any:
        return Inner(value, list(value), lambda done: {tag: done}, levels=2)

    return handler


def _sorted(tag: str) -> Callable[[_Encoder, Any], Any]:
    """Sets are written in one order, whatever the hash seed made of them."""

    def handler(_: _Encoder, value: Any) -> Any:
        return Inner(value, list(value), lambda done: {tag: sorted(done, key=canonical_bytes)}, levels=2)

    return handler


def _enum(_: _Encoder, value: Enum) -> Any:
    label = label_of(type(value))

    def finish(done: list[Any]) -> Any:
        return {"$enum": {"type": label, "name": value._name_, "value": done[0]}}

    return Inner(value, [value._value_], finish, names=["value"], levels=2)


def _integers(tag: str, read: Callable[[Any], list[int]]) -> Callable[[_Encoder, Any], Any]:
    def handler(_: _Encoder, value: Any) -> Any:
        return Inner(value, read(value), lambda done: {tag: done}, levels=2)

    return handler


def _zone(encoder: _Encoder, value: tzinfo) -> Any:
    data = scalars.zone_data(value)
    return encoder.opaque(value) if data is None else {"$zone": data}


def _plain(encoder: _Encoder, value: Plain) -> Any:
    if value.form != "enum":
        return encoder.object_of(value, value.label, value.form, {"fields": value.fields, **value.members})
    label, name = value.label, value.fields["name"]

    def finish(done: list[Any]) -> Any:
        return {"$enum": {"type": label, "name": name, "value": done[0]}}

    return Inner(value, [value.fields["value"]], finish, levels=2)


def _same(_: _Encoder, value: Any) -> Any:
    return value


_HANDLERS: dict[type, Callable[[_Encoder, Any], Any]] = {
    str: lambda _, value: scalars.text(value),
    int: _Encoder.integer,
    bool: _same,
    type(None): _same,
    float: lambda _, value: scalars.real(value),
    dict: _Encoder.dict_of,
    list: _Encoder.list_of,
    tuple: _tagged("$tuple"),
    set: _sorted("$set"),
    frozenset: _sorted("$frozenset"),
    bytes: lambda encoder, value: encoder.binary("bytes", value),
    bytearray: lambda encoder, value: encoder.binary("bytearray", value),
    memoryview: _Encoder.memory,
    complex: lambda _, value: scalars.complex_number(value),
    datetime: lambda encoder, value: encoder.or_opaque(scalars.moment("$datetime", value), value),
    date: lambda _, value: {"$date": value.isoformat()},
    time: lambda encoder, value: encoder.or_opaque(scalars.moment("$time", value), value),
    timedelta: _integers("$timedelta", lambda value: [value.days, value.seconds, value.microseconds]),
    timezone: _zone,
    ZoneInfo: _zone,
    Decimal: lambda _, value: {"$decimal": str(value)},
    Fraction: _integers("$fraction", lambda value: [value.numerator, value.denominator]),
    UUID: lambda _, value: {"$uuid": str(value)},
    range: _integers("$range", lambda value: [value.start, value.stop, value.step]),
    Plain: _plain,
    NonReplayable: lambda encoder, value: encoder.opaque_as(value.label, value.note),
    UnknownTag: lambda _, value: value.tree,
    Erased: lambda *_: {"$erased": {}},
}

# By base, for classes of which there are many; enums before the built-ins that they may also be.
_KINDS: tuple[tuple[type, Callable[[_Encoder, Any], Any]], ...] = (
    (Enum, _enum),
    (PurePath, lambda _, value: scalars.path(value)),
    (UUID, lambda _, value: {"$uuid": str(value)}),
)
