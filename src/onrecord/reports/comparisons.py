"""Where two runs part, with the JSON patch (RFC 6902) from the one content to the other."""

from __future__ import annotations

from typing import Any

from onrecord.analysis.compare.patches import json_patch
from onrecord.analysis.diff.results import EventPlace, RunComparison
from onrecord.core.canonical import stored_bytes
from onrecord.errors import InvalidValue
from onrecord.journal.reader import JournalReader
from onrecord.reports.timelines import one_event
from onrecord.store.contract import Store

MOST_PATCHED_BYTES = 1024 * 1024


def comparison_report(comparison: RunComparison, expected: Store, actual: Store) -> dict[str, Any]:
    """`first` has a `patch` besides: None where a side is missing, erased, or too large for one."""
    data = comparison.to_data()
    if comparison.first is not None:
        places = (
            (expected, comparison.expected.namespace, comparison.first.expected),
            (actual, comparison.actual.namespace, comparison.first.actual),
        )
        data["first"]["patch"] = patch_between(*(_content(store, space, place) for store, space, place in places))
    return data


def _content(store: Store, namespace: str, place: EventPlace | None) -> Any:
    """As it is shown alone, with what never counts."""
    return None if place is None else one_event(JournalReader(store, place.run, namespace), place.seq).content


def patch_between(expected: Any, actual: Any) -> list[dict[str, Any]] | None:
    """None where a side is missing, too large for one, or has no canonical form."""
    if expected is None or actual is None:
        return None
    try:
        if len(stored_bytes(expected)) + len(stored_bytes(actual)) > MOST_PATCHED_BYTES:
            return None
        return json_patch(expected, actual)
    except InvalidValue:
        return None  # a stranger's recording may hold what has no canonical form
