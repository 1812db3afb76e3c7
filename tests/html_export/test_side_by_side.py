"""Rows of two runs: every event of either is in one of them, whatever the runs did."""

from __future__ import annotations

import random
from typing import Any

import pytest

import onrecord
from kit.shared_runs import record_two, say, support
from onrecord.core.events import BEHAVIOURAL_KINDS
from onrecord.journal.reader import JournalReader
from onrecord.reports.side_by_side import Side, event_difference, side_by_side
from onrecord.store.contract import Store


@onrecord.agent
def told(words: list[Any]) -> int:
    for word in words:
        say(word)
    return len(words)


def compared(store: Store, one: str, other: str, **options: int) -> dict[str, Any]:
    return side_by_side(Side(store, one, "default"), Side(store, other, "default"), **options)


def behaviour(store: Store, run: str) -> list[int]:
    return [row.seq for row in store.scan("default", run) if row.kind in BEHAVIOURAL_KINDS]


def counted(rows: list[dict[str, Any]], side: str) -> int:
    return sum(row["count"] if row["row"] == "same" else row[side] is not None for row in rows)


@pytest.mark.parametrize("seed", range(12))
def test_every_event_is_in_one_row(store: Store, seed: int) -> None:
    chance = random.Random(seed)
    words = [chance.randrange(6) for _ in range(chance.randrange(1, 30))]
    others = list(words)
    for _ in range(chance.randrange(6)):
        at = chance.randrange(len(others) + 1)
        others[at : at + chance.randrange(3)] = [chance.randrange(9) for _ in range(chance.randrange(3))]
    told.run(words, run_id="a", store=store)
    told.run(others, run_id="b", store=store)
    report = compared(store, "a", "b")
    rows = report["rows"]
    changes = [row for row in rows if row["row"] == "change"]
    assert [row["number"] for row in changes] == list(range(1, len(changes) + 1))
    assert sorted(row["change"] for row in changes) == list(range(report["changes_in_all"]))
    assert counted(rows, "expected") == len(behaviour(store, "a"))
    assert counted(rows, "actual") == len(behaviour(store, "b"))
    assert sum(row["count"] for row in rows if row["row"] == "same") == report["counts"]["matched"]
    for side, run in (("expected", "a"), ("actual", "b")):
        named = [row[side]["seq"] for row in changes if row[side] is not None]
        assert len(named) == len(set(named))
        assert set(named) <= set(behaviour(store, run))
    if report["first"] is not None:
        first = next(row for row in changes if row["number"] == report["first_number"])
        places = {(side, first[side]["seq"]) for side in ("expected", "actual") if first[side] is not None}
        wanted = {(side, report["first"][side]["seq"]) for side in ("expected", "actual") if report["first"][side]}
        assert places & wanted


def test_a_fork_is_compared_with_all_that_it_shares(store: Store) -> None:
    record_two(store)
    support.fork(
        "first", change=onrecord.AnotherAnswer(4, {"role": "assistant", "content": "no"}), fork_id="f", store=store
    )
    report = compared(store, "first", "f")
    assert report["rows"][0]["row"] == "same"
    assert report["rows"][0]["actual"][0] == {"run": "first", "seq": 1}, "it is kept in the run that it comes from"
    assert counted(report["rows"], "expected") == report["expected"]["events"]
    assert counted(report["rows"], "actual") == report["actual"]["events"]


def test_long_texts_are_told_by_the_words_that_differ(store: Store) -> None:
    told.run(["word " * 100_000 + "end"], run_id="a", store=store)
    told.run(["word " * 50_000 + "other " + "word " * 50_000 + "end"], run_id="b", store=store)
    difference = event_difference(JournalReader(store, "a"), 1, JournalReader(store, "b"), 1)
    (one,) = difference["differences"]
    assert one["left_out"][0] > 200_000
    assert sum(len(run["text"]) for run in one["words"]) < 10_000


def test_an_erased_content_is_unknown(store: Store) -> None:
    from onrecord.journal.erasure import erase_value

    told.run(["keep", "gone-for-good"], run_id="a", store=store)
    told.run(["keep", "something else"], run_id="b", store=store)
    erase_value(store, "gone-for-good", reason="asked for")
    report = compared(store, "a", "b")
    unknown = next(row for row in report["rows"] if row["row"] == "change" and row["status"] == "unknown")
    expected, actual = unknown["expected"], unknown["actual"]
    readers = JournalReader(store, "a"), JournalReader(store, "b")
    assert event_difference(readers[0], expected["seq"], readers[1], actual["seq"])["erased"]


def test_runs_without_events(store: Store) -> None:
    told.run([], run_id="a", store=store)
    told.run([1], run_id="b", store=store)
    assert compared(store, "a", "a")["rows"] == [
        {"row": "same", "count": 1, "expected": [{"run": "a", "seq": 1}] * 2, "actual": [{"run": "a", "seq": 1}] * 2}
    ]
    assert compared(store, "a", "b")["first_number"] == 1
