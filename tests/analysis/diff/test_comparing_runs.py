"""Two runs compared: verdicts, first divergences with their reasons, and what became of the rest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.divergences import Op, answer, ask, call, calls, write
from onrecord.analysis.diff.reasons import WORDS
from onrecord.analysis.diff.results import RunComparison
from onrecord.analysis.diff.runs import compare_runs
from onrecord.core.events import ActionDenied, ActionRequested, Cancelled, SignalReceived, WaitCreated
from onrecord.core.hashing import ZERO, render
from onrecord.errors import NotFound
from onrecord.journal.erasure import erase_value
from onrecord.journal.export import export_run
from onrecord.journal.import_file import import_file
from onrecord.journal.journal import Journal
from onrecord.journal.reader import JournalReader
from onrecord.runtime.engine.stops import Divergence
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore

END = [Op("end", "done")]


def compared(first: Sequence[Op], second: Sequence[Op], **more: Any) -> RunComparison:
    store = MemoryStore()
    write(store, "one", first)
    write(store, "two", second)
    return compare_runs(store, "one", store, "two", **more)


def counted(comparison: RunComparison) -> dict[str, int]:
    return {status: count for status, count in comparison.counts.items() if count}


# --- verdicts ---


def test_equal_runs_are_the_same_whatever_they_are_called_and_whenever_they_ran() -> None:
    script = [*calls(range(10)), *calls(range(3), "main>a"), *END]
    comparison = compared(script, script)
    assert comparison.verdict == "same"
    assert comparison.same
    assert comparison.first is None
    assert counted(comparison) == {"matched": 27}
    assert comparison.expected.head != comparison.actual.head, "the two are different chains"
    comparison.raise_if_diverged()


def test_a_run_is_the_same_as_itself_and_as_its_copy(memory: Store, sqlite: Store, tmp_path: Path) -> None:
    write(memory, "one", [*calls(["alpha", "value-to-forget"]), *END])
    export_run(JournalReader(memory, "one"), tmp_path / "one.jsonl")
    import_file(sqlite, tmp_path / "one.jsonl")
    erase_value(memory, "value-to-forget", reason="asked for")
    for other in (memory, sqlite):
        comparison = compare_runs(memory, "one", other, "one")
        assert comparison.verdict == "same", "the chain commits to what is erased"
        assert counted(comparison) == {"matched": 5}


def test_an_unknown_run_is_an_error(memory: Store) -> None:
    write(memory, "one", END)
    for runs in (("one", "none"), ("none", "one"), ("none", "none")):
        with pytest.raises(NotFound):
            compare_runs(memory, runs[0], memory, runs[1])


def test_nothing_against_nothing_is_not_a_pass() -> None:
    comparison = compared([Op("note", 1)], [])
    assert comparison.verdict == "empty"
    assert "both empty" in comparison.message
    with pytest.raises(Divergence) as caught:
        comparison.raise_if_diverged()
    assert caught.value.code == "nothing_to_compare"


@pytest.mark.parametrize(("first", "second", "empty"), [(END, [], "two"), ([], END, "one")])
def test_an_empty_run_is_named(first: list[Op], second: list[Op], empty: str) -> None:
    comparison = compared(first, second)
    assert comparison.verdict == "diverged"
    assert f"run {empty} is empty" in comparison.message
    assert comparison.to_data()["expected"]["empty"] is (empty == "one")


# --- first divergences ---

ALIKE = calls(["alpha", "beta"])
REST = [*calls(["omega", "psi"]), *END]

CAUSES: dict[str, tuple[list[Op], list[Op], str]] = {
    "another input": ([*ALIKE, *call("x"), *REST], [*ALIKE, *call("y"), *REST], "other_input"),
    "another tool": ([*ALIKE, *call("x"), *REST], [*ALIKE, *call("x", tool="fetch"), *REST], "other_tool"),
    "another answer": ([*ALIKE, *call("x"), *REST], [*ALIKE, *call("x", output="new"), *REST], "other_answer"),
    "failed instead": ([*ALIKE, *call("x"), *REST], [*ALIKE, ask("x"), Op("fail", "E"), *REST], "other_error"),
    "another error": (
        [*ALIKE, ask("x"), Op("fail", "D"), *REST],
        [*ALIKE, ask("x"), Op("fail", "E"), *REST],
        "other_error",
    ),
    "one call more": ([*ALIKE, *REST], [*ALIKE, *call("x"), *REST], "extra"),
    "one call less": ([*ALIKE, *call("x"), *REST], [*ALIKE, *REST], "missing"),
    "ended earlier": ([*ALIKE, *REST], [*ALIKE, *END], "ended_earlier"),
    "goes on": ([*ALIKE, *END], [*ALIKE, *REST], "longer"),
    "stops": ([*ALIKE, *REST], ALIKE, "ended_earlier"),
    "stops, the other way round": (ALIKE, [*ALIKE, *REST], "longer"),
    "stops in a lane": ([*ALIKE, *calls([1, 2], "main>a")], [*ALIKE, *calls([1], "main>a")], "ended_earlier"),
    "a lane less": ([*ALIKE, *calls([1], "main>a"), *END], [*ALIKE, *END], "missing"),
    "a lane more": ([*ALIKE, *END], [*ALIKE, *calls([1], "main>a"), *END], "extra"),
    "a shorter lane": ([*ALIKE, *calls([1, 2], "main>a"), *END], [*ALIKE, *calls([1], "main>a"), *END], "missing"),
    "another state": ([*ALIKE, Op("state", 1), *REST], [*ALIKE, Op("state", 2), *REST], "other_state"),
    "another end": ([*ALIKE, Op("end", 1)], [*ALIKE, Op("end", 2)], "other_end"),
    "another kind": ([*ALIKE, Op("state", 1), *END], [*ALIKE, *call("x"), *END], "other_event"),
    "another order": ([*ALIKE, *call("x"), *call("y"), *REST], [*ALIKE, *call("y"), *call("x"), *REST], "other_order"),
    "answers exchanged": (
        [ask("x"), ask("x"), answer(1), answer(1), *END],
        [ask("x"), ask("x"), Op("answer-newest", 1), answer(1), *END],
        "other_order",
    ),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_has_its_own_reason(cause: str) -> None:
    first, second, reason = CAUSES[cause]
    comparison = compared(first, second)
    told = comparison.first
    assert told is not None
    assert told.reason == reason
    assert WORDS[told.reason] in told.message
    assert comparison.verdict == ("reordered" if reason == "other_order" else "diverged")
    for place, digest in ((told.expected, told.expected_hash), (told.actual, told.actual_hash)):
        assert (place is None) == (digest is None)
        assert digest != render(ZERO), "what is not there has no hash"
        assert place is None or (place.position == told.position and place.id)
    assert told.expected_hash != told.actual_hash or reason == "other_order"
    with pytest.raises(Divergence) as caught:
        comparison.raise_if_diverged()
    assert caught.value.code == f"runs_{comparison.verdict}"


def test_reasons_of_kinds_that_scripts_do_not_write(memory: Store) -> None:
    alike = ActionRequested("a", "x", name="search")
    kinds = {
        "other_denial": (alike, ActionDenied("a", {"why": "budget"})),
        "other_signal": (SignalReceived("go", 1), SignalReceived("go", 2)),
        "other_wait": (WaitCreated("w", "mail"), WaitCreated("w", "call")),
        "other_end": (Cancelled("bored"), Cancelled("late")),
    }
    for reason, events in kinds.items():
        for run, event in zip(("one", "two"), events, strict=True):
            Journal.create(memory, f"{reason}-{run}").append(event)
        told = compare_runs(memory, f"{reason}-one", memory, f"{reason}-two").first
        assert told is not None
        assert told.reason == reason


def test_a_different_length_names_side_and_position() -> None:
    told = compared([*ALIKE, *REST], ALIKE).first
    assert told is not None
    assert (told.lane, told.position, told.actual, told.actual_hash) == ("main", 5, None, None)
    assert told.expected is not None
    assert (told.expected.run, told.expected.seq, told.expected.kind) == ("one", 5, "ActionRequested")


def test_the_contents_that_differ_are_told_by_path() -> None:
    told = compared([*ALIKE, *call({"q": {"a": 1}})], [*ALIKE, *call({"q": {"a": 2}})]).first
    assert told is not None
    assert told.differences is not None
    assert told.differences["differences"] == [{"path": "/payload/q/a", "kind": "changed", "expected": 1, "actual": 2}]
    assert told.differences["total"] == 1


def test_what_rules_leave_out_is_not_shown_as_different(memory: Store) -> None:
    for run, asked in (("one", 1), ("two", 2)):
        ops = call({"span": run, "q": asked})
        write(memory, run, ops, volatile=[("ActionRequested", "/payload/span")])
    told = compare_runs(memory, "one", memory, "two").first
    assert told is not None
    assert "/payload/q" in json.dumps(told.differences)
    assert "span" not in json.dumps(told.differences)


def test_only_looking_for_the_first_divergence_reads_nothing_else(memory: Store) -> None:
    write(memory, "one", calls(range(500)))
    write(memory, "two", calls([*range(499), "x"]))
    comparison = compare_runs(memory, "one", memory, "two", align=False)
    assert comparison.verdict == "diverged"
    assert comparison.first is not None
    assert comparison.first.position == 999
    assert (comparison.aligned, comparison.counts, comparison.changes) == (False, {}, [])
    assert comparison.reads["main"] <= 24


# --- the rest ---


def test_the_four_ways_to_differ() -> None:
    first = [*calls(["a", "b", "c", "d", "e", "f"]), *END]
    second = [*calls(["a", "B", "c", "new", "d", "f"]), *END]
    comparison = compared(first, second)
    # b became B and was answered the same, `new` came with its answer, e went with its own.
    assert counted(comparison) == {"matched": 10, "changed": 1, "added": 2, "removed": 2}
    assert [(one.status, one.reason) for one in comparison.changes] == [
        ("changed", "other_input"),
        ("added", "extra"),
        ("added", "extra"),
        ("removed", "missing"),
        ("removed", "missing"),
    ]


def test_what_moved_is_named_as_such() -> None:
    first = [*calls(range(20)), *END]
    second = [*calls([*range(5), *range(6, 15), 5, *range(15, 20)]), *END]
    comparison = compared(first, second)
    assert comparison.verdict == "reordered"
    assert counted(comparison) == {"matched": 39, "moved": 2}
    assert {(one.expected.seq, one.actual.seq) for one in comparison.changes if one.expected and one.actual} == {
        (11, 29),
        (12, 30),
    }


def test_another_interleaving_of_equal_lanes_is_a_reordering() -> None:
    begin = [ask(1, "main>a"), ask(2, "main>a#1")]
    first = [*begin, answer("x", "main>a"), answer("y", "main>a#1"), *END]
    second = [*begin, answer("y", "main>a#1"), answer("x", "main>a"), *END]
    comparison = compared(first, second)
    assert comparison.verdict == "reordered"
    assert counted(comparison) == {"matched": 5}
    told = comparison.first
    assert told is not None
    assert (told.reason, told.lane, told.position) == ("other_order", "", 3)
    assert told.expected is not None
    assert told.actual is not None
    assert (told.expected.lane, told.actual.lane) == ("main>a", "main>a#1")


def test_a_swapped_gather_is_a_reordering() -> None:
    first = [*call("left", "main>a"), *call("right", "main>a#1"), *call("deep", "main>a#1>a"), *END]
    second = [*call("right", "main>a"), *call("left", "main>a#1"), *call("deep", "main>a>a"), *END]
    assert compared(first, second).verdict == "reordered"


def run_of_lanes(lanes: Sequence[Sequence[int]]) -> list[Op]:
    """Each lane asks for its numbers; those that began first have the lower numbers."""
    begun = [ask(values[0], f"main>a#{number}") for number, values in enumerate(lanes, 1)]
    rest = [
        op
        for number, values in enumerate(lanes, 1)
        for op in (answer(values[0], f"main>a#{number}"), *calls(values[1:], f"main>a#{number}"))
    ]
    return [*begun, *rest, *END]


lists_of_lanes = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=3), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(lists_of_lanes.flatmap(lambda lanes: st.tuples(st.just(lanes), st.permutations(lanes))))
def test_lanes_that_began_in_any_other_order_are_a_reordering_at_most(lanes: Any) -> None:
    first, second = lanes
    comparison = compared(run_of_lanes(first), run_of_lanes(second))
    assert comparison.verdict == ("same" if first == second else "reordered")
    assert comparison.counts["matched"] == comparison.expected.events


def test_hundreds_of_lanes_that_begin_alike() -> None:
    lanes = [[0, number] for number in range(150)]
    assert compared(run_of_lanes(lanes), run_of_lanes([*lanes[75:], *lanes[:75]])).verdict == "reordered"
    changed = compared(run_of_lanes(lanes), run_of_lanes([*lanes[75:], *lanes[:74], [0, "new"]]))
    assert counted(changed) == {"matched": 600, "changed": 1}


def test_a_reordering_with_a_change_is_no_mere_reordering() -> None:
    first, second = [*calls([1, 2, 3, 4]), *END], [*calls([3, 1, 2, 5]), *END]
    comparison = compared(first, second)
    assert comparison.verdict == "diverged"
    assert comparison.counts["moved"] == 2
    assert comparison.counts["changed"] == 1


def test_lists_are_bounded_and_totals_are_not() -> None:
    comparison = compared(calls(range(300)), calls(range(1000, 1300)), most_shown=7)
    assert len(comparison.changes) == 7
    assert comparison.changes_in_all == 300
    assert comparison.counts["changed"] == 300
    assert comparison.counts["matched"] == 300, "all answers were the same"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 6), max_size=40), st.lists(st.integers(0, 6), max_size=40))
def test_every_event_of_either_side_has_exactly_one_status(a: list[int], b: list[int]) -> None:
    comparison = compared([*calls(a), *END], [*calls(b), *END])
    counts = comparison.counts
    both = counts["matched"] + counts["changed"] + counts["moved"]
    assert both + counts["removed"] == 2 * len(a) + 1
    assert both + counts["added"] == 2 * len(b) + 1
    assert (comparison.verdict == "same") == (a == b)
    if sorted(a) == sorted(b) and a != b:
        assert comparison.verdict == "reordered"
    assert comparison.changes_in_all == sum(counts.values()) - counts["matched"]


def test_results_are_plain_data() -> None:
    comparison = compared([*ALIKE, *call("x"), *REST], [*ALIKE, *call("y"), *call("z"), *REST])
    data = json.loads(json.dumps(comparison.to_data()))
    assert data["verdict"] == "diverged"
    assert data["first"]["reason"] == "other_input"
    assert data["first"]["expected_hash"].startswith("sha256:")
    assert data["first"]["message"] in data["message"]
    assert data["counts"] == comparison.counts


# --- erased contents ---


def erased_on_one_side(second: Sequence[Op]) -> RunComparison:
    store = MemoryStore()
    write(store, "one", [*calls(["alpha", "value-to-forget", "gamma"]), *END], "left")
    write(store, "two", second, "right")
    erase_value(store, "value-to-forget", "left", reason="asked for")
    return compare_runs(store, "one", store, "two", namespace_a="left", namespace_b="right")


@pytest.mark.parametrize("value", ["value-to-forget", "something else"])
def test_with_an_erased_content_nobody_knows(value: str) -> None:
    comparison = erased_on_one_side([*calls(["alpha", value, "gamma"]), *END])
    assert comparison.verdict == "unknown"
    assert counted(comparison) == {"matched": 6, "unknown": 1}
    told = comparison.first
    assert told is not None
    assert (told.reason, told.position, told.expected_hash) == ("erased", 3, None)
    assert [one.status for one in comparison.changes] == ["unknown"]
    with pytest.raises(Divergence) as caught:
        comparison.raise_if_diverged()
    assert caught.value.code == "contents_erased"


def test_what_differs_behind_an_erased_content_is_found() -> None:
    comparison = erased_on_one_side([*calls(["alpha", "value-to-forget", "other"]), *END])
    assert comparison.verdict == "diverged"
    assert counted(comparison) == {"matched": 5, "unknown": 1, "changed": 1}
    assert comparison.first is not None
    assert (comparison.first.reason, comparison.first.position) == ("other_input", 5)


def test_an_erased_content_in_what_is_aligned_is_unknown_too() -> None:
    comparison = erased_on_one_side([*calls(["first", "alpha", "value-to-forget", "gamma"]), *END])
    assert comparison.verdict == "diverged"
    assert counted(comparison) == {"matched": 6, "unknown": 1, "added": 2}
