"""Appends of asyncio tasks that overlap share one commit.

Life of an append: it queues and lets the loop run. Whatever else queues before the loop comes round again goes with it,
in one transaction of the store. A lone append is committed there and then, in the loop's thread, since handing it to
another one costs more than it saves; several are committed by a thread of their own, while the loop goes on. What
queues meanwhile is the next group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakKeyDictionary

from reenact.journal.chain import Draft
from reenact.journal.journal import Journal
from reenact.journal.sequenced import SequencedEvent
from reenact.store.contract import Head, PendingAppend, Store


async def append_from_task(journal: Journal, drafts: list[Draft], expected: Head | None) -> list[SequencedEvent]:
    """The asynchronous driver of `Journal.append`: the same decisions, another way of waiting."""
    await _turn(journal)
    journal.check_usable()
    existing = journal.known_ids(drafts, True)
    if existing is not None:
        return existing
    linked = journal.prepare(drafts, expected)
    append = PendingAppend(journal.namespace, journal.run, linked.rows, linked.before, journal.epoch, linked.nodes)
    cancelled = False
    journal.in_flight = True
    try:
        cancelled = await _queue_of(journal.store).commit(append)
    except BaseException as error:
        journal.not_appended(linked, error)
    finally:
        journal.in_flight = False
        _next_turn(journal)
    journal.appended(linked, True)
    if cancelled:
        raise asyncio.CancelledError
    return linked.sequenced


_turns: WeakKeyDictionary[Journal, list[asyncio.Future[None]]] = WeakKeyDictionary()


async def _turn(journal: Journal) -> None:
    """Tasks append to one run one after the other: each link follows the one before."""
    while journal.in_flight:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        _turns.setdefault(journal, []).append(turn)
        await turn


def _next_turn(journal: Journal) -> None:
    waiting = _turns.pop(journal, None)
    for turn in waiting or ():
        if not turn.done():
            turn.set_result(None)


class _Waiting:
    """An append on its way. Its future may be cancelled with the task that waits; the append itself is not."""

    __slots__ = ("answer", "append", "finished", "future")

    def __init__(self, append: PendingAppend, future: asyncio.Future[None]) -> None:
        self.append = append
        self.future = future
        self.finished = False
        self.answer: BaseException | None = None


_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, CommitQueue]] = WeakKeyDictionary()


def _queue_of(store: Store) -> CommitQueue:
    """The queue of this store in the running loop."""
    loop = asyncio.get_running_loop()
    queues = _queues.get(loop)
    if queues is None:
        queues = _queues[loop] = {}
    queue = queues.get(id(store))
    if queue is None or queue.store is not store:
        queue = queues[id(store)] = CommitQueue(store, loop)
    return queue


class CommitQueue:
    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self.store = store
        self._loop = loop
        self._waiting: list[_Waiting] = []
        self._busy = False
        self._thread: ThreadPoolExecutor | None = None

    async def commit(self, append: PendingAppend) -> bool:
        """Returns when the append is durable, or raises what `Store.append` would have raised. True when the task was
        cancelled meanwhile: a cancellation is delivered when the result is known."""
        waiting = _Waiting(append, self._loop.create_future())
        self._waiting.append(waiting)
        if not self._busy:
            self._busy = True
            self._loop.call_soon(self._commit)
        cancelled = False
        while not waiting.finished:
            try:
                await waiting.future
            except asyncio.CancelledError:
                cancelled = True
                waiting.future = self._loop.create_future()
        if waiting.answer is not None:
            raise waiting.answer
        return cancelled

    def _commit(self) -> None:
        group, self._waiting = self._waiting, []
        if not group:
            self._busy = False
        elif len(group) == 1:
            self._settle(group, self._carry_out(group))
            self._loop.call_soon(self._commit)
        else:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="reenact-commit")
            work = self._thread.submit(self._carry_out, group)
            work.add_done_callback(lambda done: self._loop.call_soon_threadsafe(self._done, group, done.result()))

    def _done(self, group: list[_Waiting], answers: Sequence[BaseException | None]) -> None:
        self._settle(group, answers)
        # After those who were just answered: what they append next goes with the next group.
        self._loop.call_soon(self._commit)

    def _carry_out(self, group: list[_Waiting]) -> Sequence[BaseException | None]:
        try:
            return self.store.append_many([waiting.append for waiting in group])
        except BaseException as error:
            return [error] * len(group)

    @staticmethod
    def _settle(group: list[_Waiting], answers: Sequence[BaseException | None]) -> None:
        for waiting, answer in zip(group, answers, strict=True):
            waiting.finished, waiting.answer = True, answer
            if not waiting.future.done():
                waiting.future.set_result(None)
