"""Cancellation of a run from outside: a delivery, like an outcome, that a replay makes at the same position."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from onrecord.core.events import SignalReceived
from onrecord.runtime.engine.open_effect import MadeOutcome
from onrecord.runtime.replay.records import RecordedOutcome
from onrecord.runtime.scheduler.drivers.coordinator import WakeUp
from onrecord.runtime.scheduler.drivers.strands import Strand

if TYPE_CHECKING:
    from onrecord.runtime.engine.run import LiveRun
    from onrecord.runtime.scheduler.items import Token

CANCEL = "cancel"
_KEY = f"!{CANCEL}"


class Cancellation:
    """The order to end the run, which its kernel listens to (`Awaited`)."""

    def __init__(self, run: LiveRun) -> None:
        self._run = run
        self._token: Token | None = None
        self._asked: MadeOutcome | None = None
        self._cancel: Callable[[], None] | None = None
        self._is_due = False
        """A thread cannot be interrupted: it is told with its next effect."""
        self.reason: Any = None
        self.may_be_due = run.history is not None and run.history.has_signals
        """The order came, or the record has one."""

    def listen(self, cancel: Callable[[], None] | None = None) -> None:
        """Listen from here on. `cancel` ends the agent; without it, its thread is told with its next effect."""
        self._cancel = cancel
        self._token = self._run.coordinator.listen(CANCEL, self)

    def listen_again(self) -> None:
        """Listen after a checkpoint, as a process does that begins there. Called with the lock held."""
        if self._token is not None and self._token.done:
            self._asked = None
            self._token = self._run.coordinator.listen(CANCEL, self)

    def ask(self, reason: Any = None) -> None:
        """Ask the agent to end. Called by any thread."""
        run = self._run
        with run.lock:
            if run.is_stopped or self._asked is not None:
                return
            self._asked = MadeOutcome(SignalReceived(CANCEL, reason))
            self.may_be_due = True
            token = self._token
        if token is not None and token.begun:
            run.coordinator.arrived(token, self._asked)

    def begin(self, token: Token) -> None:
        if self._asked is not None:
            self._run.kernel.arrived(token, self._asked, time=self._run.kernel.time)

    def stop(self, token: Token) -> None: ...

    def deliver(self, value: Any, last: bool) -> None:
        if isinstance(value, RecordedOutcome):
            assert self._run.history is not None
            self.reason = self._run.history.members(value.row)["payload"]
        else:
            self.reason = value.event.payload
        if self._cancel is not None:
            self._cancel()
        else:
            self._is_due = True

    def check(self, strand: Strand) -> None:
        """Raise the cancellation in a thread that is about to ask for something. Called with the lock held."""
        if self._token is None or self._cancel is not None:
            return
        kernel, token = self._run.kernel, self._token
        has_arrived = token.here and not token.done if kernel.live else self._run.coordinator.expects(_KEY)
        if has_arrived:  # it is delivered at rest, before the request is made
            pause = self._run.coordinator.turn(strand.lane, "pause", WakeUp(kernel, strand))
            kernel.arrived(pause, time=kernel.time)
            self._run.coordinator.wait(strand)
        if self._is_due:
            self._is_due = False
            raise asyncio.CancelledError
