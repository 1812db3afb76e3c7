"""Find credentials in a text by the names before them: JSON in a string, queries and forms, header lines, variables,
XML elements, YAML lines, GraphQL arguments, command line options.

A fast search finds the few words that such names contain; only the text around them is matched closely.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from string import ascii_letters, digits

from onrecord.core.lazy_regex import Pattern
from onrecord.core.redaction.names import (
    NO_VALUES,
    holds_credential,
    is_credential_header,
    is_credential_member,
    is_credential_parameter,
    is_distinctive,
    is_option,
    is_secret_variable,
    is_unlike_prose,
)
from onrecord.core.redaction.placeholders import CREDENTIAL
from onrecord.core.redaction.shapes import Span

LONGEST_VALUE = 16_384
LONGEST_WORD = 4096
LONGEST_NAME = 63
WORDS = (
    *(b"pass", b"secret", b"key", b"token", b"authoriz", b"cookie", b"card", b"cvv", b"cvc", b"pwd", b"otp"),
    *(b"bearer",),
)
ASSIGNED_WORDS = (b"sig=", b"signature=", b"credential=", b"credentials=", b"auth=", b"dsn=", b"_pat=")
_ALL_WORDS = WORDS + ASSIGNED_WORDS
# Each of them contains one of WORDS.
HEADER_WORDS = (b"authoriz", b"cookie", b"api-key", b"apikey", b"api_key", b"-token")
IN_NAMES = frozenset(ascii_letters + digits + "_.-")
_NAME = Pattern(r"[A-Za-z0-9_.-]{1,63}")
_QUOTE_BEFORE = Pattern(r"\\{0,31}[\"']\Z")
# A member of an object in JSON text, possibly nested in JSON text again: all its quotes have equal backslashes.
_MEMBER = Pattern(
    rf"(?P<quote>\\{{0,31}}[\"'])\s{{0,8}}:\s{{0,8}}(?:\[\s{{0,8}})?"
    rf"(?:(?P=quote)(?P<text>(?s:.){{1,{LONGEST_VALUE}}}?)(?<!\\)(?P=quote)|(?P<number>[0-9\x01]{{3,32}}))"
)
# A keyword argument, as in Python's `repr` of an object and in calls.
_KEYWORD = Pattern(rf"=(?P<quote>\\{{0,31}}[\"'])(?P<text>[^\n]{{1,{LONGEST_VALUE}}}?)(?<!\\)(?P=quote)")
_PARAMETER = Pattern(r"=(?P<text>[^&;#\s\"'<>\\]+|<secret:[^>\s]{1,90}>)")
# A field of a multipart form: the headers of the part, an empty line, the value.
_FIELD_BEFORE = Pattern(r"[Ff]orm-[Dd]ata;[^\r\n]{0,128}\bname=\"\Z")
_FIELD = Pattern(
    rf"\"[^\r\n]{{0,256}}(?:\r?\n[A-Za-z-]{{1,64}}:[^\r\n]{{0,256}}){{0,4}}\r?\n\r?\n(?P<text>[^\r\n]{{1,{LONGEST_VALUE}}})"
)
_FORM_BODY = Pattern(r"[A-Za-z][A-Za-z0-9_.-]{0,62}=[^\s&]*(?:&[^\s&=]{1,256}=[^\s&]*)*\s{0,4}")
_HEADER = Pattern(r"[ \t]{0,4}:[ \t]{0,8}(?P<text>[^\r\n\"'{\[][^\r\n\"']{3,})")
_VARIABLE = Pattern(r"=(?P<text>[^\s\"']{6,}|\"[^\"\n]{6,}\"|'[^'\n]{6,}')")
_BEGINS_LINE = Pattern(r"(?:^|[\"'\n])[ \t]{0,8}(?:export )?\Z")
_BEGINS_ENTRY = Pattern(r"(?:^|[\"'\n])[ \t]{0,64}(?:-[ \t]{1,4})?\Z")
# The following patterns are less certain: `is_unlike_prose` checks their values.
_ENTRY = Pattern(
    rf"[ \t]{{0,8}}(?::[ \t]|=)[ \t]{{0,8}}(?P<text>[^\s\"'\\]{{6,{LONGEST_WORD}}})[ \t]{{0,64}}(?=[\r\n\"'\\#]|\Z)"
)
_ASSIGNED = Pattern(rf"=(?P<text>[^\s\"'<>&;,)\]}}\\]{{5,{LONGEST_WORD}}}[^\s\"'<>&;,)\]}}\\.:])")
_OPTION = Pattern(rf"(?:=|[ \t]{{1,4}})(?P<quote>\\{{0,31}}[\"'])?(?P<text>[^\s\"'\\]{{6,{LONGEST_WORD}}})")
_ARGUMENT = Pattern(
    rf"[ \t]{{0,8}}[:=][ \t]{{0,8}}(?P<quote>\\{{0,31}}[\"'])(?P<text>[^\s\"'\\]{{1,{LONGEST_WORD}}})(?P=quote)"
)
# A name and a value as a list of two items within another list.
_PAIR_BEFORE = Pattern(r"[\[(,]\s{0,16}[\[(]\s{0,16}(?P<quote>\\{0,31}[\"'])\Z")
_PAIR = Pattern(
    rf"(?P<quote>\\{{0,31}}[\"'])\s{{0,16}},\s{{0,16}}(?P=quote)(?P<text>(?s:.){{1,{LONGEST_VALUE}}}?)(?<!\\)(?P=quote)"
)
_PAIR_AFTER = Pattern(r"\s{0,16}[\])]")
_TAG_BEFORE = Pattern(r"<(?:[A-Za-z][A-Za-z0-9_.-]{0,31}:)?\Z")
_ELEMENT = Pattern(
    rf"(?:\s[^<>]{{0,256}})?>\s{{0,64}}(?:<!\[CDATA\[)?(?P<text>[^<>\s]{{1,{LONGEST_WORD}}}?)(?:\]\]>)?\s{{0,64}}<\\{{0,31}}/"
)


def find_words(lowered: bytes) -> list[bytes]:
    """Return the credential words that occur in the lower-cased text (one byte per character)."""
    return [word for word in (_ALL_WORDS if b"=" in lowered else WORDS) if word in lowered]


def find_positions(text: str, lowered: bytes, words: Iterable[bytes]) -> Iterator[Span]:
    seen = -1
    for word in words:
        at, searched = lowered.find(word), 0
        while at >= 0:
            start = at
            while start and at - start < LONGEST_NAME and text[start - 1] in IN_NAMES:
                start -= 1
            if start != seen:
                seen = start
                span = _find_after_name(text, start)
                if span is not None:
                    yield span
                    searched = span[1]
            at = lowered.find(word, max(at + len(word), searched))


def has_credential_position(stored: str, lowered: bytes, words: Iterable[bytes]) -> bool:
    """Return True if a stored value has a member or pair for credentials, or a text that may be a form.

    A form can be recognised only as a whole text.
    """
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


def _find_after_name(text: str, start: int) -> Span | None:
    """Return the credential after the name that begins here, if the name is one of a credential."""
    named = _NAME.match(text, start)
    if named is None or named.end() >= len(text):
        return None
    name, end = named[0], named.end()
    follows = text[end]
    if follows in "\\\"'":
        return _match_quoted(text, name, start, end) if is_credential_member(name) else None
    match = None
    if follows == "=":
        match = _match_assigned(text, name, start, end)
    elif follows in ": \t>" and (is_credential_member(name) or is_option(name)):
        match = _match_header(text, name, start, end) or _match_unquoted(text, name, start, end)
    if match is None:
        return None
    return match.start("text"), match.start("text") + len(match["text"].rstrip(" \t,")), CREDENTIAL


def _match_quoted(text: str, name: str, start: int, end: int) -> Span | None:
    """Match after a quoted name: a field of a multipart form, a member of an object, or the first item of a pair."""
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
    if match is None or _PAIR_AFTER.match(text, match.end()) is None:
        return None
    before = _PAIR_BEFORE.search(text, max(0, start - 72), start)
    if before is None or before["quote"] != match["quote"] or not holds_credential(name, match["text"]):
        return None
    return *match.span("text"), CREDENTIAL


def _match_assigned(text: str, name: str, start: int, end: int) -> re.Match[str] | None:
    if start and text[start - 1] in "?&;":
        return _PARAMETER.match(text, end) if is_credential_parameter(name) else None
    if start == 0 and is_credential_parameter(name) and _FORM_BODY.fullmatch(text) is not None:
        value = _PARAMETER.match(text, end)
        if value is not None and (
            "&" in text or holds_credential(name, value["text"]) or is_distinctive(value["text"])
        ):
            return value
    is_member = is_credential_member(name)
    quoted = _KEYWORD.match(text, end) if is_member else None
    if quoted is not None:
        return quoted if holds_credential(name, quoted["text"]) else None
    if name.isupper() and is_secret_variable(name) and _BEGINS_LINE.search(text, max(0, start - 24), start):
        return _VARIABLE.match(text, end)
    if is_option(name):
        return _require_unusual(_OPTION.match(text, end))
    return _require_unusual(_ASSIGNED.match(text, end)) if is_member else None


def _match_header(text: str, name: str, start: int, end: int) -> re.Match[str] | None:
    is_written_so = "-" in name or name.isupper() or name[1:].islower()  # `apiKey: string` is no header
    if is_written_so and is_credential_header(name) and _BEGINS_LINE.search(text, max(0, start - 16), start):
        return _HEADER.match(text, end)
    return None


def _match_unquoted(text: str, name: str, start: int, end: int) -> re.Match[str] | None:
    """Match after an unquoted name: an element, an argument, a line of its own, or an option."""
    if _TAG_BEFORE.search(text, max(0, start - 34), start) is not None:
        element = _ELEMENT.match(text, end)
        return element if element is not None and holds_credential(name, element["text"]) else None
    if is_option(name):
        return _require_unusual(_OPTION.match(text, end))
    argument = _ARGUMENT.match(text, end)
    if argument is not None:
        is_one = holds_credential(name, argument["text"]) and argument["text"].lower() not in NO_VALUES
        return argument if is_one else None
    return _require_unusual(_ENTRY.match(text, end)) if _BEGINS_ENTRY.search(text, max(0, start - 80), start) else None


def _require_unusual(match: re.Match[str] | None) -> re.Match[str] | None:
    return match if match is not None and is_unlike_prose(match["text"]) else None
