"""Appends of asyncio tasks that overlap share one commit.

Life of an append:

1. The append is queued, and the loop runs. Appends that are queued before its next turn join the group.
2. A lone append is committed at once in the loop's thread: passing it to another thread costs more than it saves.
3. Several appends are committed by a separate thread in one transaction, while the loop continues.
4. Appends that are queued meanwhile form the next group.

With many tasks there are two groups, so that one is linked while the other is synced. Otherwise all tasks would
continue, and queue again, at the same time, and disk and processor would wait for each other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakKeyDictionary

from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.journal.sequenced_event import SequencedEvent
from onrecord.store.contract import Head, PendingAppend, Store

TWO_GROUPS_FROM = 32
"""Tasks. With fewer, linking takes less time than a sync, and one larger group is faster."""


async def append_from_task(journal: Journal, drafts: list[Draft], expected: Head | None) -> list[SequencedEvent]:
    """Append from a task: the decisions of `Journal.append` with another way of waiting."""
    if journal.in_flight:
        await _wait_for_turn(journal)
    existing = journal.find_known_ids(drafts, True)
    if existing is not None:
        return existing
    journal.check_usable()
    linked = journal.prepare(drafts, expected)
    append = PendingAppend(journal.namespace, journal.run, linked.rows, linked.before, journal.epoch, linked.nodes)
    cancelled = False
    journal.in_flight = True
    try:
        queued = _find_queue(journal).put(append)
        while not queued.finished:
            try:
                await queued.future
            except asyncio.CancelledError:
                # Raised again below, when the result is known.
                cancelled = True
                queued.future = asyncio.get_running_loop().create_future()
        if queued.answer is not None:
            raise queued.answer
    except BaseException as error:
        journal.fail_append(linked, error)
    finally:
        journal.in_flight = False
        if _turns:
            _wake_waiting_tasks(journal)
    journal.confirm_append(linked, True)
    if cancelled:
        raise asyncio.CancelledError
    return linked.sequenced


_turns: WeakKeyDictionary[Journal, list[asyncio.Future[None]]] = WeakKeyDictionary()


async def _wait_for_turn(journal: Journal) -> None:
    """Wait for the run's other tasks: appends to one run are serial, because each link follows the previous one."""
    while journal.in_flight:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        _turns.setdefault(journal, []).append(turn)
        await turn


def _wake_waiting_tasks(journal: Journal) -> None:
    turns = _turns.pop(journal, None)
    for turn in turns or ():
        if not turn.done():
            turn.set_result(None)


class _QueuedAppend:
    """A queued append. Its future may be cancelled with the waiting task; the append itself is not."""

    __slots__ = ("answer", "append", "finished", "future")

    def __init__(self, append: PendingAppend, future: asyncio.Future[None]) -> None:
        self.append = append
        self.future = future
        self.finished = False
        self.answer: BaseException | None = None


_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, CommitQueue]] = WeakKeyDictionary()


def _find_queue(journal: Journal) -> CommitQueue:
    """Return the queue of the journal's store in the running loop."""
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
        self._waiting: deque[_QueuedAppend] = deque()
        self._busy = False
        self._thread: ThreadPoolExecutor | None = None

    def put(self, append: PendingAppend) -> _QueuedAppend:
        """Queue the append. It is finished when it is durable, or when `answer` holds the error of `Store.append`."""
        queued = _QueuedAppend(append, self.loop.create_future())
        self._waiting.append(queued)
        if not self._busy:
            self._busy = True
            self.loop.call_soon(self._commit)
        return queued

    def _commit(self) -> None:
        if not self._waiting:
            self._busy = False
        elif len(self._waiting) == 1:
            group = [self._waiting.popleft()]
            self._finish(group, self._write(group))
            self.loop.call_soon(self._commit)
        else:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="onrecord-commit")
            self._thread.submit(self._commit_all)

    def _commit_all(self) -> None:
        """Run in the thread: commit group after group until the queue is empty."""
        answered = 0
        while self._waiting:
            group = self._take(answered)
            answered = len(group)
            self.loop.call_soon_threadsafe(self._finish, group, self._write(group))
        # Runs after the tasks that were just answered, so that their next appends join the next group.
        self.loop.call_soon_threadsafe(self.loop.call_soon, self._commit)

    def _take(self, answered: int) -> list[_QueuedAppend]:
        """Return the next group. `answered` tasks may queue again at any moment."""
        queue = self._waiting
        size = tasks = len(queue) + answered
        if tasks >= TWO_GROUPS_FROM:
            size = (tasks + 1) // 2
        return [queue.popleft() for _ in range(min(size, len(queue)))]

    def _write(self, group: list[_QueuedAppend]) -> Sequence[BaseException | None]:
        try:
            return self.store.append_many([queued.append for queued in group])
        except BaseException as error:
            return [error] * len(group)

    @staticmethod
    def _finish(group: list[_QueuedAppend], answers: Sequence[BaseException | None]) -> None:
        for queued, answer in zip(group, answers, strict=True):
            queued.finished, queued.answer = True, answer
            if not queued.future.done():
                queued.future.set_result(None)
