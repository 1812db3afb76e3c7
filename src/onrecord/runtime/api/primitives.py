"""What an agent asks of the world besides its tools: time, chance, sleep, state.

Clock and chance are drawn, not requested: their values are written with the next commit, since nothing outside has seen
them before. A sleep is an effect: its due time is on record, and a process that takes over waits for the rest of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from os import urandom
from typing import Any
from uuid import UUID

from reenact.core.events import ActionRequested, StateUpdated
from reenact.effect.boundary import outside, perform, perform_blocking
from reenact.effect.lanes import Lane
from reenact.effect.outcomes import own_copy
from reenact.effect.places import PLACE, Inside
from reenact.effect.tickets import EffectSpec
from reenact.errors import InvalidInput

_SLEEP = EffectSpec("sleep", "sleep", once=False)


def now() -> datetime:
    """The time of day, in UTC; the recorded one when the run comes back."""
    moment: datetime = _drawn("now", lambda: datetime.now(UTC))
    return moment


def random() -> float:
    """A number from 0 up to 1."""
    number: float = _drawn("random", lambda: int.from_bytes(urandom(7), "big") / (1 << 56))
    return number


def uuid() -> UUID:
    """A random UUID."""
    made: UUID = _drawn("uuid", lambda: UUID(bytes=urandom(16), version=4))
    return made


def _drawn(kind: str, make: Callable[[], Any]) -> Any:
    lane = PLACE.get()
    if type(lane) is not Lane:
        return make()  # nothing is lost outside of a run: nobody will ask for it again
    return lane.run.draw(lane, kind, make)


def sleep(seconds: float) -> Any:
    """Sleeps durably: `await sleep(60)` in a task, `sleep(60)` in a thread."""
    if not isinstance(seconds, (int, float)) or not 0 <= seconds < 1e12:
        raise InvalidInput("a sleep is a number of seconds from 0 on", code="bad_sleep")
    due = time.time() + seconds

    def make(key: str) -> ActionRequested:
        return ActionRequested(key, {"seconds": seconds}, "sleep", "sleep", {"due": round(due * 1e6)})

    if _in_a_task():
        if outside("sleep"):
            return asyncio.sleep(seconds)
        return perform(_SLEEP, make, lambda: asyncio.sleep(_left(due)))
    if outside("sleep"):
        return time.sleep(seconds)
    return perform_blocking(_SLEEP, make, lambda: time.sleep(_left(due)))


def _left(due: float) -> float:
    """Seconds until the sleep is over, by the due time on record."""
    place = PLACE.get()
    if isinstance(place, Inside) and place.ticket.recorded is not None and place.run.past is not None:
        meta = place.run.past.members(place.ticket.recorded.row).get("meta")
        if isinstance(meta, dict) and isinstance(meta.get("due"), int):
            due = meta["due"] / 1e6
    return max(0.0, due - time.time())


def _in_a_task() -> bool:
    return asyncio._get_running_loop() is not None


def set_state(value: Any, *, step_id: str | None = None) -> None:
    """Replaces the run's state. Like everything else it is on record, and is what `state` gives from here on."""
    lane = PLACE.get()
    if type(lane) is Lane:
        lane.run.update_state(lane, StateUpdated(own_copy(value), step_id))
    elif not outside("set_state"):  # says so once
        return


def state() -> Any:
    """The run's state as it was last set; None before."""
    lane = PLACE.get()
    return own_copy(lane.run.state) if type(lane) is Lane else None
