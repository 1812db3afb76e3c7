"""Waking: at once, only who is meant, and never lost between the look and the sleep."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit.soak import SOAK
from kit.stores import CountingStore, any_store
from onrecord.core.wait_keys import Resolution, WaitIdentity, WaitKey
from onrecord.errors import StoreUnavailable
from onrecord.runtime.secrets.keys import KeyRing
from onrecord.runtime.waits import WaitRegistry, notifier
from onrecord.runtime.waits.notifier import get_notifier
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore

APPROVAL = WaitIdentity.named("approval")
YES = Resolution.ok(True)
WAITERS = 1000


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)


@pytest.fixture
def no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks for what other processes write: only what wakes at once wakes at all."""
    monkeypatch.setattr(notifier, "POLL_SECONDS", 3600.0)
    monkeypatch.setattr(notifier, "IDLE_POLL_SECONDS", 3600.0)


def waiting_in_thread(desk: WaitRegistry, key: WaitKey) -> tuple[threading.Thread, list[Resolution]]:
    waited: list[Resolution] = []
    thread = threading.Thread(target=lambda: waited.append(desk.wait_blocking(key)))
    thread.start()
    return thread, waited


def test_the_same_process_wakes_at_once(store: Store, ring: KeyRing, no_polling: None) -> None:
    """Also when another desk over the same store resolves."""
    one, other = WaitRegistry(store, keyring=ring), WaitRegistry(store, keyring=ring)
    key = one.key("run-1", APPROVAL)
    thread, waited = waiting_in_thread(one, key)
    while one._notifier.count_waiters() == 0:
        time.sleep(0.001)
    other.resolve(key, YES)
    thread.join(30)
    assert waited == [YES]


def test_what_others_write_is_found(desk: WaitRegistry, cold_desk: Callable[[], WaitRegistry]) -> None:
    """A second instance shares no registry with the first (in memory: it does)."""
    key = desk.key("run-1", APPROVAL)
    thread, waited = waiting_in_thread(desk, key)
    cold_desk().resolve(key, YES)
    thread.join(30)
    assert waited == [YES]


def test_what_others_say_of_a_session_is_found(desk: WaitRegistry, cold_desk: Callable[[], WaitRegistry]) -> None:
    key = desk.key("run-1", APPROVAL, session="session-1")
    thread, waited = waiting_in_thread(desk, key)
    cold_desk().cancel_session("session-1")
    thread.join(30)
    assert waited == [Resolution.cancelled("session_cancelled")]


