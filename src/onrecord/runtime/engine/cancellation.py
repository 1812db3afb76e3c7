"""A run that is told to end: that is handed to the agent in its turn, like an answer, and comes back where it was."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from onrecord.core.events import SignalReceived
from onrecord.runtime.engine.open_effect import EffectSpec, NoWaiter, OpenEffect
from onrecord.runtime.replay.records import RecordedCheckpoint, RecordedRequest
from onrecord.runtime.scheduler.delivery_item import SIGNAL, Item

if TYPE_CHECKING:
    from onrecord.runtime.engine.run import LiveRun


class Cancelling:
    def __init__(self, run: LiveRun) -> None:
        self._run = run
        self.item: Item | None = None
        self.is_due = False
        """A thread cannot be interrupted: it is told when it next asks for something."""

    def asked(self, reason: Any = None) -> None:
        """Somebody wants the run to end."""
        run, item = self._run, self.item
        with run.lock:
            if run.is_stopped or item is None or item.ticket is not None:
                return
            spec = EffectSpec("cancel", "await_event", once=False)
            ticket = OpenEffect(run.root, spec, "", SignalReceived("cancel", reason), NoWaiter())
            ticket.answer, ticket.item = ticket.event, item
            item.ticket = ticket
            if run.is_live:
                run.turns.arrive(item)
            else:
                run.on_live.append(lambda: run.turns.pending.append(item))

    def on(self, cancel: Callable[[], None], *, looped: bool = True) -> None:
        """What is to be done when the run is told to end."""
        self.item = Item(SIGNAL, self._run.root, 0, cancel, looped=looped)
        if not self._run.is_live:
            self._run.turns.expect(self.item)

    @property
    def reason(self) -> Any:
        ticket = self.item.ticket if self.item is not None else None
        return ticket.event.payload if ticket is not None and isinstance(ticket.event, SignalReceived) else None

    def at_next_effect(self) -> None:
        self.is_due = True

    def tell(self) -> None:
        """To the thread that asks for something now."""
        turns = self._run.turns
        if turns.replaying and type(turns.next_recorded()) not in (RecordedRequest, RecordedCheckpoint):
            turns.advance()  # the record may have it here
        if self.is_due:
            self.is_due = False
            raise asyncio.CancelledError
