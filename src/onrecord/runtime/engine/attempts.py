"""Attempts of an effect, as its retry policy allows: one request, one outcome, any number of attempts.

Rules:

1. An attempt that failed under a retry policy is on record (`AttemptRecorded`) before anything else happens, and so is
   the success that follows failures. A first attempt that succeeds needs no record beside its request and its answer.
2. Each record tells what stands nowhere else, and points to what does: the input is in the request, the output in the
   answer, the state in the journal up to `checkpoint`.
3. A pause survives the process: its end is on record, and whoever comes back waits for what is left of it.
4. An attempt that takes too long has failed. A task is cancelled. A thread cannot be: it is left to itself, and
   whatever it still does is not the effect's any more. A blocking function with a time limit must bear that.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any

import msgspec

from onrecord.core.events import AttemptRecorded
from onrecord.errors import InvalidInput
from onrecord.journal.chain import Draft
from onrecord.runtime.api.retry import Retry
from onrecord.runtime.engine.context import EFFECT, Inside

if TYPE_CHECKING:
    from onrecord.runtime.engine.open_effect import EffectSpec, OpenEffect
    from onrecord.runtime.engine.run import LiveRun
    from onrecord.runtime.replay.records import RecordedRequest

FAILED, RETRIED, SUCCEEDED = "failed", "retried", "succeeded"
NOTES_KEPT = 100
"""Of one attempt: a loop that notes without end must not fill the journal."""
_NOTES: ContextVar[list[list[Any]] | None] = ContextVar("onrecord_attempt_notes", default=None)


def note_attempt(kind: str, value: Any) -> None:
    """Inside an effect: something worth keeping with this attempt (`tool`, `guardrail`, `artifact`, …).

    It is recorded if the attempt is: when it failed and may be repeated, and when it succeeded after failures.
    """
    notes = _NOTES.get()
    if notes is None:
        raise InvalidInput("there is an attempt to note something for only inside of an effect", code="outside_effect")
    if len(notes) < NOTES_KEPT:
        notes.append([kind, value])


def note_call(name: str) -> None:
    """An effect was called inside of another one, where it is simply done."""
    notes = _NOTES.get()
    if notes is not None and len(notes) < NOTES_KEPT:
        notes.append(["tool", name])


def begin_single(run: LiveRun, effect: OpenEffect) -> bool:
    """Begin the attempt if it is the only one there will be, and there was none before. Return False otherwise."""
    spec = effect.spec
    if spec.retry is not None or spec.timeout_seconds is not None:
        return False
    if effect.token.recorded is not None and _open_request(run, effect) is not None:
        return False
    EFFECT.set(Inside(run, effect, 1))
    _NOTES.set([])
    return True


def _open_request(run: LiveRun, effect: OpenEffect) -> RecordedRequest | None:
    """Return the recorded request of an effect that is executed again, with its attempts."""
    return run.history.open.get(effect.key) if run.history is not None and effect.recorded is not None else None


class Attempts:
    def __init__(self, run: LiveRun, effect: OpenEffect) -> None:
        self._run = run
        self._effect = effect
        recorded = _open_request(run, effect)
        self._number, self._resting_us = 1, 0
        self._began_us = _now_us() if recorded is None else recorded.time
        if recorded is not None and recorded.attempts:
            self._number = recorded.attempts + 1
            self._resting_us = _rest_of_pause(run, recorded)
        self._checkpoint = 0
        self.place = Inside(run, effect, self._number)
        EFFECT.set(self.place)

    async def execute(self, call: Callable[[], Awaitable[Any]]) -> Any:
        pause: float | None = self._resting_us / 1_000_000
        while pause is not None:
            if pause > 0:
                await asyncio.sleep(pause)
            seconds = self._begin()
            try:
                if seconds is None:
                    value = await call()
                else:
                    async with asyncio.timeout(seconds):
                        value = await call()
            except Exception as error:
                pause = self._after(error)
                if pause is None:
                    raise
            else:
                self._succeeded()
                return value

    def execute_blocking(self, call: Callable[[], Any]) -> Any:
        pause: float | None = self._resting_us / 1_000_000
        while pause is not None:
            if pause > 0:
                time.sleep(pause)
            seconds = self._begin()
            try:
                value = call() if seconds is None else _within(seconds, call)
            except Exception as error:
                pause = self._after(error)
                if pause is None:
                    raise
            else:
                self._succeeded()
                return value

    def _begin(self) -> float | None:
        """An attempt begins; how long it may take."""
        run = self._run
        if run.stopped is not None:
            run.check_going_on()  # it has been stopped during the pause
        _NOTES.set([])
        spec = self._effect.spec
        if spec.retry is None:
            return spec.timeout_seconds
        self._checkpoint = run.journal.position if run.journal is not None else 0
        limits = [spec.timeout_seconds, self._left()]
        return min((limit for limit in limits if limit is not None), default=None)

    def _left(self) -> float | None:
        """Seconds that are left for all attempts together."""
        retry = self._effect.spec.retry
        if not isinstance(retry, Retry) or retry.max_seconds is None:
            return None
        return max(0.001, retry.max_seconds - (_now_us() - self._began_us) / 1_000_000)

    def _after(self, error: Exception) -> float | None:
        """Seconds until the next attempt; None when this was the last one."""
        retry = self._effect.spec.retry
        if retry is None:
            return None
        elapsed = max(0, _now_us() - self._began_us) / 1_000_000
        pause: float | None = retry.delay_after(self._number, error, self.place.idempotency_key, elapsed)
        self._record(error, pause)
        if pause is not None:
            self._number += 1
            self.place = self.place._replace(attempt=self._number)
            EFFECT.set(self.place)
        return pause

    def _succeeded(self) -> None:
        if self._number > 1 and not self._effect.token.is_written:
            draft = closing_draft(self.place, self._checkpoint)
            assert draft is not None
            self._run.note_now(draft.event, self._effect.lane)

    def _record(self, error: Exception, pause: float | None) -> None:
        snapshots = _snapshots(self.place, self._checkpoint)
        snapshots["error"] = error
        if pause is not None:
            snapshots["pause"] = {"seconds": pause, "until": _now_us() + int(pause * 1_000_000)}
        status = FAILED if pause is None else RETRIED
        event = AttemptRecorded(self._effect.key, self._number, status, snapshots)
        self._run.note_now(event, self._effect.lane)


def closing_draft(place: Inside, checkpoint: int | None = None) -> Draft | None:
    """The record of a success, if failures came before it."""
    if place.attempt == 1:
        return None
    snapshots = _snapshots(place, checkpoint)
    snapshots["output"] = {"action": place.effect.key}
    event = AttemptRecorded(place.effect.key, place.attempt, SUCCEEDED, snapshots)
    return Draft(event, lane=place.effect.lane)


def _snapshots(place: Inside, checkpoint: int | None) -> dict[str, Any]:
    """What there is to tell of an attempt. Contents are referred to by action or seq, never repeated."""
    run = place.run
    if checkpoint is None:
        checkpoint = run.journal.position if run.journal is not None else 0
    made: dict[str, Any] = {
        "spec": _spec(place.effect.spec),
        "input": {"action": place.effect.key},
        "checkpoint": {"seq": checkpoint},
    }
    if run.guard is not None:
        made["budget"] = run.guard.totals()
        made["guardrails"] = run.guard.denials()
    for kind, value in _NOTES.get() or ():
        made.setdefault("events", []).append([kind, value])
    return made


def _spec(spec: EffectSpec) -> dict[str, Any]:
    made: dict[str, Any] = {"name": spec.name, "kind": spec.kind, "timeout_seconds": spec.timeout_seconds}
    if isinstance(spec.retry, Retry):
        made["retry"] = {
            name: value if not isinstance(value, tuple) else [_name(one) for one in value]
            for name, value in msgspec.structs.asdict(spec.retry).items()
        }
    return made


def _name(kind: type[BaseException] | str) -> str:
    return kind if isinstance(kind, str) else kind.__qualname__


def _now_us() -> int:
    return time.time_ns() // 1000


def _rest_of_pause(run: LiveRun, recorded: RecordedRequest) -> int:
    """Microseconds that are left of the pause after the last recorded attempt."""
    reader = run.reader
    until = longest = 0
    for row in reader.store.scan(reader.namespace, reader.run, recorded.seq + 1):
        if row.kind != "AttemptRecorded":
            continue
        tree = reader.content_tree(row, reader.link(row)) or {}
        snapshots = tree.get("snapshots")
        if tree.get("action_id") == recorded.key and isinstance(snapshots, dict) and "pause" in snapshots:
            pause = snapshots["pause"]
            until, longest = int(pause["until"]), int(pause["seconds"] * 1_000_000)
    # A clock that was set back must not make it longer than it was.
    return max(0, min(until - _now_us(), longest))


def _within(seconds: float, call: Callable[[], Any]) -> Any:
    """Calls it in a thread of its own, and waits no longer than that. The thread is then left to itself."""
    done = threading.Event()
    made: list[tuple[Any, BaseException | None]] = []

    def work() -> None:
        try:
            made.append((call(), None))
        except BaseException as error:
            made.append((None, error))
        done.set()

    thread = threading.Thread(target=copy_context().run, args=(work,), name="onrecord-attempt", daemon=True)
    thread.start()
    if not done.wait(seconds):
        raise TimeoutError(f"it took longer than {seconds:g} seconds")
    value, error = made[0]
    if error is not None:
        raise error
    return value
