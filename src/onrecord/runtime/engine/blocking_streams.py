"""Streams of threads: the reading thread executes the effect itself, a chunk at a time, without the baton.

The life of a chunk is that of `streams`: asked for, read, committed without waiting for the disk, delivered at rest. A
stream may be read by one thread after the other. Inside an event loop the whole loop waits for the chunk, as it does
for any blocking call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from onrecord.runtime.engine.attempts import Attempts
from onrecord.runtime.engine.boundary import ask_in_thread
from onrecord.runtime.engine.context import Lane, current_lane, inside
from onrecord.runtime.engine.open_effect import EffectSpec, MadeOutcome, MakeEvent, OpenEffect
from onrecord.runtime.engine.stops import RunStopped
from onrecord.runtime.engine.streams import DeliveredChunk, StreamReader, drop_unread, make_chunk
from onrecord.runtime.scheduler.drivers.strands import Strand
from onrecord.runtime.scheduler.items import Token

if TYPE_CHECKING:
    from onrecord.runtime.engine.run import LiveRun

Generate = Callable[[], Iterator[Any]]
FINALISER_SECONDS = 1.0
"""How long a finaliser waits for the run's lock. Its thread may hold a lock that the owner of the run's lock needs."""


class BlockingStream(StreamReader):
    """An iterator over the chunks of an effect.

    `unfold` makes chunks of an outcome: the record of another run may have no others to serve.
    """

    def __init__(
        self,
        lane: Lane,
        spec: EffectSpec,
        make: MakeEvent,
        generate: Generate,
        unfold: Callable[[Any], Iterable[Any]] = iter,
    ) -> None:
        super().__init__(lane, spec, make, generate)
        self._unfold = unfold

    def __iter__(self) -> BlockingStream:
        return self

    def __next__(self) -> Any:
        if self._is_over:
            raise StopIteration
        lane = current_lane()
        if lane is None or lane.run is not self._run:
            return next(self._read_plain())
        try:
            self._wait_for_next(lane)
        except RunStopped:
            self._is_over = True
            if self._effect is not None:
                self._effect.close_source()
            raise
        if (found := self._take_next()) is None:
            raise StopIteration
        return found[0]

    def _wait_for_next(self, lane: Lane) -> None:
        run, effect = self._run, self._effect
        if effect is None:
            make, generate = self._make, self._generate
            if run.substitutes is not None:
                make, generate = run.substitutes.substitute_call(self._spec, make, generate, blocking=True)
            effect = _ThreadStream(run, self._spec, generate, self._unfold)
            with run.lock:
                ask_in_thread(lane, effect, make)
                self._effect = effect
                run.streams.add(self)
                effect.wait(lane.strand)
            return
        with run.lock:
            run.coordinator.act(lane.strand)
            if not effect.chunks and effect.outcome is None:
                effect.wait(lane.strand)

    def close(self) -> None:
        """Stop reading."""
        if self._plain is not None and hasattr(self._plain, "close"):
            self._plain.close()
        self.give_up()


class _ThreadStream(OpenEffect):
    """The effect of a stream, and what was delivered of it. It does not know its reader, which may drop it."""

    def __init__(
        self, run: LiveRun, spec: EffectSpec, generate: Generate, unfold: Callable[[Any], Iterable[Any]]
    ) -> None:
        super().__init__(spec)
        self._run = run
        self._generate = generate
        self._unfold = unfold
        self.chunks: deque[DeliveredChunk] = deque()
        """Chunks that were delivered and not read yet."""
        self._reader: Strand | None = None
        """The thread that waits for a delivery."""
        self._is_begun = False
        self._made: list[Any] = []
        self._context: Context | None = None
        self._source: Iterator[Any] | None = None

    # The reader's side

    def wait(self, strand: Strand) -> None:
        """Wait for the next chunk, or for the outcome. Called with the run's lock held once."""
        self._reader = strand
        if self._is_begun:
            self._let_execute(strand)
        self._run.coordinator.wait(strand)

    def give_up(self) -> None:
        """Write that the reader needs no more, and close what it read from."""
        with self._run.lock:
            if not drop_unread(self._run, self):
                return
        self.close_source()

    def give_up_soon(self) -> None:
        """Give the stream up from a finaliser, which may be called in any thread and in the middle of anything.

        What cannot be written now has no outcome.
        """
        run = self._run
        if run.is_stopped or run.is_being_changed or not run.lock.acquire(timeout=FINALISER_SECONDS):
            return
        try:
            self.give_up()
        finally:
            run.lock.release()

    def close_source(self) -> None:
        source, self._source = self._source, None
        close = getattr(source, "close", None)
        if close is not None and self._context is not None:
            with inside(), suppress(Exception):  # the reader does not wait for it any more
                self._context.run(close)

    # The driver's side

    def begin(self, token: Token) -> None:
        self._is_begun = True
        if self._reader is not None:
            self._let_execute(self._reader)

    def _let_execute(self, strand: Strand) -> None:
        """Let the waiting thread read the next chunk. Called with the run's lock held."""
        strand.work = self._execute
        strand.gate.release()

    def _execute(self) -> None:
        value: Any
        answers, last = self.spec.answers, True
        with inside():
            try:
                value, last = make_chunk(self._run, self.key, len(self._made), self._read()), False
            except StopIteration:
                value = MadeOutcome(answers.done(self.key, self._made))
            except RunStopped:
                return  # the thread learns of it at its gate
            except (Exception, asyncio.CancelledError) as error:
                self.close_source()
                value = MadeOutcome(answers.failed(self.key, error), error)
        self._run.coordinator.arrived(self.token, value, last=last)

    def _read(self) -> Any:
        """Return the next chunk. `StopIteration` says that there is none."""
        if self._context is None:
            self._context = copy_context()
            self._context.run(Attempts, self._run, self)  # sets what the code of the effect knows of itself
        if self._source is None:
            made = self._context.run(self._generate)
            self._source = made if isinstance(made, Iterator) else iter(self._unfold(made))
        chunk = self._context.run(next, self._source)
        self._made.append(chunk)
        return chunk

    def deliver(self, value: Any, last: bool) -> None:
        if last:
            self.outcome = value
        else:
            self.chunks.append(value)
        if self._reader is not None:
            self._run.kernel.wake(self._reader)
            self._reader = None
