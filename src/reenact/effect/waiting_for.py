"""Waiting for a word from outside: a signed key goes out, a decision comes back.

The wait is on record before its key can be used, its end is on record before the agent sees it. In between nothing is
needed of this process: it may end, and whoever resumes the run waits on, or finds that the answer has come.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from math import isfinite
from typing import TYPE_CHECKING, Any

from reenact.core.events import Interrupted, Resumed, WaitCreated, WaitResolved
from reenact.core.lazy_patterns import Pattern
from reenact.core.wait_keys import Resolution, WaitIdentity
from reenact.effect.boundary import outside, perform, perform_blocking
from reenact.effect.lanes import Lane
from reenact.effect.places import PLACE, Inside
from reenact.effect.stopping import OutsideRun
from reenact.effect.tickets import Answers, EffectSpec
from reenact.effect.waits import FirstOf
from reenact.errors import InvalidInput, ReenactError, StoreError

if TYPE_CHECKING:
    from reenact.effect.live_run import LiveRun

_DURATION = Pattern(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)\s*\Z")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


class WaitFailed(ReenactError):
    """The wait was resolved with an error; `value` is what was said."""

    code = "wait_failed"

    def __init__(self, message: str, *, value: Any = None, hint: str = "", code: str | None = None) -> None:
        super().__init__(message, hint=hint, code=code)
        self.value = value


class WaitCancelled(ReenactError):
    """The wait was cancelled from outside."""

    code = "wait_cancelled"


def seconds_of(duration: float | str | timedelta | None) -> float | None:
    """`90`, `"90s"`, `"2d"`, `timedelta(days=2)` → seconds."""
    if duration is None:
        return None
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    if isinstance(duration, str):
        found = _DURATION.match(duration)
        if found is None:
            raise InvalidInput(f"not a duration: {duration[:40]!r}", hint="Such as 90, '90s', '15m', '2d'.")
        return float(found[1]) * _UNITS[found[2]]
    if not isinstance(duration, (int, float)) or not isfinite(duration):
        raise InvalidInput("a duration is a finite number of seconds", hint="Such as 90, '90s', '15m', '2d'.")
    return float(duration)


class _WaitAnswers(Answers):
    def done(self, key: str, value: Any) -> WaitResolved:
        return WaitResolved(key, value)

    def failed(self, key: str, error: BaseException) -> WaitResolved:
        said = getattr(error, "code", type(error).__name__)
        return WaitResolved(key, {"status": "error", "value": str(said)})

    def cancelled(self, key: str, error: BaseException) -> WaitResolved:
        return WaitResolved(key, {"status": "cancelled", "value": None})


def wait_for(name: str, *, timeout: float | str | timedelta | None = None) -> Any:
    """Waits until somebody resolves `name`, and returns the value: `await wait_for("approval", timeout="2d")`.

    In a thread it waits without `await`. `TimeoutError` when time is over, `WaitFailed` when the answer is an error.
    """
    lane = _lane("wait_for")
    name = lane.run.secrets.value_without(name)
    seconds = seconds_of(timeout)
    deadline = None if seconds is None else time.time() + seconds
    identity = _next_wait(lane, name)
    spec = EffectSpec(f"wait:{name}", "await_event", once=False, durable=True, answers=_WaitAnswers())

    def make(key: str) -> WaitCreated:
        return WaitCreated(key, name, None if deadline is None else round(deadline * 1e6))

    if asyncio._get_running_loop() is not None:
        return _wait_in_task(spec, make, identity, deadline)
    found = perform_blocking(spec, make, lambda: _resolution(_desk_wait_blocking(identity, deadline)))
    return _value(name, found)


async def _wait_in_task(spec: EffectSpec, make: Any, identity: WaitIdentity, deadline: float | None) -> Any:
    async def wait() -> Any:
        place = _inside()
        desk = place.run.desk()
        with _no_answer(place.run):
            key = await asyncio.to_thread(desk.key, place.run.name, identity)
            cancel = asyncio.Event()
            try:
                return _resolution(await desk.wait(key, cancel=cancel, deadline=_due(place, deadline)))
            except asyncio.CancelledError:
                if not place.run.is_stopped:  # the agent has given it up: nobody else may answer any more
                    desk.resolve(key, Resolution.cancelled())
                raise

    return _value(spec.name[5:], await perform(spec, make, wait))


def wait_for_first(*names: str, timeout: float | str | timedelta | None = None) -> Any:
    """Waits for several at once: the name that was resolved first, and its value. The others have lost, and are told.

    `name, value = await wait_for_first("approve", "reject", timeout="2d")`
    """
    lane, asked = _lane("wait_for_first"), names
    names = tuple(lane.run.secrets.value_without(name) for name in asked)
    if not names or len(set(names)) != len(names):
        raise InvalidInput("waiting for the first needs one name or more, each once", code="bad_wait")
    seconds = seconds_of(timeout)
    deadline = None if seconds is None else time.time() + seconds
    identities = [_next_wait(lane, name) for name in names]
    for name in names:
        lane.next_ordinal(f"wait:{name}")
    together = " | ".join(names)
    spec = EffectSpec(f"wait_first:{together}", "await_event", once=False, durable=True, answers=_WaitAnswers())

    def make(key: str) -> WaitCreated:
        return WaitCreated(key, together, None if deadline is None else round(deadline * 1e6))

    def found(first: FirstOf) -> dict[str, Any]:
        won = next((names[at] for at, one in enumerate(identities) if one.id == first.winner.wait_id), None)
        return {**_resolution(first.resolution), "winner": won}

    async def wait() -> Any:
        place = _inside()
        desk = place.run.desk()
        with _no_answer(place.run):
            keys = [await asyncio.to_thread(desk.key, place.run.name, identity) for identity in identities]
            return found(await desk.wait_first(keys, deadline=_due(place, deadline)))

    def wait_blocking() -> Any:
        place = _inside()
        desk = place.run.desk()
        with _no_answer(place.run):
            keys = [desk.key(place.run.name, identity) for identity in identities]
            return found(desk.wait_first_blocking(keys, deadline=_due(place, deadline)))

    def opened(answer: Any) -> tuple[str, Any]:
        winner = answer["winner"]
        return asked[names.index(winner)] if winner in names else winner, _value(together, answer)

    if asyncio._get_running_loop() is None:
        return opened(perform_blocking(spec, make, wait_blocking))

    async def in_task() -> tuple[str, Any]:
        return opened(await perform(spec, make, wait))

    return in_task()


def _desk_wait_blocking(identity: WaitIdentity, deadline: float | None) -> Resolution:
    place = _inside()
    desk = place.run.desk()
    with _no_answer(place.run):
        return desk.wait_blocking(desk.key(place.run.name, identity), deadline=_due(place, deadline))


@contextmanager
def _no_answer(run: LiveRun) -> Iterator[None]:
    """A store that cannot be reached, or a file of secrets that cannot be read, is nobody's word on what is waited
    for: the run stops where it is, and waits on once that is mended."""
    try:
        yield
    except StoreError as trouble:
        run.stop_here(trouble)


def _inside() -> Inside:
    place = PLACE.get()
    assert isinstance(place, Inside)
    return place


def _due(place: Inside, deadline: float | None) -> float | None:
    """The deadline on record: it does not move when another process waits on."""
    recorded = place.ticket.recorded
    if recorded is None or place.run.past is None:
        return deadline
    kept = place.run.past.members(recorded.row).get("deadline")
    return kept / 1e6 if isinstance(kept, int) else None


def _resolution(resolution: Resolution) -> dict[str, Any]:
    return {"status": resolution.status, "value": resolution.value}


def _value(name: str, found: Any) -> Any:
    status, value = found["status"], found["value"]
    if status == "ok":
        return value
    if status == "timeout":
        raise TimeoutError(f"nobody resolved {name!r} in time")
    if status == "cancelled":
        raise WaitCancelled(f"waiting for {name!r} was cancelled")
    raise WaitFailed(f"waiting for {name!r} ended with an error", value=value)


def wait_key(name: str) -> str:
    """The key that resolves the next `wait_for(name)` of this lane, as text: whoever has it may decide.

    In the record its place is taken by a name: a key is a secret. A replay, which nobody can resolve, gets the name.
    """
    lane = _lane("wait_key")
    name = lane.run.secrets.value_without(name)
    run, identity = lane.run, _identity(lane, name)
    if lane.main:  # a checkpoint may come before the wait does
        lane.keys = {**(lane.keys or {}), name: (lane.waits.get(name, 0), identity)}
    stand_in = run.stand_in(identity)
    if run.journal is None:
        return stand_in
    with _no_answer(run):
        text = run.desk().key(run.name, identity).text
    run.secrets.keep(text, stand_in)
    return text


def _lane(what: str) -> Lane:
    lane = PLACE.get()
    if type(lane) is not Lane:
        outside(what, depth=4)
        raise OutsideRun(f"{what} was called outside of any run, where nobody could answer")
    return lane


def _next_wait(lane: Lane, name: str) -> WaitIdentity:
    """The wait that is asked for now. It is counted here, since a task of its own may carry it out: the next one of
    that name is another one, which no earlier answer ends."""
    identity = _identity(lane, name)
    lane.waits[name] = lane.waits.get(name, 0) + 1
    return identity


def _identity(lane: Lane, name: str) -> WaitIdentity:
    """Two waits of one name in a run are told apart by lane and number."""
    before = lane.waits.get(name, 0)
    given = lane.keys.get(name) if lane.keys is not None else None
    if given is not None and given[0] == before:
        return given[1]  # before a checkpoint, perhaps
    where = lane.birth  # not its number: a lane that has asked for nothing yet has none, and may ask for its key
    return WaitIdentity.named(name if where == "0" else f"{name}@{where}", before + 1)


class _InterruptAnswers(Answers):
    def done(self, key: str, value: Any) -> Resumed:
        return Resumed(value)


def interrupt(value: Any = None) -> Any:
    """Blocks the run until somebody resumes it with a decision, which is returned. `value` says what is asked."""
    lane = _lane("interrupt")
    name = f"interrupt@{lane.birth}"
    lane.waits[name] = lane.waits.get(name, 0) + 1
    identity = WaitIdentity.named(name, lane.waits[name])
    spec = EffectSpec("interrupt", "await_event", once=False, durable=True, answers=_InterruptAnswers())

    def make(_: str) -> Interrupted:
        return Interrupted(value)

    if asyncio._get_running_loop() is None:
        return perform_blocking(spec, make, lambda: _desk_wait_blocking(identity, None).value)

    async def wait() -> Any:
        place = _inside()
        desk = place.run.desk()
        with _no_answer(place.run):
            key = await asyncio.to_thread(desk.key, place.run.name, identity)
            return (await desk.wait(key)).value

    return perform(spec, make, wait)


__all__ = ["WaitCancelled", "WaitFailed", "interrupt", "seconds_of", "wait_for", "wait_for_first", "wait_key"]
