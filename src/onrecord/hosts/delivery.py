"""Outcomes are handed over one at a time, in the order in which they were recorded, each when nothing else is ready.

So what an agent does with one outcome is finished, as far as it goes without the next, before it sees another; and when
its effects are served from the record, it sees them in the same order again. Two outcomes in one turn of the loop would
be told apart by the order of its ready queue alone, which nobody records.

A loop that is never at rest (somebody polls with `sleep(0)`) hands over after a number of turns all the same.
"""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from itertools import count
from weakref import WeakKeyDictionary

MAX_TURNS = 100
"""Turns of a busy loop after which an outcome is handed over nevertheless."""
TURNS_UNSEEN = 8
"""Turns to let pass in a loop that does not show whether it is at rest."""


class Handover:
    """The outcomes of one scope that wait for being handed over."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()

    async def turn_of(self, seq: int) -> None:
        """Returns when the outcome recorded at `seq` is the next one to be seen."""
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
    """One for each loop: several would take each other's looking for work. It keeps no hold of its loop."""

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
