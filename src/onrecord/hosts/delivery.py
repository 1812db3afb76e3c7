"""Deliver outcomes one at a time, in the order of the record, each when nothing else is ready.

So the agent has done everything that it can do with one outcome before it receives the next, and a replay gives it the
same order. Two outcomes in one turn of the loop would be ordered by its ready queue alone, which is not recorded.

A loop that never rests (e.g. one that polls with `sleep(0)`) gets the next outcome after a number of turns.
"""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from itertools import count
from weakref import WeakKeyDictionary

MAX_TURNS = 100
"""Turns of a busy loop after which an outcome is delivered."""
TURNS_UNSEEN = 8
"""Turns before a delivery in a loop that does not show whether it rests."""


class Handover:
    """The outcomes of one scope that wait for their delivery."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()

    async def turn_of(self, seq: int) -> None:
        """Return when the outcome recorded at `seq` is the next one to deliver."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        heappush(self._waiting, (seq, next(self._numbers), turn))
        _dispatcher(loop).serve(self)
        await turn

    def hand_over_one(self) -> None:
        while self._waiting:
            turn = heappop(self._waiting)[2]
            if not turn.done():  # its task may have been cancelled, or its loop closed
                turn.set_result(None)
                return

    @property
    def empty(self) -> bool:
        return not self._waiting


class _Dispatcher:
    """The deliveries of one loop. Several dispatchers would take each other's callbacks for work of the loop."""

    def __init__(self) -> None:
        self._scopes: dict[Handover, None] = {}
        self._turns = 0

    def serve(self, scope: Handover) -> None:
        if not self._scopes:
            self._turns = 0
            asyncio.get_running_loop().call_soon(self._look)
        self._scopes[scope] = None

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._turns += 1
        if self._busy(loop):
            loop.call_soon(self._look)
            return
        self._turns = 0
        for scope in list(self._scopes):
            scope.hand_over_one()
            if scope.empty:
                del self._scopes[scope]
        if self._scopes:
            loop.call_soon(self._look)

    def _busy(self, loop: asyncio.AbstractEventLoop) -> bool:
        ready = getattr(loop, "_ready", None)
        if ready is None:
            return self._turns < TURNS_UNSEEN
        return len(ready) > 0 and self._turns < MAX_TURNS


_dispatchers: WeakKeyDictionary[asyncio.AbstractEventLoop, _Dispatcher] = WeakKeyDictionary()


def _dispatcher(loop: asyncio.AbstractEventLoop) -> _Dispatcher:
    found = _dispatchers.get(loop)
    if found is None:
        found = _dispatchers[loop] = _Dispatcher()
    return found
