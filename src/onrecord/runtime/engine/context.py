"""Where the running code stands: in a lane of a run, inside an effect, or in no run at all.

One context variable tells. Tasks, jobs and timers inherit it the way they inherit any context, so whatever an agent
starts belongs to its run, and whatever an effect starts belongs to the effect.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from onrecord.runtime.engine.open_effect import OpenEffect
    from onrecord.runtime.engine.run import LiveRun
    from onrecord.runtime.scheduler.lanes import Lane


class Inside(NamedTuple):
    """Code of an effect that is being carried out: no lane, no ordinal, no event."""

    run: LiveRun
    ticket: OpenEffect
    attempt: int

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt, whichever process makes it."""
        return f"{self.run.name}/{self.ticket.key}"


PLACE: ContextVar[Lane | Inside | None] = ContextVar("onrecord_place", default=None)


@contextmanager
def nowhere() -> Iterator[None]:
    """What happens inside belongs to no lane. Not by a token: a fork may leave it in another process."""
    place = PLACE.get()
    PLACE.set(None)
    try:
        yield
    finally:
        PLACE.set(place)


nobody = Context
"""Makes the context of a callback that belongs to no lane. Each has its own: two threads cannot be in one at once."""


class _Here(threading.local):
    token: object = None
    """What turns know the current thread by; None for a loop's own thread and for threads of no run."""
    ahead: float = 0.0
    """Seconds by which the clock of its time-outs is ahead: a late wait is late again without waiting
    (`scheduler.conditions`)."""


HERE = _Here()
