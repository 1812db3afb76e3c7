"""What a file says of two runs besides their recordings: the rows of the comparison, each with what differs in it."""

from __future__ import annotations

from typing import Any

from onrecord.errors import OnrecordError
from onrecord.journal.reader import JournalReader
from onrecord.reports.json_text import json_bytes
from onrecord.reports.side_by_side import CHANGES, Side, event_difference, side_by_side

DETAILS_ROOM = 2 * 1024 * 1024
"""Bytes of details in one file; rows behind that are without. Their contents are in the recordings all the same."""
_LEFT_OUT = ("changes", "first", "reads")
"""The rows say it again."""


def comparison_of(expected: Side, actual: Side, *, limit: int = CHANGES) -> dict[str, Any]:
    compared = side_by_side(expected, actual, limit=limit)
    details: dict[str, Any] = {}
    room = DETAILS_ROOM
    for row in compared["rows"]:
        if row["row"] != "change" or row["expected"] is None or row["actual"] is None or room <= 0:
            continue
        try:
            detail = event_difference(*_event(expected, row["expected"]), *_event(actual, row["actual"]))
        except OnrecordError:
            continue  # the row stands without it
        details[str(row["number"])] = detail
        room -= len(json_bytes(detail))
    return {
        "comparison": {name: value for name, value in compared.items() if name not in _LEFT_OUT},
        "details": details,
    }


def _event(side: Side, place: dict[str, Any]) -> tuple[JournalReader, int]:
    return JournalReader(side.store, place["run"], side.namespace), place["seq"]
