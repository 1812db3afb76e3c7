"""The cases of the `lash` seed, under their own names, over every host that claims them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from kit.host_subjects import JournalHostSubject, subject_over
from onrecord.hosts.contract import EffectHost, LocalExecutor
from onrecord.hosts.envelopes import (
    Clock,
    DurableStep,
    RuntimeEffectControllerError,
    RuntimeEffectEnvelope,
    RuntimeEffectKind,
    RuntimeInvocation,
    Sleep,
)
from onrecord.hosts.in_process import InProcessEffectHost
from onrecord.hosts.recording_host import RecordingEffectHost, RecordingEffectHostRecord
from onrecord.hosts.scopes import ExecutionScope, RuntimeScope
from onrecord.testing.effect_conformance import EffectHostSubject, await_events, concurrency, durable_steps, scopes

JOURNALS = ["memory", "sqlite", "postgres"]


class Made(EffectHostSubject):
    def __init__(self, make: Callable[[], EffectHost]) -> None:
        self.make_host = make  # type: ignore[method-assign]


def subjects(request: pytest.FixtureRequest, kind: str) -> Iterator[EffectHostSubject]:
    if kind == "in_process":
        yield Made(InProcessEffectHost)
    elif kind == "recording":
        yield Made(RecordingEffectHost)
    else:
        yield from subject_over(kind, request)


@pytest.fixture(params=[*JOURNALS, "in_process", "recording"])
def any_host(request: pytest.FixtureRequest) -> Iterator[EffectHost]:
    for subject in subjects(request, request.param):
        yield subject.make_host()


@pytest.fixture(params=[*JOURNALS, "in_process"])
def waiting_host(request: pytest.FixtureRequest) -> Iterator[EffectHost]:
    for subject in subjects(request, request.param):
        yield subject.make_host()


@pytest.fixture(params=JOURNALS)
def durable(request: pytest.FixtureRequest) -> Iterator[JournalHostSubject]:
    yield from subject_over(request.param, request)


def run(work: Awaitable[None]) -> None:
    async def guarded() -> None:
        async with asyncio.timeout(30):
            await work

    asyncio.run(guarded())


# Scopes


def test_effect_host_preserves_scope_metadata(any_host: EffectHost) -> None:
    run(scopes.effect_host_preserves_scope_metadata(any_host))


def test_effect_host_rejects_missing_scope_ids(any_host: EffectHost) -> None:
    run(scopes.effect_host_rejects_missing_scope_ids(any_host))


def test_effect_host_static_scope_preserves_metadata_when_available(any_host: EffectHost) -> None:
    run(scopes.effect_host_static_scope_preserves_metadata_when_available(any_host))


def test_effect_host(any_host: EffectHost) -> None:
    run(scopes.effect_host(any_host))


# Waits


def test_effect_host_await_event_key_is_stable(waiting_host: EffectHost) -> None:
    run(await_events.effect_host_await_event_key_is_stable(waiting_host))


def test_effect_host_await_event_accepts_early_resolution(waiting_host: EffectHost) -> None:
    run(await_events.effect_host_await_event_accepts_early_resolution(waiting_host))


def test_effect_host_await_event_duplicate_resolution_is_terminal(waiting_host: EffectHost) -> None:
    run(await_events.effect_host_await_event_duplicate_resolution_is_terminal(waiting_host))


def test_effect_host_await_event_cancel_and_timeout_are_terminal(waiting_host: EffectHost) -> None:
    run(await_events.effect_host_await_event_cancel_and_timeout_are_terminal(waiting_host))


def test_effect_host_await_event_revokes_session_scope(waiting_host: EffectHost) -> None:
    run(await_events.effect_host_await_event_revokes_session_scope(waiting_host))


def test_effect_host_await_event_rejects_tampered_keys(waiting_host: EffectHost) -> None:
    run(await_events.effect_host_await_event_rejects_tampered_keys(waiting_host))


def test_effect_host_await_events(waiting_host: EffectHost) -> None:
    run(await_events.effect_host_await_events(waiting_host))


# Durable steps and concurrency: replayed by the same controller, and by a cold one


def test_effect_host_durable_steps(durable: JournalHostSubject) -> None:
    run(durable_steps.effect_host_durable_steps(durable.make_host()))


def test_effect_controller_durable_steps(durable: JournalHostSubject) -> None:
    scope = ExecutionScope.turn("durable-step-session", "durable-step-turn")
    run(durable_steps.effect_controller_durable_steps(durable.make_host().scoped(scope).controller))


@pytest.mark.parametrize("cold", [False, True], ids=["warm", "cold"])
def test_effect_controller_durable_steps_replay(durable: JournalHostSubject, cold: bool) -> None:
    host, scope = durable.make_host(), ExecutionScope.turn("durable-step-session", "durable-step-turn")
    run(
        durable_steps.effect_controller_durable_steps_replay(
            host.scoped(scope).controller, lambda: durable.reopen(host).scoped(scope) if cold else None
        )
    )


@pytest.mark.parametrize("cold", [False, True], ids=["warm", "cold"])
def test_effect_controller_concurrent_replay_deterministic(durable: JournalHostSubject, cold: bool) -> None:
    host, scope = durable.make_host(), ExecutionScope.turn("effect-conformance-session", "effect-conformance-turn")
    run(
        concurrency.effect_controller_concurrent_replay_deterministic(
            host.scoped(scope).controller, lambda: durable.reopen(host).scoped(scope) if cold else None
        )
    )


# The recording host itself


def test_recording_effect_host_records_scopes_and_envelopes() -> None:
    host = RecordingEffectHost()
    scope, runtime_scope = ExecutionScope.turn("s", "t"), RuntimeScope.for_turn("s", "t", 7, 0)
    step = RuntimeEffectEnvelope(
        RuntimeInvocation.effect(runtime_scope, "step", RuntimeEffectKind.DURABLE_STEP, "key"),
        DurableStep(step_id="create", input={"x": 1}),
    )
    nap = RuntimeEffectEnvelope(
        RuntimeInvocation.effect(runtime_scope, "nap", RuntimeEffectKind.SLEEP, None), Sleep(seconds=3600.0)
    )

    async def scene() -> None:
        scoped, unused = host.scoped(scope), LocalExecutor.testing(lambda _: pytest.fail("nothing is carried out"))
        assert (await scoped.execute_effect(step, unused)).into_durable_step() == {"x": 1}
        (await scoped.execute_effect(nap, unused)).into_sleep()

    run(scene())
    host.scoped_static(ExecutionScope.process("p"))
    assert host.selected_scopes() == [scope, ExecutionScope.process("p")]
    assert host.records() == [
        RecordingEffectHostRecord(
            runtime_scope, scope, "step", RuntimeEffectKind.DURABLE_STEP, "key", step.stable_hash()
        ),
        RecordingEffectHostRecord(runtime_scope, scope, "nap", RuntimeEffectKind.SLEEP, None, nap.stable_hash()),
    ]


def test_recording_effect_host_refuses_what_it_cannot_synthesize() -> None:
    host = RecordingEffectHost()
    envelope = RuntimeEffectEnvelope(
        RuntimeInvocation.effect(RuntimeScope(), "now", RuntimeEffectKind.CLOCK, "key"), Clock()
    )

    async def scene() -> None:
        scoped = host.scoped(ExecutionScope.process("p"))
        with pytest.raises(RuntimeEffectControllerError) as caught:
            await scoped.execute_effect(envelope, LocalExecutor.testing(lambda _: pytest.fail("not carried out")))
        assert caught.value.code == "recording_effect_host_unsupported_command"

    run(scene())
    assert [record.effect_id for record in host.records()] == ["now"], "it was asked for all the same"
