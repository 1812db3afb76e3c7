"""The journal-backed host: who works on a scope, and what becomes of what was left behind."""

from __future__ import annotations

import asyncio
import time

import pytest

from kit.host_subjects import RUN, JournalHostSubject, ends_with, give_up_lease, give_up_leases, journal_of, run
from onrecord.core.events import ActionRequested
from onrecord.core.wait_keys import Resolution, WaitIdentity
from onrecord.errors import InvalidInput, StaleEpoch
from onrecord.hosts.contract import LocalExecutor, Settlement
from onrecord.hosts.decision import Busy
from onrecord.hosts.envelopes import AwaitEvent, Sleep
from onrecord.hosts.journal_backed import JournalEffectHost
from onrecord.hosts.outcomes import IN_DOUBT
from onrecord.hosts.scopes import ExecutionScope
from onrecord.journal.operations import OperationsJournal
from onrecord.journal.reader import JournalReader
from onrecord.journal.sources import SystemSources
from onrecord.journal.verify import verify_run
from onrecord.store.memory import MemoryStore
from onrecord.testing.effect_conformance import SCOPE, Calls, Died, code_of, envelope_of, step, tool

# Leases


def test_lease_is_renewed_while_an_effect_runs(subject: JournalHostSubject) -> None:
    store, calls = subject.opened(subject.new_url()), Calls()
    host, rival = subject.host(store, lease_seconds=0.9), subject.host(store, lease_seconds=0.9, busy=Busy.YIELD)
    ends = asyncio.Event()

    async def scene() -> None:
        async def long() -> str:
            await ends.wait()
            return "long"

        scoped = host.scoped(SCOPE)
        working = asyncio.ensure_future(scoped.execute_effect(step("work"), calls.executor(lambda _: long())))
        while not calls.made:
            await asyncio.sleep(0.01)
        began = time.monotonic()
        while time.monotonic() < began + 1.2:  # longer than one lease
            await ends_with(rival, step("work"), calls, "scope_busy")
            await asyncio.sleep(0.05)
        ends.set()
        assert (await working).into_durable_step() == "long"

    run(scene())
    assert calls.made == ["work"]


def test_lease_is_renewed_while_an_effect_blocks_the_loop(subject: JournalHostSubject) -> None:
    store, calls = subject.opened(subject.new_url()), Calls()
    host = subject.host(store, lease_seconds=0.6)

    def block(_: object) -> str:
        until = time.monotonic() + 1.5  # longer than two leases
        while time.monotonic() < until:
            assert store.holder("default", RUN) is not None
            time.sleep(0.05)
        return "blocked"

    async def scene() -> None:
        outcome = await host.scoped(SCOPE).execute_effect(step("work"), calls.executor(block))
        assert outcome.into_durable_step() == "blocked"

    run(scene())


def test_lease_of_a_stopped_worker_runs_out(subject: JournalHostSubject) -> None:
    store, calls = subject.opened(subject.new_url()), Calls()
    stopped = subject.host(store, lease_seconds=0.3)
    heir = subject.host(store, lease_seconds=5)

    async def begin() -> None:
        with pytest.raises(Died):
            await stopped.scoped(SCOPE).execute_effect(step("work"), calls.dying())

    async def take_over() -> None:
        outcome = await heir.scoped(SCOPE).execute_effect(step("work"), calls.returning("heir"))
        assert outcome.into_durable_step() == "heir"
        assert time.monotonic() - began >= 0.3, "it waits until the lease has run out"

    began = time.monotonic()
    run(begin())
    run(take_over())
    kinds = [event.kind for event in JournalReader(store, RUN).scan()]
    assert kinds == ["ActionRequested", "AttemptRecorded", "ActionSucceeded"], "the abandoned attempt is on record"


