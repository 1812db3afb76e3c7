"""Two sequences of tool events compared: what each called, was given and gave back, without its volatile ids.

Each finding says what happened: an event is `missing`, `unexpected`, `reordered` (an equal one stands elsewhere), a
`duplicate` (one more of an event that is there already) or `changed` (the same tool with something else in it, and
where). Sequences that differ always have a finding.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict, deque
from typing import Any, Literal, NamedTuple

from reenact.core.canonical import canonical_bytes
from reenact.errors import InvalidInput
from reenact.replays.comparing.alignment import aligned, hunks_of
from reenact.replays.comparing.interning import Interner
from reenact.replays.comparing.masks import TOOL_EVENT, Masks
from reenact.replays.comparing.trees import TreeDiff, compare_trees, moved_items, tree_digest

ToolFindingKind = Literal["missing", "unexpected", "reordered", "duplicate", "changed"]


class ToolFinding(NamedTuple):
    kind: ToolFindingKind
    name: str
    expected_index: int | None
    actual_index: int | None
    differences: TreeDiff | None = None
    """Of a changed event, without what is masked."""

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
    """`expected` and `actual` are the events as they were compared: masked."""

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
    """None is no events, as an empty list is."""
    chosen = Masks() if masks is None else masks
    left, right = _masked(expected, chosen), _masked(actual, chosen)
    digests = tree_digest(left), tree_digest(right)
    findings = _findings(left, right) if digests[0] != digests[1] else []
    return ToolDiff(left, right, *digests, tuple(findings))


def _masked(events: list[Any] | None, masks: Masks) -> list[Any]:
    if events is not None and not isinstance(events, list):
        raise InvalidInput("tool events are a list", code="bad_tool_events")
    canonical_bytes(events)  # refuses what is not plain, which may have no end
    return [masks.applied(TOOL_EVENT, event) for event in events or []]


def tool_name(event: Any) -> str:
    """What an event is called: its `name` or `tool`, else its kind."""
    if isinstance(event, dict):
        for name in ("name", "tool", "tool_name", "kind", "type"):
            if isinstance(event.get(name), str):
                return str(event[name])
    return ""


def _findings(left: list[Any], right: list[Any]) -> list[ToolFinding]:
    interner = Interner()
    interner.add(left)
    interner.add(right)
    numbers, other_numbers = list(map(interner.number, left)), list(map(interner.number, right))
    hunks = hunks_of(aligned(numbers, other_numbers), len(left), len(right))
    moved = moved_items(hunks, numbers, other_numbers)
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
