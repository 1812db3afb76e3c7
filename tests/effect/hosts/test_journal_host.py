"""The journal-backed host: what it writes, and what it does when things go wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from host_subjects import JournalHostSubject, give_up_lease, give_up_leases, subject_over

from reenact.core.claims import Busy
from reenact.core.effect_outcomes import CONFLICT, IN_DOUBT
from reenact.core.envelopes import AwaitEvent, ModelCall, RuntimeEffectEnvelope, Sleep
from reenact.core.events import ActionRequested
from reenact.core.scopes import ExecutionScope, run_id
from reenact.core.wait_keys import Resolution, WaitIdentity
from reenact.effect.hosts.contract import LocalExecutor, Settlement
from reenact.effect.hosts.journal_backed import JournalEffectHost, is_in_doubt
from reenact.errors import ClosedRun, InvalidInput, OutcomeUnknown, ReenactError, StaleEpoch
from reenact.journal.erasure import erase_value
from reenact.journal.operations import OperationsJournal
from reenact.journal.reader import JournalReader
from reenact.journal.sources import SystemSources
from reenact.journal.verify import verify_run
from reenact.store.contract import Store
from reenact.store.memory import MemoryStore
from reenact.testing.effect_conformance import SCOPE, Calls, Died, code_of, envelope_of, step, tool

RUN = run_id("default", SCOPE)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def subject(request: pytest.FixtureRequest) -> Iterator[JournalHostSubject]:
    yield from subject_over(request.param, request)


def run(work: Awaitable[None]) -> None:
    async def guarded() -> None:
        async with asyncio.timeout(30):
            await work

    asyncio.run(guarded())


def journal_of(host: JournalEffectHost) -> list[Any]:
    return list(JournalReader(host.store, RUN).scan())


# What is written


def test_an_effect_in_the_journal(subject: JournalHostSubject) -> None:
    host, calls = subject.make_host(), Calls()

    async def scene() -> None:
        await host.scoped(SCOPE).execute_effect(tool("mail", {"to": "a"}), calls.returning("sent"))
        await host.scoped(SCOPE).execute_effect(step("pure", 1), calls.returning(2))

    run(scene())
    asked, answered, pure, _ = journal_of(host)
    assert (asked.kind, asked.key) == ("ActionRequested", "mail")
    assert (asked.event.name, asked.event.effect, asked.event.meta) == ("mail", "tool_call", {"once": True})
    assert asked.event.payload == {
        "command": {"kind": "tool_call", "tool": "send_mail", "arguments": {"to": "a"}},
        "scope": {
            "session_id": "conformance-session",
            "turn_id": "conformance-turn",
            "turn_index": 7,
            "iteration": 0,
        },
    }
    assert (answered.kind, answered.parent, answered.event.output) == ("ActionSucceeded", asked.seq, "sent")
    assert pure.event.meta is None
    assert JournalReader(host.store, RUN).facts() == {"scope": SCOPE.to_data()}
    assert verify_run(host.store, RUN).valid


class Spy:
    """A store that notes how each append was made."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.appends: list[tuple[str, bool]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def append(self, namespace: str, run: str, events: Any, **more: Any) -> None:
        self.inner.append(namespace, run, events, **more)
        self.appends += [(event.kind, more.get("sync", True)) for event in events]

    def append_many(self, appends: Any) -> Any:
        answers = self.inner.append_many(appends)
        self.appends += [(event.kind, True) for append in appends for event in append.events]
        return answers


def test_requests_of_effects_that_may_run_once_are_synced_and_others_are_not() -> None:
    store, calls = Spy(MemoryStore()), Calls()
    host = JournalEffectHost(store)  # type: ignore[arg-type]
    seen: dict[str, Any] = {}

    def look(envelope: RuntimeEffectEnvelope) -> str:
        seen[envelope.replay_key] = [event.kind for event in JournalReader(store.inner, RUN).scan()][-1]
        return "value"

    async def scene() -> None:
        for envelope in (tool("once"), step("again")):
            await host.scoped(SCOPE).execute_effect(envelope, calls.executor(look))

    run(scene())
    assert store.appends == [
        ("ActionRequested", True),
        ("ActionSucceeded", True),
        ("ActionRequested", False),
        ("ActionSucceeded", True),
    ]
    assert seen == {"once": "ActionRequested", "again": "ActionRequested"}, "it stands there while the effect runs"


