"""Find the secrets of a text: known values, positions by their names, shapes, and all of these in encoded form.

One pass searches the text. Most of it is only scanned, with fast substring searches, for what every secret contains.
Overlapping finds are one secret.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from binascii import a2b_base64, unhexlify
from collections.abc import Callable, Iterator, Mapping, Sequence
from urllib.parse import quote, quote_plus, unquote

from onrecord.core.lazy_regex import Pattern
from onrecord.core.redaction.harmless import HarmlessTexts, names_credentials, write_as_stored
from onrecord.core.redaction.patterns import Rule, compile_rule
from onrecord.core.redaction.placeholders import ENVIRONMENT, MARK, PLACEHOLDER
from onrecord.core.redaction.positions import HEADER_WORDS, find_positions, find_words, has_credential_position
from onrecord.core.redaction.shapes import (
    Span,
    find_cards,
    find_runs,
    find_schemes,
    find_shapes,
    flatten,
    may_hold_card,
)

DEEPEST = 2
"""How many layers of encoding are decoded."""
MOST_KNOWN = 300
"""How many values are kept: a server may set a cookie with every answer. Environment values are never dropped."""
FORGOTTEN_AT_ONCE = 50
UUID_LENGTH = 36
SHORT_TEXT = 128
MOST_REMEMBERED = 4096
"""How many short clean texts are remembered: names, kinds and ids repeat often."""
_BLANK = "\x01"
_STANDARD = str.maketrans("-_", "+/")
_HEX = Pattern(r"(?:[0-9a-fA-F]{2})+\Z")
_WORD = Pattern(r"[^\s\"'<>&=?;,]+")
_CONTROLS = ("\\u", "\\b", "\\f")
"""How stored JSON writes control characters other than line breaks and tabs."""
_UNICODE = Pattern(r"\\+u([0-9a-fA-F]{4})")


Flattened = tuple[bytes, bytes, list[bytes]]
"""A text with one byte for each character, the same in lower case, and the credential words in it."""


class FoundSecret:
    """A secret in a text: its span, and what is known about it."""

    __slots__ = ("end", "kind", "known", "position", "start")

    def __init__(self, start: int, end: int, kind: str, *, known: bool = False, position: bool = False) -> None:
        self.start = start
        self.end = end
        self.kind = kind
        self.known = known
        """Its value or placeholder has been seen before."""
        self.position = position
        """It is found at a position for credentials."""


class Finder:
    """The rules and the known values. A run learns values while it executes."""

    def __init__(self, rules: Sequence[Rule] = (), known: Mapping[str, str] | Sequence[str] = ()) -> None:
        self.rules = tuple((rule.kind, compile_rule(rule)) for rule in rules)
        self.known: dict[str, str] = {}
        """Value → kind, the longest first: one value may contain another."""
        self.forms: dict[str, str] = {}
        """A value as written in JSON text or in a URL → the value."""
        self._learned: dict[str, str] = {}
        """Value → kind, without written forms, in the order in which the values were learned."""
        self._cores: tuple[str, ...] = tuple(_list_cores(MARK))
        self.beginnings: tuple[Mapping[str, str], frozenset[str], int] | None = None
        """A cache of `streams`: the `known` it was built from, all beginnings of known values, the longest length."""
        self._clean: set[str] = set()
        self._clean_within: set[str] = set()
        """Parts that are clean in every decoding."""
        self.harmless = HarmlessTexts()
        values = known.values() if isinstance(known, Mapping) else known
        self.learn(dict.fromkeys(values, ENVIRONMENT))

    def learn(self, values: Mapping[str, str]) -> None:
        """Add secret values. A concurrent search continues with the previous set."""
        new = {value: kind for value, kind in values.items() if value and value not in self.known}
        if not new:
            return
        self._learned.update(new)
        known, forms, cores = dict(self.known), dict(self.forms), self._cores
        if self._forget():
            new, known, forms, cores = self._learned, {}, {}, tuple(_list_cores(MARK))
        known.update(new)
        for value, kind in new.items():
            for form in _list_forms(value):
                if form not in known:
                    known[form], forms[form] = kind, value
        self._cores = cores + tuple(core for value in new for core in _list_cores(value))
        self.forms = forms
        self.known = {value: known[value] for value in sorted(known, key=len, reverse=True)}
        # Replaced, not cleared: a concurrent search, with the previous values, still adds to the old sets.
        self._clean, self._clean_within, self.harmless = set(), set(), HarmlessTexts()

    def _forget(self) -> bool:
        """Drop the oldest learned values if there are too many. Return True if any was dropped."""
        if len(self._learned) <= MOST_KNOWN:
            return False
        oldest = [value for value, kind in self._learned.items() if kind != ENVIRONMENT][:FORGOTTEN_AT_ONCE]
        for value in oldest:
            del self._learned[value]
        return bool(oldest)

    def find(self, text: str) -> list[FoundSecret]:
        """Return the secrets in order, without overlap. Empty for nearly every text."""
        if len(text) > SHORT_TEXT:
            return self._find_in(text, 0)
        clean = self._clean
        if text in clean:
            return []
        found = self._find_in(text, 0)
        if not found:
            _remember(text, clean)
        return found

    def _find_in(self, text: str, depth: int, flattened_text: Flattened | None = None) -> list[FoundSecret]:
        """Return the secrets of a text. `flattened_text` is the flattened text, if the caller has it."""
        found, original = list[FoundSecret](), text
        for value, kind in self.known.items():
            if value in text:
                found += [FoundSecret(*span, known=True) for span in _find_occurrences(text, value, kind)]
        if "secret" in text:
            found += [
                FoundSecret(match.start(), match.end(), match[1], known=True) for match in PLACEHOLDER.finditer(text)
            ]
        if found:
            # A found value ends a word, as its placeholder will: the other searches then find the same in both forms.
            text = _blank_out(text, found)
        if "\\" in text:
            # An escaped line break within JSON text also begins a word.
            text = text.replace("\\n", " \n").replace("\\t", "  ").replace("\\r", "  ")
        if flattened_text is None or text is not original:
            flattened_text = _flatten(text, flattened_text[2] if flattened_text is not None else None)
        flattened, lowered, words = flattened_text
        if words:
            found += [FoundSecret(*span, position=True) for span in find_positions(text, lowered, words)]
        if b"bearer" in words or b"@" in lowered or b"basic " in lowered:
            found += [FoundSecret(*span) for span in find_schemes(text, lowered)]
        for kind, pattern in self.rules:
            found += [FoundSecret(*span) for span in _find_matches(kind, pattern, text)]
        if may_hold_card(flattened):
            found += [FoundSecret(*span) for span in find_cards(text)]
        runs = find_runs(flattened)
        if runs:
            found += [FoundSecret(*span) for span in find_shapes(text, runs)]
            if depth < DEEPEST:
                clean = self._clean_within if depth == 0 else None
                found += self._find_encoded(text, runs, self._decode_token, depth, clean)
        if depth < DEEPEST:
            if "%" in text:
                found += self._find_encoded(text, _find_words_with("%", text), _unquote, depth)
            if "\\u" in text:
                found += self._find_encoded(text, _find_words_with("\\u", text), _unescape, depth)
        return _merge(found) if len(found) > 1 else found

    def are_harmless(self, texts: Sequence[str]) -> bool:
        """Return True if no text holds a secret and none names a neighbour as a credential."""
        harmless, clean = self.harmless, self._clean
        left = [text for text in texts if text not in clean or names_credentials(text)]
        stored = write_as_stored(left) if not self.rules else None  # a rule may match text that JSON writes differently
        is_sure = stored is not None and not self.may_hold_secret(stored)
        if not is_sure and any(names_credentials(text) or self.find(text) for text in left):
            return False
        harmless.remember(texts)
        return True

    def may_hold_secret(self, text: str) -> bool:
        """Return True if a value may hold a secret. `text` is the value as stored, with its texts and names."""
        if '"--' in text:
            return True  # an option of a command line names the value after it
        if "\\" in text and any(letters in text for letters in _CONTROLS):
            return True  # the letter of such an escape could hide the beginning of a secret
        flattened_text = _flatten(text)
        _, lowered, words = flattened_text
        if words and any(word in lowered for word in HEADER_WORDS):  # a header may be a pair of name and value
            return True
        if words and has_credential_position(text, lowered, words):
            return True
        return bool(self._find_in(text, 0, flattened_text))

    def _find_encoded(
        self,
        text: str,
        parts: list[tuple[int, int]],
        decode: Callable[[str], Iterator[tuple[str, str]]],
        depth: int,
        clean: set[str] | None = None,
    ) -> Iterator[FoundSecret]:
        """Yield the encoded parts that hold a secret: the whole part is one. `clean` remembers parts that hold none."""
        for start, end in parts:
            part = text[start:end]
            if clean is not None and part in clean:
                continue
            for encoding, decoded in decode(part):
                inside = self._find_in(decoded, depth + 1)
                if inside:
                    kind = next((secret.kind for secret in inside if secret.known), inside[0].kind).partition(".")[0]
                    is_known = any(secret.known for secret in inside)
                    end += len(text[end : end + 2]) - len(text[end : end + 2].lstrip("="))
                    yield FoundSecret(start, end, f"{kind}.{encoding}", known=is_known)
                    break
            else:
                if clean is not None and len(part) <= SHORT_TEXT:
                    _remember(part, clean)

    def _decode_token(self, token: str) -> Iterator[tuple[str, str]]:
        """Yield the possible decodings of a token. Known values are found at any offset in it."""
        if _HEX.match(token) is not None:
            yield from _decode_text("hex", unhexlify(token))
        if len(token) == UUID_LENGTH and token[8] == token[13] == token[18] == "-":
            return
        bare = token.translate(_STANDARD)
        yield from _decode_text("base64", _decode_base64(bare))
        if any(core in bare for core in self._cores):
            for offset in range(4):
                yield "base64", _decode_base64(bare[offset:]).decode("utf-8", "replace")


def _flatten(text: str, words: list[bytes] | None = None) -> Flattened:
    """Return the flattened text. `words` are its credential words, if the caller has searched for them."""
    flattened = flatten(text)
    lowered = flattened.lower()
    return flattened, lowered, find_words(lowered) if words is None else words


def _remember(text: str, texts: set[str]) -> None:
    if len(texts) >= MOST_REMEMBERED:
        texts.clear()
    texts.add(text)


def _list_forms(value: str) -> Iterator[str]:
    written = json.dumps(value)[1:-1]
    data = value.encode("utf-8", "surrogateescape")
    yield from (written, json.dumps(value, ensure_ascii=False)[1:-1], written.replace("/", "\\/"))
    yield from (quote(data), quote(data, safe=""), quote_plus(data))


def _decode_text(encoding: str, decoded: bytes) -> Iterator[tuple[str, str]]:
    """Yield the decoded bytes as text; bytes that are not UTF-8 only if they contain a long run of text."""
    try:
        yield encoding, decoded.decode()
    except UnicodeDecodeError:
        if find_runs(decoded):
            yield encoding, decoded.decode("utf-8", "replace")


def _decode_base64(bare: str) -> bytes:
    return a2b_base64(bare[: len(bare) - 1] if len(bare) % 4 == 1 else bare + "=" * (-len(bare) % 4))


def _list_cores(value: str) -> Iterator[str]:
    """Yield what the base64 forms of a value have in common, for each offset of the value in the encoded data."""
    data = value.encode("utf-8", "surrogateescape")
    for skipped, padding in ((0, b""), (2, b"\0"), (3, b"\0\0")):
        encoded = b64encode(padding + data).decode().rstrip("=")
        yield encoded[skipped : len(encoded) - 1 if (len(padding) + len(data)) % 3 else len(encoded)]


def _find_matches(kind: str, pattern: re.Pattern[str], text: str) -> Iterator[Span]:
    group: int | str = "secret" if pattern.groups else 0
    for match in pattern.finditer(text):
        if match.start(group) >= 0:
            yield match.start(group), match.end(group), kind


def _blank_out(text: str, found: list[FoundSecret]) -> str:
    for secret in found:
        text = f"{text[: secret.start]}{_BLANK * (secret.end - secret.start)}{text[secret.end :]}"
    return text


def _find_occurrences(text: str, value: str, kind: str) -> Iterator[Span]:
    at = text.find(value)
    while at >= 0:
        yield at, at + len(value), kind
        at = text.find(value, at + len(value))


def _find_words_with(sign: str, text: str) -> list[tuple[int, int]]:
    return [word.span() for word in _WORD.finditer(text) if sign in word[0]]


def _unquote(token: str) -> Iterator[tuple[str, str]]:
    if "%" in token:
        plain = unquote(token)
        if plain != token:
            yield "quoted", plain


def _unescape(token: str) -> Iterator[tuple[str, str]]:
    if "\\u" in token:
        yield "escaped", _UNICODE.sub(lambda match: chr(int(match[1], 16)), token)


def _merge(found: list[FoundSecret]) -> list[FoundSecret]:
    """Merge overlapping finds. The merged find keeps what is known of each part."""
    found.sort(key=lambda secret: (secret.start, -secret.end))
    merged = found[:1]
    for secret in found[1:]:
        last = merged[-1]
        if secret.start >= last.end:
            merged.append(secret)
            continue
        if secret.known and not last.known:
            last.kind = secret.kind
        last.end = max(last.end, secret.end)
        last.known = last.known or secret.known
        last.position = last.position or secret.position
    return merged
