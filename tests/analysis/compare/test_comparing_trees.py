"""The difference of two trees, with paths; patches that carry one over into the other."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.soak import SOAK
from onrecord.analysis.compare.patches import apply_patch, json_patch
from onrecord.analysis.compare.sequence_alignment import align, find_hunks
from onrecord.analysis.compare.trees import compare_trees, tree_digest
from onrecord.core.canonical import stored_bytes
from onrecord.errors import InvalidInput, InvalidValue

SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, -0.0, 1.0, 0.5]) | st.sampled_from("ab~/*")
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.sampled_from(["a", "b", "~", "/", ""]), inner),
    max_leaves=25,
)


def found(expected: Any, actual: Any) -> list[tuple[str, str]]:
    return [(each.kind, each.path) for each in compare_trees(expected, actual, limit=None).differences]


def sorted_keys(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: sorted_keys(tree[name]) for name in sorted(tree)}
    return [sorted_keys(item) for item in tree] if isinstance(tree, list) else tree


@pytest.mark.parametrize(
    ("expected", "actual", "kinds"),
    [
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
        (1, True, [("changed", "")]),
        (0, False, [("changed", "")]),
        (None, False, [("changed", "")]),
        ("1", 1, [("changed", "")]),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, [("changed", "/a/b")]),
        ({"a": 1}, {}, [("removed", "/a")]),
        ({}, {"a": None}, [("added", "/a")]),
        ({"a": None}, {}, [("removed", "/a")]),
        ({"a/b~c": 1}, {"a/b~c": 2}, [("changed", "/a~1b~0c")]),
        ([1, 2, 3], [0, 1, 2, 3], [("added", "/0")]),
        ([1, 2, 3], [1, 3], [("removed", "/1")]),
        ([1, 2, 3], [1, 9, 3], [("changed", "/1")]),
        ([1, 2, 3], [3, 1, 2], [("moved", "/2")]),
        ([1, 2], [2, 1], [("moved", "/0")]),
        ([[1, 2], [3]], [[1, 5], [3]], [("changed", "/0/1")]),
        ([], {}, [("changed", "")]),
    ],
)
def test_each_difference_has_its_kind_and_path(expected: Any, actual: Any, kinds: list[tuple[str, str]]) -> None:
    assert found(expected, actual) == kinds


def test_an_item_in_front_is_one_addition_and_a_change_behind_it_is_found_at_both_places() -> None:
    expected = [{"id": name, "text": "old " + name} for name in "abcdef"]
    actual = [{"id": "new", "text": "!"}, *copy.deepcopy(expected)]
    actual[4]["text"] = "other"
    [added, changed] = compare_trees(expected, actual).differences
    assert (added.kind, added.path, added.actual) == ("added", "/0", {"id": "new", "text": "!"})
    assert (changed.kind, changed.path, changed.actual_path) == ("changed", "/3/text", "/4/text")
    assert (changed.expected, changed.actual) == ("old d", "other")


def test_an_item_that_went_and_one_that_was_altered_are_told_apart_by_what_they_are_called() -> None:
    expected = [{"name": "find", "hits": 1}, {"name": "pay", "cents": 5}]
    assert found(expected, [{"name": "pay", "cents": 6}]) == [("removed", "/0"), ("changed", "/1/cents")]


def test_the_first_eight_are_listed_and_all_are_counted() -> None:
    diff = compare_trees({f"k{n}": n for n in range(20)}, {f"k{n}": -n - 1 for n in range(20)})
    assert len(diff.differences) == 8
    assert diff.total == 20
    assert diff.to_data()["total"] == 20
    assert [each.path for each in diff.differences] == [f"/k{n}" for n in range(8)]


def test_the_digests_of_both_sides_are_given_and_are_equal_exactly_when_the_trees_are() -> None:
    diff = compare_trees({"a": [1]}, {"a": [2]})
    assert diff.expected_digest == tree_digest({"a": [1.0]})
    assert diff.actual_digest == tree_digest({"a": [2]})
    assert diff.expected_digest != diff.actual_digest
    assert diff.to_data()["differences"] == [{"path": "/a/0", "kind": "changed", "expected": 1, "actual": 2}]


@given(TREES, TREES)
def test_no_difference_means_equal_digests_and_the_other_way_round(expected: Any, actual: Any) -> None:
    diff = compare_trees(expected, actual, limit=None)
    assert diff.equal == (diff.expected_digest == diff.actual_digest)
    assert diff.total == len(diff.differences)


@given(TREES, TREES)
def test_a_patch_gives_exactly_the_other_tree(expected: Any, actual: Any) -> None:
    before = copy.deepcopy(expected)
    made = apply_patch(expected, json_patch(expected, actual))
    assert stored_bytes(sorted_keys(made)) == stored_bytes(sorted_keys(actual))
    assert stored_bytes(expected) == stored_bytes(before)


@given(st.lists(st.integers(0, 5), max_size=60), st.lists(st.integers(0, 5), max_size=60))
def test_aligned_stretches_are_equal_and_ascend(left: list[int], right: list[int]) -> None:
    i = j = 0
    for block in align(left, right):
        assert block.expected >= i
        assert block.actual >= j
        i, j = block.expected + block.length, block.actual + block.length
        assert left[block.expected : i] == right[block.actual : j]
    assert i <= len(left)
    assert j <= len(right)


@given(st.lists(st.integers(0, 9), max_size=25), st.lists(st.integers(0, 9), max_size=25))
def test_a_small_gap_is_aligned_by_a_longest_common_subsequence(left: list[int], right: list[int]) -> None:
    lengths = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i, number in enumerate(left):
        for j, other in enumerate(right):
            longest = max(lengths[i][j + 1], lengths[i + 1][j])
            lengths[i + 1][j + 1] = lengths[i][j] + 1 if number == other else longest
    assert sum(block.length for block in align(left, right)) == lengths[-1][-1]


def test_long_lists_are_aligned_by_what_is_seldom_and_by_stretches() -> None:
    generator = random.Random(7)
    words = [generator.randrange(50) for _ in range(5000)]
    other = [*words[:1000], 77, *words[1000:3000], *words[3001:]]
    hunks = find_hunks(align(words, other), len(words), len(other))
    assert len(hunks) == 2
    assert sum(hunk.stop - hunk.start + hunk.other_stop - hunk.other_start for hunk in hunks) == 2


def test_long_lists_are_compared_and_patched() -> None:
    count = 100_000 if SOAK else 20_000
    middle = count // 2
    expected = [{"n": n} for n in range(count)]
    actual: list[Any] = [{"n": -1}, *expected]
    actual[middle + 1] = {"n": "other"}
    assert found(expected, actual) == [("added", "/0"), ("changed", f"/{middle}/n")]
    patch = json_patch(expected, actual)
    assert [step["op"] for step in patch] == ["add", "replace"]
    assert apply_patch(expected, patch) == actual
    backwards = expected[::-1]
    assert compare_trees(expected, backwards).total == count - 1
    assert apply_patch(expected, json_patch(expected, backwards)) == backwards


def test_a_deep_tree_is_compared_and_patched() -> None:
    def deep(leaf: Any) -> Any:
        for _ in range(900):
            leaf = [leaf]
        return leaf

    assert found(deep(1), deep(2)) == [("changed", "/0" * 900)]
    patched = apply_patch(deep(1), json_patch(deep(1), deep(2)))
    assert stored_bytes(patched) == stored_bytes(deep(2))


@pytest.mark.parametrize("value", [float("nan"), {1: 2}, (1, 2), {"a": object()}])
def test_what_is_not_plain_is_refused(value: Any) -> None:
    with pytest.raises(InvalidValue):
        compare_trees({"a": 1}, value)
    with pytest.raises(InvalidValue):
        json_patch({"a": 1}, value)


@pytest.mark.parametrize(
    ("tree", "patch", "result"),
    [
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"foo": "bar", "baz": "qux"}),
        ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": [2]}], {"a": [1, [2]]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2]}),
        ({"a": 1}, [{"op": "add", "path": "", "value": 7}], 7),
        ({"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}),
        ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ({"a": 1}, [{"op": "replace", "path": "/a", "value": None}], {"a": None}),
        ({"a": {"x": 1}, "b": {}}, [{"op": "move", "from": "/a/x", "path": "/b/y"}], {"a": {}, "b": {"y": 1}}),
        ({"a": [1, 2, 3]}, [{"op": "move", "from": "/a/0", "path": "/a/2"}], {"a": [2, 3, 1]}),
        ({"a": {"x": []}}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": {"x": []}, "b": {"x": []}}),
        ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
        ({"/": 9}, [{"op": "test", "path": "/~1", "value": 9.0}], {"/": 9}),
        ({"": {"": 1}}, [{"op": "replace", "path": "//", "value": 2}], {"": {"": 2}}),
    ],
)
def test_every_operation_does_what_the_rfc_says(tree: Any, patch: list[dict[str, Any]], result: Any) -> None:
    assert apply_patch(tree, patch) == result


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        ({"op": "test", "path": "/a", "value": True}, "patch_test_failed"),
        ({"op": "test", "path": "/a", "value": "1"}, "patch_test_failed"),
        ({"op": "test", "path": "/nowhere", "value": 1}, "bad_patch"),
        ({"op": "remove", "path": "/list/2"}, "bad_patch"),
        ({"op": "remove", "path": "/list/-"}, "bad_patch"),
        ({"op": "remove", "path": "/list/01"}, "bad_patch"),
        ({"op": "remove", "path": ""}, "bad_patch"),
        ({"op": "add", "path": "/list/3", "value": 1}, "bad_patch"),
        ({"op": "add", "path": "/x/y", "value": 1}, "bad_patch"),
        ({"op": "add", "path": "/a/y", "value": 1}, "bad_patch"),
        ({"op": "add", "path": "/a"}, "bad_patch"),
        ({"op": "replace", "path": "/x", "value": 1}, "bad_patch"),
        ({"op": "move", "from": "/list", "path": "/list/0"}, "bad_patch"),
        ({"op": "copy", "path": "/x"}, "bad_patch"),
        ({"op": "increase", "path": "/a"}, "bad_patch"),
        ({"op": "remove", "path": "a"}, "bad_pointer"),
        ({"op": "remove", "path": "/~2"}, "bad_pointer"),
    ],
)
def test_a_step_that_cannot_be_carried_out_is_refused_by_number(operation: dict[str, Any], code: str) -> None:
    tree = {"a": 1, "list": [1, 2]}
    with pytest.raises(InvalidInput, match="step 1 of the patch") as refusal:
        apply_patch(tree, [{"op": "add", "path": "/b", "value": 1}, operation])
    assert refusal.value.code == code
    assert tree == {"a": 1, "list": [1, 2]}
