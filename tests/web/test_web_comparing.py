"""Comparisons over HTTP: rows of two runs, two events, and a live replay measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import onrecord
from kit.shared_runs import World, record_two, support
from kit.web import Served, serving
from onrecord.reports.side_by_side import Side, side_by_side
from onrecord.store.contract import Store


@pytest.fixture
def url(tmp_path: Any) -> str:
    return str(tmp_path / "compared.db")


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    made = onrecord.open_store(url)
    yield made
    made.close()


@pytest.fixture
def served(url: str, store: Store) -> Iterator[Served]:
    record_two(store)
    World.words = "lazy dog"
    support.replay_live("first", live_run_id="again", store=store)
    with serving(url) as running:
        yield running


def test_rows_are_those_of_the_report(served: Served, store: Store) -> None:
    told = served.json("/runs/first/compare/second")
    assert told == side_by_side(Side(store, "first", "default"), Side(store, "second", "default"))
    diff = served.json("/runs/first/diff/second")
    assert {name: told[name] for name in diff} == diff, "and what /diff says"
    few = served.json("/runs/first/compare/second", limit=2)
    assert [row["row"] for row in few["rows"]] == ["same", "change", "same", "change"]
    assert few["more_changes"] == told["changes_in_all"] - 2


def test_two_events(served: Served) -> None:
    told = served.json("/runs/first/events/4/diff/second/4")
    assert [one["path"] for one in told["differences"]] == ["/output/content"]
    assert {"kind": "removed", "text": "quick brown"} in told["differences"][0]["words"]
    assert told["patch"][0]["op"] == "replace"
    same = served.json("/runs/first/events/2/diff/second/2")
    assert (same["total"], same["differences"], same["patch"]) == (0, [], [])


def test_what_is_not_there_is_said(served: Served) -> None:
    assert served.code("/runs/first/events/4/diff/second/99", 404) == "bad_position"
    assert served.code("/runs/first/events/0/diff/second/1", 400) == "bad_position"
    assert served.code("/runs/first/events/4/diff/nobody/4", 404) == "unknown_run"
    assert served.code("/runs/first/compare/nobody", 404) == "unknown_run"
    assert served.code("/runs/first/compare/second", 400, limit="100000") == "bad_parameter"


def test_a_replay_is_measured_step_by_step(served: Served) -> None:
    told = served.json("/runs/first/replay/again/measures")
    judged = served.json("/runs/first/replay/again")
    assert {name: told[name] for name in judged if name not in ("steps", "next")} == {
        name: judged[name] for name in judged if name not in ("steps", "next")
    }
    asked = [step for step in told["steps"] if step["name"] == "ask"]
    assert [step["expected"]["tokens"] for step in asked] == [27, 47, 67, 87]
    assert told["totals"]["tokens"] == {"expected": 228, "actual": 228, "steps": 4}
    assert all(step["expected"]["latency"] >= 0 for step in asked)
    page = served.json("/runs/first/replay/again/measures", after=2, limit=3)
    assert (page["steps"], page["next"]) == (told["steps"][2:5], 5)
