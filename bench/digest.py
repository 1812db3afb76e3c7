"""Measure the digest of a 5 KB chat request: exact RFC 8785 against orjson's sorted form, which is not exact."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import orjson
import rfc8785

from bench.measurement import Row, Workplace, measure_interleaved
from onrecord.core.canonical import canonical_bytes

WORDS = "the agent asked for a refund of the order and the tool answered that it was not found in the list "


def make_chat_request() -> dict[str, object]:
    """Return a request of about 5 KB: settings with odd numbers, twenty messages, two tools."""
    messages = [
        {"role": "user" if n % 2 else "assistant", "content": f"{n}: " + (WORDS * 2)[: 150 + n]} for n in range(20)
    ]
    tool = {
        "type": "function",
        "function": {"name": "find", "parameters": {"type": "object", "properties": {"id": {}}}},
    }
    return {
        "model": "gpt-5",
        "temperature": 1.0,
        "top_p": 0.95,
        "max_tokens": 512,
        "messages": messages,
        "tools": [tool] * 2,
    }


def measure_digest(workplace: Workplace) -> Iterator[Row]:
    request = make_chat_request()
    size = len(orjson.dumps(request))
    per_call = 20

    def sorted_orjson(_: int) -> None:
        for _ in range(per_call):
            hashlib.sha256(orjson.dumps(request, option=orjson.OPT_SORT_KEYS)).digest()

    def exact(_: int) -> None:
        for _ in range(per_call):
            hashlib.sha256(canonical_bytes(request)).digest()

    def library(_: int) -> None:
        hashlib.sha256(rfc8785.dumps(request)).digest()

    medians, ratios = measure_interleaved([sorted_orjson, exact, library], workplace.count(2000), rounds=20)
    times = [medians[0].wall_us / per_call, medians[1].wall_us / per_call, medians[2].wall_us]
    yield Row(
        f"digest of a {size / 1000:.1f} KB chat request, exact RFC 8785 + SHA-256",
        f"{ratios[1]:.2f} × ({times[1]:.1f} µs; orjson sorted, inexact {times[0]:.1f} µs; rfc8785 {times[2]:.0f} µs)",
        "≤ 3 ×",
        ratios[1] <= 3,
    )
