"""Streams of tasks: each chunk is recorded before it is delivered, and the end is the outcome.

Life of a stream: the reader asks for the next chunk → the effect's own task continues to its next `yield` → the chunk
arrives, is committed without waiting for the disk, and is delivered at rest → … → the outcome, with all chunks, is
committed with the disk. The effect is never ahead of its reader by more than the chunk that was asked for.

After the death of a process the kernel decides: a stream on whose chunks the program did not act is executed again, and
its first chunks are void. Any other is cut: its chunks are delivered, and then a `ConnectionError`.

A reader that needs no more closes the stream, drops it (`break`), or ends with it open. Then the effect is told to end,
and its outcome says that it was given up. That outcome is never delivered.
"""

from __future__ import annotations

import asyncio
from _thread import get_ident
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from onrecord.core.codec import decode, encode
from onrecord.core.events import ANSWERS, ChunkReceived
from onrecord.runtime.engine.attempts import Attempts
from onrecord.runtime.engine.boundary import TaskEffect
from onrecord.runtime.engine.context import Lane, current_lane
from onrecord.runtime.engine.open_effect import EffectSpec, MakeEvent, OpenEffect
from onrecord.runtime.engine.outcomes import class_missing, open_outcome, open_recorded
from onrecord.runtime.engine.stops import OutsideRun
from onrecord.runtime.forks.tail_policy import LIVE_KINDS
from onrecord.runtime.replay.records import RecordedChunk, RecordedOutcome
from onrecord.runtime.scheduler.items import EffectCancelled

if TYPE_CHECKING:
    from onrecord.runtime.engine.run import LiveRun


class MadeChunk:
    """A part of a stream of this process."""

    __slots__ = ("event", "seq")

    def __init__(self, event: ChunkReceived) -> None:
        self.event = event
        self.seq = 0
        """Set by the commit."""


DeliveredChunk = MadeChunk | RecordedChunk


class StreamReader:
    """The chunks of an effect, as an agent reads them: from a task or from a thread."""

    _effect: Any = None
    _is_over = False

    def __init__(self, lane: Lane, spec: EffectSpec, make: MakeEvent, generate: Callable[[], Any]) -> None:
        self._run: LiveRun = lane.run
        self._spec = spec
        self._make = make
        self._generate = generate
        self._plain: Any = None
        """The chunks of a stream that is read inside an effect, where nothing is recorded."""
        self.result: Any = None
        """The value of the outcome, once the stream has ended."""

    def foretold(self) -> Any:
        """Return the value of the outcome if the record has it, even before the stream has ended; otherwise None."""
        return find_foretold(self._run, self._effect)

    def _take_next(self) -> tuple[Any] | None:
        """Return the next delivered chunk, in a tuple; None at the end. Raise the error that ended the stream."""
        run, effect = self._run, self._effect
        if effect.chunks:
            return (opened(run, effect.chunks.popleft(), as_is=self._spec.handed_as_is),)
        self._end()
        self.result = open_outcome(run, effect)
        return None

    def _end(self) -> None:
        self._is_over = True
        if self._effect.outcome is not None:
            with self._run.lock:
                self._run.delivered(self._effect)

    def _read_plain(self) -> Any:
        """Return the iterator of a stream that is read inside an effect."""
        if self._plain is None:
            check_inside(self._run, self._spec, is_asked=self._effect is not None)
            self._plain = self._generate()
        return self._plain

    def left(self) -> None:
        """Stop reading, without a task."""
        self.give_up()

    def give_up(self) -> None:
        """End the stream: it is not read any more."""
        if self._effect is not None and not self._is_over:
            self._is_over = True
            self._effect.give_up()

    def __del__(self) -> None:
        if self._effect is not None and not self._is_over:
            self._effect.give_up_soon()


class Stream(StreamReader):
    """An asynchronous iterator over the chunks of an effect."""

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Any:
        if self._is_over:
            raise StopAsyncIteration
        lane, effect = current_lane(), self._effect
        if lane is None or lane.run is not self._run:
            return await self._read_plain().__anext__()
        if effect is None:
            effect = self._ask(lane)
        if not effect.chunks and effect.outcome is None:
            try:
                await effect.wait_for_next()
            except asyncio.CancelledError:
                if effect.outcome is None:
                    self.give_up()  # a chunk was on its way to the reader, so no outcome is waited for
                else:
                    self._end()
                raise
        if (found := self._take_next()) is None:
            raise StopAsyncIteration
        return found[0]

    def _ask(self, lane: Lane) -> _StreamEffect:
        run, make, generate = self._run, self._make, self._generate
        if run.substitutes is not None:
            make, generate = run.substitutes.substitute_stream(self._spec, make, generate)
        effect = _StreamEffect(lane, self._spec, generate)
        with run.lock:
            run.ask(lane, effect, make, None)
            run.streams.add(self)
        self._effect = effect
        return effect

    async def aclose(self) -> None:
        """Stop reading."""
        if self._plain is not None:
            await self._plain.aclose()
        self.give_up()


