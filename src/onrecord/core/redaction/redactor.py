"""Taking secrets out of values: what is written instead names its kind, and says nothing of the secret.

Rules:

1. **What the program asks for** (`asked`) is numbered by first occurrence, together with the placeholders that it holds
   already. A program that was given a secret and one that was given its placeholder ask for the same, so that no key is
   needed to match. Places that hold credentials have no number: which one it was takes no part.
2. **What it was given** (`given`) is numbered by the event and in it, so that every secret of a run has a name.
3. Different secrets have different placeholders, and the same secret has the same one throughout a value.
4. Redacting again changes nothing.
5. What was given and turned out to be a secret is one wherever it appears from then on, whatever it looks like there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from reenact.core.canonical import plain_text
from reenact.core.codec import decode, encode
from reenact.core.lazy_patterns import Pattern
from reenact.core.redaction.compressed import unpacked
from reenact.core.redaction.finding import SHORT_TEXT, Finder, Found
from reenact.core.redaction.innocent import new_texts
from reenact.core.redaction.names import (
    SHORTEST_KNOWN,
    holds_credential,
    is_credential_header,
    is_option,
    is_telling,
)
from reenact.core.redaction.patterns import MOST_RULES, Rule
from reenact.core.redaction.placeholders import COMPRESSED, CREDENTIAL, PLACEHOLDER, placeholder
from reenact.core.redaction.streams import HeldBack, joined
from reenact.errors import InvalidInput

SHORTEST_TEXT = 4
_QUOTE_BEFORE = Pattern(r"(\\{0,31}[\"'])\s{0,8}:\s{0,8}\Z")
MOST_ROUNDS = 5
SHORTEST_NAME = 8
"""Shorter names of members are no secrets."""
_UNTOUCHED = frozenset({type(None), bool, int, float})
_CONTENTS = frozenset({"$bytes", "$bytearray", "$text", "$artifact"})


class Redactor:
    """The rules of a run, and what it has learned to be secret. Pure: nothing is read or written."""

    def __init__(self, rules: Sequence[Rule] = (), known_values: Mapping[str, str] | Sequence[str] = ()) -> None:
        if len(rules) > MOST_RULES:
            raise InvalidInput(f"there are more than {MOST_RULES} redaction rules", code="bad_redaction_rule")
        self.finder = Finder(rules, known_values)
        self.above: Redactor | None = None
        """Who has to know what is learned here."""

    def asked(self, value: Any) -> Redacted | Clean:
        """Of a request. What is found is secret from now on, and in the rest of the value, too."""
        return Clean(value) if self.is_clean(value) else self._all_of(lambda: Redacted(self.finder, value, None))

    def kept(self, value: Any) -> Redacted | Clean:
        """The same where the value itself has to come back: credentials are numbered, too."""
        if self.is_clean(value):
            return Clean(value)
        return self._all_of(lambda: Redacted(self.finder, value, None, numbers_credentials=True))

    def given(self, value: Any, seq: int) -> Redacted | Clean:
        """Of an answer, which is event `seq`."""
        return Clean(value) if self.is_clean(value) else self._all_of(lambda: Redacted(self.finder, value, seq))

    def is_clean(self, value: Any) -> bool:
        """There is nothing to hide, as one look at all of it tells. False: it has to be looked at part by part."""
        kind = type(value)
        if kind in _UNTOUCHED:
            return True
        if kind is str:
            return len(value) <= SHORT_TEXT and not self.finder.find(value)
        new = new_texts(value, self.finder.innocent)
        if new is not None:
            return not new or self.finder.are_innocent(new)
        plain = plain_text(value) if not self.finder.rules else None
        return plain is not None and not self.finder.finds_any(plain[0].decode())

    def _all_of(self, redact: Callable[[], Redacted]) -> Redacted:
        """A credential that is known by its place may stand in other places of the same value."""
        redacted = redact()
        for _ in range(MOST_ROUNDS):
            if not self.learn(redacted.pieces):
                break
            redacted = redact()
        return redacted

    def given_part(self, part: Any, seq: int, held: HeldBack) -> Redacted | Clean:
        """Of a part of a stream, as far as it can be told where a secret ends (`streams`)."""
        redacted = Redacted(self.finder, None, seq)
        fed = held.feed(part, redacted.name)
        if not redacted.found and fed == part and self.is_clean(part):
            return Clean(part)
        redacted.take(fed, part)
        return redacted

    def given_parts(self, parts: Sequence[Any], seq: int) -> tuple[Redacted, list[int]]:
        """Of all parts of a stream; with those that had a part of a secret which reached over several."""
        redacted = Redacted(self.finder, None, seq)
        split = joined(parts, self.finder, redacted.name)
        redacted.take([split.get(index, part) for index, part in enumerate(parts)], parts)
        self.learn(redacted.pieces)
        return redacted, sorted(split)

    def learn(self, pieces: Mapping[Any, str]) -> bool:
        """What was found → its kind. True: something of it was not known."""
        known = self.finder.known
        new = {
            piece: kind
            for piece, kind in pieces.items()
            if type(piece) is str and piece not in known and is_telling(piece)
            if "." not in kind and PLACEHOLDER.fullmatch(piece) is None
        }
        self.finder.learn(new)
        if new and self.above is not None:
            self.above.learn(new)
        return bool(new)


class Clean:
    """A value in which there was nothing to hide: what `Redacted` would say of it."""

    __slots__ = ("value",)
    changed = found = False
    originals: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, value: Any) -> None:
        self.value = value


class Redacted:
    """One value without its secrets, and what its placeholders stand for."""

    def __init__(self, finder: Finder, value: Any, seq: int | None, *, numbers_credentials: bool = False) -> None:
        self._finder = finder
        self._shortest = SHORTEST_TEXT if finder.rules else SHORTEST_KNOWN
        self._seq = seq
        self._numbers_credentials = numbers_credentials or seq is not None
        self._given = value
        self._names: dict[Any, str] = {}
        self._taken: set[str] = set()
        self._next = 1
        self.originals: dict[str, Any] = {}
        self.pieces: dict[Any, str] = {}
        """What was found → its kind."""
        self.value = self._value(value)
        if self.originals and seq is not None and not self._taken.isdisjoint(self.originals):
            self._number_again(value)

    @property
    def found(self) -> bool:
        return bool(self.originals)

    @property
    def changed(self) -> bool:
        """The value is not what it was."""
        return self.value is not self._given

    def take(self, value: Any, given: Any) -> None:
        """Goes on with another value, which was made of the given one."""
        self._given = given
        clean = self._value(value)
        self.value = given if clean == given else clean

    def name(self, piece: str, kind: str) -> str:
        """What stands for a part of the value that somebody else has found."""
        return self._named(piece, kind, position=False)

    def _number_again(self, value: Any) -> None:
        """The value holds placeholders that read like its own: those keep their meaning, ours have other numbers."""
        self._names, self.originals, self._next = {}, {}, 1
        self.value = self._value(value)

    # Values

    def _value(self, value: Any) -> Any:
        kind = type(value)
        if kind is str:
            return self.text(value) if len(value) >= self._shortest else value
        if kind in _UNTOUCHED:
            return value
        if kind is dict:
            return self._members(value)
        if kind is list or kind is tuple:
            return self._items(value, kind)
        if kind is bytes or kind is bytearray:
            return self._bytes(value, kind)
        return self._object(value)

    def _bytes(self, value: Any, kind: type) -> Any:
        text = value.decode("utf-8", "surrogateescape")
        clean = self.text(text)
        if clean is text and (plain := unpacked(value)) is not None:
            inside = plain.decode("utf-8", "surrogateescape")
            found = self.text(inside)
            if found is not inside:
                # A request is known by what it says. What has to come back is what was there, to the last byte.
                comes_back = self._numbers_credentials
                clean = self._named(text, COMPRESSED, position=False) if comes_back else found
        return value if clean is text else kind(clean.encode("utf-8", "surrogateescape"))

    def _members(self, value: dict[Any, Any]) -> dict[Any, Any]:
        changed: dict[Any, Any] | None = None
        for name, item in value.items():
            clean_name = self._value(name) if type(name) is not str or len(name) >= SHORTEST_NAME else name
            if _holds_credential(value, name):
                clean = self._credential(item)
            else:
                clean = item if type(item) in _UNTOUCHED else self._value(item)
            if changed is None and (clean is not item or clean_name is not name):
                changed = {}
                for before in value:
                    if before is name:
                        break
                    changed[before] = value[before]
            if changed is not None:
                changed[clean_name] = clean
        return value if changed is None else changed

    def _items(self, value: Any, kind: type) -> Any:
        if len(value) == 2 and _names_header(value[0]) and type(value[1]) in (str, bytes):
            clean = [value[0], self._credential(value[1])]
        else:
            clean, before = [], None
            for item in value:
                if type(item) is str and is_option(before):  # a command line: --password, and then the password
                    clean.append(self._credential(item))
                elif type(item) is str and is_option(item.partition("=")[0]) and "=" in item:
                    option, _, secret = item.partition("=")
                    clean.append(f"{option}={self._credential(secret)}" if secret else item)
                elif is_credential_pair(item):
                    clean.append(type(item)([item[0], self._credential(item[1])]))
                else:
                    clean.append(item if type(item) in _UNTOUCHED else self._value(item))
                before = item
        if all(new is old for new, old in zip(clean, value, strict=True)):
            return value
        return kind(clean)

    def _credential(self, value: Any) -> Any:
        """What stands at a place for credentials. A schema has objects there, and a switch has a truth."""
        kind = type(value)
        if kind is str:
            return self._named(value, CREDENTIAL, position=True) if value else value
        if kind is bytes:
            return self._named(value.decode("utf-8", "surrogateescape"), CREDENTIAL, position=True).encode(
                "utf-8", "surrogateescape"
            )
        if kind is int:
            return self._named(value, CREDENTIAL, position=True)
        if kind is list or kind is tuple:
            return kind(self._credential(item) for item in value)
        return self._value(value)

    def _object(self, value: Any) -> Any:
        """Whatever else there is, looked through as it would be written: a model, an error with its attributes."""
        encoded = encode(value)
        artifacts = dict(encoded.artifacts)
        tree = self._tree(encoded.tree, artifacts)
        if tree is encoded.tree:
            return value
        return decode(tree, loaded_classes=True, artifact=artifacts.__getitem__)

    def _tree(self, tree: Any, artifacts: dict[bytes, bytes]) -> Any:
        """What was encoded. Bytes and odd texts in it are not written as they are, and are looked through too."""
        if type(tree) is list:
            items = [self._tree(item, artifacts) for item in tree]
            return tree if all(new is old for new, old in zip(items, tree, strict=True)) else items
        if type(tree) is not dict:
            return self._value(tree)
        if len(tree) == 1 and not _CONTENTS.isdisjoint(tree):
            content = decode(tree, artifact=artifacts.__getitem__)
            clean = self._value(content) if type(content) in (str, bytes, bytearray) else content
            if clean is content:
                return tree
            encoded = encode(clean)
            artifacts.update(encoded.artifacts)
            return encoded.tree
        members = {
            name: self._credential(item) if _holds_credential(tree, name) else self._tree(item, artifacts)
            for name, item in tree.items()
        }
        return tree if all(members[name] is tree[name] for name in tree) else members

    # Texts

    def text(self, text: str) -> str:
        """The text itself if there is no secret in it."""
        found = self._finder.find(text)
        if not found:
            return text
        parts, at, changed = [], 0, False
        for one in found:
            piece = text[one.start : one.end]
            is_number = one.position and piece.isdecimal() and not piece.startswith("0")
            quote = _quote_before(text, one.start) if is_number else ""
            if quote:  # a number of a JSON text: what stands for it is a text there
                self.pieces[piece] = one.kind
                clean = f"{quote}{self._named(int(piece), one.kind, position=True)}{quote}"
            else:
                clean = self._named(piece, one.kind, position=one.position, known=one)
            changed = changed or clean != piece
            parts += [text[at : one.start], clean]
            at = one.end
        return "".join([*parts, text[at:]]) if changed else text

    def _named(self, piece: Any, kind: str, *, position: bool, known: Found | None = None) -> str:
        """What stands for the piece."""
        own = PLACEHOLDER.fullmatch(piece) if type(piece) is str else None
        if position and not self._numbers_credentials:
            self._note(placeholder(CREDENTIAL), piece, CREDENTIAL)
            return piece if own is not None and piece == placeholder(CREDENTIAL) else placeholder(CREDENTIAL)
        if own is not None and (own[2] is None or self._seq is not None):
            self._taken.add(piece)
            return str(piece)
        if own is not None:
            kind = own[1]
            if not self._numbers_credentials:
                piece = placeholder(own[1], own[2])  # however it was sent
        elif position and known is None and type(piece) is str:
            kind = self._finder.known.get(piece, CREDENTIAL)
        elif position and known is not None and not known.known:
            kind = CREDENTIAL
        return self._numbered(piece, kind)

    def _numbered(self, piece: Any, kind: str) -> str:
        if not self._numbers_credentials:
            piece = self._finder.forms.get(piece, piece)
        name = self._names.get(piece)
        if name is None:
            name = self._next_name(kind)
            while name in self._taken and self._seq is not None:
                name = self._next_name(kind)
            self._names[piece] = name
            self._note(name, piece, kind)
        return name

    def _next_name(self, kind: str) -> str:
        number, self._next = self._next, self._next + 1
        return placeholder(kind, str(number) if self._seq is None else f"{self._seq}.{number}")

    def _note(self, name: str, piece: Any, kind: str) -> None:
        self.pieces[piece] = kind
        if name != piece:
            self.originals.setdefault(name, piece)


def _holds_credential(members: dict[Any, Any], name: Any) -> bool:
    if type(name) is not str:
        return type(name) is bytes and is_credential_header(name.decode("latin-1"))
    return holds_credential(name, members[name]) or (
        name == "value" and type(members.get("name")) is str and is_credential_header(members["name"])
    )


def is_credential_pair(item: Any) -> bool:
    """A name and its value, as the items of a list are. (Two names that stand by themselves are not: a schema lists
    what it requires.)"""
    if type(item) not in (list, tuple) or len(item) != 2 or type(item[1]) not in (str, bytes):
        return False
    return type(item[0]) is str and holds_credential(item[0], item[1])


def _quote_before(text: str, start: int) -> str:
    """How the name before a value is quoted, if the value itself is not."""
    match = _QUOTE_BEFORE.search(text, max(0, start - 60), start)
    return match[1] if match is not None else ""


def _names_header(name: Any) -> bool:
    if type(name) is bytes:
        return is_credential_header(name.decode("latin-1"))
    return type(name) is str and is_credential_header(name)
