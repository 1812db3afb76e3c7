"""Tools that yield: each chunk is recorded as it is handed over, the end is the answer.

Life of a stream: the agent asks for the next chunk → the effect's own task goes on to its next `yield` → the chunk
arrives like an answer, is committed without waiting for the disk and handed over in its turn → … → the end, with all
chunks, is committed with the disk. The effect never runs ahead of its reader by more than the chunk that was asked for.

A process that dies in the middle leaves the stream in doubt. If nothing was asked for after its chunks, nobody has seen
them but this agent, which begins anew: the stream is done again. Otherwise its chunks are served as they were, and then
a `ConnectionError`.

A reader that has had enough closes the stream, lets go of it (`break`) or ends with it open: the effect is told, and
its answer says that it was given up, as long as the run goes on. Nobody waits for that answer when the run comes back.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from onrecord.core.codec import decode, encode
from onrecord.core.events import ChunkReceived, ProcessAttached
from onrecord.runtime.engine.attempts import Attempts
from onrecord.runtime.engine.context import PLACE, nobody
from onrecord.runtime.engine.open_effect import EffectSpec, MakeEvent, OpenEffect
from onrecord.runtime.engine.outcomes import class_missing, foretold, open_answer
from onrecord.runtime.engine.run import LiveRun
from onrecord.runtime.engine.stops import RunStopped
from onrecord.runtime.replay.records import RecordedChunk
from onrecord.runtime.scheduler.asyncio_driver import LoopHooks, TaskQueue
from onrecord.runtime.scheduler.delivery_item import CHUNK, Item
from onrecord.runtime.scheduler.lanes import Lane

CUT = "the stream was cut off when the process that read it died"


class Stream:
    """What a tool that yields returns to an agent: an asynchronous iterator over its chunks."""

    _ticket: OpenEffect | None = None

    def __init__(self, lane: Lane, spec: EffectSpec, make: MakeEvent, generate: Callable[[], Any]) -> None:
        self._run: LiveRun = lane.run
        self._lane = lane
        self._spec = spec
        if lane.run.substitutes is not None:
            make, generate = lane.run.substitutes.substitute_stream(spec, make, generate)
        self._make = make
        self._reader = _TaskReader(lane.run, generate)
        self._index = 0
        self._over = False
        self.result: Any = None
        """The value of its answer, once it has come to its end."""

    def foretold(self) -> Any:
        """The value of its answer, where the record has it before the stream has come to its end."""
        return foretold(self._run, self._ticket)

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Any:
        if self._over:
            raise StopAsyncIteration
        run, reader = self._run, self._reader
        if self._ticket is None:
            self._ticket = run.request(self._lane, self._spec, self._make, key=None, waiter=reader)
            run.streams.add(self)
            reader.make_sure_it_goes_on()
        item = Item(CHUNK, self._lane, self._index, reader.wake, looped=True, ticket=self._ticket)
        if not self._ticket.has_answer:  # it may have ended while the reader was at something else
            reader.ask(item)
            run.expect_chunk(item)
            try:
                await reader.future
            except asyncio.CancelledError as cancelled:
                self._give_up(cancelled)
                raise
        if run.stopped is not None and not (self._ticket.has_answer or item.chunk is not None):
            raise RunStopped(run.stopped)
        if item.chunk is not None:
            self._index += 1
            return opened(run, item.chunk, as_is=self._spec.handed_as_is)
        self._over = True
        run.taken(self._ticket)
        self.result = open_answer(run, self._ticket)  # or raises the error that ended it
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """The reader has had enough: that is the end of the effect, too."""
        self.left()

    def left(self) -> None:
        """Nobody reads on."""
        if self._ticket is not None and not self._over:
            self._give_up(GeneratorExit())

    def __del__(self) -> None:
        if self._ticket is not None and not self._over:
            self._reader.forgotten(self._ticket)

    def _give_up(self, reason: BaseException) -> None:
        assert self._ticket is not None
        self._over = True
        self._reader.give_up(self._ticket, reason)


def opened(run: LiveRun, chunk: ChunkReceived | RecordedChunk, *, as_is: bool = False) -> Any:
    """A chunk as the agent is handed it: what the record will give for it, shared with nobody, if it may be changed."""
    if isinstance(chunk, RecordedChunk):
        assert run.past is not None
        missing: list[str] = []
        value = run.past.members(chunk.row, missing)["chunk"]
        if missing:
            run.stop_here(class_missing(missing, f"the chunk at seq {chunk.row.seq}", run.name, chunk.row.seq))
        return value
    if as_is:
        return chunk.chunk
    encoded = encode(chunk.chunk)
    if not encoded.replayable:
        return chunk.chunk
    return decode(encoded.tree, loaded_classes=not run.reader.holds_foreign, artifact=encoded.artifacts.__getitem__)


def note_if_anew(run: LiveRun, ticket: OpenEffect) -> None:
    """What was handed over of it by a process that died counts no more from here on. Its first chunk would say so, too;
    but it may end, or be given up, without one."""
    if run.past is not None and ticket.key in run.past.begins_anew:
        run.past.begins_anew.discard(ticket.key)
        run.note_now(ProcessAttached({"begun_anew": ticket.key}), ticket.lane)


class _TaskReader:
    """Whoever asked for the stream, and the task in which the tool runs."""

    looped = True

    def __init__(self, run: LiveRun, generate: Callable[[], Any]) -> None:
        self._run = run
        self._generate = generate
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._context = copy_context()
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._item: Item | None = None
        self.future: asyncio.Future[None] = self._loop.create_future()

    def ask(self, item: Item) -> None:
        """The agent wants the next chunk."""
        self._item = item
        if self.future.done():
            self.future = self._loop.create_future()
        LoopHooks.of(self._loop).call_soon(self._wanted.set, context=nobody())

    def make_sure_it_goes_on(self) -> None:
        """The loop may have begun the code that asks before the run was in it."""
        queue = self._run.turns.loop
        if queue is None:
            queue = LoopHooks.of(self._loop).enter(self._run)
        if isinstance(queue, TaskQueue):
            queue.nudge()

    def begin(self, ticket: OpenEffect) -> None:
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self.begin, ticket, context=nobody())
            return
        if ticket.recorded is not None and ticket.recorded.chunks:
            error = ConnectionError(CUT)
            self._run.answered(ticket, ticket.spec.answers.failed(ticket.key, error), error)
            return
        note_if_anew(self._run, ticket)
        self._context.run(PLACE.set, Attempts(self._run, ticket).place)
        self._task = asyncio.Task(self._read(ticket), loop=self._loop, context=self._context)

    async def _read(self, ticket: OpenEffect) -> None:
        chunks: list[Any] = []
        generator: AsyncGenerator[Any, None] = self._generate()
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                try:
                    chunk = await generator.__anext__()
                except StopAsyncIteration:
                    break
                chunks.append(chunk)
                assert self._item is not None
                self._run.chunk_came(self._item, ChunkReceived(ticket.key, len(chunks) - 1, chunk))
        except (Exception, asyncio.CancelledError) as error:  # a reader that has gone is answered nothing any more
            self._run.answered(ticket, ticket.spec.answers.failed(ticket.key, error), error)
        else:
            self._run.answered(ticket, ticket.spec.answers.done(ticket.key, chunks))
        finally:
            await generator.aclose()

    def wake(self) -> None:
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self.wake, context=nobody())
        elif not self.future.done():
            self.future.set_result(None)

    def give_up(self, ticket: OpenEffect, reason: BaseException) -> None:
        if self._task is not None:
            self._task.cancel()
        self._run.abandoned(ticket, reason)

    def forgotten(self, ticket: OpenEffect) -> None:
        """The agent has let go of the stream. That is found out where it happens, or by the collector, which may come
        in any thread and in the middle of anything."""
        if threading.get_ident() == self._thread and not self._run.is_being_changed:
            self.give_up(ticket, GeneratorExit())
            return
        with suppress(RuntimeError):  # the loop is closed, and everything in it over
            self._loop.call_soon_threadsafe(self.give_up, ticket, GeneratorExit(), context=nobody())
