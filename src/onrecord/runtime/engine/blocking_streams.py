"""Streams for code that blocks: the reader's own thread carries the effect out, a chunk at a time.

The life of a chunk is that of `streams`: asked for, read, committed without waiting for the disk, handed over in its
turn; the end, with the disk, is the answer. A thread that waits for the next chunk rests, so others have their turn.
Inside a loop nothing else of the run can go on before the chunk is there, so it is nobody else's turn: it is handed
over at once.

A stream that was cut off is served as far as it was recorded and then ends with a `ConnectionError`, or is done again
if nobody acted upon its chunks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any

from onrecord.core.events import ChunkReceived
from onrecord.runtime.engine.attempts import Attempts
from onrecord.runtime.engine.context import HERE, PLACE
from onrecord.runtime.engine.open_effect import EffectSpec, MakeEvent, OpenEffect
from onrecord.runtime.engine.outcomes import foretold, open_answer
from onrecord.runtime.engine.run import LiveRun
from onrecord.runtime.engine.stops import RunStopped
from onrecord.runtime.engine.streams import CUT, note_if_anew, opened
from onrecord.runtime.replay.records import RecordedChunk
from onrecord.runtime.scheduler.asyncio_driver import PATIENCE_SECONDS
from onrecord.runtime.scheduler.delivery_item import CHUNK, Item
from onrecord.runtime.scheduler.lanes import Lane
from onrecord.runtime.scheduler.scheduler import LOOK_SECONDS, RELAX_SECONDS, Patience
from onrecord.runtime.scheduler.thread_signal import Signal

Generate = Callable[[], Iterator[Any]]


class _ThreadReader:
    """The thread that reads, and carries the effect out itself."""

    looped = False

    def __init__(self, run: LiveRun) -> None:
        self._run = run
        self.token: object = None
        """What turns know the thread by that reads now; None: there is but one."""
        self.event = Signal()
        self.told_to_begin = False

    def begin(self, ticket: OpenEffect) -> None:
        self.told_to_begin = True
        self.event.set()

    def wake(self) -> None:
        if self.token is not None:
            self._run.turns.runs(self.token)
        self.event.set()


class BlockingStream:
    """An iterator over the chunks of an effect.

    `unfold` makes chunks of an answer: where another run's record stands in for the world, that is what there is.
    """

    def __init__(
        self,
        lane: Lane,
        spec: EffectSpec,
        make: MakeEvent,
        generate: Generate,
        unfold: Callable[[Any], Iterable[Any]] = iter,
    ) -> None:
        self._run: LiveRun = lane.run
        self._lane = lane
        self._spec = spec
        self._unfold = unfold
        if lane.run.substitutes is not None:
            make, generate = lane.run.substitutes.substitute_call(spec, make, generate, blocking=True)
        self._make = make
        self._generate = generate
        self._waiter = _ThreadReader(lane.run)
        self._ticket: OpenEffect | None = None
        self._context: Context | None = None
        self._source: Iterator[Any] | None = None
        self._chunks: list[Any] = []
        self._index = 0
        self._over = False
        self.result: Any = None
        """The value of its answer, once it has come to its end."""

    def foretold(self) -> Any:
        """The value of its answer, where the record has it before the stream has come to its end."""
        return foretold(self._run, self._ticket)

    def __iter__(self) -> BlockingStream:
        return self

    def __next__(self) -> Any:
        if self._over:
            raise StopIteration
        self._waiter.token = HERE.token
        at_once = HERE.token is None and self._run.turns.loop is not None
        if self._ticket is None:
            self._ticket = self._requested(at_once=at_once)
            self._run.streams.add(self)
        ticket = self._ticket
        item = Item(CHUNK, self._lane, self._index, self._waiter.wake, looped=False, ticket=ticket)
        chunk = self._at_once(ticket, item) if at_once else self._in_turn(ticket, item)
        if chunk is not None:
            self._index += 1
            return opened(self._run, chunk, as_is=self._spec.handed_as_is)
        self._over = True
        if self._run.stopped is not None and not ticket.has_answer:
            raise RunStopped(self._run.stopped)
        self._run.taken(ticket)
        self.result = open_answer(self._run, ticket)  # or raises the error that ended it
        raise StopIteration

    def close(self) -> None:
        """The reader has had enough: that is the end of the effect, too."""
        self.left()

    def left(self) -> None:
        """Nobody reads on."""
        if self._ticket is not None and not self._over:
            self._over = True
            self._close_source()
            self._run.abandoned(self._ticket, GeneratorExit())

    def __del__(self) -> None:
        # The collector may come in the middle of anything: what cannot be written now is left without an answer.
        if getattr(self, "_ticket", None) is not None and not self._over and not self._run.is_being_changed:
            with suppress(Exception):
                self.left()

    def _requested(self, *, at_once: bool) -> OpenEffect:
        run = self._run
        if HERE.token is None and run.turns.loop is None:
            run.cancelling.tell()
        with run.lock:
            ticket = run.request(self._lane, self._spec, self._make, key=None, waiter=self._waiter)
            recorded = ticket.recorded
            if recorded is None or (recorded.answer is None and not recorded.chunks):
                run.flush()
                if at_once and run.stopped is None and not self._waiter.told_to_begin:
                    run.stop_for_good()
        return ticket

    # The next chunk, or None where there is an answer instead

    def _in_turn(self, ticket: OpenEffect, item: Item) -> Any:
        run, waiter = self._run, self._waiter
        with run.lock:
            run.check_going_on()
            if ticket.has_answer:  # where nobody else has a turn it follows the last chunk at once
                return None
            waiter.event.clear()
            if waiter.told_to_begin or run.is_live:
                self._rest()
            else:
                run.turns.expect(item)
                self._rest()
                run.turns.advance()
        if not waiter.told_to_begin:
            self._wait(item)
        if waiter.told_to_begin and not ticket.has_answer and item.chunk is None:
            with run.lock:
                waiter.event.clear()
                run.turns.forget(item)
            self._carry_on(ticket, item)
            self._wait(item)
        return item.chunk

    def _rest(self) -> None:
        """Others may have their turn until the chunk is there."""
        token = self._waiter.token
        if token is not None:
            self._run.turns.rests(token)
            self._run.turns.advance()

    def _carry_on(self, ticket: OpenEffect, item: Item) -> None:
        run = self._run
        try:
            chunk = self._read(ticket)
        except StopIteration:
            run.answered(ticket, ticket.spec.answers.done(ticket.key, self._chunks))
        except (Exception, asyncio.CancelledError) as error:
            self._close_source()
            run.answered(ticket, ticket.spec.answers.failed(ticket.key, error), error)
        else:
            run.chunk_came(item, chunk)

    def _at_once(self, ticket: OpenEffect, item: Item) -> Any:
        run = self._run
        with run.lock:
            run.check_going_on()
            found = self._recorded(ticket, item)
        if found is not None or ticket.has_answer:
            return found
        if not self._waiter.told_to_begin:
            with run.lock:
                run.stop_for_good()
            return None
        try:
            chunk = self._read(ticket)
        except StopIteration:
            run.answer_at_once(ticket, ticket.spec.answers.done(ticket.key, self._chunks))
        except (Exception, asyncio.CancelledError) as error:
            self._close_source()
            run.answer_at_once(ticket, ticket.spec.answers.failed(ticket.key, error), error)
        else:
            with run.lock:
                run.check_going_on()
                item.chunk = run.secrets.redact_event(chunk)
                if not run.commit_chunk(item):
                    run.check_going_on()
            return item.chunk
        return None

    def _recorded(self, ticket: OpenEffect, item: Item) -> RecordedChunk | None:
        """What the record has next for it, taken out of its order."""
        run, recorded = self._run, ticket.recorded
        if recorded is None:
            return None
        order = run.turns.order
        if self._index < len(recorded.chunks):
            chunk = recorded.chunks[self._index]
            if order is not None:
                if order.next() is chunk:
                    order.take(chunk)
                else:
                    order.change((), (chunk,))
            if run.coming_back is not None:
                run.coming_back.go_live_if_over()
            return chunk
        if recorded.answer is not None and not recorded.answer.handed:
            recorded.answer.handed = True
            run.turns.forget(ticket.item)
            run.reached(recorded.answer.time)
        return None

    # The effect itself

    def _read(self, ticket: OpenEffect) -> ChunkReceived:
        """The next chunk of the world. StopIteration: there is none."""
        if ticket.recorded is not None and ticket.recorded.chunks:
            raise ConnectionError(CUT)
        if self._context is None:
            note_if_anew(self._run, ticket)
            self._context = copy_context()
            self._context.run(PLACE.set, Attempts(self._run, ticket).place)
        if self._source is None:
            made = self._context.run(self._generate)
            self._source = made if isinstance(made, Iterator) else iter(self._unfold(made))
        chunk = self._context.run(next, self._source)
        self._chunks.append(chunk)
        return ChunkReceived(ticket.key, len(self._chunks) - 1, chunk)

    def _close_source(self) -> None:
        close = getattr(self._source, "close", None)
        if close is not None and self._context is not None:
            with suppress(Exception):  # what comes of closing it is nobody's business any more
                self._context.run(close)

    # Waiting

    def _wait(self, item: Item) -> None:
        run, waiter = self._run, self._waiter
        patience = Patience(run.turns)
        while not waiter.event.wait(LOOK_SECONDS):
            if run.is_stopped:
                run.check_going_on()
            run.turns.overdue()
            if run.is_live or (still := patience.seconds) <= RELAX_SECONDS:
                continue
            self._relax(item)
            if still > RELAX_SECONDS + PATIENCE_SECONDS:
                run.stands_still()
        if waiter.token is not None and waiter.token in run.turns.threads:
            run.turns.runs(waiter.token, awake=True)

    def _relax(self, item: Item) -> None:
        """Threads take their turn as recorded; where a lock of theirs makes that impossible, that is given up."""
        run, ticket = self._run, item.ticket
        with run.lock:
            recorded = ticket.recorded if ticket is not None else None
            if recorded is None or ticket is None or run.turns.order is None or item.chunk is not None:
                return
            if self._index < len(recorded.chunks):
                run.turns.hand_chunk_out_of_order(item, recorded.chunks[self._index])
            elif recorded.answer is not None and not recorded.answer.handed:
                run.turns.hand_out_of_order(ticket.item, recorded)