def test_what_the_host_may_repeat_can_be_said() -> None:
    store, calls = MemoryStore(), Calls()
    model = envelope_of(ModelCall(provider="p", model="m", request={}), "model")

    async def scene() -> None:
        careful = JournalEffectHost(store, may_repeat=lambda _: False)
        with pytest.raises(Died):
            await careful.scoped(SCOPE).execute_effect(model, calls.dying())
        give_up_leases(careful)
        careful = JournalEffectHost(store, may_repeat=lambda _: False)
        with pytest.raises(ReenactError) as caught:
            await careful.scoped(SCOPE).execute_effect(model, calls.forbidden())
        assert is_in_doubt(caught.value)
        assert caught.value.exit_status == 6
        give_up_leases(careful)
        again = await JournalEffectHost(store).scoped(SCOPE).execute_effect(model, calls.returning("answer"))
        assert again.into_model_call() == "answer"

    run(scene())
    assert calls.made == ["model", "model"]


def test_declared_volatile_fields_are_no_conflict(subject: JournalHostSubject) -> None:
    volatile = [("ActionRequested", "/payload/command/arguments/nonce")]
    store, calls = subject.opened(subject.new_url()), Calls()

    async def scene() -> None:
        host = subject.host(store, volatile=volatile)
        await host.scoped(SCOPE).execute_effect(tool("mail", {"nonce": 1, "to": "a"}), calls.returning("sent"))
        for serving in (host, subject.reopen(host)):
            scoped = serving.scoped(SCOPE)
            served = await scoped.execute_effect(tool("mail", {"nonce": 2, "to": "a"}), calls.forbidden())
            assert served.into_tool_call() == "sent"
            other = tool("mail", {"nonce": 1, "to": "b"})
            assert await code_of(scoped.execute_effect(other, calls.forbidden())) == CONFLICT

    run(scene())


def test_an_outcome_that_cannot_be_recorded_is_an_error_and_not_run_again(subject: JournalHostSubject) -> None:
    host, calls = subject.make_host(), Calls()
    endless: list[Any] = []
    endless.append(endless)

    async def scene() -> None:
        for executor in (calls.returning(endless), calls.forbidden()):
            assert await code_of(host.scoped(SCOPE).execute_effect(tool("odd"), executor)) == "unrecordable_outcome"

    run(scene())
    assert calls.made == ["odd"]


def test_an_erased_request_is_damage_and_nothing_runs(subject: JournalHostSubject) -> None:
    host, calls = subject.make_host(), Calls()

    async def scene() -> None:
        await host.scoped(SCOPE).execute_effect(step("gone", "a secret"), calls.returning("a secret"))
        give_up_leases(host)
        erase_value(host.store, "a secret", reason="asked for")
        cold = subject.reopen(host)
        assert await code_of(cold.scoped(SCOPE).execute_effect(step("gone", "a secret"), calls.forbidden())) == (
            "corrupt_record"
        )

    run(scene())


def test_strict_writes_nothing(subject: JournalHostSubject) -> None:
    store, calls = subject.opened(subject.new_url()), Calls()
    strict = subject.host(store, strict=True)
    run(_ends_with(strict, step("absent"), calls, "missing_record"))
    assert store.run_row("default", RUN) is None


async def _ends_with(host: JournalEffectHost, envelope: RuntimeEffectEnvelope, calls: Calls, code: str) -> None:
    assert await code_of(host.scoped(SCOPE).execute_effect(envelope, calls.forbidden())) == code


def test_an_ended_scope_serves_and_takes_nothing_more(subject: JournalHostSubject) -> None:
    host, calls = subject.make_host(), Calls()

    async def scene() -> None:
        scoped = host.scoped(SCOPE)
        await scoped.execute_effect(step("one"), calls.returning(1))
        await host.end_scope(SCOPE, {"answer": 1})
        assert (await scoped.execute_effect(step("one"), calls.forbidden())).into_durable_step() == 1
        with pytest.raises(ClosedRun):
            await scoped.execute_effect(step("two"), calls.forbidden())

    run(scene())
    assert verify_run(host.store, RUN).valid


