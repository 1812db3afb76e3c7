"""Redact values: a placeholder names the kind of a secret and nothing else about it.

Rules:

1. **Requests** (`redact_request`) number secrets by first occurrence, together with the placeholders already in them.
   A program that was given a secret and one that was given its placeholder make the same request, so matching needs
   no key. Positions for credentials have no number: which credential it was takes no part in matching.
2. **Answers** (`redact_answer`) number secrets by the event and within it, so that every secret of a run has a name.
3. Different secrets have different placeholders; the same secret has the same one throughout a value.
4. Redacting again changes nothing.
5. A secret found in an answer is a secret wherever it appears from then on, whatever it looks like there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from onrecord.core.canonical import plain_text
from onrecord.core.codec import decode, encode
from onrecord.core.lazy_regex import Pattern
from onrecord.core.redaction.compressed import unpack_gzip
from onrecord.core.redaction.finder import SHORT_TEXT, Finder, FoundSecret
from onrecord.core.redaction.harmless import find_new_texts
from onrecord.core.redaction.names import (
    SHORTEST_KNOWN,
    holds_credential,
    is_credential_header,
    is_distinctive,
    is_option,
)
from onrecord.core.redaction.patterns import MOST_RULES, Rule
from onrecord.core.redaction.placeholders import COMPRESSED, CREDENTIAL, PLACEHOLDER, placeholder
from onrecord.core.redaction.streams import PendingText, redact_joined
from onrecord.errors import InvalidInput

SHORTEST_TEXT = 4
_QUOTE_BEFORE = Pattern(r"(\\{0,31}[\"'])\s{0,8}:\s{0,8}\Z")
MOST_ROUNDS = 5
SHORTEST_NAME = 8
"""Shorter member names are never searched for secrets."""
_UNTOUCHED = frozenset({type(None), bool, int, float})
_CONTENTS = frozenset({"$bytes", "$bytearray", "$text", "$artifact"})


class Redactor:
    """The rules of a run and the secrets it has learned. Pure: nothing is read or written."""

    def __init__(self, rules: Sequence[Rule] = (), known_values: Mapping[str, str] | Sequence[str] = ()) -> None:
        if len(rules) > MOST_RULES:
            raise InvalidInput(f"there are more than {MOST_RULES} redaction rules", code="bad_redaction_rule")
        self.finder = Finder(rules, known_values)
        self.parent: Redactor | None = None
        """A redactor that learns every secret that this one learns."""

    def redact_request(self, value: Any) -> Redacted | Clean:
        """Redact a request. Secrets found in it are known from now on, also in the rest of the value."""
        return Clean(value) if self.is_clean(value) else self._repeat(lambda: Redacted(self.finder, value, None))

    def redact_reversibly(self, value: Any) -> Redacted | Clean:
        """Redact a request whose original must be restored later: credentials are numbered too."""
        if self.is_clean(value):
            return Clean(value)
        return self._repeat(lambda: Redacted(self.finder, value, None, numbers_credentials=True))

    def redact_answer(self, value: Any, seq: int) -> Redacted | Clean:
        """Redact an answer, which is event `seq`."""
        return Clean(value) if self.is_clean(value) else self._repeat(lambda: Redacted(self.finder, value, seq))

    def is_clean(self, value: Any) -> bool:
        """Return True if one fast search finds no secret. False means that each part must be searched."""
        kind = type(value)
        if kind in _UNTOUCHED:
            return True
        if kind is str:
            return len(value) <= SHORT_TEXT and not self.finder.find(value)
        new = find_new_texts(value, self.finder.harmless)
        if new is not None:
            return not new or self.finder.are_harmless(new)
        plain = plain_text(value) if not self.finder.rules else None
        return plain is not None and not self.finder.may_hold_secret(plain[0].decode())

    def _repeat(self, redact: Callable[[], Redacted]) -> Redacted:
        """Redact until nothing new is learned: a credential known by its position may occur elsewhere in the value."""
        redacted = redact()
        for _ in range(MOST_ROUNDS):
            if not self.learn(redacted.pieces):
                break
            redacted = redact()
        return redacted

    def redact_chunk(self, part: Any, seq: int, held: PendingText) -> Redacted | Clean:
        """Redact a chunk of a stream, as far as the end of a secret can be determined (`streams`)."""
        redacted = Redacted(self.finder, None, seq)
        fed = held.feed(part, redacted.name)
        if not redacted.found and fed == part and self.is_clean(part):
            return Clean(part)
        redacted.take(fed, part)
        return redacted

    def redact_stream(self, parts: Sequence[Any], seq: int) -> tuple[Redacted, list[int]]:
        """Redact all chunks of a stream. Also return the indexes of chunks that share a secret with another."""
        redacted = Redacted(self.finder, None, seq)
        split = redact_joined(parts, self.finder, redacted.name)
        redacted.take([split.get(index, part) for index, part in enumerate(parts)], parts)
        self.learn(redacted.pieces)
        return redacted, sorted(split)

    def learn(self, pieces: Mapping[Any, str]) -> bool:
        """Learn found secrets (secret → kind). Return True if one of them is new."""
        known = self.finder.known
        new = {
            piece: kind
            for piece, kind in pieces.items()
            if type(piece) is str and piece not in known and is_distinctive(piece)
            if "." not in kind and PLACEHOLDER.fullmatch(piece) is None
        }
        self.finder.learn(new)
        if new and self.parent is not None:
            self.parent.learn(new)
        return bool(new)


class Clean:
    """A value without secrets, with the interface of `Redacted`."""

    __slots__ = ("value",)
    changed = found = False
    originals: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, value: Any) -> None:
        self.value = value


class Redacted:
    """A value without its secrets, and the originals of its placeholders."""

    def __init__(self, finder: Finder, value: Any, seq: int | None, *, numbers_credentials: bool = False) -> None:
        self._finder = finder
        self._shortest = SHORTEST_TEXT if finder.rules else SHORTEST_KNOWN
        self._seq = seq
        self._numbers_credentials = numbers_credentials or seq is not None
        self._original = value
        self._names: dict[Any, str] = {}
        self._taken: set[str] = set()
        self._next = 1
        self.originals: dict[str, Any] = {}
        self.pieces: dict[Any, str] = {}
        """Found secret → kind."""
        self.value = self._redact_value(value)
        if self.originals and seq is not None and not self._taken.isdisjoint(self.originals):
            # The value itself holds placeholders equal to the new ones: redact again with other numbers.
            self._names, self.originals, self._next = {}, {}, 1
            self.value = self._redact_value(value)

    @property
    def found(self) -> bool:
        return bool(self.originals)

    @property
    def changed(self) -> bool:
        """Return True if the value differs from the original."""
        return self.value is not self._original

    def take(self, value: Any, given: Any) -> None:
        """Continue with another value, which was made from `given`."""
        self._original = given
        clean = self._redact_value(value)
        self.value = given if clean == given else clean

    def name(self, piece: str, kind: str) -> str:
        """Return the placeholder for a secret that the caller has found."""
        return self._name_piece(piece, kind, position=False)

    # Values

    def _redact_value(self, value: Any) -> Any:
        kind = type(value)
        if kind is str:
            return self.redact_text(value) if len(value) >= self._shortest else value
        if kind in _UNTOUCHED:
            return value
        if kind is dict:
            return self._redact_members(value)
        if kind is list or kind is tuple:
            return self._redact_items(value, kind)
        if kind is bytes or kind is bytearray:
            return self._redact_bytes(value, kind)
        return self._redact_object(value)

    def _redact_bytes(self, value: Any, kind: type) -> Any:
        text = value.decode("utf-8", "surrogateescape")
        clean = self.redact_text(text)
        if clean is text and (plain := unpack_gzip(value)) is not None:
            inside = plain.decode("utf-8", "surrogateescape")
            found = self.redact_text(inside)
            if found is not inside:
                # A request is matched by its text. An answer must be restored to the last byte.
                restorable = self._numbers_credentials
                clean = self._name_piece(text, COMPRESSED, position=False) if restorable else found
        return value if clean is text else kind(clean.encode("utf-8", "surrogateescape"))

    def _redact_members(self, value: dict[Any, Any]) -> dict[Any, Any]:
        changed: dict[Any, Any] | None = None
        for name, item in value.items():
            clean_name = self._redact_value(name) if type(name) is not str or len(name) >= SHORTEST_NAME else name
            if _is_credential(value, name):
                clean = self._redact_credential(item)
            else:
                clean = item if type(item) in _UNTOUCHED else self._redact_value(item)
            if changed is None and (clean is not item or clean_name is not name):
                changed = {}
                for before in value:
                    if before is name:
                        break
                    changed[before] = value[before]
            if changed is not None:
                changed[clean_name] = clean
        return value if changed is None else changed

    def _redact_items(self, value: Any, kind: type) -> Any:
        if len(value) == 2 and _names_header(value[0]) and type(value[1]) in (str, bytes):
            clean = [value[0], self._redact_credential(value[1])]
        else:
            clean, before = [], None
            for item in value:
                if type(item) is str and is_option(before):  # a command line: --password, then the password
                    clean.append(self._redact_credential(item))
                elif type(item) is str and is_option(item.partition("=")[0]) and "=" in item:
                    option, _, secret = item.partition("=")
                    clean.append(f"{option}={self._redact_credential(secret)}" if secret else item)
                elif is_credential_pair(item):
                    clean.append(type(item)([item[0], self._redact_credential(item[1])]))
                else:
                    clean.append(item if type(item) in _UNTOUCHED else self._redact_value(item))
                before = item
        if all(new is old for new, old in zip(clean, value, strict=True)):
            return value
        return kind(clean)

    def _redact_credential(self, value: Any) -> Any:
        """Redact a value at a position for credentials. Objects (in a schema) and booleans are none."""
        kind = type(value)
        if kind is str:
            return self._name_piece(value, CREDENTIAL, position=True) if value else value
        if kind is bytes:
            return self._name_piece(value.decode("utf-8", "surrogateescape"), CREDENTIAL, position=True).encode(
                "utf-8", "surrogateescape"
            )
        if kind is int:
            return self._name_piece(value, CREDENTIAL, position=True)
        if kind is list or kind is tuple:
            return kind(self._redact_credential(item) for item in value)
        return self._redact_value(value)

    def _redact_object(self, value: Any) -> Any:
        """Redact any other object in its encoded form: a model, an error with its attributes."""
        encoded = encode(value)
        artifacts = dict(encoded.artifacts)
        tree = self._redact_tree(encoded.tree, artifacts)
        if tree is encoded.tree:
            return value
        return decode(tree, loaded_classes=True, artifact=artifacts.__getitem__)

    def _redact_tree(self, tree: Any, artifacts: dict[bytes, bytes]) -> Any:
        """Redact an encoded tree. Bytes and texts in tags are decoded and searched too."""
        if type(tree) is list:
            items = [self._redact_tree(item, artifacts) for item in tree]
            return tree if all(new is old for new, old in zip(items, tree, strict=True)) else items
        if type(tree) is not dict:
            return self._redact_value(tree)
        if len(tree) == 1 and not _CONTENTS.isdisjoint(tree):
            content = decode(tree, artifact=artifacts.__getitem__)
            clean = self._redact_value(content) if type(content) in (str, bytes, bytearray) else content
            if clean is content:
                return tree
            encoded = encode(clean)
            artifacts.update(encoded.artifacts)
            return encoded.tree
        members = {
            name: self._redact_credential(item) if _is_credential(tree, name) else self._redact_tree(item, artifacts)
            for name, item in tree.items()
        }
        return tree if all(members[name] is tree[name] for name in tree) else members

    # Texts

    def redact_text(self, text: str) -> str:
        """Return the redacted text, or the text itself if it holds no secret."""
        found = self._finder.find(text)
        if not found:
            return text
        parts, at, changed = [], 0, False
        for secret in found:
            piece = text[secret.start : secret.end]
            is_number = secret.position and piece.isdecimal() and not piece.startswith("0")
            quote = _find_quote_before(text, secret.start) if is_number else ""
            if quote:  # a number in JSON text: its placeholder needs quotes
                self.pieces[piece] = secret.kind
                clean = f"{quote}{self._name_piece(int(piece), secret.kind, position=True)}{quote}"
            else:
                clean = self._name_piece(piece, secret.kind, position=secret.position, known=secret)
            changed = changed or clean != piece
            parts += [text[at : secret.start], clean]
            at = secret.end
        return "".join([*parts, text[at:]]) if changed else text

    def _name_piece(self, piece: Any, kind: str, *, position: bool, known: FoundSecret | None = None) -> str:
        """Return the placeholder for the piece."""
        own = PLACEHOLDER.fullmatch(piece) if type(piece) is str else None
        if position and not self._numbers_credentials:
            self._note_original(placeholder(CREDENTIAL), piece, CREDENTIAL)
            return piece if own is not None and piece == placeholder(CREDENTIAL) else placeholder(CREDENTIAL)
        if own is not None and (own[2] is None or self._seq is not None):
            self._taken.add(piece)
            return str(piece)
        if own is not None:
            kind = own[1]
            if not self._numbers_credentials:
                piece = placeholder(own[1], own[2])  # in plain spelling
        elif position and known is None and type(piece) is str:
            kind = self._finder.known.get(piece, CREDENTIAL)
        elif position and known is not None and not known.known:
            kind = CREDENTIAL
        return self._number_piece(piece, kind)

    def _number_piece(self, piece: Any, kind: str) -> str:
        if not self._numbers_credentials:
            piece = self._finder.forms.get(piece, piece)
        name = self._names.get(piece)
        if name is None:
            name = self._make_next_name(kind)
            while name in self._taken and self._seq is not None:
                name = self._make_next_name(kind)
            self._names[piece] = name
            self._note_original(name, piece, kind)
        return name

    def _make_next_name(self, kind: str) -> str:
        number, self._next = self._next, self._next + 1
        return placeholder(kind, str(number) if self._seq is None else f"{self._seq}.{number}")

    def _note_original(self, name: str, piece: Any, kind: str) -> None:
        self.pieces[piece] = kind
        if name != piece:
            self.originals.setdefault(name, piece)


def _is_credential(members: dict[Any, Any], name: Any) -> bool:
    if type(name) is not str:
        return type(name) is bytes and is_credential_header(name.decode("latin-1"))
    return holds_credential(name, members[name]) or (
        name == "value" and type(members.get("name")) is str and is_credential_header(members["name"])
    )


def is_credential_pair(item: Any) -> bool:
    """Return True for a name and its value as an item of a list.

    Two names in a list of their own are no pair: a schema lists the members it requires.
    """
    if type(item) not in (list, tuple) or len(item) != 2 or type(item[1]) not in (str, bytes):
        return False
    return type(item[0]) is str and holds_credential(item[0], item[1])


def _find_quote_before(text: str, start: int) -> str:
    """Return the quote of the name before a value that has no quotes itself."""
    match = _QUOTE_BEFORE.search(text, max(0, start - 60), start)
    return match[1] if match is not None else ""


def _names_header(name: Any) -> bool:
    if type(name) is bytes:
        return is_credential_header(name.decode("latin-1"))
    return type(name) is str and is_credential_header(name)
