"""Redact secrets that are split over the chunks of a stream.

The agent gets each chunk at once. The recorded chunk ends before anything that may be the beginning of a secret
(`PendingText`); the rest is recorded with the next chunk. At most `LONGEST_HELD` characters are pending. At the end of
the stream all chunks are searched together (`redact_joined`): the first chunk of a secret gets its placeholder, the
others lose their part of it, so that the chunks keep their boundaries.

Chunks that are objects are searched path by path: a growing text grows at the same path of each chunk. Headers arrive
whole and are never pending.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from string import ascii_letters, digits
from typing import Any
from urllib.parse import quote

from onrecord.core.lazy_regex import Pattern
from onrecord.core.redaction.finder import Finder
from onrecord.core.redaction.names import is_credential_member, is_credential_parameter, is_option
from onrecord.core.redaction.positions import IN_NAMES, LONGEST_NAME, LONGEST_WORD, find_words
from onrecord.core.redaction.shapes import SHORTEST_RUN, flatten

LONGEST_HELD = 8192
SHORTEST_OVERLAP = 2
"""A single character reveals nothing, and would hold back every other word."""
LONGEST_BEGINNING = 256
MOST_WORDS = 6
REMEMBERED = 128
HEADERS = "headers"
Path = tuple[Any, ...]

_TAIL = ascii_letters + digits + "+/_=.%~\\-"
_ANCHORS = ("sk-", "sk_", "rk_", "eyJ", "AIza", "gh", "xox", "AKIA", "ASIA", "glpat", "whsec", "ya29", "hf_", "SG.")
_SCHEME = Pattern(r"(?:[Bb]earer|[Bb]asic|BEARER|BASIC) +[^\s\"']*\Z")
_ADDRESS = Pattern(r"://[^\s/@\"'<>]{0,400}\Z")
_DIGITS = Pattern(r"[0-9](?:[ -]?[0-9]){3,18}[ -]?\Z")
_ENDS_DIGITS = (*digits, " ", "-")
_OPEN_MEMBER = Pattern(r"(\\{0,31}[\"'])([A-Za-z][A-Za-z0-9_. -]{1,62})\1\s{0,8}:\s{0,8}\1?(?:(?!\1)(?s:.)){0,8000}\Z")
_OPEN_PARAMETER = Pattern(r"[?&;]([A-Za-z][A-Za-z0-9_.-]{0,62})=[^&;#\s\"'<>\\]*\Z")
# After the name: `=`, `: "`, `", "` in a pair, `>` of an element, or the space after an option.
_OPEN_WORD = Pattern(
    r"([A-Za-z-][A-Za-z0-9_.-]{1,62})(?:\\{0,31}[\"']\s{0,8},|[ \t]{0,8}[:=]|(?:\s[^<>]{0,256})?>|([ \t]))"
    r"\s{0,8}(?:<[!\[CDAT]{0,8})?(?:\\{0,31}[\"'])?[^\s\"'<>]{0,4096}+[\"'>]?\s{0,8}(?:<\\{0,31})?\Z"
)
_OPEN_LINE = Pattern(r"(?m)^[ \t]{0,8}[A-Za-z][A-Za-z0-9_-]{2,40}[ \t]{0,4}[:=][^\r\n]{0,8000}\Z")


Name = Callable[[str, str], str]
"""(found secret, its kind) → its placeholder."""


class PendingText:
    """The text of a stream that cannot be recorded yet, by its path in the chunks."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._beginnings: frozenset[str] = frozenset()
        self._longest = 0
        self._before: dict[Path, str] = {}
        """The last recorded text: a secret may have begun in it."""
        self._tails: dict[Path, str] = {}

    def feed(self, chunk: Any, name: Name) -> Any:
        """Return the recordable part of the chunk, redacted, with the pending text before it."""
        self._beginnings, self._longest = _cache_beginnings(self._finder)
        return _map_texts(chunk, (), lambda path, text: self._feed_text(path, text, name), left_out=HEADERS)

    def _feed_text(self, path: Path, text: str, name: Name) -> str:
        before = self._before.get(path, "")
        whole = before + self._tails.pop(path, "") + text
        cut = max(self._find_cut(whole), len(before), len(whole) - LONGEST_HELD)
        if cut < len(whole):
            self._tails[path] = whole[cut:]
        parts, at = [], len(before)
        for secret in self._finder.find(whole[:cut]):
            if secret.end > len(before):
                start = max(secret.start, len(before))
                parts += [whole[at:start], name(whole[start : secret.end], secret.kind)]
                at = secret.end
        self._before[path] = whole[:cut][-REMEMBERED:]
        return "".join([*parts, whole[at:cut]])

    def _find_cut(self, text: str) -> int:
        """Return the position where a possible beginning of a secret begins."""
        cut, since = len(text), max(0, len(text) - LONGEST_HELD)
        begun = text.rfind("-----BEGIN ")
        if begun >= 0 and "-----END" not in text[begun:]:
            cut = begun
        last = text[since:]
        tail = last[len(last.rstrip(_TAIL)) :]
        if len(tail) >= SHORTEST_RUN or (tail and any(anchor in tail for anchor in _ANCHORS)):
            cut = min(cut, len(text) - len(tail))
        for open_end in _list_open_ends(last):
            match = open_end.search(text, since)
            cut = min(cut, match.start()) if match is not None else cut
        if find_words(flatten(last).lower()):
            cut = min(_find_open_member(text, cut), _find_open_word(text, cut))
        cut = min(cut, self._find_known_beginning(text))
        line = text.rfind("\n", 0, cut) + 1
        return line if cut > line and _is_credential_line(text[line:]) else cut

    def _find_known_beginning(self, text: str) -> int:
        for length in range(min(self._longest, len(text)), SHORTEST_OVERLAP - 1, -1):
            if text[-length:] in self._beginnings:
                return len(text) - length
        return len(text)


