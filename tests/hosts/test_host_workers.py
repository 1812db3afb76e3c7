"""Several worker processes on one scope: stopped, killed, and never two at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from kit.host_subjects import url_maker
from onrecord.errors import StaleEpoch
from onrecord.hosts.contract import LocalExecutor
from onrecord.hosts.envelopes import RuntimeEffectEnvelope, RuntimeEffectOutcome
from onrecord.hosts.journal_backed import JournalEffectHost
from onrecord.hosts.outcomes import IN_DOUBT, RuntimeEffectControllerError
from onrecord.hosts.scopes import run_id
from onrecord.journal.reader import JournalReader
from onrecord.journal.verify import verify_run
from onrecord.runtime.engine.lease_keeper import keeper
from onrecord.store.factory import open_store
from onrecord.testing.effect_conformance import SCOPE, Calls, step, tool

RUN = run_id("default", SCOPE)
LEASE_SECONDS = 0.5


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    made: str = url_maker(request.param, tmp_path, request)()
    open_store(made).close()
    return made


def forked(work: Any) -> int:
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            status = work()
        finally:
            os._exit(status)
    return pid


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not holds():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.005)


def stop_outside_transactions(pid: int, url: str) -> None:
    """Stop a process. One that is stopped inside a transaction of SQLite keeps every other process from writing."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        if url.startswith("postgresql"):
            return
        with contextlib.closing(apsw.Connection(url)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE; ROLLBACK")
            except apsw.BusyError:
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.01)
            else:
                return


def exit_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_worker_stopped_for_longer_than_its_lease_cannot_record(url: str, tmp_path: Path) -> None:
    begun, go_on = tmp_path / "begun", tmp_path / "go on"

    def zombie() -> int:
        async def carry_out(envelope: RuntimeEffectEnvelope) -> RuntimeEffectOutcome:
            begun.touch()
            until(go_on.exists)  # the process is stopped in the middle of it, so nothing is renewed
            return RuntimeEffectOutcome.durable_step("zombie")

        async def work() -> int:
            host = JournalEffectHost(open_store(url), lease_seconds=LEASE_SECONDS)
            try:
                await host.scoped(SCOPE).execute_effect(step("work"), LocalExecutor.testing(carry_out))
            except StaleEpoch:
                return 7
            return 0

        return asyncio.run(work())

    pid = forked(zombie)
    until(begun.exists)
    os.kill(pid, signal.SIGSTOP)
    store, calls = open_store(url), Calls()
    until(lambda: store.holder("default", RUN) is None)
    heir = JournalEffectHost(store, lease_seconds=LEASE_SECONDS)
    asyncio.run(heir.scoped(SCOPE).execute_effect(step("work"), calls.returning("heir")))
    go_on.touch()
    os.kill(pid, signal.SIGCONT)
    assert exit_of(pid) == 7, "the zombie learned that it had lost the scope"
    (answer,) = [event for event in JournalReader(store, RUN).scan() if event.kind == "ActionSucceeded"]
    assert answer.event.output == "heir"
    assert verify_run(store, RUN).valid
    store.close()


def test_a_child_that_was_forked_while_leases_are_looked_at_keeps_its_own(url: str) -> None:
    """The lock belongs to a thread that the child does not have."""

    def child() -> int:
        signal.alarm(60)
        host = JournalEffectHost(open_store(url), lease_seconds=LEASE_SECONDS)
        asyncio.run(host.scoped(SCOPE).execute_effect(step("work"), Calls().returning("done")))
        return 0

    with keeper._lock:
        pid = forked(child)
    assert exit_of(pid) == 0


def test_workers_that_are_killed_and_stopped_never_do_a_thing_twice(url: str, tmp_path: Path) -> None:
    """Six workers race through the same twelve effects while two of them are killed and one is stopped. The ledger may
    show no effect twice; what a dead worker left behind is in doubt, and said to be."""
    ledger = tmp_path / "ledger"
    keys = [f"mail-{number}" for number in range(12)]

    def worker() -> int:
        async def carry_out(envelope: RuntimeEffectEnvelope) -> RuntimeEffectOutcome:
            line = f"{envelope.replay_key}\n".encode()
            descriptor = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(descriptor, line)
            os.close(descriptor)
            await asyncio.sleep(0.02)
            return RuntimeEffectOutcome.tool_call(os.getpid())

        async def work() -> int:
            host = JournalEffectHost(open_store(url), lease_seconds=LEASE_SECONDS)
            scoped, executor = host.scoped(SCOPE), LocalExecutor.testing(carry_out)
            for key in keys:
                try:
                    await scoped.execute_effect(tool(key), executor)
                except StaleEpoch:
                    continue
                except RuntimeEffectControllerError as error:
                    if error.code != IN_DOUBT:
                        return 3
                if random.random() < 0.3:
                    host.release(SCOPE)  # lets somebody else have a turn
                    scoped = host.scoped(SCOPE)
            host.release(SCOPE)
            return 0

        async def guarded() -> int:
            async with asyncio.timeout(100):
                return await work()

        return asyncio.run(guarded())

    def effects() -> int:
        return len(ledger.read_text().splitlines()) if ledger.exists() else 0

    workers = [forked(worker) for _ in range(6)]
    until(lambda: effects() >= 2)
    os.kill(workers[0], signal.SIGKILL)
    stop_outside_transactions(workers[1], url)
    until(lambda: effects() >= 5)
    os.kill(workers[2], signal.SIGKILL)
    time.sleep(1.2 * LEASE_SECONDS)
    os.kill(workers[1], signal.SIGCONT)
    # A worker may have come to its end before it was killed.
    assert {exit_of(pid) for pid in (workers[0], workers[2])} <= {0, -signal.SIGKILL}
    assert [exit_of(pid) for pid in (workers[1], *workers[3:])] == [0] * 4
    carried_out = Counter(ledger.read_text().split())
    assert max(carried_out.values()) == 1
    store = open_store(url)
    report = verify_run(store, RUN)
    assert report.valid
    answered = {event.parent for event in JournalReader(store, RUN).scan() if event.kind == "ActionSucceeded"}
    assert len(answered) + len(report.orphans) == len(keys)
    assert len(report.orphans) <= 3, "one effect at most for each worker that was killed or stopped"
    store.close()
