"""The structural difference of two plain JSON trees: a list of places, each with what was and what is there.

Equality is that of the canonical form (the order of keys does not matter, 1 equals 1.0, true does not equal 1), so
two trees differ exactly when their digests do. Lists are aligned: an item put in front is one addition, not a change
of all items; an item that turns up elsewhere in the same list has moved. Items that stand in for each other are
compared in turn.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from reenact.core.canonical import canonical_bytes
from reenact.core.hashing import render, value_digest
from reenact.replays.comparing.alignment import Block, Hunk, aligned, hunks_of
from reenact.replays.comparing.interning import Interner
from reenact.replays.comparing.pointers import escaped

SHOWN = 8
"""How many differences a result lists, unless asked for another number; it counts all of them."""

DifferenceKind = Literal["changed", "added", "removed", "moved"]


class Difference(NamedTuple):
    """`path` leads there in the expected tree, `actual_path` in the actual one: they part where list items shifted.

    What was added has no place in the expected tree, so its `path` is that in the actual one; what was removed
    likewise.
    """

    path: str
    kind: DifferenceKind
    expected: Any
    actual: Any
    actual_path: str

    def to_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"path": self.path, "kind": self.kind}
        if self.actual_path != self.path:
            data["actual_path"] = self.actual_path
        if self.kind != "added":
            data["expected"] = self.expected
        if self.kind != "removed":
            data["actual"] = self.actual
        return data


@dataclasses.dataclass(frozen=True, slots=True)
class TreeDiff:
    expected_digest: str
    actual_digest: str
    differences: tuple[Difference, ...]
    """The first ones, in the order of the expected tree."""
    total: int

    @property
    def equal(self) -> bool:
        return self.total == 0

    def to_data(self) -> dict[str, Any]:
        return {
            "equal": self.equal,
            "expected_digest": self.expected_digest,
            "actual_digest": self.actual_digest,
            "differences": [difference.to_data() for difference in self.differences],
            "total": self.total,
        }


def tree_digest(tree: Any) -> str:
    """The digest of a plain tree; `InvalidValue` names the place of what is not plain."""
    return render(value_digest(canonical_bytes(tree)))


def compare_trees(expected: Any, actual: Any, *, limit: int | None = SHOWN) -> TreeDiff:
    """The first `limit` differences (None: all of them) and how many there are."""
    expected_digest, actual_digest = tree_digest(expected), tree_digest(actual)
    shown: list[Difference] = []
    total = 0
    if expected_digest != actual_digest:
        for difference in differences_of(expected, actual):
            total += 1
            if limit is None or total <= limit:
                shown.append(difference)
    return TreeDiff(expected_digest, actual_digest, tuple(shown), total)


class _Pair(NamedTuple):
    expected: Any
    actual: Any
    path: str
    actual_path: str


def differences_of(expected: Any, actual: Any) -> Iterator[Difference]:
    """All of them, as they are found. For trees whose digests were taken: what is not plain is not looked for."""
    interner = Interner()
    interner.add(expected)
    interner.add(actual)
    todo: list[_Pair | Difference] = [_Pair(expected, actual, "", "")]
    while todo:
        found = todo.pop()
        if isinstance(found, Difference):
            yield found
        elif interner.number(found.expected) != interner.number(found.actual):
            todo += reversed(_looked_into(found, interner))


def _looked_into(pair: _Pair, interner: Interner) -> list[_Pair | Difference]:
    if isinstance(pair.expected, dict) and isinstance(pair.actual, dict):
        return _members(pair)
    if isinstance(pair.expected, list) and isinstance(pair.actual, list):
        return _items(pair, interner)
    return [Difference(pair.path, "changed", pair.expected, pair.actual, pair.actual_path)]


def _members(pair: _Pair) -> list[_Pair | Difference]:
    found: list[_Pair | Difference] = []
    for name, value in pair.expected.items():
        step = "/" + escaped(name)
        if name in pair.actual:
            found.append(_Pair(value, pair.actual[name], pair.path + step, pair.actual_path + step))
        else:
            found.append(Difference(pair.path + step, "removed", value, None, pair.path + step))
    for name, value in pair.actual.items():
        if name not in pair.expected:
            path = f"{pair.actual_path}/{escaped(name)}"
            found.append(Difference(path, "added", None, value, path))
    return found


def _items(pair: _Pair, interner: Interner) -> list[_Pair | Difference]:
    left, right = pair.expected, pair.actual
    numbers, other_numbers = list(map(interner.number, left)), list(map(interner.number, right))
    hunks = hunks_of(aligned(numbers, other_numbers), len(left), len(right))
    moved = moved_items(hunks, numbers, other_numbers)
    arrived = set(moved.values())
    found: list[_Pair | Difference] = []
    for hunk in hunks:
        gone = [i for i in range(hunk.start, hunk.stop) if i not in moved]
        new = [j for j in range(hunk.other_start, hunk.other_stop) if j not in arrived]
        found += [
            Difference(f"{pair.path}/{i}", "moved", left[i], right[moved[i]], f"{pair.actual_path}/{moved[i]}")
            for i in range(hunk.start, hunk.stop)
            if i in moved
        ]
        found += _standing_in(pair, gone, new, interner)
    return found


def moved_items(hunks: list[Hunk], numbers: list[int], other_numbers: list[int]) -> dict[int, int]:
    """Items that are not where they were though an equal one stands elsewhere: from where to where."""
    arrived: defaultdict[int, deque[int]] = defaultdict(deque)
    for hunk in hunks:
        for j in range(hunk.other_start, hunk.other_stop):
            arrived[other_numbers[j]].append(j)
    moved: dict[int, int] = {}
    for hunk in hunks:
        for i in range(hunk.start, hunk.stop):
            if places := arrived.get(numbers[i]):
                moved[i] = places.popleft()
    return moved


def _standing_in(pair: _Pair, gone: list[int], new: list[int], interner: Interner) -> list[_Pair | Difference]:
    """Items that took the place of others are compared with them; the rest came or went."""
    found: list[_Pair | Difference] = []
    for i, j in paired(pair.expected, pair.actual, gone, new, interner):
        if i is None:
            path = f"{pair.actual_path}/{j}"
            found.append(Difference(path, "added", None, pair.actual[j], path))
        elif j is None:
            path = f"{pair.path}/{i}"
            found.append(Difference(path, "removed", pair.expected[i], None, path))
        else:
            found.append(_Pair(pair.expected[i], pair.actual[j], f"{pair.path}/{i}", f"{pair.actual_path}/{j}"))
    return found


def paired(
    left: list[Any], right: list[Any], gone: list[int], new: list[int], interner: Interner
) -> list[tuple[int | None, int | None]]:
    """Which new item stands in for which gone one: as many as there were, one by one; otherwise by their likeness."""
    if len(gone) == len(new):
        return list(zip(gone, new, strict=True))
    looks = [interner.number(_likeness(left[i])) for i in gone]
    other_looks = [interner.number(_likeness(right[j])) for j in new]
    pairs: list[tuple[int | None, int | None]] = []
    at = other_at = 0
    for block in [*aligned(looks, other_looks), Block(len(gone), len(new), 0)]:
        pairs += _in_turn(gone[at : block.expected], new[other_at : block.actual])
        at, other_at = block.expected + block.length, block.actual + block.length
        pairs += zip(gone[block.expected : at], new[block.actual : other_at], strict=True)
    return pairs


def _in_turn(gone: list[int], new: list[int]) -> list[tuple[int | None, int | None]]:
    shared = min(len(gone), len(new))
    pairs: list[tuple[int | None, int | None]] = list(zip(gone[:shared], new[:shared], strict=True))
    pairs += [(i, None) for i in gone[shared:]]
    pairs += [(None, j) for j in new[shared:]]
    return pairs


_NAMING = ("id", "key", "name", "role", "kind", "type")


def _likeness(value: Any) -> str:
    """What is the same of an item that was altered: the names of its members, and what it is called."""
    if isinstance(value, dict):
        called = [f"{name}={value[name]}" for name in _NAMING if isinstance(value.get(name), str)]
        return "object:" + ",".join([*sorted(value), *called])
    return f"{type(value).__name__}:"
