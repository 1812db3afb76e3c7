"""A fork is compared as one run with what it shares."""

from __future__ import annotations

from typing import Any

import pytest

import onrecord
from onrecord.analysis.diff.lineage import ForkReader, open_lineage
from onrecord.analysis.diff.runs import compare_runs
from onrecord.runtime.forks.fork import AnotherAnswer, begin_fork
from onrecord.store.memory import MemoryStore


@onrecord.step
def ask(prompt: str) -> str:
    return prompt.upper()


@onrecord.agent(name="asks_three")
def asks_three(first: str) -> list[str]:
    one = ask(first)
    two = ask(f"{one} again")
    return [one, two, ask(f"{two} and again")]


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    asks_three.run("hello", run_id="base", store=store)
    return store


def test_a_fork_without_a_change_did_the_same(store: MemoryStore) -> None:
    for at in range(7):
        asks_three.fork("base", at, fork_id=f"at-{at}", store=store)
        found = compare_runs(store, "base", store, f"at-{at}")
        assert (found.verdict, found.counts["matched"]) == ("same", 7), found.message


def test_a_fork_parts_from_its_parent_where_it_was_changed(store: MemoryStore) -> None:
    asks_three.fork("base", change=AnotherAnswer(4, "other"), fork_id="changed", store=store)
    first = compare_runs(store, "base", store, "changed").first
    assert first is not None
    assert first.expected is not None
    assert first.actual is not None
    assert (first.position, first.expected.run, first.expected.seq) == (4, "base", 4)
    assert (first.actual.run, first.actual.seq) == ("changed", 2), "named where it is kept"
    assert first.reason == "other_answer"


def test_forks_of_one_run_and_forks_of_forks_are_compared(store: MemoryStore) -> None:
    asks_three.fork("base", change=AnotherAnswer(4, "other"), fork_id="one", store=store)
    asks_three.fork("base", change=AnotherAnswer(4, "other"), fork_id="two", store=store)
    asks_three.fork("two", 2, fork_id="below", store=store)
    assert compare_runs(store, "one", store, "two").same
    assert compare_runs(store, "one", store, "below").same
    assert not compare_runs(store, "base", store, "below").same


def test_a_line_has_the_digests_of_a_run_that_was_recorded_so(store: MemoryStore) -> None:
    """What was open where the fork began, and was asked for again, stands where it was asked for first."""
    fork = begin_fork(store, "base", 3, tail="mocked")
    asks_three.resume(fork, store=store)
    line: Any = open_lineage(store, fork, "default")
    assert isinstance(line, ForkReader)
    recorded = [(row.lane_seq, row.prefix) for row in store.scan("default", "base") if row.lane_seq is not None]
    assert [(row.lane_seq, row.prefix) for row in line.line.rows if row.lane_seq is not None] == recorded
