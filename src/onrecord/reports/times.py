"""Times as they stand in reports: ISO 8601 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from onrecord.errors import InvalidInput

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def iso_time(microseconds: int) -> str | None:
    """ISO 8601 in UTC; None for a time no calendar has (a stranger may have written it)."""
    try:
        return (_EPOCH + timedelta(microseconds=microseconds)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return None


def microseconds_of(text: str) -> int:
    """The moment that is meant. Without an offset nobody could say which one, so that is refused."""
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            raise ValueError("no offset")
        return (found - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"not a time with its offset from UTC: {text[:80]!r}",
            hint="For example: 2026-01-31T12:00:00Z (in a URL a + is written %2B).",
            code="bad_time",
        ) from None
