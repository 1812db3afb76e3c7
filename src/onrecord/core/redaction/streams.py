"""Secrets that are split over the chunks of a stream.

The agent has each chunk at once. What is written of it ends before anything that may be the beginning of a secret
(`HeldBack`), and goes on with that when the next chunk has shown what it is; at most `LONGEST_HELD` characters wait.
Once the stream is over, all of it is looked through together (`joined`): the first chunk that a secret reaches into has
its placeholder, and the others lose their part of it, so that the chunks begin and end where they did.

Chunks that are objects are looked through place by place: a text that grows does so in the same place of each. Headers
come whole, so nothing of them waits.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from string import ascii_letters, digits
from typing import Any
from urllib.parse import quote

from reenact.core.lazy_patterns import Pattern
from reenact.core.redaction.finding import Finder
from reenact.core.redaction.names import is_credential_member, is_credential_parameter, is_option
from reenact.core.redaction.positions import IN_NAMES, LONGEST_NAME, LONGEST_WORD, words_in
from reenact.core.redaction.shapes import SHORTEST_RUN, flat

LONGEST_HELD = 8192
SHORTEST_OVERLAP = 2
"""A first character gives nothing away, and would hold back every other word."""
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
# Behind the name: `=`, `: "`, `", "` in a pair, `>` of an element, or the space behind an option.
_OPEN_WORD = Pattern(
    r"([A-Za-z-][A-Za-z0-9_.-]{1,62})(?:\\{0,31}[\"']\s{0,8},|[ \t]{0,8}[:=]|(?:\s[^<>]{0,256})?>|([ \t]))"
    r"\s{0,8}(?:<[!\[CDAT]{0,8})?(?:\\{0,31}[\"'])?[^\s\"'<>]{0,4096}+[\"'>]?\s{0,8}(?:<\\{0,31})?\Z"
)
_OPEN_LINE = Pattern(r"(?m)^[ \t]{0,8}[A-Za-z][A-Za-z0-9_-]{2,40}[ \t]{0,4}[:=][^\r\n]{0,8000}\Z")


Name = Callable[[str, str], str]
"""(what was found, its kind) → what stands for it."""


class HeldBack:
    """What of a stream cannot be written yet, by its place in the chunks."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._beginnings: frozenset[str] = frozenset()
        self._longest = 0
        self._before: dict[Path, str] = {}
        """What was written last: a secret may have begun there with what gives nothing away."""
        self._tails: dict[Path, str] = {}

    def feed(self, chunk: Any, name: Name) -> Any:
        """The chunk as far as it may be written, with what was held back of the ones before, and without secrets."""
        self._beginnings, self._longest = _beginnings_of(self._finder)
        return _mapped(chunk, (), lambda path, text: self._fed(path, text, name), left_out=HEADERS)

    def _fed(self, path: Path, text: str, name: Name) -> str:
        before = self._before.get(path, "")
        whole = before + self._tails.pop(path, "") + text
        cut = max(self._cut(whole), len(before), len(whole) - LONGEST_HELD)
        if cut < len(whole):
            self._tails[path] = whole[cut:]
        parts, at = [], len(before)
        for one in self._finder.find(whole[:cut]):
            if one.end > len(before):
                start = max(one.start, len(before))
                parts += [whole[at:start], name(whole[start : one.end], one.kind)]
                at = one.end
        self._before[path] = whole[:cut][-REMEMBERED:]
        return "".join([*parts, whole[at:cut]])

    def _cut(self, text: str) -> int:
        """Where what may be the beginning of a secret begins."""
        cut, since = len(text), max(0, len(text) - LONGEST_HELD)
        begun = text.rfind("-----BEGIN ")
        if begun >= 0 and "-----END" not in text[begun:]:
            cut = begun
        last = text[since:]
        tail = last[len(last.rstrip(_TAIL)) :]
        if len(tail) >= SHORTEST_RUN or (tail and any(one in tail for one in _ANCHORS)):
            cut = min(cut, len(text) - len(tail))
        for open_end in _open_ends(last):
            match = open_end.search(text, since)
            cut = min(cut, match.start()) if match is not None else cut
        if words_in(flat(last).lower()):
            cut = min(_open_member(text, cut), _open_word(text, cut))
        cut = min(cut, self._known_beginning(text))
        line = text.rfind("\n", 0, cut) + 1
        return line if cut > line and _is_credential_line(text[line:]) else cut

    def _known_beginning(self, text: str) -> int:
        for length in range(min(self._longest, len(text)), SHORTEST_OVERLAP - 1, -1):
            if text[-length:] in self._beginnings:
                return len(text) - length
        return len(text)


