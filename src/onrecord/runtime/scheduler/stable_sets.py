"""Sets of tasks and futures have an order that comes back.

`asyncio.wait`, `concurrent.futures.wait` and `as_completed` hand out sets, task groups and programs keep some, and what
an agent does for each member it does in the order of the set. Python makes that order of addresses, which are others in
every process; for what a run has begun it is made of how it was begun.
"""

from __future__ import annotations

import asyncio
from concurrent import futures
from typing import TYPE_CHECKING, Any
from zlib import crc32

if TYPE_CHECKING:
    from onrecord.runtime.scheduler.lanes import Lane

_PLACE = "_onrecord_place_in_sets"


def _place(above: str, number: int) -> int:
    """Of the so-many-eth thing that was begun there. Siblings follow each other, so they do not collide in a set, where
    the order would then be that of being put in."""
    return crc32(above.encode()) + number


def _place_of(lane: Lane) -> int:
    return _place(lane.parent.birth if lane.parent is not None else "", lane.number_at_birth)


class Task(asyncio.Task[Any]):
    """Bears the name that programs see when they print one."""

    __slots__ = ("_place",)

    def __init__(self, coro: Any, lane: Lane, **options: Any) -> None:
        self._place = _place_of(lane)  # before anything else: asyncio keeps its tasks in a set, too
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._place


class Future(asyncio.Future[Any]):
    __slots__ = ("_place",)

    def __init__(self, lane: Lane, loop: asyncio.AbstractEventLoop) -> None:
        self._place = _place_of(lane)
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._place


def is_made_by_asyncio_itself(loop: asyncio.AbstractEventLoop) -> bool:
    """Tasks of the loop are asyncio's own, not those of a factory or of another kind of loop."""
    return loop.get_task_factory() is None and type(loop).create_task is asyncio.BaseEventLoop.create_task


def install() -> None:
    """Futures of pools are made out of sight, so all of them are asked, and those of no run answer as ever."""
    setattr(futures.Future, "__hash__", _hash)  # noqa: B010


def put_in_place(future: futures.Future[Any], above: str, number: int) -> None:
    """Before anybody else can have it."""
    setattr(future, _PLACE, _place(above, number))


def _hash(future: futures.Future[Any]) -> int:
    place: int | None = future.__dict__.get(_PLACE)
    return object.__hash__(future) if place is None else place