@pytest.mark.parametrize("moment", range(6))
@any_store
def test_nothing_falls_between_the_look_and_the_sleep(
    store: Store, ring: KeyRing, no_polling: None, moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The resolution lands at every call that the waiter makes to the store, right before and right after it."""
    desk = WaitRegistry(store, keyring=ring)
    key = desk.key("run-1", APPROVAL)
    calls = 0

    class Meddling(CountingStore):
        def __getattr__(self, name: str) -> Any:
            found = super().__getattr__(name)
            if name not in ("inbox_find", "inbox_since"):
                return found

            def meddled(*arguments: Any) -> Any:
                nonlocal calls
                if calls == moment:
                    desk.resolve(key, YES)
                    waiting.wake_ups_from_elsewhere()
                answer = found(*arguments)
                if calls + 1 == moment:
                    desk.resolve(key, YES)
                    waiting.wake_ups_from_elsewhere()
                calls += 2
                return answer

            return meddled

    class MeddledDesk(WaitRegistry):
        def wake_ups_from_elsewhere(self) -> None:
            self._notifier.wake(self._ledger.address("run-1", APPROVAL.id))

    waiting = MeddledDesk(Meddling(store), keyring=ring)  # type: ignore[arg-type]
    thread, waited = waiting_in_thread(waiting, key)
    while calls < min(moment, 4) and thread.is_alive():
        time.sleep(0.001)
    if moment >= 4:  # it sleeps, or is about to: that is the moment after the last call
        desk.resolve(key, YES)
        waiting.wake_ups_from_elsewhere()
    thread.join(30)
    assert waited == [YES]


@pytest.mark.parametrize("driver", ["thread", "task"])
def test_who_is_woken_for_nothing_looks_once_and_sleeps_again(ring: KeyRing, no_polling: None, driver: str) -> None:
    store = CountingStore(MemoryStore())
    desk = WaitRegistry(store, keyring=ring)  # type: ignore[arg-type]
    key = desk.key("run-1", APPROVAL)
    waited: list[Resolution] = []

    def wait() -> None:
        waited.append(desk.wait_blocking(key) if driver == "thread" else asyncio.run(desk.wait(key)))

    thread = threading.Thread(target=wait)
    before = store.calls["inbox_find"]
    thread.start()
    for looks in range(1, 4):
        while store.calls["inbox_find"] < before + looks:
            time.sleep(0.001)
        time.sleep(0.05)
        assert store.calls["inbox_find"] == before + looks
        desk._notifier.wake(desk._ledger.address("run-1", APPROVAL.id))
    desk.resolve(key, YES)
    thread.join(30)
    assert waited == [YES]


def test_resolving_and_waiting_race(desk: WaitRegistry, no_polling: None) -> None:
    for number in range(1, 41 if SOAK else 9):
        key = desk.key("run-1", WaitIdentity.named("race", number))
        barrier = threading.Barrier(2)

        def resolve(key: WaitKey = key, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            desk.resolve(key, YES)

        thread = threading.Thread(target=resolve)
        thread.start()
        barrier.wait()
        assert desk.wait_blocking(key, deadline=time.time() + 30) == YES
        thread.join()


def test_a_thousand_waiters(ring: KeyRing, no_polling: None) -> None:
    """Small, and one resolution makes one waiter look."""
    store = CountingStore(MemoryStore())
    desk = WaitRegistry(store, keyring=ring)  # type: ignore[arg-type]
    keys = [desk.key(f"run-{number}", APPROVAL, session=f"session-{number}") for number in range(WAITERS)]

    async def scene() -> None:
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        tasks = [asyncio.create_task(desk.wait(key)) for key in keys]
        await until(lambda: store.calls["inbox_find"] >= looks_before + 2 * WAITERS)
        await until(lambda: desk._notifier.count_waiters() == WAITERS)
        each = (tracemalloc.get_traced_memory()[0] - before) / WAITERS
        tracemalloc.stop()
        assert each <= 64 * 1024, each
        looks = store.calls["inbox_find"]
        assert (await asyncio.to_thread(desk.resolve, keys[617], YES)).status == "accepted"
        assert await tasks[617] == YES
        assert store.calls["inbox_find"] - looks == 3, "two by who resolves (one for the session), one by its waiter"
        assert sum(task.done() for task in tasks) == 1
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    looks_before = store.calls["inbox_find"]
    asyncio.run(scene())
    assert desk._notifier.count_waiters() == 0


def test_asking_for_others_writes_does_not_grow_with_the_waiters(store: Store, ring: KeyRing) -> None:
    """One thread, one question at a time, and a resolution from elsewhere makes one waiter look."""
    counting = CountingStore(store)
    desk = WaitRegistry(counting, keyring=ring)  # type: ignore[arg-type]
    keys = [desk.key(f"run-{number}", APPROVAL) for number in range(50)]
    elsewhere = WaitRegistry(store, keyring=ring)

    async def scene() -> None:
        tasks = [asyncio.create_task(desk.wait(key)) for key in keys]
        await until(lambda: counting.calls["inbox_find"] >= looks_before + len(keys))
        await until(lambda: counting.calls["inbox_since"] > 0)
        looks, polls = counting.calls["inbox_find"], counting.calls["inbox_since"]
        await until(lambda: counting.calls["inbox_since"] >= polls + 5)
        assert counting.calls["inbox_find"] == looks, "nobody looks while nothing arrives"
        await asyncio.to_thread(elsewhere.resolve, keys[31], YES)
        assert await asyncio.wait_for(tasks[31], 30) == YES
        assert counting.calls["inbox_find"] == looks + 1
        pollers = [thread for thread in threading.enumerate() if thread.name == "onrecord-inbox"]
        assert len(pollers) == 1
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    looks_before = counting.calls["inbox_find"]
    asyncio.run(scene())


@any_store
def test_the_thread_ends_with_the_last_waiter(desk: WaitRegistry) -> None:
    key = desk.key("run-1", APPROVAL)
    thread, _ = waiting_in_thread(desk, key)
    while not any(one.name == "onrecord-inbox" for one in threading.enumerate()):
        time.sleep(0.001)
    desk.resolve(key, YES)
    thread.join(30)
    for one in threading.enumerate():
        if one.name == "onrecord-inbox":
            one.join(30)
            assert not one.is_alive()


class Failing(CountingStore):
    failing = False
    failures = 0

    def inbox_since(self, cursor: str | None) -> Any:
        if self.failing:
            self.failures += 1
            raise StoreUnavailable("away")
        return self._store.inbox_since(cursor)


@any_store
def test_an_outage_is_waited_out(store: Store, ring: KeyRing) -> None:
    failing = Failing(store)
    desk = WaitRegistry(failing, keyring=ring)  # type: ignore[arg-type]
    key = desk.key("run-1", APPROVAL)
    thread, waited = waiting_in_thread(desk, key)
    while desk._notifier.polls == 0:
        time.sleep(0.001)
    failing.failing = True
    WaitRegistry(store, keyring=ring).resolve(key, YES)
    while failing.failures < 2:
        time.sleep(0.001)
    failing.failing = False
    thread.join(30)
    assert waited == [YES]


@any_store
def test_a_store_that_stays_away_is_reported(store: Store, ring: KeyRing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier, "GIVE_UP_SECONDS", 0.1)
    failing = Failing(store)
    desk = WaitRegistry(failing, keyring=ring)  # type: ignore[arg-type]
    key = desk.key("run-1", APPROVAL)
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            desk.wait_blocking(key)
        except StoreUnavailable as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while desk._notifier.polls == 0:
        time.sleep(0.001)
    failing.failing = True
    thread.join(30)
    assert [str(error) for error in caught] == ["the store could not be read for 0 seconds"]
    failing.failing = False
    assert desk.peek(key) is None, "the wait itself is still there"
    desk.resolve(key, YES)
    assert desk.wait_blocking(key) == YES


def test_a_forked_child_waits_by_itself(tmp_path: Path, key_file: Path) -> None:
    from onrecord.store.factory import open_store

    store = open_store(str(tmp_path / "store.db"))
    desk = WaitRegistry(store, keyring=KeyRing(key_file))
    mine, childs = (desk.key("run-1", WaitIdentity.named(name)) for name in ("mine", "child's"))
    thread, waited = waiting_in_thread(desk, mine)
    while desk._notifier.polls == 0:
        time.sleep(0.001)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            ended = desk.wait_blocking(childs, deadline=time.time() + 30)
            status = 0 if ended == YES and desk._notifier.count_waiters() == 0 else 2
        finally:
            os._exit(status)
    desk.resolve(childs, YES)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    desk.resolve(mine, YES)
    thread.join(30)
    assert waited == [YES]
    store.close()


def test_stores_are_not_kept_alive_by_their_waiters(ring: KeyRing) -> None:
    import gc
    import weakref

    store = MemoryStore()
    desk = WaitRegistry(store, keyring=ring)
    key = desk.key("run-1", APPROVAL)
    desk.wait_blocking(key, deadline=0.0)
    for one in threading.enumerate():
        if one.name == "onrecord-inbox":
            one.join(30)
    assert get_notifier(store) is desk._notifier
    gone = weakref.ref(store)
    del store, desk, key
    gc.collect()
    assert gone() is None
