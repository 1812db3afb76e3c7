"""Where the secrets of a text are: values that are known, places by their names, shapes, and all of it once encoded.

A text is looked through in one go, and most of it is only searched, at the speed of memory, for what every secret has.
Where several finders see something in the same place, the whole of it is one secret.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from binascii import a2b_base64, unhexlify
from collections.abc import Callable, Iterator, Mapping, Sequence
from urllib.parse import quote, quote_plus, unquote

from reenact.core.lazy_patterns import Pattern
from reenact.core.redaction.innocent import Innocent, as_stored, names_credentials
from reenact.core.redaction.patterns import Rule, compiled
from reenact.core.redaction.placeholders import ENVIRONMENT, MARK, PLACEHOLDER
from reenact.core.redaction.positions import HEADER_WORDS, has_credential_place, positions_in, words_in
from reenact.core.redaction.shapes import (
    Span,
    cards_in,
    flat,
    may_hold_card,
    runs_in,
    schemes_in,
    shapes_in,
)

DEEPEST = 2
"""How often something may have been encoded over."""
MOST_KNOWN = 300
"""A server may set a cookie with every answer. Those of the environment are never forgotten for others."""
FORGOTTEN_AT_ONCE = 50
UUID_LENGTH = 36
SHORT_TEXT = 128
MOST_REMEMBERED = 4096
"""Short texts that are known to be clean: names, kinds and ids come again and again."""
_BLANK = "\x01"
_STANDARD = str.maketrans("-_", "+/")
_HEX = Pattern(r"(?:[0-9a-fA-F]{2})+\Z")
_WORD = Pattern(r"[^\s\"'<>&=?;,]+")
_CONTROLS = ("\\u", "\\b", "\\f")
"""How control characters are stored that begin no line."""
_UNICODE = Pattern(r"\\+u([0-9a-fA-F]{4})")


Flattened = tuple[bytes, bytes, list[bytes]]
"""A text with one byte for each character, the same in small letters, and which words of names it has."""


class Found:
    """A secret in a text: where, and what the finders say of it."""

    __slots__ = ("end", "kind", "known", "position", "start")

    def __init__(self, start: int, end: int, kind: str, *, known: bool = False, position: bool = False) -> None:
        self.start = start
        self.end = end
        self.kind = kind
        self.known = known
        """Its value, or what stands for it, has been seen before."""
        self.position = position
        """It stands where credentials stand."""


class Finder:
    """The rules, and the values that are known. Values are learned while a run goes on."""

    def __init__(self, rules: Sequence[Rule] = (), known: Mapping[str, str] | Sequence[str] = ()) -> None:
        self.rules = tuple((rule.kind, compiled(rule)) for rule in rules)
        self.known: dict[str, str] = {}
        """Value → kind, the longest first: one may hold another."""
        self.forms: dict[str, str] = {}
        """How values look in a text that was written as JSON, or in an address → the value."""
        self._learned: dict[str, str] = {}
        """Value → kind, without their forms, in the order in which they were learned."""
        self._cores: tuple[str, ...] = tuple(_cores(MARK))
        self.beginnings: tuple[Mapping[str, str], frozenset[str], int] | None = None
        """What known values begin with, as streams have put it together: of which, the beginnings, the longest."""
        self._clean: set[str] = set()
        self._clean_within: set[str] = set()
        """Clean whatever they may have been before they were encoded."""
        self.innocent = Innocent()
        values = known.values() if isinstance(known, Mapping) else known
        self.learn(dict.fromkeys(values, ENVIRONMENT))

    def learn(self, values: Mapping[str, str]) -> None:
        """What is secret from now on. Whoever looks through a text at the same time goes on with what was known."""
        new = {value: kind for value, kind in values.items() if value and value not in self.known}
        if not new:
            return
        self._learned.update(new)
        known, forms, cores = dict(self.known), dict(self.forms), self._cores
        if self._forget():
            new, known, forms, cores = self._learned, {}, {}, tuple(_cores(MARK))
        known.update(new)
        for value, kind in new.items():
            for form in _forms(value):
                if form not in known:
                    known[form], forms[form] = kind, value
        self._cores = cores + tuple(core for value in new for core in _cores(value))
        self.forms = forms
        self.known = {value: known[value] for value in sorted(known, key=len, reverse=True)}
        # Not emptied: whoever is looking now, by what was known before, adds to those of before.
        self._clean, self._clean_within, self.innocent = set(), set(), Innocent()

    def _forget(self) -> bool:
        """The oldest, if there are too many."""
        if len(self._learned) <= MOST_KNOWN:
            return False
        oldest = [value for value, kind in self._learned.items() if kind != ENVIRONMENT][:FORGOTTEN_AT_ONCE]
        for value in oldest:
            del self._learned[value]
        return bool(oldest)

    def find(self, text: str) -> list[Found]:
        """In order, none overlapping another. Empty for nearly every text."""
        if len(text) > SHORT_TEXT:
            return self._found(text, 0)
        clean = self._clean
        if text in clean:
            return []
        found = self._found(text, 0)
        if not found:
            _remember(text, clean)
        return found

    def _found(self, text: str, depth: int, looked_at: Flattened | None = None) -> list[Found]:
        """`looked_at` is the text as somebody has looked at it already."""
        found, whole = list[Found](), text
        for value, kind in self.known.items():
            if value in text:
                found += [Found(*span, known=True) for span in _occurrences(text, value, kind)]
        if "secret" in text:
            found += [Found(one.start(), one.end(), one[1], known=True) for one in PLACEHOLDER.finditer(text)]
        if found:
            # What is found here already ends words, as its placeholder will: others find the same before and after.
            text = _blanked(text, found)
        if "\\" in text:
            # A line that begins within a text that was written as text: no letter stands before its first word.
            text = text.replace("\\n", " \n").replace("\\t", "  ").replace("\\r", "  ")
        if looked_at is None or text is not whole:
            looked_at = _flattened(text, looked_at[2] if looked_at is not None else None)
        flattened, lowered, words = looked_at
        if words:
            found += [Found(*span, position=True) for span in positions_in(text, lowered, words)]
        if b"bearer" in words or b"@" in lowered or b"basic " in lowered:
            found += [Found(*span) for span in schemes_in(text, lowered)]
        for kind, pattern in self.rules:
            found += [Found(*span) for span in _matches(kind, pattern, text)]
        if may_hold_card(flattened):
            found += [Found(*span) for span in cards_in(text)]
        runs = runs_in(flattened)
        if runs:
            found += [Found(*span) for span in shapes_in(text, runs)]
            if depth < DEEPEST:
                found += self._encoded(text, runs, self._decodings, depth, self._clean_within if depth == 0 else None)
        if depth < DEEPEST:
            if "%" in text:
                found += self._encoded(text, _words_with("%", text), _unquoted, depth)
            if "\\u" in text:
                found += self._encoded(text, _words_with("\\u", text), _unescaped, depth)
        return _merged(found) if len(found) > 1 else found

    def are_innocent(self, texts: Sequence[str]) -> bool:
        """There is no secret in any of them, and none of them says that what stands beside it is one."""
        innocent, clean = self.innocent, self._clean
        left = [text for text in texts if text not in clean or names_credentials(text)]
        stored = as_stored(left) if not self.rules else None  # a rule may ask for what is written otherwise there
        is_sure = stored is not None and not self.finds_any(stored)
        if not is_sure and any(names_credentials(text) or self.find(text) for text in left):
            return False
        innocent.remember(texts)
        return True

    def finds_any(self, text: str) -> bool:
        """There may be something in a value, given as it is stored: its texts and its names show there."""
        if '"--' in text:
            return True  # an option of a command line names what stands behind it
        if "\\" in text and any(letters in text for letters in _CONTROLS):
            return True  # no secret begins behind a letter, and these stand for something else
        looked_at = _flattened(text)
        _, lowered, words = looked_at
        if words and any(word in lowered for word in HEADER_WORDS):  # names of headers may stand beside their values
            return True
        if words and has_credential_place(text, lowered, words):
            return True
        return bool(self._found(text, 0, looked_at))

    def _encoded(
        self,
        text: str,
        parts: list[tuple[int, int]],
        decode: Callable[[str], Iterator[tuple[str, str]]],
        depth: int,
        clean: set[str] | None = None,
    ) -> Iterator[Found]:
        """Encoded parts of the text that hold a secret: the whole part is one. `clean` are parts known to hold none."""
        for start, end in parts:
            part = text[start:end]
            if clean is not None and part in clean:
                continue
            for how, decoded in decode(part):
                inside = self._found(decoded, depth + 1)
                if inside:
                    kind = next((one.kind for one in inside if one.known), inside[0].kind).partition(".")[0]
                    is_known = any(one.known for one in inside)
                    end += len(text[end : end + 2]) - len(text[end : end + 2].lstrip("="))
                    yield Found(start, end, f"{kind}.{how}", known=is_known)
                    break
            else:
                if clean is not None and len(part) <= SHORT_TEXT:
                    _remember(part, clean)

    def _decodings(self, token: str) -> Iterator[tuple[str, str]]:
        """What the token may have been. Values that are known are found wherever in it their encoded form begins."""
        if _HEX.match(token) is not None:
            yield from _as_text("hex", unhexlify(token))
        if len(token) == UUID_LENGTH and token[8] == token[13] == token[18] == "-":
            return
        bare = token.translate(_STANDARD)
        yield from _as_text("base64", _decoded(bare))
        if any(core in bare for core in self._cores):
            for offset in range(4):
                yield "base64", _decoded(bare[offset:]).decode("utf-8", "replace")


def _flattened(text: str, words: list[bytes] | None = None) -> Flattened:
    """`words` are those that the text may have, if somebody has looked for them."""
    flattened = flat(text)
    lowered = flattened.lower()
    return flattened, lowered, words_in(lowered) if words is None else words


def _remember(text: str, texts: set[str]) -> None:
    if len(texts) >= MOST_REMEMBERED:
        texts.clear()
    texts.add(text)


def _forms(value: str) -> Iterator[str]:
    written = json.dumps(value)[1:-1]
    data = value.encode("utf-8", "surrogateescape")
    yield from (written, json.dumps(value, ensure_ascii=False)[1:-1], written.replace("/", "\\/"))
    yield from (quote(data), quote(data, safe=""), quote_plus(data))


def _as_text(how: str, decoded: bytes) -> Iterator[tuple[str, str]]:
    """Where it is no text, it is looked at only if there is one in it."""
    try:
        yield how, decoded.decode()
    except UnicodeDecodeError:
        if runs_in(decoded):
            yield how, decoded.decode("utf-8", "replace")


def _decoded(bare: str) -> bytes:
    return a2b_base64(bare[: len(bare) - 1] if len(bare) % 4 == 1 else bare + "=" * (-len(bare) % 4))


def _cores(value: str) -> Iterator[str]:
    """What the encoded forms of a value have in common, wherever it begins in what was encoded."""
    data = value.encode("utf-8", "surrogateescape")
    for skipped, padding in ((0, b""), (2, b"\0"), (3, b"\0\0")):
        encoded = b64encode(padding + data).decode().rstrip("=")
        yield encoded[skipped : len(encoded) - 1 if (len(padding) + len(data)) % 3 else len(encoded)]


def _matches(kind: str, pattern: re.Pattern[str], text: str) -> Iterator[Span]:
    group: int | str = "secret" if pattern.groups else 0
    for match in pattern.finditer(text):
        if match.start(group) >= 0:
            yield match.start(group), match.end(group), kind


def _blanked(text: str, found: list[Found]) -> str:
    for one in found:
        text = f"{text[: one.start]}{_BLANK * (one.end - one.start)}{text[one.end :]}"
    return text


def _occurrences(text: str, value: str, kind: str) -> Iterator[Span]:
    at = text.find(value)
    while at >= 0:
        yield at, at + len(value), kind
        at = text.find(value, at + len(value))


def _words_with(sign: str, text: str) -> list[tuple[int, int]]:
    return [word.span() for word in _WORD.finditer(text) if sign in word[0]]


def _unquoted(token: str) -> Iterator[tuple[str, str]]:
    if "%" in token:
        plain = unquote(token)
        if plain != token:
            yield "quoted", plain


def _unescaped(token: str) -> Iterator[tuple[str, str]]:
    if "\\u" in token:
        yield "escaped", _UNICODE.sub(lambda match: chr(int(match[1], 16)), token)


def _merged(found: list[Found]) -> list[Found]:
    """What overlaps is one secret; what is known of any part is known of the whole."""
    found.sort(key=lambda one: (one.start, -one.end))
    merged = found[:1]
    for one in found[1:]:
        last = merged[-1]
        if one.start >= last.end:
            merged.append(one)
            continue
        if one.known and not last.known:
            last.kind = one.kind
        last.end = max(last.end, one.end)
        last.known = last.known or one.known
        last.position = last.position or one.position
    return merged
