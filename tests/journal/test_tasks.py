"""Appending from asyncio tasks: the same promises as `append`, and one commit for those who overlap."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from kit.journals import begin
from onrecord import (
    ActionRequested,
    ActionSucceeded,
    Completed,
    Draft,
    Journal,
    JournalReader,
    StateUpdated,
    verify_run,
)
from onrecord.errors import ClosedRun, ConflictingDuplicate, MovedHead, OutcomeUnknown, Poisoned, Refused
from onrecord.store.contract import PendingAppend, Store
from onrecord.store.memory import MemoryStore


class Counted(MemoryStore):
    """Counts commits, and who carried them out; can be told to wait or to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: list[int] = []
        self.threads: set[str] = set()
        self.gate: threading.Event | None = None
        self.failure: Exception | None = None

    def append_many(self, appends: Sequence[PendingAppend]) -> list[Exception | None]:
        self.groups.append(len(appends))
        self.threads.add(threading.current_thread().name)
        if self.gate is not None:
            assert self.gate.wait(10)
        if self.failure is not None:
            raise self.failure
        return super().append_many(appends)


def test_what_a_task_appends_is_there(store: Store) -> None:
    journal = begin(store)

    async def work() -> None:
        (requested,) = await journal.append_async(ActionRequested("a", {"q": 1}))
        assert requested.seq == 1
        await journal.append_async([ActionSucceeded("a", 2), StateUpdated({"n": 1}), Completed()])

    asyncio.run(work())
    assert verify_run(store, "r1", deep=True).valid
    assert [e.kind for e in JournalReader(store, "r1").scan()][-1] == "Completed"


def test_tasks_of_many_runs_share_commits_and_one_run_keeps_its_order(store: Store) -> None:
    journals = [Journal.create(store, f"run-{n}") for n in range(8)]

    async def write(journal: Journal, who: int) -> None:
        for number in range(5):
            await journal.append_async(StateUpdated({"who": who, "n": number}))

    async def work() -> None:
        await asyncio.gather(*(write(journal, who) for journal in journals for who in range(3)))

    asyncio.run(work())
    for journal in journals:
        assert verify_run(store, journal.run, deep=True).verified == 15
        seen: dict[int, list[int]] = {}
        for event in journal.scan():
            seen.setdefault(event.event.payload["who"], []).append(event.event.payload["n"])  # type: ignore[attr-defined]
        assert seen == {who: [0, 1, 2, 3, 4] for who in range(3)}


def test_overlapping_appends_are_one_commit_and_a_lone_one_stays_in_its_thread() -> None:
    store = Counted()
    journals = [Journal.create(store, f"run-{n}") for n in range(10)]

    async def together() -> None:
        await asyncio.gather(*(journal.append_async(StateUpdated(1)) for journal in journals))

    async def alone() -> None:
        for _ in range(3):
            await journals[0].append_async(StateUpdated(2))

    asyncio.run(together())
    assert store.groups == [10]
    assert threading.current_thread().name not in store.threads
    store.groups, store.threads = [], set()
    asyncio.run(alone())
    assert store.groups == [1, 1, 1]
    assert store.threads == {threading.current_thread().name}


def test_a_refusal_concerns_its_own_append_only(store: Store) -> None:
    good, bad, ended = (Journal.create(store, name) for name in ("good", "bad", "ended"))
    Journal.open(store, "bad").append(StateUpdated("faster"))
    Journal.open(store, "ended").append(Completed())

    async def work() -> list[Any]:
        appends = [journal.append_async(StateUpdated(1)) for journal in (good, bad, ended)]
        return await asyncio.gather(*appends, return_exceptions=True)

    answers = asyncio.run(work())
    assert answers[0][0].seq == 1
    assert isinstance(answers[1], MovedHead)
    assert isinstance(answers[2], ClosedRun)

    async def again() -> None:
        await bad.append_async(StateUpdated(2), expected=bad.head())

    asyncio.run(again())
    assert verify_run(store, "bad").verified == 2


def test_known_ids_are_answered_and_other_content_is_refused(store: Store) -> None:
    journal = begin(store)

    async def work() -> None:
        first = await journal.append_async(Draft(StateUpdated(1), id="e1"))
        assert [e.seq for e in await journal.append_async(Draft(StateUpdated(1), id="e1"))] == [first[0].seq]
        with pytest.raises(ConflictingDuplicate):
            await journal.append_async(Draft(StateUpdated(2), id="e1"))

    asyncio.run(work())
    assert verify_run(store, "r1").verified == 1


def test_a_cancelled_append_is_carried_through_and_then_cancelled() -> None:
    store = Counted()
    journals = [Journal.create(store, f"run-{n}") for n in range(2)]

    async def work() -> None:
        store.gate = threading.Event()
        tasks = [asyncio.create_task(journal.append_async(StateUpdated(1))) for journal in journals]
        while not store.groups:
            await asyncio.sleep(0.001)
        for _ in range(3):  # more than once: none of them may lose the result
            tasks[0].cancel()
            await asyncio.sleep(0.001)
        with pytest.raises(Refused) as caught:
            journals[0].append(StateUpdated(2))
        assert caught.value.code == "append_in_flight"
        store.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        assert (await tasks[1])[0].seq == 1
        await journals[0].append_async(StateUpdated(2))

    asyncio.run(work())
    assert [verify_run(store, journal.run, deep=True).verified for journal in journals] == [2, 1]


def test_an_unknown_result_poisons_every_handle_of_the_group() -> None:
    store = Counted()
    journals = [Journal.create(store, f"run-{n}") for n in range(2)]
    store.failure = OutcomeUnknown("the commit broke off")

    async def work() -> None:
        appends = [journal.append_async(StateUpdated(1)) for journal in journals]
        answers = await asyncio.gather(*appends, return_exceptions=True)
        assert [type(answer) for answer in answers] == [OutcomeUnknown, OutcomeUnknown]
        store.failure = None
        with pytest.raises(Poisoned):
            await journals[0].append_async(StateUpdated(1))
        journals[0].reopen()
        await journals[0].append_async(StateUpdated(1))

    asyncio.run(work())
    assert verify_run(store, "run-0").verified == 1


def test_an_interrupt_in_the_middle_of_an_append_is_an_unknown_result(memory: MemoryStore) -> None:
    journal = begin(memory)
    real = memory.append

    def interrupted(*arguments: Any, **more: Any) -> None:
        real(*arguments, **more)
        raise KeyboardInterrupt

    memory.append = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        journal.append(StateUpdated(1))
    memory.append = real  # type: ignore[method-assign]
    with pytest.raises(Poisoned):
        journal.append(StateUpdated(2))
    journal.reopen()
    assert journal.append(StateUpdated(2))[0].seq == 2
    assert verify_run(memory, "r1", deep=True).valid
