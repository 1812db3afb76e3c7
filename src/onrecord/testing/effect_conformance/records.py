"""Records before, after and in doubt: what is recorded when, and what the process after a dead one does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Any

from onrecord.hosts.contract import EffectHost, LocalExecutor, Settlement
from onrecord.hosts.envelopes import Clock, RuntimeEffectEnvelope, Sleep, ToolCall
from onrecord.hosts.outcomes import CONFLICT, IN_DOUBT, MISSING_RECORD
from onrecord.hosts.scopes import ExecutionScope
from onrecord.testing.effect_conformance.builders import SCOPE, Calls, Died, code_of, envelope_of, step, tool
from onrecord.testing.effect_conformance.subject import EffectHostSubject, HostClaim, case, host_case


async def assert_dies(work: Awaitable[Any]) -> None:
    try:
        await work
    except Died:
        return
    raise AssertionError("the end of the process was recorded as an outcome")


@host_case(HostClaim.DURABLE)
async def effect_controller_refuses_invalid_envelopes(host: EffectHost) -> None:
    scoped, calls = host.scoped(SCOPE), Calls()
    good = step("valid")
    mismatched = RuntimeEffectEnvelope(good.invocation, Clock())
    for broken, code in (
        (mismatched, "effect_kind_mismatch"),
        (envelope_of(Clock(), "key", " "), "missing_effect_id"),
        (envelope_of(Clock(), " ", "id"), "missing_replay_key"),
    ):
        assert await code_of(scoped.execute_effect(broken, calls.returning(1))) == code
    assert calls.made == []


@case(HostClaim.DURABLE, HostClaim.SECOND_INSTANCE)
async def effect_controller_same_key_other_input_is_refused(subject: EffectHostSubject) -> None:
    host, calls = subject.make_host(), Calls()
    await host.scoped(SCOPE).execute_effect(step("key", {"x": 1}), calls.returning("first"))
    for serving in (host, subject.reopen(host)):
        scoped = serving.scoped(SCOPE)
        other = step("key", {"x": 2})
        assert await code_of(scoped.execute_effect(other, calls.returning("second"))) == CONFLICT
        served = await scoped.execute_effect(step("key", {"x": 1}), calls.forbidden())
        assert served.into_durable_step() == "first", "the first record is kept"
    assert calls.made == ["key"], "a conflict is found before anything runs"


@host_case(HostClaim.DURABLE)
async def effect_controller_same_key_other_input_in_flight_is_refused(host: EffectHost) -> None:
    scoped, calls, go_on = host.scoped(SCOPE), Calls(), asyncio.Event()

    async def slowly() -> str:
        await go_on.wait()
        return "first"

    first = asyncio.ensure_future(scoped.execute_effect(tool("key", 1), calls.executor(lambda _: slowly())))
    while not calls.made:
        await asyncio.sleep(0.005)
    assert await code_of(scoped.execute_effect(tool("key", 2), calls.returning("second"))) == CONFLICT
    go_on.set()
    assert (await first).into_tool_call() == "first"
    assert calls.made == ["key"]


@host_case(HostClaim.DURABLE)
async def effect_controller_equal_keys_of_two_sessions_do_not_meet(host: EffectHost) -> None:
    calls = Calls()
    for session in ("one", "two"):
        scoped = host.scoped(ExecutionScope.turn(session, "same-turn"))
        outcome = await scoped.execute_effect(step("key"), calls.returning(session))
        assert outcome.into_durable_step() == session
    assert len(calls.made) == 2


@case(HostClaim.DURABLE, HostClaim.SECOND_INSTANCE)
async def effect_controller_records_the_request_before_the_effect(subject: EffectHostSubject) -> None:
    """Die in an effect that may run at most once: it must not run again without a decision.

    A host that records the request only afterwards cannot know that the effect began.
    """
    host, calls = subject.make_host(), Calls()
    await assert_dies(host.scoped(SCOPE).execute_effect(tool("mail"), calls.dying()))
    later = subject.after_crash(host)
    for _ in range(2):
        code = await code_of(later.scoped(SCOPE).execute_effect(tool("mail"), calls.returning("again")))
        assert code == IN_DOUBT, "an unknown side effect stops the run until it is settled"
    assert calls.made == ["mail"], "the effect ran once, in the first process"
    fresh = await later.scoped(SCOPE).execute_effect(tool("other mail"), calls.returning("sent"))
    assert fresh.into_tool_call() == "sent", "other effects continue"


@case(HostClaim.DURABLE, HostClaim.SECOND_INSTANCE)
async def effect_controller_repeats_what_may_be_repeated(subject: EffectHostSubject) -> None:
    host, calls = subject.make_host(), Calls()
    idempotent = envelope_of(ToolCall(tool="refund", arguments=1, idempotent=True), "refund")
    for envelope in (step("pure"), idempotent):
        await assert_dies(host.scoped(SCOPE).execute_effect(envelope, calls.dying()))
    later = subject.after_crash(host)
    for envelope in (step("pure"), idempotent):
        for executor in (calls.returning("done"), calls.forbidden()):
            assert (await later.scoped(SCOPE).execute_effect(envelope, executor)).value == "done"
    assert sorted(calls.made) == ["pure", "pure", "refund", "refund"]


@case(HostClaim.DURABLE, HostClaim.SECOND_INSTANCE)
async def effect_controller_recorded_outcome_survives_the_crash(subject: EffectHostSubject) -> None:
    """Die after the outcome was recorded: the effect never runs again, whatever the caller saw."""
    host, calls = subject.make_host(), Calls()
    await host.scoped(SCOPE).execute_effect(tool("mail"), calls.returning("sent"))
    later = subject.after_crash(host)
    served = await later.scoped(SCOPE).execute_effect(tool("mail"), calls.forbidden())
    assert served.into_tool_call() == "sent"
    assert calls.made == ["mail"]


@case(HostClaim.DURABLE, HostClaim.SECOND_INSTANCE)
async def effect_controller_asks_the_probe_about_an_effect_in_doubt(subject: EffectHostSubject) -> None:
    host, calls = subject.make_host(), Calls()
    await assert_dies(host.scoped(SCOPE).execute_effect(tool("mail"), calls.dying()))
    later = subject.after_crash(host).scoped(SCOPE)
    executor = calls.forbidden()
    executor.probe = lambda _: Settlement.done("found in the outbox", by="probe")
    assert (await later.execute_effect(tool("mail"), executor)).into_tool_call() == "found in the outbox"
    assert (await later.execute_effect(tool("mail"), calls.forbidden())).into_tool_call() == "found in the outbox"
    assert calls.made == ["mail"]


@case(HostClaim.DURABLE, HostClaim.SECOND_INSTANCE, HostClaim.SETTLING)
async def effect_host_settles_effects_in_doubt(subject: EffectHostSubject) -> None:
    host, calls = subject.make_host(), Calls()
    for key in ("done", "fail", "retry"):
        await assert_dies(host.scoped(SCOPE).execute_effect(tool(key), calls.dying()))
    later = subject.after_crash(host)
    scoped = later.scoped(SCOPE)
    subject.settle(later, SCOPE, "done", Settlement.done({"sent": True}, by="operator"))
    subject.settle(later, SCOPE, "fail", Settlement.fail("mail_bounced", "nobody there"))
    subject.settle(later, SCOPE, "retry", Settlement.retry())
    assert (await scoped.execute_effect(tool("done"), calls.forbidden())).into_tool_call() == {"sent": True}
    assert await code_of(scoped.execute_effect(tool("fail"), calls.forbidden())) == "mail_bounced"
    assert (await scoped.execute_effect(tool("retry"), calls.returning("sent"))).into_tool_call() == "sent"
    assert (await scoped.execute_effect(tool("retry"), calls.forbidden())).into_tool_call() == "sent"
    assert sorted(calls.made) == ["done", "fail", "retry", "retry"]


@case(HostClaim.DURABLE, HostClaim.SECOND_INSTANCE)
async def effect_controller_sleep_keeps_its_due_time(subject: EffectHostSubject) -> None:
    host, seconds = subject.make_host(), 1.0
    envelope, unused = envelope_of(Sleep(seconds=seconds), "nap"), Calls().forbidden()
    began = time.monotonic()
    sleeping = asyncio.ensure_future(host.scoped(SCOPE).execute_effect(envelope, unused))
    await asyncio.sleep(seconds / 2)
    sleeping.cancel()
    await asyncio.gather(sleeping, return_exceptions=True)
    later = subject.after_crash(host)
    went_on = time.monotonic()
    (await later.scoped(SCOPE).execute_effect(envelope, unused)).into_sleep()
    assert time.monotonic() - began >= seconds - 0.02, "the sleep does not end early"
    assert time.monotonic() - went_on < seconds - 0.05, "only the rest is slept, not the whole time again"
    began = time.monotonic()
    await later.scoped(SCOPE).execute_effect(envelope, unused)
    assert time.monotonic() - began < seconds / 2, "a finished sleep is not repeated"


@case(HostClaim.DURABLE, HostClaim.SECOND_INSTANCE, HostClaim.STRICT)
async def effect_host_strict_serves_the_record_alone(subject: EffectHostSubject) -> None:
    host, calls = subject.make_host(), Calls()
    await host.scoped(SCOPE).execute_effect(step("recorded"), calls.returning("value"))
    await assert_dies(host.scoped(SCOPE).execute_effect(step("begun"), calls.dying()))
    strict = subject.strict(host).scoped(SCOPE)
    assert (await strict.execute_effect(step("recorded"), calls.forbidden())).into_durable_step() == "value"
    assert await code_of(strict.execute_effect(step("absent"), calls.forbidden())) == MISSING_RECORD
    assert await code_of(strict.execute_effect(step("begun"), calls.forbidden())) == MISSING_RECORD
    assert await code_of(strict.execute_effect(step("recorded", 2), calls.forbidden())) == CONFLICT
    unknown = subject.strict(host).scoped(ExecutionScope.process("never-begun"))
    assert await code_of(unknown.execute_effect(step("recorded"), calls.forbidden())) == MISSING_RECORD
    assert calls.made == ["recorded", "begun"]


@host_case(HostClaim.DURABLE)
async def effect_controller_wrong_outcome_is_an_error(host: EffectHost) -> None:
    scoped, calls = host.scoped(SCOPE), Calls()
    executor = LocalExecutor.of(Clock.kind, lambda _: 1)
    for each in (executor, calls.forbidden()):
        assert await code_of(scoped.execute_effect(step("odd"), each)) == "unexpected_effect_outcome"
    assert calls.made == [], "the effect ran once, whatever its outcome"