def test_a_scope_at_work_is_neither_released_nor_ended() -> None:
    host, calls, go_on = JournalEffectHost(MemoryStore()), Calls(), asyncio.Event()

    async def scene() -> None:
        async def slowly() -> str:
            await go_on.wait()
            return "done"

        working = asyncio.ensure_future(
            host.scoped(SCOPE).execute_effect(tool("mail"), calls.executor(lambda _: slowly()))
        )
        while not calls.made:
            await asyncio.sleep(0.01)
        with pytest.raises(ReenactError) as caught:
            host.release(SCOPE)
        assert caught.value.code == "scope_at_work"
        assert await code_of(host.end_scope(SCOPE)) == "scope_at_work"
        go_on.set()
        assert (await working).into_tool_call() == "done"
        await host.end_scope(SCOPE)

    run(scene())


# Stores that do not answer


class Unsure(Spy):
    """Commits, or not, and does not say so."""

    def __init__(self, inner: Store, kind: str, commits: bool) -> None:
        super().__init__(inner)
        self.kind, self.commits, self.left = kind, commits, 1

    def _answer(self, events: Any, carry_out: Callable[[], Any]) -> Any:
        if self.left and events[0].kind == self.kind:
            self.left -= 1
            if self.commits:
                carry_out()
            raise OutcomeUnknown("the connection is gone")
        return carry_out()

    def append(self, namespace: str, run: str, events: Any, **more: Any) -> None:
        self._answer(events, lambda: self.inner.append(namespace, run, events, **more))

    def append_many(self, appends: Any) -> Any:
        return self._answer(appends[0].events, lambda: self.inner.append_many(appends))


@pytest.mark.parametrize("commits", [False, True])
@pytest.mark.parametrize("kind", ["ActionRequested", "ActionSucceeded"])
@pytest.mark.parametrize("envelope", [tool("effect"), step("effect")], ids=["once", "again"])
def test_an_append_of_unknown_result_is_looked_for(kind: str, commits: bool, envelope: RuntimeEffectEnvelope) -> None:
    store, calls = Unsure(MemoryStore(), kind, commits), Calls()
    host = JournalEffectHost(store)  # type: ignore[arg-type]

    async def scene() -> None:
        for executor in (calls.returning("value"), calls.forbidden()):
            assert (await host.scoped(SCOPE).execute_effect(envelope, executor)).value == "value"

    run(scene())
    assert calls.made == ["effect"]
    assert [event.kind for event in JournalReader(store.inner, RUN).scan()] == ["ActionRequested", "ActionSucceeded"]
    assert verify_run(store.inner, RUN).valid


# Leases


def test_lease_is_renewed_while_an_effect_runs(subject: JournalHostSubject) -> None:
    store, calls = subject.opened(subject.new_url()), Calls()
    host, rival = subject.host(store, lease_seconds=0.6), subject.host(store, lease_seconds=0.6, busy=Busy.YIELD)

    async def scene() -> None:
        async def long() -> str:
            await asyncio.sleep(1.6)
            return "long"

        scoped = host.scoped(SCOPE)
        working = asyncio.ensure_future(scoped.execute_effect(step("work"), calls.executor(lambda _: long())))
        ends = time.monotonic() + 1.4
        await asyncio.sleep(0.1)
        while time.monotonic() < ends:
            await _ends_with(rival, step("work"), calls, "scope_busy")
            await asyncio.sleep(0.1)
        assert (await working).into_durable_step() == "long"

    run(scene())
    assert calls.made == ["work"]


def test_lease_of_a_stopped_worker_runs_out(subject: JournalHostSubject) -> None:
    store, calls = subject.opened(subject.new_url()), Calls()
    stopped = subject.host(store, lease_seconds=0.3)
    heir = subject.host(store, lease_seconds=5)

    async def begin() -> None:
        with pytest.raises(Died):
            await stopped.scoped(SCOPE).execute_effect(step("work"), calls.dying())

    async def take_over() -> None:
        began = time.monotonic()
        outcome = await heir.scoped(SCOPE).execute_effect(step("work"), calls.returning("heir"))
        assert outcome.into_durable_step() == "heir"
        assert time.monotonic() - began > 0.1, "it waits until the lease has run out"

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
        await _ends_with(heir, tool("mail"), calls, IN_DOUBT)
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
        await _ends_with(hosts[1], step("two"), calls, "scope_busy")
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
        await _ends_with(host, tool("mail"), calls, IN_DOUBT)
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
        await asyncio.sleep(0.1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        later = subject.after_crash(host)
        key = await later.await_event_key(SCOPE, WaitIdentity.named("approval"))
        going_on = asyncio.ensure_future(later.scoped(SCOPE).execute_effect(wait, unused))
        await asyncio.sleep(0.05)
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
