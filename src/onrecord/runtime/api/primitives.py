"""Time, randomness, sleep and state for agents.

Clock and random values are draws: they are written with the next commit, since nothing outside has seen them before. A
sleep is an effect: its due time is recorded, and a resume sleeps only for the rest.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from os import urandom
from typing import Any
from uuid import UUID

from onrecord.core.events import ActionRequested, StateUpdated
from onrecord.core.state import encode_state
from onrecord.errors import InvalidInput
from onrecord.runtime.engine.boundary import is_outside, perform, perform_blocking
from onrecord.runtime.engine.context import current_effect, current_lane
from onrecord.runtime.engine.open_effect import EffectSpec
from onrecord.runtime.engine.outcomes import own_copy

_SLEEP = EffectSpec("sleep", "sleep", once=False)


def now() -> datetime:
    """Return the current time in UTC; in a replay or resume, the recorded one."""
    moment: datetime = _draw("now", lambda: datetime.now(UTC))
    return moment


def random() -> float:
    """Return a random number from 0 (included) to 1 (excluded)."""
    number: float = _draw("random", lambda: int.from_bytes(urandom(7), "big") / (1 << 56))
    return number


def uuid() -> UUID:
    """Return a random UUID."""
    value: UUID = _draw("uuid", lambda: UUID(bytes=urandom(16), version=4))
    return value


def _draw(kind: str, make: Callable[[], Any]) -> Any:
    lane = current_lane()
    if lane is None:
        return make()  # outside a run nothing is replayed
    return lane.run.draw(lane, kind, make)


def sleep(seconds: float) -> Any:
    """Sleep durably: `await sleep(60)` in a task, `sleep(60)` in a thread."""
    if not isinstance(seconds, (int, float)) or not 0 <= seconds < 1e12:
        raise InvalidInput("a sleep takes a number of seconds that is not negative", code="bad_sleep")
    due = time.time() + seconds

    def make(key: str) -> ActionRequested:
        return ActionRequested(key, {"seconds": seconds}, "sleep", "sleep", meta={"due": round(due * 1e6)})

    if asyncio._get_running_loop() is not None:
        if is_outside("sleep"):
            return asyncio.sleep(seconds)
        return perform(_SLEEP, make, lambda: asyncio.sleep(_seconds_left(due)))
    if is_outside("sleep"):
        return time.sleep(seconds)
    return perform_blocking(_SLEEP, make, lambda: time.sleep(_seconds_left(due)))


def _seconds_left(due: float) -> float:
    """Return the seconds until the recorded due time."""
    current = current_effect()
    if current is not None and current.effect.recorded is not None and current.run.history is not None:
        meta = current.run.history.members(current.effect.recorded.row).get("meta")
        if isinstance(meta, dict) and isinstance(meta.get("due"), int):
            due = meta["due"] / 1e6
    return max(0.0, due - time.time())


def set_state(value: Any, *, step_id: str | None = None) -> None:
    """Replace the run's state. It is recorded, and `state` returns it from now on."""
    lane = current_lane()
    if lane is not None:
        encode_state(value)  # refuses a state that could not be restored
        lane.run.update_state(lane, StateUpdated(own_copy(value), step_id))
    elif not is_outside("set_state"):  # warns once
        return


def state() -> Any:
    """Return the run's state as it was last set, or None."""
    lane = current_lane()
    return None if lane is None else own_copy(lane.run.state)
