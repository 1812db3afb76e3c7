"""The half of a run that deals with answers: what came of an effect is committed, and handed over in its turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onrecord.core.events import ChunkReceived, Event
from onrecord.journal.chain import Draft
from onrecord.runtime.engine.open_effect import OpenEffect
from onrecord.runtime.replay.records import CANCELLED
from onrecord.runtime.scheduler.delivery_item import Item
from onrecord.runtime.scheduler.scheduler import Scheduler

if TYPE_CHECKING:
    import threading

    from onrecord.journal.journal import Journal
    from onrecord.runtime.replay.replayer import Replayer
    from onrecord.runtime.secrets.run_secrets import Secrets


class Answering:
    """`LiveRun` is the other half, and has everything that is only named here."""

    lock: threading.RLock
    turns: Scheduler
    waiting: set[OpenEffect]
    coming_back: Replayer | None
    journal: Journal | None
    secrets: Secrets
    is_stopped: bool

    if TYPE_CHECKING:

        @property
        def is_live(self) -> bool: ...

        def check_going_on(self) -> None: ...

        def write(self, drafts: Sequence[Draft], *, sync: bool) -> bool: ...

        def add(self, event: Event, lane: str, key: str | None = None) -> None: ...

    def answered(self, ticket: OpenEffect, answer: Event, error: BaseException | None = None) -> None:
        """The effect has been carried out. The answer is committed and handed over when its turn comes."""
        with self.lock:
            if self.is_stopped or ticket not in self.waiting or ticket.item.committed:
                return
            ticket.answer, ticket.error = answer, error
            self.turns.arrive(ticket.item)

    def chunk_came(self, item: Item, chunk: ChunkReceived) -> None:
        """A part of a stream: handed over in its turn."""
        with self.lock:
            if not self.is_stopped and item.ticket in self.waiting:
                item.chunk = self.secrets.redact_event(chunk)
                self.turns.arrive(item)

    def expect_chunk(self, item: Item) -> None:
        with self.lock:
            if not self.is_live:
                self.turns.expect(item)

    def commit_chunk(self, item: Item) -> bool:
        if not self.write([Draft(item.chunk, lane=item.lane.path or "0")], sync=False):
            return False
        assert self.journal is not None
        item.chunk_seq = self.journal.position
        return True

    def commit_answers(self, items: list[Item]) -> bool:
        drafts: list[Draft] = []
        for item in items:
            assert item.ticket is not None
            assert item.ticket.answer is not None
            drafts.append(Draft(item.ticket.answer, item.ticket.lane.path or "0"))
        if not self.write(drafts, sync=True):
            return False
        assert self.journal is not None
        first = self.journal.position - len(items) + 1
        for offset, item in enumerate(items):
            assert item.ticket is not None
            item.committed, item.ticket.answer_seq = True, first + offset
        return True

    def answer_at_once(self, ticket: OpenEffect, answer: Event, error: BaseException | None = None) -> None:
        """A blocking call inside the loop, or the only thread there is: nobody else's turn can come before."""
        with self.lock:
            if ticket.item.committed:  # with the rows that it wrote, in one transaction (`transactions`)
                self.waiting.discard(ticket)
                return
            if self.is_stopped:
                self.check_going_on()
            ticket.answer, ticket.error = answer, error
            if not self.write((Draft(answer, ticket.lane.path or "0"),), sync=True):
                self.check_going_on()
            assert self.journal is not None
            ticket.answer_seq = self.journal.position
            self.waiting.discard(ticket)

    def abandoned(self, ticket: OpenEffect, reason: BaseException) -> None:
        """The agent itself has cancelled the request."""
        with self.lock:
            self.waiting.discard(ticket)
            self.turns.forget(ticket.item)
            if ticket.recorded is not None and ticket.recorded.answer is not None:
                ticket.recorded.answer.handed = True
            elif self.coming_back is not None and ticket in self.coming_back.held:
                self.coming_back.held.remove(ticket)
            elif not ticket.answer_seq and not self.is_stopped and self.journal is not None:
                cancelled = ticket.spec.answers.cancelled(ticket.key, reason)
                self.add(cancelled, ticket.lane.path or "0", CANCELLED)
                if self.coming_back is not None and ticket in self.coming_back.in_doubt:
                    self.coming_back.in_doubt.remove(ticket)
