"""The journal-backed host: what it writes, and what it does when things go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kit.host_subjects import RUN, JournalHostSubject, ends_with, give_up_leases, journal_of, run
from onrecord.errors import ClosedRun, OnrecordError, OutcomeUnknown
from onrecord.hosts.envelopes import ModelCall, RuntimeEffectEnvelope
from onrecord.hosts.journal_backed import JournalEffectHost, is_in_doubt
from onrecord.hosts.outcomes import CONFLICT
from onrecord.journal.erasure import erase_value
from onrecord.journal.reader import JournalReader
from onrecord.journal.verify import verify_run
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore
from onrecord.testing.effect_conformance import SCOPE, Calls, Died, code_of, envelope_of, step, tool

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
        "scope": {"session_id": "conformance-session", "turn_id": "conformance-turn", "turn_index": 7, "iteration": 0},
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
        with pytest.raises(OnrecordError) as caught:
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
    run(ends_with(strict, step("absent"), calls, "missing_record"))
    assert store.run_row("default", RUN) is None


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
        with pytest.raises(OnrecordError) as caught:
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