def test_a_zombies_attempt_is_noted_in_the_operations_journal(subject: JournalHostSubject) -> None:
    host, calls, go_on = subject.make_host(), Calls(), asyncio.Event()

    async def scene() -> None:
        async def slowly() -> str:
            await go_on.wait()
            return "zombie"

        scoped = host.scoped(SCOPE)
        zombie = asyncio.ensure_future(scoped.execute_effect(tool("mail"), calls.executor(lambda _: slowly())))
        while not calls.made:
            await asyncio.sleep(0.01)
        give_up_lease(host.store, RUN)
        heir = subject.rival(host, waits=True)
        await ends_with(heir, tool("mail"), calls, IN_DOUBT)
        go_on.set()
        with pytest.raises(StaleEpoch):
            await zombie

    run(scene())
    notes = [event.event for event in OperationsJournal.open_for(host.store).scan()]
    assert [(note.operation, note.detail["seq"]) for note in notes] == [("abandoned_attempt", 1)]
    assert [event.kind for event in journal_of(host)] == ["ActionRequested"], "nothing of it stands in the run"
    assert calls.made == ["mail"]


def test_two_hosts_of_one_process_are_rivals() -> None:
    store = MemoryStore()
    hosts = [JournalEffectHost(store, busy=Busy.YIELD) for _ in range(2)]
    calls = Calls()

    async def scene() -> None:
        await hosts[0].scoped(SCOPE).execute_effect(step("one"), calls.returning(1))
        await ends_with(hosts[1], step("two"), calls, "scope_busy")
        hosts[0].release(SCOPE)
        await hosts[1].scoped(SCOPE).execute_effect(step("two"), calls.returning(2))

    run(scene())
    assert calls.made == ["one", "two"]


# In doubt


def test_first_word_counts_and_a_retry_that_dies_needs_another(subject: JournalHostSubject) -> None:
    host, calls = subject.make_host(), Calls()

    async def scene() -> None:
        nonlocal host
        with pytest.raises(InvalidInput) as caught:
            host.settle(SCOPE, "mail", Settlement.done())
        assert caught.value.code == "nothing_to_settle"
        with pytest.raises(Died):
            await host.scoped(SCOPE).execute_effect(tool("mail"), calls.dying())
        (open_effect,) = host.open_effects(SCOPE)
        assert (open_effect.replay_key, open_effect.kind, open_effect.once) == ("mail", "tool_call", True)
        assert host.settle(SCOPE, "mail", Settlement.retry(by="first")).accepted
        assert not host.settle(SCOPE, "mail", Settlement.done("no", by="second")).accepted
        host = subject.after_crash(host)
        with pytest.raises(Died):
            await host.scoped(SCOPE).execute_effect(tool("mail"), calls.dying())
        host = subject.after_crash(host)
        await ends_with(host, tool("mail"), calls, IN_DOUBT)
        assert host.settle(SCOPE, "mail", Settlement.done(("sent", 2), by="operator")).accepted
        settled = await host.scoped(SCOPE).execute_effect(tool("mail"), calls.forbidden())
        assert settled.into_tool_call() == ("sent", 2)

    run(scene())
    assert calls.made == ["mail", "mail"]
    kinds = [event.kind for event in journal_of(host)]
    assert kinds == ["ActionRequested", "EffectSettled", "AttemptRecorded", "EffectSettled", "ActionSucceeded"]
    assert [event.event.by for event in journal_of(host) if event.kind == "EffectSettled"] == ["first", "operator"]
    assert verify_run(host.store, RUN).valid


# Sleeping and waiting


class SetClock(SystemSources):
    def __init__(self) -> None:
        self.now = 1_000_000_000_000_000

    def now_us(self) -> int:
        return self.now


@pytest.mark.parametrize(
    ("moved_seconds", "slept"),
    [(40, 60), (99, 1), (100, 0), (500, 0), (-1000, 100)],
    ids=["half-slept", "nearly", "due", "long past", "clock set back"],
)
def test_only_the_rest_of_a_sleep_is_slept(moved_seconds: int, slept: float) -> None:
    store, clock, naps = MemoryStore(), SetClock(), list[float]()
    nap, unused = envelope_of(Sleep(seconds=100.0), "nap"), Calls().forbidden()

    async def die(_: float) -> None:
        raise Died

    async def note(seconds: float) -> None:
        naps.append(seconds)

    async def scene() -> None:
        first = JournalEffectHost(store, sources=clock, sleep=die)
        with pytest.raises(Died):
            await first.scoped(SCOPE).execute_effect(nap, unused)
        give_up_leases(first)
        clock.now += moved_seconds * 1_000_000
        second = JournalEffectHost(store, sources=clock, sleep=note)
        for _ in range(2):
            (await second.scoped(SCOPE).execute_effect(nap, unused)).into_sleep()

    run(scene())
    assert naps == [slept]
    request = next(iter(JournalReader(store, RUN).scan())).event
    assert isinstance(request, ActionRequested)
    assert request.meta == {"due_us": 1_000_000_100_000_000}


