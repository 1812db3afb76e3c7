"""Runs as agents record them: tasks that begin in any order, answers that come in any order, other inputs."""

from __future__ import annotations

import asyncio

import pytest

import onrecord
from onrecord.analysis.diff.results import RunComparison
from onrecord.analysis.diff.runs import compare_runs
from onrecord.store.memory import MemoryStore

slow_city = ""
"""Whose weather takes longer: a matter of the world, not of the agent."""


@onrecord.step
async def weather(city: str) -> str:
    await asyncio.sleep(0.05 if city == slow_city else 0)
    return f"sun in {city}"


@onrecord.agent
async def travel(cities: list[str], wish: str) -> str:
    found = await asyncio.gather(*(weather(city) for city in cities))
    await weather(wish)
    return sorted(found)[0]


async def compared(monkeypatch: pytest.MonkeyPatch, *runs: tuple[list[str], str, str]) -> RunComparison:
    """Each run: its cities, its wish, and whose weather takes longer."""
    store = MemoryStore()
    for number, (cities, wish, slow) in enumerate(runs):
        monkeypatch.setattr(f"{__name__}.slow_city", slow)
        await travel.run(cities, wish, run_id=f"run-{number}", store=store)
    return compare_runs(store, "run-0", store, "run-1")


def test_two_runs_of_one_agent_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    comparison = asyncio.run(compared(monkeypatch, (["Rome", "Oslo"], "Bern", ""), (["Rome", "Oslo"], "Bern", "")))
    assert comparison.verdict == "same"
    assert comparison.begun_differently == []


@pytest.mark.parametrize("other", [(["Oslo", "Rome"], "Bern", "Oslo"), (["Rome", "Oslo"], "Bern", "Rome")])
def test_tasks_and_answers_in_another_order_are_a_reordering(
    monkeypatch: pytest.MonkeyPatch, other: tuple[list[str], str, str]
) -> None:
    comparison = asyncio.run(compared(monkeypatch, (["Rome", "Oslo"], "Bern", "Oslo"), other))
    assert comparison.verdict == "reordered"
    assert comparison.counts["matched"] == comparison.expected.events


def test_another_input_is_named_where_it_first_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    comparison = asyncio.run(compared(monkeypatch, (["Rome", "Oslo"], "Bern", ""), (["Rome", "Oslo"], "Kyiv", "")))
    assert comparison.verdict == "diverged"
    assert comparison.begun_differently == ["input"]
    told = comparison.first
    assert told is not None
    assert (told.reason, told.lane, told.position) == ("other_input", "main", 1)
    assert comparison.counts["changed"] == 2, "what was asked, and what was answered"
