"""Compare two sequences of tool events: names, inputs and results, without volatile ids.

An event is `missing`, `unexpected`, `reordered` (an equal one is at another position), a `duplicate` (one more of a
recorded event) or `changed` (the same tool with another input or result). Sequences that differ always have a finding.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict, deque
from typing import Any, Literal, NamedTuple

from onrecord.analysis.compare.masks import TOOL_EVENT, Masks
from onrecord.analysis.compare.sequence_alignment import align, find_hunks
from onrecord.analysis.compare.subtree_ids import Interner
from onrecord.analysis.compare.trees import TreeDiff, compare_trees, find_moved_items, tree_digest
from onrecord.core.canonical import canonical_bytes
from onrecord.errors import InvalidInput

ToolFindingKind = Literal["missing", "unexpected", "reordered", "duplicate", "changed"]


class ToolFinding(NamedTuple):
    kind: ToolFindingKind
    name: str
    expected_index: int | None
    actual_index: int | None
    differences: TreeDiff | None = None
    """The differences of a changed event, without masked fields."""

    def to_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"kind": self.kind, "name": self.name}
        for name in ("expected_index", "actual_index"):
            if getattr(self, name) is not None:
                data[name] = getattr(self, name)
        if self.differences is not None:
            data["differences"] = self.differences.to_data()
        return data


@dataclasses.dataclass(frozen=True, slots=True)
class ToolDiff:
    """The result of a comparison. `expected` and `actual` are the masked events."""

    expected: list[Any]
    actual: list[Any]
    expected_digest: str
    actual_digest: str
    findings: tuple[ToolFinding, ...]

    @property
    def equal(self) -> bool:
        return not self.findings

    def to_data(self) -> dict[str, Any]:
        return {
            "equal": self.equal,
            "expected": len(self.expected),
            "actual": len(self.actual),
            "expected_digest": self.expected_digest,
            "actual_digest": self.actual_digest,
            "findings": [finding.to_data() for finding in self.findings],
        }


def compare_tool_events(expected: list[Any] | None, actual: list[Any] | None, masks: Masks | None = None) -> ToolDiff:
    """Compare two lists of tool events. None means an empty list."""
    chosen = Masks() if masks is None else masks
    left, right = _mask_events(expected, chosen), _mask_events(actual, chosen)
    digests = tree_digest(left), tree_digest(right)
    findings = _find_differences(left, right) if digests[0] != digests[1] else []
    return ToolDiff(left, right, *digests, tuple(findings))


def _mask_events(events: list[Any] | None, masks: Masks) -> list[Any]:
    if events is not None and not isinstance(events, list):
        raise InvalidInput("tool events are a list", code="bad_tool_events")
    canonical_bytes(events)  # refuses values that are not plain, which may be cyclic
    return [masks.applied(TOOL_EVENT, event) for event in events or []]


def tool_name(event: Any) -> str:
    """Return the `name` or `tool` of an event, else its kind."""
    if isinstance(event, dict):
        for name in ("name", "tool", "tool_name", "kind", "type"):
            if isinstance(event.get(name), str):
                return str(event[name])
    return ""


def _find_differences(left: list[Any], right: list[Any]) -> list[ToolFinding]:
    interner = Interner()
    interner.add(left)
    interner.add(right)
    numbers, other_numbers = list(map(interner.number, left)), list(map(interner.number, right))
    hunks = find_hunks(align(numbers, other_numbers), len(left), len(right))
    moved = find_moved_items(hunks, numbers, other_numbers)
    arrived, known = set(moved.values()), set(numbers)
    found = [ToolFinding("reordered", tool_name(left[i]), i, j) for i, j in moved.items()]
    gone = [i for hunk in hunks for i in range(hunk.start, hunk.stop) if i not in moved]
    new: defaultdict[str, deque[int]] = defaultdict(deque)
    for j in (j for hunk in hunks for j in range(hunk.other_start, hunk.other_stop) if j not in arrived):
        if other_numbers[j] in known:
            found.append(ToolFinding("duplicate", tool_name(right[j]), None, j))
        else:
            new[tool_name(right[j])].append(j)
    for i in gone:
        name = tool_name(left[i])
        if new[name]:
            j = new[name].popleft()
            found.append(ToolFinding("changed", name, i, j, compare_trees(left[i], right[j])))
        else:
            found.append(ToolFinding("missing", name, i, None))
    found += [ToolFinding("unexpected", name, None, j) for name, left_over in new.items() for j in left_over]
    return sorted(found, key=_position)


def _position(finding: ToolFinding) -> tuple[int, int]:
    first = finding.actual_index if finding.expected_index is None else finding.expected_index
    return (first or 0, 0 if finding.expected_index is not None else 1)
