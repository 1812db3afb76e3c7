"""Random programs with several lanes, forked at every event: the record answers, and they end as they did."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from kit import fork_programs, random_programs
from kit.fork_programs import TOOLS, failing_program, ledger, program
from kit.forks import assert_verifies, entries, fork, outcome, replay_live
from kit.runtime import new_id, replay, run
from kit.soak import SOAK
from onrecord.analysis.diff.runs import compare_runs
from onrecord.runtime.api.agent import agent
from onrecord.runtime.engine.stops import NotCarriedOut
from onrecord.store.memory import MemoryStore

PROGRAMS, CHUNKS, MOST_POSITIONS = (400, 8, 30) if SOAK else (10, 2, 5)


def seeds(chunk: int) -> range:
    return range(chunk, PROGRAMS, CHUNKS)


def positions(store: Any, name: str, seed: int) -> list[int]:
    """All of them, or some of a long run."""
    last = len(entries(store, name))
    found = list(range(last))
    return found if last <= MOST_POSITIONS else sorted(random.Random(seed).sample(found, MOST_POSITIONS))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_mocked_fork_ends_as_its_parent_wherever_it_begins(chunk: int, memory: MemoryStore) -> None:
    for seed in seeds(chunk):
        subject = failing_program if seed % 5 == 4 else program
        name = new_id()
        whole = outcome(lambda: run(subject, seed, run_id=name, store=memory))  # noqa: B023
        ledger.clear()
        for at in positions(memory, name, seed):
            forked = new_id("fork")
            where = f"seed {seed} at {at}"
            got = outcome(lambda: fork(subject, name, at, tail="mocked", fork_id=forked, store=memory))  # noqa: B023
            assert got == whole, where
            assert outcome(lambda: replay(subject, forked, store=memory)) == whole, where  # noqa: B023
            assert not ledger.lines, where
        assert_verifies(memory, forked)


def tool_of(entry: Any) -> tuple[str, str] | None:
    """What a request asks a tool for, as the ledger has it."""
    if entry.kind != "ActionRequested" or entry.event.effect != "tool_call":
        return None
    return entry.event.name, next(iter(entry.event.payload.values()))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_live_fork_does_nothing_of_what_was_before_it(chunk: int, memory: MemoryStore) -> None:
    for seed in seeds(chunk):
        name = new_id()
        whole = run(program, seed, run_id=name, store=memory)
        rows = entries(memory, name)
        asked = Counter(tool_of(one) for one in rows if tool_of(one))
        for at in positions(memory, name, seed)[:: 3 if SOAK else 2]:
            answered = {one.event.action_id for one in rows[:at] if one.kind in ("ActionSucceeded", "ActionFailed")}
            before = Counter(tool_of(one) for one in rows[:at] if tool_of(one) and one.event.action_id in answered)
            forked, where = new_id("fork"), f"seed {seed} at {at}"
            ledger.clear()
            assert fork(program, name, at, live_tools=TOOLS, fork_id=forked, store=memory) == whole, where
            for line, times in Counter(line[:2] for line in ledger.lines if line[0] in TOOLS).items():
                assert times <= max(asked[line], 1) - before[line], f"{where}: {line}"
            ledger.clear()
            assert replay(program, forked, store=memory) == whole, where
            assert not ledger.lines, where


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_forks_of_forks_at_random_events(chunk: int, memory: MemoryStore) -> None:
    for seed in seeds(chunk):
        rng, name = random.Random(seed), new_id()
        whole = run(program, seed, run_id=name, store=memory)
        ledger.clear()
        for _ in range(5 if SOAK else 3):
            for _ in range(rng.randrange(1, 5 if SOAK else 3)):
                at = rng.randrange(len(entries(memory, name)))
                forked = new_id("fork")
                where = f"seed {seed}: {name} at {at}"
                assert fork(program, name, at, tail="mocked", fork_id=forked, store=memory) == whole, where
                assert replay(program, forked, store=memory) == whole, where
            name = forked
        assert not ledger.lines


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_same_again_is_no_difference(chunk: int, memory: MemoryStore) -> None:
    for seed in seeds(chunk):
        first, second = new_id(), new_id()
        whole = run(program, seed, run_id=first, store=memory)
        assert run(program, seed, run_id=second, store=memory) == whole
        ledger.clear()
        compared = compare_runs(memory, first, memory, second)
        assert compared.verdict in ("same", "reordered"), f"seed {seed}: {compared}"
        for name in (first, second):
            assert replay(program, name, store=memory) == whole
        assert not ledger.lines
        third = new_id("fork")
        fork(program, first, 0, tail="mocked", fork_id=third, store=memory)
        compared = compare_runs(memory, first, memory, third)
        assert compared.verdict in ("same", "reordered"), f"seed {seed}: {compared}"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_live_replay_carries_out_no_tool(chunk: int, memory: MemoryStore) -> None:
    for seed in seeds(chunk):
        name, again = new_id(), new_id("again")
        whole = run(program, seed, run_id=name, store=memory)
        ledger.clear()
        assert replay_live(program, name, live_run_id=again, store=memory) == whole
        assert not set(ledger.names) & set(TOOLS), f"seed {seed}"
        ledger.clear()
        assert replay(program, again, store=memory) == whole
        assert not ledger.lines


@agent(name="fork.schedules")
async def schedule(seed: int) -> Any:
    return await random_programs.Program(seed, slow=True).main()


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_whatever_the_schedule_nothing_is_carried_out(chunk: int, memory: MemoryStore) -> None:
    """These programs tell in which order things came, which is not the record's to say behind a fork: timers go by the
    clock. They end, or ask for what the record does not have; what they have done is replayed as it was."""
    equal = 0
    for seed in seeds(chunk):
        name = new_id()
        whole = run(schedule, seed, run_id=name, store=memory)
        calls = random_programs.live_calls
        for at in positions(memory, name, seed)[:: 4 if SOAK else 2]:
            forked, where = new_id("fork"), f"seed {seed} at {at}"
            try:
                got = fork(schedule, name, at, tail="mocked", fork_id=forked, store=memory)
            except NotCarriedOut:
                pass
            else:
                assert asyncio.run(_replayed(forked, memory)) == got, where
                equal += got == whole
            assert random_programs.live_calls == calls, where
    assert equal


async def _replayed(name: str, store: Any) -> Any:
    return await schedule.replay(name, store=store)


def test_the_programs_do_what_they_are_meant_to() -> None:
    """All shapes are among the first seeds."""
    used: set[str] = set()
    store = MemoryStore()
    for seed in range(PROGRAMS):
        ledger.clear()
        run(program, seed, run_id=new_id(), store=store)
        used |= set(ledger.names)
    assert used == {"fetch", "think", "retried", *fork_programs.TOOLS} - {"linger"}
