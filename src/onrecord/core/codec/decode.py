"""Decode a tree with tags to Python values.

Nothing here imports a module, and data alone never builds a class: a class comes from the caller's annotation, from a
registered type or, if the caller allows it, from the loaded modules. Everything else stays plain data, which encodes to
the same tree again.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, Flag
from fractions import Fraction
from typing import Any, NamedTuple

from onrecord.core import hashing
from onrecord.core.codec import scalars
from onrecord.core.codec.annotations import Candidates, FieldTypes, candidates, class_among, item_of, key_of, value_of
from onrecord.core.codec.failures import MAX_BASES, MEMBERS, build_error
from onrecord.core.codec.json_text import write_json_text
from onrecord.core.codec.registry import (
    Registered,
    Registry,
    default_registry,
    is_unreachable,
    loaded_class,
    standard_class,
)
from onrecord.core.codec.shapes import FORMS, MismatchError
from onrecord.core.codec.unresolved import Erased, NonReplayable, Plain, UnknownTag
from onrecord.core.codec.walk import Inner, RefusalError, Walk
from onrecord.errors import Damaged, InvalidValue, OnrecordError

MAX_FOREIGN_DIGITS = 4300
MAX_JSON_LEVELS = 8
"""Each level of text in text may double the backslashes of the level inside it."""
MAX_JSON_CHARACTERS = 256 * 1024 * 1024

_DATA_ERRORS = (
    *(TypeError, ValueError, LookupError, AttributeError, ArithmeticError),
    *(RecursionError, NotImplementedError, AssertionError),
)


def decode(
    tree: Any,
    *,
    registry: Registry | None = None,
    loaded_classes: bool = False,
    annotation: Any = None,
    artifact: Callable[[bytes], bytes] | None = None,
    missing: list[str] | None = None,
) -> Any:
    """Return the value of a tree; the tree itself if it holds no tag. Raise `Damaged` for a malformed tag.

    `loaded_classes` is for recordings of the reader's own store. Without it the data counts as foreign, and an integer
    of more than 4,300 digits is refused. `artifact` returns the bytes of an address; without it, references to
    artifacts stay unknown tags. `missing` gets the labels of classes that the recording program found and this one
    does not, or finds with other fields: a stand-in for their values differs from what was recorded.
    """
    if not _has_tags(tree):
        return tree
    decoder = _Decoder(registry or default_registry, loaded_classes, artifact)
    decoder.missing = missing
    return decoder.run((tree, candidates(annotation)))


def _has_tags(tree: Any) -> bool:
    todo: list[Any] = [[tree]]
    push = todo.append
    for container in todo:
        if type(container) is dict:
            if len(container) == 1:
                for key in container:
                    if key[:1] == "$":
                        return True
            container = container.values()
        for item in container:
            kind = type(item)
            if kind is dict or kind is list:
                push(item)
    return False


class _Tag(NamedTuple):
    tree: dict[str, Any]
    name: str
    content: Any
    options: Candidates


class _Decoder(Walk):
    refusal = Damaged

    def __init__(self, registry: Registry, loaded_classes: bool, artifact: Callable[[bytes], bytes] | None) -> None:
        super().__init__()
        self.registry = registry
        self.loaded_classes = loaded_classes
        self.artifact = artifact
        self.missing: list[str] | None = None
        self.field_types: dict[type, FieldTypes] = {}
        self.json_levels = 0  # how many `$json` tags enclose the current value
        self.json_left = MAX_JSON_CHARACTERS

    def step(self, value: tuple[Any, Candidates]) -> Any:
        tree, options = value
        kind = type(tree)
        if kind is list:
            return self.decode_list(tree, options)
        if kind is dict:
            if len(tree) == 1:
                key = next(iter(tree))
                if key[:1] == "$":
                    return self.decode_tag(tree, key, options)
            return self.decode_dict(tree, list(tree), options)
        return tree

    def decode_list(self, tree: list[Any], options: Candidates) -> Inner:
        if options:
            parts: list[Any] = [(item, item_of(options, i)) for i, item in enumerate(tree)]
        else:
            parts = [(item, ()) for item in tree]

        def finish(done: list[Any]) -> Any:
            for before, after in zip(tree, done, strict=True):
                if before is not after:
                    return done
            return tree

        return Inner(None, parts, finish, levels=0)

    def decode_dict(self, tree: dict[str, Any], keys: list[str], options: Candidates) -> Inner:
        """Decode a dict. `keys` are the keys of the value; for a user's own `$` key they differ from the keys of the
        tree.
        """
        parts = [
            (item, value_of(options, key) if options else ()) for key, item in zip(keys, tree.values(), strict=True)
        ]

        def finish(done: list[Any]) -> Any:
            changed = any(before is not after for before, after in zip(tree.values(), done, strict=True))
            return dict(zip(keys, done, strict=True)) if changed or keys != list(tree) else tree

        return Inner(None, parts, finish, names=keys, levels=0)

    def decode_tag(self, tree: dict[str, Any], tag: str, options: Candidates) -> Any:
        if tag.startswith("$$"):
            return self.decode_dict(tree, [tag[1:]], options)
        content = tree[tag]
        if tag == "$int" and not self.loaded_classes and type(content) is str:
            _check_digits(content)
        reader = scalars.READERS.get(tag)
        try:
            if reader is not None:
                return reader(content)
            handler = _TAGS.get(tag)
            return UnknownTag(tree) if handler is None else handler(self, _Tag(tree, tag, content, options))
        except scalars.KeptError:
            return UnknownTag(tree)
        except _DATA_ERRORS:
            raise _refuse_tag(tag) from None

    def build_inner(
        self, tag: _Tag, parts: list[Any], build: Callable[[list[Any]], Any], names: list[str] | None = None
    ) -> Inner:
        def finish(done: list[Any]) -> Any:
            try:
                return build(done)
            except _DATA_ERRORS:
                raise _refuse_tag(tag.name) from None

        return Inner(None, parts, finish, names=names, levels=0)

    def find_class(self, label: str, options: Candidates, fits: Callable[[type], bool]) -> type | None:
        found = class_among(options, label) or standard_class(label)
        if found is None and self.loaded_classes:
            found = loaded_class(label)
        if found is not None and fits(found):
            return found
        self.note_missing(label)
        return None

    def note_missing(self, label: str) -> None:
        if self.missing is not None and self.loaded_classes and not is_unreachable(label):
            self.missing.append(label)


def _refuse_tag(tag: str) -> RefusalError:
    return RefusalError(f"the tag {tag[:20]} does not hold what the format asks for", "bad_tag")


def _check_digits(written: str) -> None:
    """Refuse long integers of foreign data: conversion takes more than linear time."""
    digits = len(written) - written.startswith("-")
    if digits > MAX_FOREIGN_DIGITS:
        raise RefusalError(f"the tag $int holds {digits:,} digits, the limit is {MAX_FOREIGN_DIGITS:,}", "bad_tag")


def _check_text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError
    return value


def _decode_sequence(build: Callable[[list[Any]], Any]) -> Callable[[_Decoder, _Tag], Any]:
    def handler(decoder: _Decoder, tag: _Tag) -> Any:
        if type(tag.content) is not list:
            raise TypeError
        options = tag.options
        parts = [(item, item_of(options, i) if options else ()) for i, item in enumerate(tag.content)]
        return decoder.build_inner(tag, parts, build)

    return handler


def _check_integers(done: list[Any], count: int) -> list[int]:
    if len(done) != count or any(type(item) is not int for item in done):
        raise TypeError
    return done


def _decode_pairs(decoder: _Decoder, tag: _Tag) -> Any:
    keys, values = key_of(tag.options), value_of(tag.options, None)
    parts: list[Any] = []
    if type(tag.content) is not list or any(type(pair) is not list for pair in tag.content):
        raise TypeError
    for key, value in tag.content:
        parts += ((key, keys), (value, values))

    def build(done: list[Any]) -> Any:
        made = dict(zip(done[::2], done[1::2], strict=True))
        if 2 * len(made) != len(done):
            raise ValueError
        return made

    return decoder.build_inner(tag, parts, build)


def _decode_artifact(decoder: _Decoder, tag: _Tag) -> Any:
    if decoder.artifact is None:
        return UnknownTag(tag.tree)
    make = {"bytes": bytes, "bytearray": bytearray}[tag.content["type"]]
    try:
        address = hashing.parse_hash(tag.content["digest"])
    except InvalidValue:
        raise ValueError from None
    data = decoder.artifact(address)
    if len(data) != tag.content["size"] or hashing.artifact_address(data) != address:
        raise RefusalError("the artifact is not the one that was recorded", "bad_artifact")
    return make(data)


def _decode_enum(decoder: _Decoder, tag: _Tag) -> Any:
    label, name = _check_text(tag.content["type"]), tag.content["name"]
    cls = decoder.find_class(label, tag.options, lambda cls: issubclass(cls, Enum))

    def build(done: list[Any]) -> Any:
        member = _find_member(cls, done[0]) if cls is not None else None
        if member is None and cls is not None and not issubclass(cls, Flag) and type(done[0]) in (str, int):
            decoder.note_missing(label)
        return Plain(label, "enum", {"name": name, "value": done[0]}) if member is None else member

    return decoder.build_inner(tag, [(tag.content["value"], ())], build)


def _find_member(cls: Any, value: Any) -> Any:
    for member in cls.__members__.values():
        if type(member._value_) is type(value) and member._value_ == value:
            return member
    # Enum itself makes a combination of flags; a `_missing_` of the user's is never called.
    user_classes = [each for each in cls.__mro__ if each.__module__ not in ("enum", "builtins")]
    made_by_enum = issubclass(cls, Flag) and all("_missing_" not in vars(each) for each in user_classes)
    return cls(value) if made_by_enum and type(value) is int else None


def _decode_object(decoder: _Decoder, tag: _Tag) -> Any:
    content = tag.content
    label, form_name = _check_text(content["type"]), _check_text(content["form"])
    names = [name for name in content if name not in ("type", "form")]
    if "fields" not in names:
        raise KeyError
    registered = decoder.registry.for_name(label) if form_name == "registered" else None
    form = FORMS.get(form_name)
    cls = decoder.find_class(label, tag.options, form.matches) if form is not None else None
    if form is None and registered is None:
        decoder.note_missing(label)
    hints: Candidates = ()
    if cls is not None and form is not None:
        hints = (decoder.field_types.setdefault(cls, FieldTypes(lambda: form.hints(cls))),)

    def finish(done: list[Any]) -> Any:
        members = dict(zip(names, done, strict=True))
        if registered is not None:
            if type(members["fields"]) is not dict or "value" not in members["fields"]:
                raise _refuse_tag(tag.name)
            return _call_from_data(registered, members["fields"]["value"])
        if cls is not None and form is not None:
            try:
                return form.build(cls, members)
            except MismatchError:
                decoder.note_missing(label)
            except _DATA_ERRORS:  # the class cannot be built from its fields; the recording program could not, either
                pass
        return Plain(label, form_name, members.pop("fields"), members)

    return Inner(None, [(content[name], hints) for name in names], finish, names=names, levels=0)


def _call_from_data(registered: Registered, data: Any) -> Any:
    """Call the caller's function. Any exception means that it does not accept the data."""
    try:
        return registered.from_data(data)
    except (OnrecordError, MemoryError):
        raise
    except Exception:
        raise RefusalError(f"the tag $object does not hold what {registered.name} is made from", "bad_tag") from None


