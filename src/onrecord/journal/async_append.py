"""Appends of asyncio tasks that overlap share one commit.

Life of an append: it queues and lets the loop run. Whatever else queues before the loop comes round again goes with it,
in one transaction of the store. A lone append is committed there and then, in the loop's thread, since handing it to
another one costs more than it saves; several are committed by a thread of their own, while the loop goes on. What
queues meanwhile is the next group. Many tasks are kept in two groups, so that one is linked while the other is synced:
were all of them answered at once, they would also queue at once, and disk and processor would wait for each other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakKeyDictionary

from reenact.journal.chain import Draft
from reenact.journal.journal import Journal
from reenact.journal.sequenced import SequencedEvent
from reenact.store.contract import Head, PendingAppend, Store

TWO_GROUPS_FROM = 32
"""Tasks. With fewer, linking takes less time than a sync, and one larger group is worth more."""


async def append_from_task(journal: Journal, drafts: list[Draft], expected: Head | None) -> list[SequencedEvent]:
    """The asynchronous driver of `Journal.append`: the same decisions, another way of waiting."""
    if journal.in_flight:
        await _turn(journal)
    existing = journal.known_ids(drafts, True)
    if existing is not None:
        return existing
    journal.check_usable()
    linked = journal.prepare(drafts, expected)
    append = PendingAppend(journal.namespace, journal.run, linked.rows, linked.before, journal.epoch, linked.nodes)
    cancelled = False
    journal.in_flight = True
    try:
        waiting = _queue_of(journal).put(append)
        while not waiting.finished:
            try:
                await waiting.future
            except asyncio.CancelledError:
                # Delivered when the result is known.
                cancelled = True
                waiting.future = asyncio.get_running_loop().create_future()
        if waiting.answer is not None:
            raise waiting.answer
    except BaseException as error:
        journal.not_appended(linked, error)
    finally:
        journal.in_flight = False
        if _turns:
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


def _queue_of(journal: Journal) -> CommitQueue:
    """The queue of the journal's store in the running loop."""
    loop = asyncio.get_running_loop()
    queue = journal.commit_queue
    if queue is None or queue.loop is not loop:
        queues = _queues.setdefault(loop, {})
        queue = queues.get(id(journal.store))
        if queue is None or queue.store is not journal.store:
            queue = queues[id(journal.store)] = CommitQueue(journal.store, loop)
        journal.commit_queue = queue
    return queue


class CommitQueue:
    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self.store = store
        self.loop = loop
        self._waiting: deque[_Waiting] = deque()
        self._busy = False
        self._thread: ThreadPoolExecutor | None = None

    def put(self, append: PendingAppend) -> _Waiting:
        """It is finished when the append is durable, or when `answer` says what `Store.append` would have raised."""
        waiting = _Waiting(append, self.loop.create_future())
        self._waiting.append(waiting)
        if not self._busy:
            self._busy = True
            self.loop.call_soon(self._commit)
        return waiting

    def _commit(self) -> None:
        if not self._waiting:
            self._busy = False
        elif len(self._waiting) == 1:
            group = [self._waiting.popleft()]
            self._settle(group, self._carry_out(group))
            self.loop.call_soon(self._commit)
        else:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="reenact-commit")
            self._thread.submit(self._commit_all)

    def _commit_all(self) -> None:
        """The thread: takes what has queued as soon as it is done with what came before."""
        answered = 0
        while self._waiting:
            group = self._take(answered)
            answered = len(group)
            self.loop.call_soon_threadsafe(self._settle, group, self._carry_out(group))
        # After those who were just answered: what they append next goes with the next group.
        self.loop.call_soon_threadsafe(self.loop.call_soon, self._commit)

    def _take(self, answered: int) -> list[_Waiting]:
        """The next group; `answered` tasks may queue again any moment."""
        waiting = self._waiting
        size = tasks = len(waiting) + answered
        if tasks >= TWO_GROUPS_FROM:
            size = (tasks + 1) // 2
        return [waiting.popleft() for _ in range(min(size, len(waiting)))]

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
