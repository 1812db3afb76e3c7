"""Where two runs part, with the JSON patch (RFC 6902) from the one content to the other."""

from __future__ import annotations

from typing import Any

from onrecord.analysis.compare.excerpts import excerpt
from onrecord.analysis.compare.patches import json_patch
from onrecord.analysis.compare.trees import Difference
from onrecord.analysis.diff.results import EventPlace, RunComparison
from onrecord.core.canonical import stored_bytes
from onrecord.errors import InvalidValue
from onrecord.journal.reader import JournalReader
from onrecord.reports.gists import gist_of_value
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


def difference_report(found: Difference, room: int) -> dict[str, Any]:
    """Return a difference: of texts the words that differ, of other values at most `room` characters."""
    told: dict[str, Any] = {"path": found.path, "kind": found.kind}
    if found.actual_path != found.path:
        told["actual_path"] = found.actual_path
    if found.kind == "changed" and isinstance(found.expected, str) and isinstance(found.actual, str):
        part = excerpt(found.expected, found.actual)
        runs = [run.to_data() for run in part.diff.runs]
        return {**told, "words": runs, "left_out": [part.before, part.after], "goes_on": part.goes_on}
    if found.kind != "added":
        told["was"] = gist_of_value(found.expected, room)
    if found.kind not in ("removed", "moved"):
        told["is"] = gist_of_value(found.actual, room)
    return told