def _is_error(cls: type) -> bool:
    return issubclass(cls, BaseException)


def _decode_error(decoder: _Decoder, tag: _Tag) -> Any:
    label, names = _check_text(tag.content["type"]), list(tag.content)
    if not set(names) <= set(MEMBERS):
        return UnknownTag(tag.tree)
    cls = decoder.find_class(label, tag.options, _is_error)

    def find_known_bases(bases: list[Any]) -> list[type]:
        found = [decoder.find_class(_check_text(base), tag.options, _is_error) for base in bases[:MAX_BASES]]
        return [base for base in found if base is not None]

    def build(done: list[Any]) -> Any:
        return build_error(cls, dict(zip(names, done, strict=True)), find_known_bases)

    return decoder.build_inner(tag, [(tag.content[name], ()) for name in names], build, names)


def _decode_json(decoder: _Decoder, tag: _Tag) -> Any:
    style, as_bytes = tag.content["style"], tag.content.get("bytes", False)
    decoder.json_levels += 1
    if decoder.json_levels > MAX_JSON_LEVELS:
        raise RefusalError(f"the tag $json is nested in itself more than {MAX_JSON_LEVELS} times", "too_deep")

    def build(done: list[Any]) -> Any:
        decoder.json_levels -= 1
        written = write_json_text(done[0], style, decoder.json_left)
        decoder.json_left -= len(written)
        return written.encode() if as_bytes is True else written

    return decoder.build_inner(tag, [(tag.content["value"], ())], build, ["value"])


def _decode_opaque(_: _Decoder, tag: _Tag) -> Any:
    return NonReplayable(_check_text(tag.content["type"]), _check_text(tag.content["note"]))


_TAGS: dict[str, Callable[[_Decoder, _Tag], Any]] = {
    "$tuple": _decode_sequence(tuple),
    "$set": _decode_sequence(set),
    "$frozenset": _decode_sequence(frozenset),
    "$range": _decode_sequence(lambda done: range(*_check_integers(done, 3))),
    "$fraction": _decode_sequence(lambda done: Fraction(*_check_integers(done, 2))),
    "$dict": _decode_pairs,
    "$artifact": _decode_artifact,
    "$enum": _decode_enum,
    "$object": _decode_object,
    "$error": _decode_error,
    "$json": _decode_json,
    "$opaque": _decode_opaque,
    "$erased": lambda *_: Erased(),
}