class _StreamEffect(TaskEffect):
    """The effect of a stream, and what was delivered of it. It does not know its reader, which may drop it."""

    def __init__(self, lane: Lane, spec: EffectSpec, generate: Callable[[], Any]) -> None:
        super().__init__(lane, spec, generate)
        self.chunks: deque[DeliveredChunk] = deque()
        """Chunks that were delivered and not read yet."""
        self._wanted = asyncio.Event()
        self._thread = get_ident()

    # The reader's side

    async def wait_for_next(self) -> None:
        """Ask for the next chunk and wait for it, or for the outcome."""
        if self.future is not None:
            raise RuntimeError("the stream is already read by another task")
        self._wanted.set()
        try:
            await self.wait()
        finally:
            self.future = None

    def give_up(self) -> None:
        """Write that the reader needs no more, and tell the effect to end."""
        with self.run.lock:
            if drop_unread(self.run, self) and not self.token.done and self.token.begun:
                self.stop(self.token)  # the kernel says so too, but not at the end of the run

    def give_up_soon(self) -> None:
        """Give the stream up from a finaliser, which may be called in any thread and in the middle of anything."""
        run = self.run
        if run.is_stopped:
            return
        if get_ident() == self._thread and not run.is_being_changed and run.lock.acquire(blocking=False):
            try:
                self.give_up()
            finally:
                run.lock.release()
            return
        with suppress(RuntimeError):  # the loop is closed
            self.driver.call_soon_threadsafe_really(self.give_up)

    # The driver's side

    def _start(self) -> Coroutine[Any, Any, Any]:
        Attempts(self.run, self)  # sets what the code of the effect knows of itself
        return self._read()

    async def _read(self) -> list[Any]:
        """Read the chunks, each when it is wanted. Return them all."""
        made: list[Any] = []
        generator: AsyncGenerator[Any, None] = self._call()  # type: ignore[assignment]
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                try:
                    chunk = await generator.__anext__()
                except StopAsyncIteration:
                    return made
                arrival = make_chunk(self.run, self.key, len(made), chunk)
                made.append(chunk)
                self.driver.arrived(self.run.coordinator, self.token, arrival, last=False)
        finally:
            await generator.aclose()

    def _stop(self) -> None:
        if not self._is_told_to_stop:  # a second order would interrupt the clean-up
            super()._stop()

    def deliver(self, value: Any, last: bool) -> None:
        if last:
            self.outcome = value
        else:
            self.chunks.append(value)
        # After a cancellation the reader waits for the outcome: a chunk must not wake it before.
        if self.future is not None and (last or not self.token.cancelled):
            self.wake(is_cancelled=isinstance(value, EffectCancelled))


# What streams of tasks and of threads share


def drop_unread(run: LiveRun, effect: Any) -> bool:
    """Write that a stream is not read any more. Return False if its run is over. Called with the run's lock held."""
    if run.is_stopped:
        return False
    run.kernel.drop(effect.token)
    effect.chunks.clear()
    if effect.token.done:
        run.delivered(effect)
    return True


def make_chunk(run: LiveRun, key: str, number: int, chunk: Any) -> MadeChunk:
    event = ChunkReceived(key, number, chunk)
    if run.secrets.active:
        with run.lock:
            event = run.secrets.redact_event(event)
    return MadeChunk(event)


def opened(run: LiveRun, chunk: DeliveredChunk, *, as_is: bool = False) -> Any:
    """Return the value of a chunk: a copy of its own, as the record will give it, unless the reader does not change it.

    A class that is missing here stops the run.
    """
    if isinstance(chunk, RecordedChunk):
        assert run.history is not None
        missing: list[str] = []
        value = run.history.members(chunk.row, missing)["chunk"]
        if missing:
            run.stop_here(class_missing(missing, f"the chunk at seq {chunk.row.seq}", run.name, chunk.row.seq))
        return value
    value = chunk.event.chunk
    if as_is:
        return value
    encoded = encode(value)
    if not encoded.replayable:
        return value
    return decode(encoded.tree, loaded_classes=not run.reader.holds_foreign, artifact=encoded.artifacts.__getitem__)


def find_foretold(run: LiveRun, effect: OpenEffect | None) -> Any:
    """Return the value of the outcome that the record has for an effect, delivered or not; otherwise None."""
    history = run.history
    recorded = effect.recorded if effect is not None else None
    if effect is None or recorded is None or history is None or recorded.key in history.open:
        return None
    request = recorded.row.seq
    for stretch, after in history.stretches():
        if request > stretch.last + stretch.shift:
            continue
        for row, link in stretch.rows(max(after, request - stretch.shift)):
            if link.parent == request and row.kind in ANSWERS:
                outcome = RecordedOutcome(row, link.content, link.time)
                is_value = row.kind == "ActionSucceeded"
                return open_recorded(run, effect, outcome, is_counted=False) if is_value else None
    return None


def check_inside(run: LiveRun, spec: EffectSpec, *, is_asked: bool) -> None:
    """Raise unless a stream may be read where nothing is recorded: inside an effect, from its beginning."""
    run.check_going_on()
    if is_asked:
        raise OutsideRun(f"the stream {spec.name} of run {run.name} was read outside of the lanes of its run")
    if run.substitutes is not None and spec.kind not in LIVE_KINDS:
        run.substitutes.refuse_inside(spec.name)
