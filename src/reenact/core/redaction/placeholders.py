"""What stands in a record for a secret: `<secret:KIND>`, `<secret:KIND:N>` or `<secret:KIND:SEQ.N>`.

The kind says what was there, the number tells different secrets apart. Without a number it stands at a place that is
known by its name (a password, an authorisation header): only that there was one counts there, never which.
"""

from __future__ import annotations

import re

MARK = "<secret:"
PLACEHOLDER = re.compile(r"<secret:([a-z][a-z0-9_.]{0,62})(?::([0-9]{1,12}(?:\.[0-9]{1,9})?))?>")
CREDENTIAL = "credential"
ENVIRONMENT = "env"


def placeholder(kind: str, number: str = "") -> str:
    return f"{MARK}{kind}:{number}>" if number else f"{MARK}{kind}>"


def kind_of_placeholder(text: str) -> str | None:
    """The kind, if the whole text is a placeholder."""
    match = PLACEHOLDER.fullmatch(text)
    return match[1] if match is not None else None
