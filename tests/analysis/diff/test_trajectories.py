"""Eighty real runs of an agent, four trials of each of twenty tasks: where they part is where a plain look says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from typing import Any

import pytest

from kit.paths import DATA
from onrecord.analysis.diff.runs import compare_runs
from onrecord.core.events import ActionRequested, ActionSucceeded, Completed, Event
from onrecord.journal.journal import Draft, Journal
from onrecord.store.memory import MemoryStore

FILE = DATA / "trajectories" / "tau-bench-airline-tasks-0-19.json"


@cache
def trials() -> dict[int, list[list[dict[str, Any]]]]:
    if not FILE.exists():
        pytest.skip(f"test data is missing: {FILE}")
    found: dict[int, list[list[dict[str, Any]]]] = {}
    for record in json.loads(FILE.read_text()):
        found.setdefault(record["task_id"], []).append(record["traj"])
    return found


def steps(trajectory: list[dict[str, Any]]) -> Iterator[tuple[str, str, Any, Any]]:
    """(effect, name, input, output): a model call for each turn of the assistant, a tool call for each tool result.

    Ids that the model's server draws for its tool calls are no behaviour.
    """
    calls: dict[str, dict[str, Any]] = {}
    heard: list[Any] = []
    for message in trajectory:
        if message["role"] == "assistant":
            made = message.get("tool_calls") or []
            said = {"content": message["content"], "calls": [call["function"] for call in made]}
            calls.update({call["id"]: call["function"] for call in made})
            yield "model_call", "model", {"heard": list(heard)}, said
            heard = []
        elif message["role"] == "tool":
            function = calls[message["tool_call_id"]]
            yield "tool_call", function["name"], function["arguments"], message["content"]
            heard.append(message["content"])
        else:
            heard.append(message["content"])


def record(store: MemoryStore, run: str, trajectory: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Writes the run; returns what it means, event by event, without any help of the journal."""
    drafts: list[Draft] = []
    meant: list[tuple[str, Any]] = []
    for number, (effect, name, given, got) in enumerate(steps(trajectory)):
        asked: Event = ActionRequested(f"{run}-{number}", given, name=name, effect=effect)
        drafts += [Draft(asked, key=f"main/{name}/{number}"), Draft(ActionSucceeded(f"{run}-{number}", got))]
        meant += [("ask", (effect, name, given)), ("answer", got)]
    drafts.append(Draft(Completed(None)))
    meant.append(("end", None))
    Journal.create(store, run).append(drafts)
    return meant


@pytest.mark.parametrize("task", range(20))
def test_two_trials_part_where_a_plain_look_says(task: int) -> None:
    store = MemoryStore()
    runs = {f"{task}-{number}": trajectory for number, trajectory in enumerate(trials()[task])}
    assert len(runs) == 4
    meant = {run: record(store, run, trajectory) for run, trajectory in runs.items()}
    for one, other in combinations(runs, 2):
        first, second = meant[one], meant[other]
        shared = min(len(first), len(second))
        place = next((at for at in range(shared) if first[at] != second[at]), None)
        comparison = compare_runs(store, one, store, other)
        told = comparison.first
        if place is None:
            assert first == second
            assert comparison.verdict == "same"
            continue
        assert told is not None
        assert told.expected is not None
        assert told.actual is not None
        assert (told.lane, told.position, told.expected.seq, told.actual.seq) == (
            "main",
            place + 1,
            place + 1,
            place + 1,
        )
        assert comparison.verdict == "diverged"
        assert comparison.counts["matched"] >= place
        assert comparison.reads["main"] <= 2 * shared.bit_length() + 4


def test_each_trial_is_the_same_as_itself_recorded_again() -> None:
    store = MemoryStore()
    for task, trajectories in trials().items():
        for run in ("one", "two"):
            record(store, f"{run}-{task}", trajectories[0])
        assert compare_runs(store, f"one-{task}", store, f"two-{task}").verdict == "same"
