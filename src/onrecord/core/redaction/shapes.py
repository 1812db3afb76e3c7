"""Recognise secrets by their shape: provider keys, tokens, private keys, card numbers.

A few fast searches (`find_runs`, `may_hold_card`) exclude nearly every text. Otherwise each pattern is tried only where
the text contains the beginning of its secrets.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as BinasciiError
from collections.abc import Iterator

from onrecord.core.lazy_regex import Pattern

SHORTEST_RUN = 16
"""Every key, token and encoded form has at least this many characters of the base64 alphabets in a row."""
LONGEST_PASSWORD = 256
_WORD = "A-Za-z0-9_-"

SHAPES = {
    "private_key": r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END[A-Z0-9 ]{1,60}-----|\Z)",
    "jwt": rf"(?<![{_WORD}])eyJ[{_WORD}]{{8,}}\.[{_WORD}]{{8,}}\.[{_WORD}]*",
    "provider_key": rf"(?<![A-Za-z0-9])(?:sk-(?=[{_WORD}]{{0,400}}[0-9])[{_WORD}]{{16,400}}"
    r"|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/]{24,}|gsk_[A-Za-z0-9]{40,}|xai-[A-Za-z0-9]{40,}"
    r"|hf_[A-Za-z0-9]{30,}|r8_[A-Za-z0-9]{30,}|pplx-[A-Za-z0-9]{40,}|npm_[A-Za-z0-9]{36}"
    rf"|pypi-AgEI[{_WORD}]{{40,}}|dop_v1_[a-f0-9]{{64}}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{{32}}"
    rf"|SG\.[{_WORD}]{{16,64}}\.[{_WORD}]{{16,128}})",
    "google_key": rf"(?<![{_WORD}])(?:AIza[{_WORD}]{{35}}(?![{_WORD}])|ya29\.[{_WORD}]{{20,}})",
    "github_token": r"(?<![A-Za-z0-9_])(?:gh[opusr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{22,})"
    rf"|(?<![A-Za-z0-9_])glpat-[{_WORD}]{{20,}}",
    "slack_token": r"(?<![A-Za-z0-9])(?:xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,})",
    "aws_key": r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
}
_COMPILED = {kind: Pattern(shape) for kind, shape in SHAPES.items()}
_ANCHORS = {
    "private_key": ("-----BEGIN ",),
    "jwt": ("eyJ",),
    "provider_key": (
        *("sk-", "sk_live_", "rk_live_", "sk_test_", "rk_test_", "whsec_", "gsk_", "xai-", "hf_", "r8_", "pplx-"),
        *("npm_", "pypi-A", "dop_v1_", "shp", "SG."),
    ),
    "google_key": ("AIza", "ya29."),
    "github_token": ("gho_", "ghp_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
    "slack_token": ("xox", "xapp-"),
    "aws_key": ("AKIA", "ASIA", "ABIA", "ACCA"),
}
"""The beginnings of each kind."""
_KIND_OF = {anchor: kind for kind, anchors in _ANCHORS.items() for anchor in anchors}
_ACROSS_RUNS = ("-----BEGIN ", "SG.", "ya29.")
_IN_RUNS = Pattern("|".join(re.escape(anchor) for anchor in _KIND_OF if anchor not in _ACROSS_RUNS))
_BEARER = Pattern(
    r"\b(?:[Bb]earer|BEARER) +(?P<bearer>(?=[^\s\"']{0,400}[0-9=])[A-Za-z0-9._~+/-]{8,}=*)"
    r"|\b(?:[Bb]asic|BASIC) +(?P<basic>[A-Za-z0-9+/]{8,}={0,2})"
)
_URL_PASSWORD = Pattern(rf"://[^\s/:@\"'<>]{{0,256}}:(?P<url_password>[^\s/@\"'<>]{{1,{LONGEST_PASSWORD}}})@")
_CARD = Pattern(r"(?<![0-9A-Za-z_.-])[2-6](?:[ -]?[0-9]){12,18}(?![0-9A-Za-z_]|[.-][0-9])")
_ISSUERS = Pattern(
    r"4(?:[0-9]{12}|[0-9]{15}|[0-9]{18})|5[1-5][0-9]{14}|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720)[0-9]{12,14}"
    r"|3[47][0-9]{13}|3(?:0[0-5]|[68])[0-9]{11,12}|35[0-9]{14}|6(?:011|5|4[4-9]|2)[0-9]{12,17}"
)

_RUNS = bytes(97 if chr(one).isascii() and (chr(one).isalnum() or chr(one) in "+/_-") else 32 for one in range(256))
_DIGITS = bytes(48 if 48 <= one < 58 else 32 for one in range(256))
_RUN = b"a" * SHORTEST_RUN
_CARD_RUN = b"0" * 13

Span = tuple[int, int, str]
"""(start, end, kind)"""


def flatten(text: str) -> bytes:
    """Return one byte for each character, for the fast searches."""
    return text.encode("ascii", "replace")


def may_hold_card(flattened: bytes) -> bool:
    return _CARD_RUN in flattened.translate(_DIGITS, b" -")


def find_runs(flattened: bytes) -> list[tuple[int, int]]:
    """Return the spans with at least SHORTEST_RUN characters of the base64 alphabets in a row."""
    marked, found = flattened.translate(_RUNS), []
    at = marked.find(_RUN)
    while at >= 0:
        end = marked.find(b" ", at)
        end = len(marked) if end < 0 else end
        found.append((at, end))
        at = marked.find(_RUN, end)
    return found


def find_shapes(text: str, runs: list[tuple[int, int]]) -> Iterator[Span]:
    for start, end in runs:
        run = text[start:end]
        if "-" not in run and "_" not in run and not _has_bare_anchor(run):
            continue
        for anchor in _IN_RUNS.finditer(text, start, end):
            yield from _match_shape(_KIND_OF[anchor[0]], text, anchor.start())
    for anchored in _ACROSS_RUNS:
        at = text.find(anchored) if runs else -1
        while at >= 0:
            after = at + len(anchored)
            for span in _match_shape(_KIND_OF[anchored], text, at):
                yield span
                after = span[1]
            at = text.find(anchored, after)


def _has_bare_anchor(run: str) -> bool:
    """Return True if the run contains an anchor without `-` and `_`. All others within a run have one of them."""
    if "eyJ" in run:
        return True
    return "A" in run and ("AIza" in run or "AKIA" in run or "ASIA" in run or "ABIA" in run or "ACCA" in run)


def _match_shape(kind: str, text: str, at: int) -> Iterator[Span]:
    match = _COMPILED[kind].match(text, at)
    if match is not None:
        yield match.start(), match.end(), kind


def find_schemes(text: str, lowered: bytes) -> Iterator[Span]:
    """Yield the credentials after the name of an authorisation scheme, and the passwords of URLs."""
    if b"bearer " in lowered or b"basic " in lowered:
        for match in _BEARER.finditer(text):
            kind = match.lastgroup or ""
            if kind == "bearer" or _is_user_and_password(match["basic"]):
                yield match.start(kind), match.end(kind), kind
    if b"@" in lowered and b"://" in lowered:
        for match in _URL_PASSWORD.finditer(text):
            yield match.start("url_password"), match.end("url_password"), "url_password"


def _is_user_and_password(encoded: str) -> bool:
    try:
        decoded = b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (BinasciiError, ValueError):
        return False
    return b":" in decoded and decoded.isascii() and decoded.decode("ascii").isprintable()


def find_cards(text: str) -> Iterator[Span]:
    """Yield the card numbers of a text that `may_hold_card`."""
    for match in _CARD.finditer(text):
        digits = match[0].replace(" ", "").replace("-", "")
        if _ISSUERS.fullmatch(digits) is not None and passes_luhn(digits):
            yield match.start(), match.end(), "card"


def passes_luhn(digits: str) -> bool:
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = ord(digit) - 48
        if place % 2:
            value = value * 2 - 9 if value > 4 else value * 2
        total += value
    return total % 10 == 0