def _list_open_ends(text: str) -> Iterator[Pattern[str]]:
    """Yield the patterns that can match at the end of this text. Nearly every text has none."""
    if "earer " in text or "asic " in text or "BEARER " in text or "BASIC " in text:
        yield _SCHEME
    if "://" in text:
        yield _ADDRESS
    if text.endswith(_ENDS_DIGITS):
        yield _DIGITS
    if "=" in text:
        yield _OPEN_PARAMETER


def _cache_beginnings(finder: Finder) -> tuple[frozenset[str], int]:
    """Return the beginnings of all known values, cached for all streams until a value is learned: there may be
    thousands.
    """
    known = finder.known
    if finder.beginnings is None or finder.beginnings[0] is not known:
        every = frozenset(chain.from_iterable(map(_beginnings, known)))
        finder.beginnings = known, every, max(map(len, every), default=0)
    return finder.beginnings[1:]


def _beginnings(value: str) -> Iterator[str]:
    """Yield the beginnings of a known value, plain and encoded."""
    data = value.encode("utf-8", "surrogateescape")
    forms = [value, data.hex(), data.hex().upper(), quote(data)]
    for skipped, padding in ((0, b""), (2, b"\0"), (3, b"\0\0")):
        encoded = b64encode(padding + data).decode()[skipped:].rstrip("=")
        forms += [encoded, encoded.replace("+", "-").replace("/", "_")]
    for form in forms:
        for length in range(SHORTEST_OVERLAP, min(len(form), LONGEST_BEGINNING) + 1):
            yield form[:length]


def _find_open_member(text: str, cut: int) -> int:
    if '"' not in text and "'" not in text:
        return cut
    for match in _OPEN_MEMBER.finditer(text, max(0, len(text) - LONGEST_HELD)):
        if is_credential_member(match[2]):
            return min(cut, match.start())
    return cut


def _find_open_word(text: str, cut: int) -> int:
    """Search the last words for the name of a credential: from the name on, they belong to its value."""
    words = text[-LONGEST_WORD:].rsplit(None, MOST_WORDS)
    since = max(0, len(text) - LONGEST_WORD) + (len(words[0]) if len(words) > MOST_WORDS else 0)
    lowered = flatten(text[since:]).lower()
    for word in find_words(lowered):
        at = lowered.find(word)
        while at >= 0 and since + at < cut:
            start = since + at
            while start and since + at - start < LONGEST_NAME and text[start - 1] in IN_NAMES:
                start -= 1
            match = _OPEN_WORD.match(text, start)
            if match is not None and (is_option(match[1]) or (match[2] is None and is_credential_member(match[1]))):
                cut = min(cut, start)
            at = lowered.find(word, at + len(word))
    return cut


def _is_credential_line(line: str) -> bool:
    if ("=" not in line and ":" not in line) or _OPEN_LINE.match(line) is None:
        return False
    name, sign = re.split(r"([:=])", line, maxsplit=1)[:2]
    return is_credential_member(name.strip()) or (sign == "=" and is_credential_parameter(name))


def redact_joined(chunks: Sequence[Any], finder: Finder, name: Name) -> dict[int, Any]:
    """Return the chunks that hold a part of a secret which is split over chunks, redacted, by index."""
    texts: dict[Path, list[tuple[int, str]]] = {}

    def collect(index: int) -> Callable[[Path, str], str]:
        def note(path: Path, text: str) -> str:
            texts.setdefault(path, []).append((index, text))
            return text

        return note

    for index, chunk in enumerate(chunks):
        _map_texts(chunk, (), collect(index))
    changes: dict[int, dict[Path, str]] = {}
    for path, parts in texts.items():
        for index, clean in _redact_parts(parts, finder, name).items():
            changes.setdefault(index, {})[path] = clean
    return {
        index: _map_texts(chunks[index], (), lambda path, text, clean=clean: clean.get(path, text))  # type: ignore[misc]
        for index, clean in changes.items()
    }


def _redact_parts(parts: list[tuple[int, str]], finder: Finder, name: Name) -> dict[int, str]:
    whole = "".join(text for _, text in parts)
    found = finder.find(whole) if len(parts) > 1 else []
    if not found:
        return {}
    starts, at = [], 0
    for _, text in parts:
        starts.append(at)
        at += len(text)
    changed: dict[int, str] = {}
    for secret in reversed(found):
        reached = [
            number
            for number, (start, (_, text)) in enumerate(zip(starts, parts, strict=True))
            if start < secret.end and start + len(text) > secret.start and text
        ]
        stand_in = name(whole[secret.start : secret.end], secret.kind)
        for number in reached:
            index, text = parts[number]
            text, start = changed.get(index, text), starts[number]
            clean = text[: max(0, secret.start - start)] + (stand_in if number == reached[0] else "")
            changed[index] = clean + text[secret.end - start :] if secret.end - start < len(text) else clean
    return changed


def _map_texts(chunk: Any, path: Path, change: Callable[[Path, str], str], left_out: str | None = None) -> Any:
    """Return the chunk with its texts changed. Objects of classes and members named `left_out` are unchanged."""
    kind = type(chunk)
    if kind is str:
        return change(path, chunk)
    if kind is bytes:
        return change(path, chunk.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    if kind is dict:
        return {
            name: item if name == left_out else _map_texts(item, (*path, name), change, left_out)
            for name, item in chunk.items()
        }
    if kind is list or kind is tuple:
        return kind([_map_texts(item, (*path, index), change, left_out) for index, item in enumerate(chunk)])
    return chunk
