"""Compare two plain JSON trees and list the paths where they differ.

Equality is that of the canonical form (key order does not matter, 1 equals 1.0, true does not equal 1), so two trees
differ exactly if their digests do. Lists are aligned: an item inserted in front is one addition, not a change of all
items, and an item at another position in the same list is a move. Replaced items are compared in turn.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from onrecord.analysis.compare.pointers import escape
from onrecord.analysis.compare.sequence_alignment import Hunk, MatchingBlock, align, find_hunks
from onrecord.analysis.compare.subtree_ids import Interner
from onrecord.core.canonical import canonical_bytes
from onrecord.core.hashing import render, value_digest

SHOWN = 8
"""The default number of differences that a result lists. It counts all of them."""

DifferenceKind = Literal["changed", "added", "removed", "moved"]


class Difference(NamedTuple):
    """A path with its expected and actual values.

    `path` is the path in the expected tree and `actual_path` that in the actual one; they differ where list items
    shifted. An added value has the actual path in both, a removed value the expected path.
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
    """The first differences, in the order of the expected tree."""
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
    """Return the digest of a plain tree. `InvalidValue` names the path of a value that is not plain."""
    return render(value_digest(canonical_bytes(tree)))


def compare_trees(expected: Any, actual: Any, *, limit: int | None = SHOWN) -> TreeDiff:
    """Return the first `limit` differences (None: all of them) and their number."""
    expected_digest, actual_digest = tree_digest(expected), tree_digest(actual)
    shown: list[Difference] = []
    total = 0
    if expected_digest != actual_digest:
        for difference in find_differences(expected, actual):
            total += 1
            if limit is None or total <= limit:
                shown.append(difference)
    return TreeDiff(expected_digest, actual_digest, tuple(shown), total)


class _Pair(NamedTuple):
    expected: Any
    actual: Any
    path: str
    actual_path: str


def find_differences(expected: Any, actual: Any) -> Iterator[Difference]:
    """Yield every difference, lazily. Both trees must be plain JSON (already digested)."""
    interner = Interner()
    interner.add(expected)
    interner.add(actual)
    todo: list[_Pair | Difference] = [_Pair(expected, actual, "", "")]
    while todo:
        found = todo.pop()
        if isinstance(found, Difference):
            yield found
        elif interner.number(found.expected) != interner.number(found.actual):
            todo += reversed(_expand_pair(found, interner))


def _expand_pair(pair: _Pair, interner: Interner) -> list[_Pair | Difference]:
    if isinstance(pair.expected, dict) and isinstance(pair.actual, dict):
        return _compare_members(pair)
    if isinstance(pair.expected, list) and isinstance(pair.actual, list):
        return _compare_items(pair, interner)
    return [Difference(pair.path, "changed", pair.expected, pair.actual, pair.actual_path)]


def _compare_members(pair: _Pair) -> list[_Pair | Difference]:
    found: list[_Pair | Difference] = []
    for name, value in pair.expected.items():
        step = "/" + escape(name)
        if name in pair.actual:
            found.append(_Pair(value, pair.actual[name], pair.path + step, pair.actual_path + step))
        else:
            found.append(Difference(pair.path + step, "removed", value, None, pair.path + step))
    for name, value in pair.actual.items():
        if name not in pair.expected:
            path = f"{pair.actual_path}/{escape(name)}"
            found.append(Difference(path, "added", None, value, path))
    return found


def _compare_items(pair: _Pair, interner: Interner) -> list[_Pair | Difference]:
    left, right = pair.expected, pair.actual
    numbers, other_numbers = list(map(interner.number, left)), list(map(interner.number, right))
    hunks = find_hunks(align(numbers, other_numbers), len(left), len(right))
    moved = find_moved_items(hunks, numbers, other_numbers)
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
        found += _compare_replaced_items(pair, gone, new, interner)
    return found


def find_moved_items(hunks: list[Hunk], numbers: list[int], other_numbers: list[int]) -> dict[int, int]:
    """Return the expected and actual positions of items that moved within their list."""
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


def _compare_replaced_items(
    pair: _Pair, gone: list[int], new: list[int], interner: Interner
) -> list[_Pair | Difference]:
    """Pair replaced items for comparison; report the rest as added or removed."""
    found: list[_Pair | Difference] = []
    for i, j in pair_items(pair.expected, pair.actual, gone, new, interner):
        if i is None:
            path = f"{pair.actual_path}/{j}"
            found.append(Difference(path, "added", None, pair.actual[j], path))
        elif j is None:
            path = f"{pair.path}/{i}"
            found.append(Difference(path, "removed", pair.expected[i], None, path))
        else:
            found.append(_Pair(pair.expected[i], pair.actual[j], f"{pair.path}/{i}", f"{pair.actual_path}/{j}"))
    return found


def pair_items(
    left: list[Any], right: list[Any], gone: list[int], new: list[int], interner: Interner
) -> list[tuple[int | None, int | None]]:
    """Pair removed items with the new ones that replace them: one by one if the counts agree, else by similarity."""
    if len(gone) == len(new):
        return list(zip(gone, new, strict=True))
    signatures = [interner.number(_item_signature(left[i])) for i in gone]
    other_signatures = [interner.number(_item_signature(right[j])) for j in new]
    pairs: list[tuple[int | None, int | None]] = []
    at = other_at = 0
    for block in [*align(signatures, other_signatures), MatchingBlock(len(gone), len(new), 0)]:
        pairs += _zip_unequal(gone[at : block.expected], new[other_at : block.actual])
        at, other_at = block.expected + block.length, block.actual + block.length
        pairs += zip(gone[block.expected : at], new[block.actual : other_at], strict=True)
    return pairs


def _zip_unequal(gone: list[int], new: list[int]) -> list[tuple[int | None, int | None]]:
    shared = min(len(gone), len(new))
    pairs: list[tuple[int | None, int | None]] = list(zip(gone[:shared], new[:shared], strict=True))
    pairs += [(i, None) for i in gone[shared:]]
    pairs += [(None, j) for j in new[shared:]]
    return pairs


_NAMING = ("id", "key", "name", "role", "kind", "type")


def _item_signature(value: Any) -> str:
    """Return what an item usually keeps when it changes: its type, member names, and naming members."""
    if isinstance(value, dict):
        called = [f"{name}={value[name]}" for name in _NAMING if isinstance(value.get(name), str)]
        return "object:" + ",".join([*sorted(value), *called])
    return f"{type(value).__name__}:"