def _open_ends(text: str) -> Iterator[Pattern[str]]:
    """What the text may end with, by what each of them has: nearly every text has none of it."""
    if "earer " in text or "asic " in text or "BEARER " in text or "BASIC " in text:
        yield _SCHEME
    if "://" in text:
        yield _ADDRESS
    if text.endswith(_ENDS_DIGITS):
        yield _DIGITS
    if "=" in text:
        yield _OPEN_PARAMETER


def _beginnings_of(finder: Finder) -> tuple[frozenset[str], int]:
    """Put together once for all streams, and again when something is learned: there may be thousands."""
    known = finder.known
    if finder.beginnings is None or finder.beginnings[0] is not known:
        every = frozenset(chain.from_iterable(map(_beginnings, known)))
        finder.beginnings = known, every, max(map(len, every), default=0)
    return finder.beginnings[1:]


def _beginnings(value: str) -> Iterator[str]:
    """What a value that is known may begin with, as it is and encoded."""
    data = value.encode("utf-8", "surrogateescape")
    forms = [value, data.hex(), data.hex().upper(), quote(data)]
    for skipped, padding in ((0, b""), (2, b"\0"), (3, b"\0\0")):
        encoded = b64encode(padding + data).decode()[skipped:].rstrip("=")
        forms += [encoded, encoded.replace("+", "-").replace("/", "_")]
    for form in forms:
        for length in range(SHORTEST_OVERLAP, min(len(form), LONGEST_BEGINNING) + 1):
            yield form[:length]


def _open_member(text: str, cut: int) -> int:
    if '"' not in text and "'" not in text:
        return cut
    for match in _OPEN_MEMBER.finditer(text, max(0, len(text) - LONGEST_HELD)):
        if is_credential_member(match[2]):
            return min(cut, match.start())
    return cut


def _open_word(text: str, cut: int) -> int:
    """Looked for only where a name of a credential stands, in the last words: all of them are one with its value."""
    words = text[-LONGEST_WORD:].rsplit(None, MOST_WORDS)
    since = max(0, len(text) - LONGEST_WORD) + (len(words[0]) if len(words) > MOST_WORDS else 0)
    lowered = flat(text[since:]).lower()
    for word in words_in(lowered):
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


def joined(chunks: Sequence[Any], finder: Finder, name: Name) -> dict[int, Any]:
    """Those of the chunks that hold a secret which shows once they are put together, without it; by their index."""
    texts: dict[Path, list[tuple[int, str]]] = {}

    def collect(index: int) -> Callable[[Path, str], str]:
        def note(path: Path, text: str) -> str:
            texts.setdefault(path, []).append((index, text))
            return text

        return note

    for index, chunk in enumerate(chunks):
        _mapped(chunk, (), collect(index))
    changes: dict[int, dict[Path, str]] = {}
    for path, parts in texts.items():
        for index, clean in _clean(parts, finder, name).items():
            changes.setdefault(index, {})[path] = clean
    return {
        index: _mapped(chunks[index], (), lambda path, text, clean=clean: clean.get(path, text))  # type: ignore[misc]
        for index, clean in changes.items()
    }


def _clean(parts: list[tuple[int, str]], finder: Finder, name: Name) -> dict[int, str]:
    whole = "".join(text for _, text in parts)
    found = finder.find(whole) if len(parts) > 1 else []
    if not found:
        return {}
    starts, at = [], 0
    for _, text in parts:
        starts.append(at)
        at += len(text)
    changed: dict[int, str] = {}
    for one in reversed(found):
        reached = [
            number
            for number, (start, (_, text)) in enumerate(zip(starts, parts, strict=True))
            if start < one.end and start + len(text) > one.start and text
        ]
        stand_in = name(whole[one.start : one.end], one.kind)
        for number in reached:
            index, text = parts[number]
            text, start = changed.get(index, text), starts[number]
            clean = text[: max(0, one.start - start)] + (stand_in if number == reached[0] else "")
            changed[index] = clean + text[one.end - start :] if one.end - start < len(text) else clean
    return changed


def _mapped(chunk: Any, path: Path, change: Callable[[Path, str], str], left_out: str | None = None) -> Any:
    """The chunk with its texts changed. Objects of classes are left as they are, and so are members of the name that is
    left out."""
    kind = type(chunk)
    if kind is str:
        return change(path, chunk)
    if kind is bytes:
        return change(path, chunk.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    if kind is dict:
        return {
            name: item if name == left_out else _mapped(item, (*path, name), change, left_out)
            for name, item in chunk.items()
        }
    if kind is list or kind is tuple:
        return kind([_mapped(item, (*path, index), change, left_out) for index, item in enumerate(chunk)])
    return chunk
