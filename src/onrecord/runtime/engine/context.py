"""The context of running code: a lane of a run, the inside of an effect, or neither.

A lane is found by the running task or thread (`scheduler.drivers.strands`), never by a context variable: libraries run
jobs in copies of their caller's context. What an effect is, its code learns from a context variable, so that its own
tasks and threads know it too.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from onrecord.runtime.scheduler.drivers.strands import Lane, current_lane, find_lane, inside

if TYPE_CHECKING:
    from onrecord.runtime.engine.open_effect import OpenEffect
    from onrecord.runtime.engine.run import LiveRun


class Inside(NamedTuple):
    """The effect that the running code executes."""

    run: LiveRun
    effect: OpenEffect
    attempt: int

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt, in every process."""
        return f"{self.run.name}/{self.effect.key}"


EFFECT: ContextVar[Inside | None] = ContextVar("onrecord_effect", default=None)


def current_effect() -> Inside | None:
    """Return the effect that the running code executes."""
    return None if find_lane() is not None else EFFECT.get()


__all__ = ["EFFECT", "Inside", "Lane", "current_effect", "current_lane", "inside"]
