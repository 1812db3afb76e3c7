"""Placeholders replace secrets in a record: `<secret:KIND>`, `<secret:KIND:N>` or `<secret:KIND:SEQ.N>`.

The kind says what was replaced; the number distinguishes secrets. A placeholder without a number is at a position that
is known by its name (a password, an authorisation header): which secret was there takes no part in matching.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onrecord.core.lazy_regex import Pattern

MARK = "<secret:"
_LESS, _COLON, _MORE = (
    rf"(?:{sign}|%{code}|%{code.lower()}|\\u00{code}|\\u00{code.lower()})"
    for sign, code in (("<", "3C"), (":", "3A"), (">", "3E"))
)
# Also matches the placeholder in a URL and in JSON that escapes such characters.
PLACEHOLDER = Pattern(
    rf"{_LESS}secret{_COLON}([a-z][a-z0-9_.]{{0,62}})(?:{_COLON}([0-9]{{1,12}}(?:\.[0-9]{{1,9}})?))?{_MORE}"
)
CREDENTIAL = "credential"
ENVIRONMENT = "env"
COMPRESSED = "gzip"
"""The kind of compressed bytes that hold secrets."""


def placeholder(kind: str, number: str = "") -> str:
    return f"{MARK}{kind}:{number}>" if number else f"{MARK}{kind}>"


def made_placeholders(originals: Mapping[str, Any]) -> list[str]:
    """Return the placeholders that replace a secret. One that replaces a placeholder is the user's own text."""
    return sorted(
        name
        for name, original in originals.items()
        if type(original) is not str or PLACEHOLDER.fullmatch(original) is None
    )


def kind_of_placeholder(text: str) -> str | None:
    """Return the kind if the whole text is a placeholder, else None."""
    match = PLACEHOLDER.fullmatch(text)
    return match[1] if match is not None else None