def test_waiting_is_an_effect_that_goes_on_in_another_process(subject: JournalHostSubject) -> None:
    host, unused = subject.make_host(), Calls().forbidden()
    wait = envelope_of(AwaitEvent(wait="named", name="approval"), "approval")

    async def scene() -> None:
        waiting = asyncio.ensure_future(host.scoped(SCOPE).execute_effect(wait, unused))
        while host.store.last_event("default", RUN) is None:
            await asyncio.sleep(0.005)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        later = subject.after_crash(host)
        key = await later.await_event_key(SCOPE, WaitIdentity.named("approval"))
        going_on = asyncio.ensure_future(later.scoped(SCOPE).execute_effect(wait, unused))
        await asyncio.sleep(0.02)
        await later.resolve_await_event(key.text, Resolution.ok({"approved": True}))
        assert (await going_on).into_await_event() == Resolution.ok({"approved": True})
        cold = subject.reopen(later)
        served = await cold.scoped(SCOPE).execute_effect(wait, unused)
        assert served.into_await_event() == Resolution.ok({"approved": True})

    run(scene())


def test_a_wait_that_times_out_is_an_outcome(subject: JournalHostSubject) -> None:
    host, unused = subject.make_host(), Calls().forbidden()
    wait = envelope_of(AwaitEvent(wait="named", name="approval", timeout_seconds=0.05), "approval")

    async def scene() -> None:
        for serving in (host, subject.reopen(host)):
            outcome = await serving.scoped(SCOPE).execute_effect(wait, unused)
            assert outcome.into_await_event() == Resolution.timeout()

    run(scene())


# Cancellation


def test_cancelled_at_every_await_no_outcome_is_lost(subject: JournalHostSubject) -> None:
    """The task is cancelled after its n-th turn, for every n: the effect ran at most once, and once it is recorded it
    is served."""
    url = subject.new_url()
    store = subject.opened(url)
    for turns in [*range(50), *range(50, 800, 25)]:  # a loop that is kept busy hands over late
        scope = ExecutionScope.process(f"p{turns}")
        calls = Calls()

        async def work(scope: ExecutionScope = scope, calls: Calls = calls, turns: int = turns) -> bool:
            async def two_turns() -> str:
                await asyncio.sleep(0)
                return "done"

            host = subject.host(store)
            scoped = host.scoped(scope)
            task = asyncio.ensure_future(scoped.execute_effect(tool("mail"), calls.executor(lambda _: two_turns())))
            for _ in range(turns):
                await asyncio.sleep(0)
            finished = not task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            recorded = [event.kind for event in JournalReader(store, host.run_of(scope)).scan()] if turns else []
            after = scoped.execute_effect(tool("mail"), calls.executor(lambda _: two_turns()))
            if recorded == ["ActionRequested"]:
                assert await code_of(after) == IN_DOUBT
            else:
                assert (await after).into_tool_call() == "done"
                assert len(calls.made) == 1, "recorded, so not run again; or never begun"
            return finished

        if asyncio.run(work()):
            break
    else:
        raise AssertionError("it never came to its end")
    assert turns > 5


def test_executors_may_be_plain_functions() -> None:
    async def scene() -> None:
        host = JournalEffectHost(MemoryStore())
        outcome = await host.scoped(SCOPE).execute_effect(
            step("plain", 20), LocalExecutor.durable_step(lambda n: n + 1)
        )
        assert outcome.into_durable_step() == 21

    run(scene())
