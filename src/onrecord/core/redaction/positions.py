"""Credentials within a text, by the names before them: JSON in a string, queries and forms, header lines, variables,
elements of XML, lines of YAML, arguments of GraphQL, options of commands.

The text is searched for the few words that such names are made of; only around those is it looked at closely.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from string import ascii_letters, digits

from reenact.core.lazy_patterns import Pattern
from reenact.core.redaction.names import (
    NO_VALUES,
    holds_credential,
    is_credential_header,
    is_credential_member,
    is_credential_parameter,
    is_odd,
    is_option,
    is_secret_variable,
    is_telling,
)
from reenact.core.redaction.placeholders import CREDENTIAL
from reenact.core.redaction.shapes import Span

LONGEST_VALUE = 16_384
LONGEST_WORD = 4096
LONGEST_NAME = 63
WORDS = (
    *(b"pass", b"secret", b"key", b"token", b"authoriz", b"cookie", b"card", b"cvv", b"cvc", b"pwd", b"otp"),
    *(b"bearer",),
)
ASSIGNED_WORDS = (b"sig=", b"signature=", b"credential=", b"credentials=", b"auth=", b"dsn=", b"_pat=")
_ALL_WORDS = WORDS + ASSIGNED_WORDS
# Each of them has one of WORDS in it.
HEADER_WORDS = (b"authoriz", b"cookie", b"api-key", b"apikey", b"api_key", b"-token")
IN_NAMES = frozenset(ascii_letters + digits + "_.-")
_NAME = Pattern(r"[A-Za-z0-9_.-]{1,63}")
_QUOTE_BEFORE = Pattern(r"\\{0,31}[\"']\Z")
# A member of an object that was written as text, and maybe again as text: its quotes have backslashes then, all alike.
_MEMBER = Pattern(
    rf"(?P<quote>\\{{0,31}}[\"'])\s{{0,8}}:\s{{0,8}}(?:\[\s{{0,8}})?"
    rf"(?:(?P=quote)(?P<text>(?s:.){{1,{LONGEST_VALUE}}}?)(?<!\\)(?P=quote)|(?P<number>[0-9\x01]{{3,32}}))"
)
# As Python writes what it shows of an object, and as calls are written.
_KEYWORD = Pattern(
    rf"=(?P<quote>\\{{0,31}}[\"'])(?P<text>[^\n]{{1,{LONGEST_VALUE}}}?)(?<!\\)(?P=quote)",
)
_PARAMETER = Pattern(r"=(?P<text>[^&;#\s\"'<>\\]+|<secret:[^>\s]{1,90}>)")
# A field of a form that was sent in parts: the headers of the part, an empty line, the value.
_FIELD_BEFORE = Pattern(r"[Ff]orm-[Dd]ata;[^\r\n]{0,128}\bname=\"\Z")
_FIELD = Pattern(
    rf"\"[^\r\n]{{0,256}}(?:\r?\n[A-Za-z-]{{1,64}}:[^\r\n]{{0,256}}){{0,4}}\r?\n\r?\n(?P<text>[^\r\n]{{1,{LONGEST_VALUE}}})"
)
_FORM_BODY = Pattern(r"[A-Za-z][A-Za-z0-9_.-]{0,62}=[^\s&]*(?:&[^\s&=]{1,256}=[^\s&]*)*\s{0,4}")
_HEADER = Pattern(r"[ \t]{0,4}:[ \t]{0,8}(?P<text>[^\r\n\"'{\[][^\r\n\"']{3,})")
_VARIABLE = Pattern(r"=(?P<text>[^\s\"']{6,}|\"[^\"\n]{6,}\"|'[^'\n]{6,}')")
_BEGINS_LINE = Pattern(r"(?:^|[\"'\n])[ \t]{0,8}(?:export )?\Z")
_BEGINS_ENTRY = Pattern(r"(?:^|[\"'\n])[ \t]{0,64}(?:-[ \t]{1,4})?\Z")
# What follows is less certain to be one, and is looked at once more (`is_odd`).
_ENTRY = Pattern(
    rf"[ \t]{{0,8}}(?::[ \t]|=)[ \t]{{0,8}}(?P<text>[^\s\"'\\]{{6,{LONGEST_WORD}}})[ \t]{{0,64}}(?=[\r\n\"'\\#]|\Z)"
)
_SAID = Pattern(rf"=(?P<text>[^\s\"'<>&;,)\]}}\\]{{5,{LONGEST_WORD}}}[^\s\"'<>&;,)\]}}\\.:])")
_OPTION = Pattern(rf"(?:=|[ \t]{{1,4}})(?P<quote>\\{{0,31}}[\"'])?(?P<text>[^\s\"'\\]{{6,{LONGEST_WORD}}})")
_ARGUMENT = Pattern(
    rf"[ \t]{{0,8}}[:=][ \t]{{0,8}}(?P<quote>\\{{0,31}}[\"'])(?P<text>[^\s\"'\\]{{1,{LONGEST_WORD}}})(?P=quote)"
)
# A name and a value that are the two items of a list, which is itself in a list.
_PAIR_BEFORE = Pattern(r"[\[(,]\s{0,16}[\[(]\s{0,16}(?P<quote>\\{0,31}[\"'])\Z")
_PAIR = Pattern(
    rf"(?P<quote>\\{{0,31}}[\"'])\s{{0,16}},\s{{0,16}}(?P=quote)(?P<text>(?s:.){{1,{LONGEST_VALUE}}}?)(?<!\\)(?P=quote)"
)
_PAIR_BEHIND = Pattern(r"\s{0,16}[\])]")
_TAG_BEFORE = Pattern(r"<(?:[A-Za-z][A-Za-z0-9_.-]{0,31}:)?\Z")
_ELEMENT = Pattern(
    rf"(?:\s[^<>]{{0,256}})?>\s{{0,64}}(?:<!\[CDATA\[)?(?P<text>[^<>\s]{{1,{LONGEST_WORD}}}?)(?:\]\]>)?\s{{0,64}}<\\{{0,31}}/"
)


def words_in(lowered: bytes) -> list[bytes]:
    """Those of names that the text has at all. `lowered` has a byte for each character, in small letters."""
    return [word for word in (_ALL_WORDS if b"=" in lowered else WORDS) if word in lowered]


def positions_in(text: str, lowered: bytes, words: Iterable[bytes]) -> Iterator[Span]:
    seen = -1
    for word in words:
        at, behind = lowered.find(word), 0
        while at >= 0:
            start = at
            while start and at - start < LONGEST_NAME and text[start - 1] in IN_NAMES:
                start -= 1
            if start != seen:
                seen = start
                span = _after_name(text, start)
                if span is not None:
                    yield span
                    behind = span[1]
            at = lowered.find(word, max(at + len(word), behind))


def has_credential_place(stored: str, lowered: bytes, words: Iterable[bytes]) -> bool:
    """Whether a value, given as it is stored, has a member for credentials or a pair, whatever it holds, or a text
    that may be a form: that is one only as a whole text."""
    has_assignments = "=" in stored
    for word in words:
        at = lowered.find(word)
        while at >= 0:
            end = stored.find('"', at, at + LONGEST_NAME + 2)
            if end >= 0 and stored.startswith((":", ","), end + 1):
                before = stored.rfind('"', max(0, end - LONGEST_NAME - 2), at)
                if before >= 0 and is_credential_member(stored[before + 1 : end]):
                    return True
            end = stored.find("=", at, at + LONGEST_NAME + 1) if has_assignments else -1
            if end >= 0:
                before = stored.rfind('"', max(0, end - LONGEST_NAME - 1), at + 1)
                if before >= 0 and is_credential_parameter(stored[before + 1 : end]):
                    return True
            at = lowered.find(word, at + len(word))
    return False


def _after_name(text: str, start: int) -> Span | None:
    """The credential behind the name that begins here, if it is one that says so."""
    named = _NAME.match(text, start)
    if named is None or named.end() >= len(text):
        return None
    name, end = named[0], named.end()
    follows = text[end]
    if follows in "\\\"'":
        return _quoted(text, name, start, end) if is_credential_member(name) else None
    match = None
    if follows == "=":
        match = _assigned(text, name, start, end)
    elif follows in ": \t>" and (is_credential_member(name) or is_option(name)):
        match = _header(text, name, start, end) or _behind(text, name, start, end)
    if match is None:
        return None
    return match.start("text"), match.start("text") + len(match["text"].rstrip(" \t,")), CREDENTIAL


def _quoted(text: str, name: str, start: int, end: int) -> Span | None:
    """The name has quotes: a field of a form in parts, a member of an object, the first of a pair."""
    if _FIELD_BEFORE.search(text, max(0, start - 160), start) and (field := _FIELD.match(text, end)):
        return field.start("text"), field.end("text"), CREDENTIAL
    match = _MEMBER.match(text, end)
    if match is not None:
        before = _QUOTE_BEFORE.search(text, max(0, start - 32), start)
        if before is None or not before[0].endswith(match["quote"]):
            return None
        group = "text" if match["text"] is not None else "number"
        return (*match.span(group), CREDENTIAL) if holds_credential(name, match["text"]) else None
    match = _PAIR.match(text, end)
    if match is None or _PAIR_BEHIND.match(text, match.end()) is None:
        return None
    before = _PAIR_BEFORE.search(text, max(0, start - 72), start)
    if before is None or before["quote"] != match["quote"] or not holds_credential(name, match["text"]):
        return None
    return *match.span("text"), CREDENTIAL


def _assigned(text: str, name: str, start: int, end: int) -> re.Match[str] | None:
    if start and text[start - 1] in "?&;":
        return _PARAMETER.match(text, end) if is_credential_parameter(name) else None
    if start == 0 and is_credential_parameter(name) and _FORM_BODY.fullmatch(text) is not None:
        value = _PARAMETER.match(text, end)
        if value is not None and ("&" in text or holds_credential(name, value["text"]) or is_telling(value["text"])):
            return value
    is_member = is_credential_member(name)
    quoted = _KEYWORD.match(text, end) if is_member else None
    if quoted is not None:
        return quoted if holds_credential(name, quoted["text"]) else None
    if name.isupper() and is_secret_variable(name) and _BEGINS_LINE.search(text, max(0, start - 24), start):
        return _VARIABLE.match(text, end)
    if is_option(name):
        return _odd(_OPTION.match(text, end))
    return _odd(_SAID.match(text, end)) if is_member else None


def _header(text: str, name: str, start: int, end: int) -> re.Match[str] | None:
    is_written_so = "-" in name or name.isupper() or name[1:].islower()  # `apiKey: string` is no header
    if is_written_so and is_credential_header(name) and _BEGINS_LINE.search(text, max(0, start - 16), start):
        return _HEADER.match(text, end)
    return None


def _behind(text: str, name: str, start: int, end: int) -> re.Match[str] | None:
    """The name has no quotes: an element, an argument, a line of its own, an option."""
    if _TAG_BEFORE.search(text, max(0, start - 34), start) is not None:
        element = _ELEMENT.match(text, end)
        return element if element is not None and holds_credential(name, element["text"]) else None
    if is_option(name):
        return _odd(_OPTION.match(text, end))
    argument = _ARGUMENT.match(text, end)
    if argument is not None:
        is_one = holds_credential(name, argument["text"]) and argument["text"].lower() not in NO_VALUES
        return argument if is_one else None
    return _odd(_ENTRY.match(text, end)) if _BEGINS_ENTRY.search(text, max(0, start - 80), start) else None


def _odd(match: re.Match[str] | None) -> re.Match[str] | None:
    return match if match is not None and is_odd(match["text"]) else None
