"""What stands in a record for a secret: `<secret:KIND>`, `<secret:KIND:N>` or `<secret:KIND:SEQ.N>`.

The kind says what was there, the number tells different secrets apart. Without a number it stands at a place that is
known by its name (a password, an authorisation header): only that there was one counts there, never which.
"""

from __future__ import annotations

from reenact.core.lazy_patterns import Pattern

MARK = "<secret:"
_LESS, _COLON, _MORE = (
    rf"(?:{sign}|%{code}|%{code.lower()}|\\u00{code}|\\u00{code.lower()})"
    for sign, code in (("<", "3C"), (":", "3A"), (">", "3E"))
)
# Also as it looks once it was sent in an address, or written as JSON by those who escape such signs.
PLACEHOLDER = Pattern(
    rf"{_LESS}secret{_COLON}([a-z][a-z0-9_.]{{0,62}})(?:{_COLON}([0-9]{{1,12}}(?:\.[0-9]{{1,9}})?))?{_MORE}"
)
CREDENTIAL = "credential"
ENVIRONMENT = "env"
COMPRESSED = "gzip"
"""Bytes with secrets in them that only show once they are unpacked."""


def placeholder(kind: str, number: str = "") -> str:
    return f"{MARK}{kind}:{number}>" if number else f"{MARK}{kind}>"


def kind_of_placeholder(text: str) -> str | None:
    """The kind, if the whole text is a placeholder."""
    match = PLACEHOLDER.fullmatch(text)
    return match[1] if match is not None else None
