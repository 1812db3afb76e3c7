"""How times, sizes and states are said on a page. Pure, and without any markup."""

from __future__ import annotations

from typing import Any

__all__ = ["amount", "clock_time", "cost", "day_time", "size", "status_word"]

_STATUS_WORDS = {"in_doubt": "in doubt"}


def status_word(status: str) -> str:
    return _STATUS_WORDS.get(status, status)


def day_time(iso: str | None) -> str:
    """`2026-11-16 12:04:05`: to the second, in UTC, as it was recorded."""
    return "" if iso is None else iso[:19].replace("T", " ")


def clock_time(iso: str | None) -> str:
    """`12:04:05.123`."""
    return "" if iso is None else iso[11:23].rstrip("Z")


def amount(number: Any) -> str:
    return f"{number:,}" if isinstance(number, int) else str(number)


def cost(dollars: float | None) -> str:
    if dollars is None:
        return ""
    return f"${dollars:,.2f}" if dollars >= 1 else f"${dollars:.4f}"


def size(count: int) -> str:
    value = float(count)
    for unit in ("B", "KB", "MB"):
        if value < 1024 or unit == "MB":
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")
