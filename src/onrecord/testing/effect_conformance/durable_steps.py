"""Durable steps: run once, record value or error, serve both without running again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onrecord.hosts.contract import EffectController, EffectHost, LocalExecutor, ScopedEffectController
from onrecord.hosts.outcomes import RuntimeEffectControllerError
from onrecord.hosts.scopes import ExecutionScope
from onrecord.testing.effect_conformance.builders import SCOPE, Calls, durable_step_conformance_envelope, error_of, step
from onrecord.testing.effect_conformance.subject import EffectHostSubject, HostClaim, add_case, case, host_case

Controller = EffectController | ScopedEffectController
StartReplay = Callable[[], "Controller | None"]
"""Called between recording and replaying. Returns the controller to replay on; None: the same one."""

DURABLE_STEP_SCOPE = ExecutionScope.turn("durable-step-session", "durable-step-turn")


async def effect_controller_durable_steps(controller: Controller) -> None:
    assert controller.supports_durable_effects, (
        "durable-step conformance requires a controller that advertises durable effects"
    )
    first = durable_step_conformance_envelope("create", {"x": 1})
    second = durable_step_conformance_envelope("create", {"x": 1})
    assert first.stable_hash() == second.stable_hash(), "same step id/input/replay key must hash stably"
    assert first.invocation.replay_key is not None, "durable-step envelope must carry replay.key"
    changed = durable_step_conformance_envelope("create", {"x": 2})
    assert first.stable_hash() != changed.stable_hash(), (
        "durable-step input must participate in the stable envelope hash"
    )

    async def record(value: Any) -> Any:
        return {"recorded": value}

    outcome = await controller.execute_effect(first, LocalExecutor.durable_step(record))
    assert outcome.into_durable_step() == {"recorded": {"x": 1}}
    error = await error_of(
        controller.execute_effect(
            durable_step_conformance_envelope("error", {"x": 1}),
            _make_failing("durable_step_conformance_error", "durable step failed"),
        )
    )
    assert getattr(error, "code", None) == "durable_step_conformance_error"


@host_case(HostClaim.DURABLE)
async def effect_host_durable_steps(host: EffectHost) -> None:
    assert host.supports_durable_effects, "durable-step conformance requires a host that advertises durable effects"
    await effect_controller_durable_steps(host.scoped(DURABLE_STEP_SCOPE).controller)


async def effect_controller_durable_steps_replay(
    controller: Controller, start_replay: StartReplay = lambda: None
) -> None:
    await effect_controller_durable_steps(controller)
    success = durable_step_conformance_envelope("replay-success", {"n": 1})
    error = durable_step_conformance_envelope("replay-error", {"n": 2})

    async def record(value: Any) -> Any:
        return {"first": value}

    first_success = await controller.execute_effect(success, LocalExecutor.durable_step(record))
    assert first_success.into_durable_step() == {"first": {"n": 1}}
    first_error = await error_of(
        controller.execute_effect(error, _make_failing("durable_step_replay_error", "recorded error"))
    )
    assert getattr(first_error, "code", None) == "durable_step_replay_error"

    controller = start_replay() or controller
    local_calls: list[Any] = []

    async def called(value: Any) -> Any:
        local_calls.append(value)
        raise RuntimeEffectControllerError(
            "durable_step_replay_local_executor_called", "recorded durable-step replay must not invoke local execution"
        )

    replay_success = await controller.execute_effect(success, LocalExecutor.durable_step(called))
    assert replay_success.into_durable_step() == {"first": {"n": 1}}
    replay_error = await error_of(controller.execute_effect(error, LocalExecutor.durable_step(called)))
    assert getattr(replay_error, "code", None) == "durable_step_replay_error"
    assert str(replay_error) == "recorded error", "a replayed error brings its message as well as its code"
    assert local_calls == [], "durable-step replay must not invoke local closures"


add_case(
    "effect_controller_durable_steps_replay",
    (HostClaim.DURABLE,),
    lambda subject: effect_controller_durable_steps_replay(subject.make_host().scoped(DURABLE_STEP_SCOPE).controller),
)


@case(HostClaim.DURABLE, HostClaim.SECOND_INSTANCE)
async def effect_controller_durable_steps_replay_cold(subject: EffectHostSubject) -> None:
    """Replay on a second instance over the same data."""
    host = subject.make_host()
    await effect_controller_durable_steps_replay(
        host.scoped(DURABLE_STEP_SCOPE).controller, lambda: subject.reopen(host).scoped(DURABLE_STEP_SCOPE)
    )


@case(HostClaim.DURABLE, HostClaim.SECOND_INSTANCE)
async def effect_controller_replayed_value_is_what_was_first_seen(subject: EffectHostSubject) -> None:
    """Compare types, key order and 1 with 1.0 too: a prompt made from the value must be equal."""
    host, calls = subject.make_host(), Calls()
    value = {"b": 1, "a": 1.0, "pair": (1, 2), "raw": b"\x00", "set": {1}, "big": 2**70, "": None}
    first = await host.scoped(SCOPE).execute_effect(step("value"), calls.returning(value))
    cold = subject.reopen(host)
    second = await cold.scoped(SCOPE).execute_effect(step("value"), calls.forbidden())
    assert repr(first.into_durable_step()) == repr(second.into_durable_step()) == repr(value)
    assert calls.made == ["value"]


@case(HostClaim.DURABLE, HostClaim.SECOND_INSTANCE)
async def effect_controller_replayed_error_is_the_same_error(subject: EffectHostSubject) -> None:
    host, calls = subject.make_host(), Calls()

    def fail(_: Any) -> Any:
        raise ConformanceError("out of stock", 17) from LookupError("no such item")

    for serving in (host, host, subject.reopen(host)):
        error = await error_of(serving.scoped(SCOPE).execute_effect(step("failing"), calls.executor(fail)))
        assert isinstance(error, ConformanceError), "`except MyError` works on what was recorded"
        assert error.args == ("out of stock", 17), "the arguments are restored"
        assert error.quantity == 17, "the attributes are restored"
        assert isinstance(error.__cause__, LookupError), "the cause is restored"
    assert calls.made == ["failing"], "an error is an outcome: the effect is not tried again"


class ConformanceError(Exception):
    def __init__(self, message: str, quantity: int) -> None:
        super().__init__(message, quantity)
        self.quantity = quantity


def _make_failing(code: str, message: str) -> LocalExecutor:
    async def fail(_: Any) -> Any:
        raise RuntimeEffectControllerError(code, message)

    return LocalExecutor.durable_step(fail)
