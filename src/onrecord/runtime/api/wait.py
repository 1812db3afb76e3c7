"""Wait for a resolution from outside: the holder of a signed key decides.

The wait is recorded before its key can be used, and its resolution is recorded before the agent sees it. In between the
process may end: a resume waits again, or finds the resolution.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from math import isfinite
from typing import TYPE_CHECKING, Any

from onrecord.core.events import Interrupted, Resumed, WaitCreated, WaitResolved
from onrecord.core.lane_names import ROOT_LANE
from onrecord.core.lazy_regex import Pattern
from onrecord.core.wait_keys import Resolution, WaitIdentity
from onrecord.errors import InvalidInput, OnrecordError, StoreError
from onrecord.runtime.engine.boundary import is_outside, perform, perform_blocking
from onrecord.runtime.engine.context import Inside, Lane, current_effect, current_lane
from onrecord.runtime.engine.open_effect import Answers, EffectSpec
from onrecord.runtime.engine.stops import OutsideRun
from onrecord.runtime.waits import FirstOf, WaitRegistry

if TYPE_CHECKING:
    from onrecord.runtime.engine.run import LiveRun

_DURATION = Pattern(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)\s*\Z")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


class WaitFailed(OnrecordError):
    """The wait was resolved with an error, which is in `value`."""

    code = "wait_failed"

    def __init__(self, message: str, *, value: Any = None, hint: str = "", code: str | None = None) -> None:
        super().__init__(message, hint=hint, code=code)
        self.value = value


class WaitCancelled(OnrecordError):
    """The wait was cancelled from outside."""

    code = "wait_cancelled"


def parse_duration(duration: float | str | timedelta | None) -> float | None:
    """Return the seconds of `90`, `"90s"`, `"2d"` or `timedelta(days=2)`."""
    if duration is None:
        return None
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    if isinstance(duration, str):
        match = _DURATION.match(duration)
        if match is None:
            raise InvalidInput(f"not a duration: {duration[:40]!r}", hint="Such as 90, '90s', '15m', '2d'.")
        return float(match[1]) * _UNITS[match[2]]
    if not isinstance(duration, (int, float)) or not isfinite(duration):
        raise InvalidInput("a duration is a finite number of seconds", hint="Such as 90, '90s', '15m', '2d'.")
    return float(duration)


class _WaitAnswers(Answers):
    def done(self, key: str, value: Any) -> WaitResolved:
        return WaitResolved(key, value)

    def failed(self, key: str, error: BaseException) -> WaitResolved:
        code = getattr(error, "code", type(error).__name__)
        return WaitResolved(key, {"status": "error", "value": str(code)})

    def cancelled(self, key: str, error: BaseException) -> WaitResolved:
        return WaitResolved(key, {"status": "cancelled", "value": None})


def wait_for(name: str, *, timeout: float | str | timedelta | None = None) -> Any:
    """Wait until `name` is resolved, and return the value: `await wait_for("approval", timeout="2d")`.

    In a thread, call it without `await`. Raise `TimeoutError` after the timeout, `WaitFailed` if the wait was resolved
    with an error, and `WaitCancelled` if it was cancelled.
    """
    lane = _require_lane("wait_for")
    name = lane.run.secrets.redact_value(name)
    seconds = parse_duration(timeout)
    deadline = None if seconds is None else time.time() + seconds
    identity = _next_wait(lane, name)
    spec = EffectSpec(f"wait:{name}", "await_event", once=False, durable=True, answers=_WaitAnswers())

    def make(key: str) -> WaitCreated:
        return WaitCreated(key, name, None if deadline is None else round(deadline * 1e6))

    if asyncio._get_running_loop() is not None:
        return _wait_in_task(spec, make, identity, deadline)
    outcome = perform_blocking(spec, make, lambda: _to_outcome(_wait_blocking(identity, deadline)))
    return _unwrap(name, outcome)


async def _wait_in_task(spec: EffectSpec, make: Any, identity: WaitIdentity, deadline: float | None) -> Any:
    async def wait() -> Any:
        with _current_wait() as (current, registry):
            key = await asyncio.to_thread(registry.key, current.run.name, identity)
            cancel = asyncio.Event()
            try:
                return _to_outcome(
                    await registry.wait(key, cancel=cancel, deadline=_recorded_deadline(current, deadline))
                )
            except asyncio.CancelledError:
                if not current.run.is_stopped:  # the agent cancelled the wait, so a later resolution must be refused
                    registry.resolve(key, Resolution.cancelled())
                raise

    return _unwrap(spec.name[5:], await perform(spec, make, wait))


def wait_for_first(*names: str, timeout: float | str | timedelta | None = None) -> Any:
    """Wait for several names, and return the first resolved name with its value. The other waits end as lost.

    `name, value = await wait_for_first("approve", "reject", timeout="2d")`
    """
    lane, given_names = _require_lane("wait_for_first"), names
    names = tuple(lane.run.secrets.redact_value(name) for name in given_names)
    if not names or len(set(names)) != len(names):
        raise InvalidInput("wait_for_first needs at least one name, and each name once", code="bad_wait")
    seconds = parse_duration(timeout)
    deadline = None if seconds is None else time.time() + seconds
    identities = [_next_wait(lane, name) for name in names]
    for name in names:
        lane.run.kernel.name_request(lane.name, f"wait:{name}")
    joined = " | ".join(names)
    spec = EffectSpec(f"wait_first:{joined}", "await_event", once=False, durable=True, answers=_WaitAnswers())

    def make(key: str) -> WaitCreated:
        return WaitCreated(key, joined, None if deadline is None else round(deadline * 1e6))

    def to_outcome(first: FirstOf) -> dict[str, Any]:
        winner = next((names[at] for at, one in enumerate(identities) if one.id == first.winner.wait_id), None)
        return {**_to_outcome(first.resolution), "winner": winner}

    async def wait() -> Any:
        with _current_wait() as (current, registry):
            keys = [await asyncio.to_thread(registry.key, current.run.name, identity) for identity in identities]
            return to_outcome(await registry.wait_first(keys, deadline=_recorded_deadline(current, deadline)))

    def wait_blocking() -> Any:
        with _current_wait() as (current, registry):
            keys = [registry.key(current.run.name, identity) for identity in identities]
            return to_outcome(registry.wait_first_blocking(keys, deadline=_recorded_deadline(current, deadline)))

    def unwrap_first(outcome: Any) -> tuple[str, Any]:
        winner = outcome["winner"]
        return given_names[names.index(winner)] if winner in names else winner, _unwrap(joined, outcome)

    if asyncio._get_running_loop() is None:
        return unwrap_first(perform_blocking(spec, make, wait_blocking))

    async def wait_in_task() -> tuple[str, Any]:
        return unwrap_first(await perform(spec, make, wait))

    return wait_in_task()


def _wait_blocking(identity: WaitIdentity, deadline: float | None) -> Resolution:
    with _current_wait() as (current, registry):
        key = registry.key(current.run.name, identity)
        return registry.wait_blocking(key, deadline=_recorded_deadline(current, deadline))


@contextmanager
def _stopping_on_store_errors(run: LiveRun) -> Iterator[None]:
    """Stop the run if the store or the file of secrets cannot be used. That is not an outcome: a resume waits again."""
    try:
        yield
    except StoreError as error:
        run.stop_here(error)


@contextmanager
def _current_wait() -> Iterator[tuple[Inside, WaitRegistry]]:
    current = current_effect()
    assert current is not None
    registry = current.run.desk()
    with _stopping_on_store_errors(current.run):
        yield current, registry


def _recorded_deadline(current: Inside, deadline: float | None) -> float | None:
    """Return the recorded deadline of a resumed wait, which does not move, or that of a new one."""
    recorded = current.effect.recorded
    if recorded is None or current.run.history is None:
        return deadline
    recorded_us = current.run.history.members(recorded.row).get("deadline")
    return recorded_us / 1e6 if isinstance(recorded_us, int) else None


def _to_outcome(resolution: Resolution) -> dict[str, Any]:
    return {"status": resolution.status, "value": resolution.value}


def _unwrap(name: str, outcome: Any) -> Any:
    status, value = outcome["status"], outcome["value"]
    if status == "ok":
        return value
    if status == "timeout":
        raise TimeoutError(f"{name!r} was not resolved in time")
    if status == "cancelled":
        raise WaitCancelled(f"the wait for {name!r} was cancelled")
    raise WaitFailed(f"the wait for {name!r} ended with an error", value=value)


def wait_key(name: str) -> str:
    """Return the key that resolves the next `wait_for(name)` of this lane. Its holder may decide.

    A key is a secret, so the record holds a placeholder. A replay, which cannot be resolved, gets the placeholder.
    """
    lane = _require_lane("wait_key")
    name = lane.run.secrets.redact_value(name)
    run, identity = lane.run, _identity(lane, name)
    waits = run.waits_of(lane.name)
    waits.issued[name] = (waits.waited.get(name, 0), identity)  # a checkpoint may be written before the wait
    placeholder = run.stand_in(identity)
    if run.journal is None:
        return placeholder
    with _stopping_on_store_errors(run):
        text = run.desk().key(run.name, identity).text
    run.secrets.keep(text, placeholder)
    return text


def _require_lane(function: str) -> Lane:
    lane = current_lane()
    if lane is None:
        is_outside(function, depth=4)
        raise OutsideRun(f"{function} was called outside a run, where it cannot be resolved")
    return lane


def _next_wait(lane: Lane, name: str) -> WaitIdentity:
    """Return the identity of a new wait, and count it: the next wait of that name is another one.

    It is counted here, in the lane, because another task may execute the wait.
    """
    identity, waited = _identity(lane, name), lane.run.waits_of(lane.name).waited
    waited[name] = waited.get(name, 0) + 1
    return identity


def _identity(lane: Lane, name: str) -> WaitIdentity:
    """Return the identity of the lane's next wait of that name: the name, the lane and an ordinal."""
    waits = lane.run.waits_of(lane.name)
    before, issued = waits.waited.get(name, 0), waits.issued.get(name)
    if issued is not None and issued[0] == before:
        return issued[1]  # its key was issued, perhaps before a checkpoint
    return WaitIdentity.named(name if lane.name == ROOT_LANE else f"{name}@{lane.name}", before + 1)


class _InterruptAnswers(Answers):
    def done(self, key: str, value: Any) -> Resumed:
        return Resumed(value)


def interrupt(value: Any = None) -> Any:
    """Block the run until it is resumed with a decision, and return the decision. `value` describes the question."""
    lane = _require_lane("interrupt")
    name, waited = f"interrupt@{lane.name}", lane.run.waits_of(lane.name).waited
    waited[name] = waited.get(name, 0) + 1
    identity = WaitIdentity.named(name, waited[name])
    spec = EffectSpec("interrupt", "await_event", once=False, durable=True, answers=_InterruptAnswers())

    def make(_: str) -> Interrupted:
        return Interrupted(value)

    if asyncio._get_running_loop() is None:
        return perform_blocking(spec, make, lambda: _wait_blocking(identity, None).value)

    async def wait() -> Any:
        with _current_wait() as (current, registry):
            key = await asyncio.to_thread(registry.key, current.run.name, identity)
            return (await registry.wait(key)).value

    return perform(spec, make, wait)
