"""The journal of a simulated run, in memory, and the deaths that cut it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kit.simulation.outside import Wrong
from onrecord.runtime.scheduler.items import Began, Chunk, Commit, Drawn, EffectOutcome, Item, Requested
from onrecord.runtime.scheduler.window import Placed


def position_of(number: int) -> int:
    """Return the position of the n-th item of a journal: three items are neighbours, and a gap follows."""
    return 7 + 5 * (number // 3) + number % 3


def place(items: list[Item], first: int = 0) -> list[Placed]:
    """Return items of a journal with their positions. `first` is the number of the first one."""
    end = first + len(items)
    while len(_POSITIONS) < end:
        _POSITIONS.append(position_of(len(_POSITIONS)))
    return list(zip(_POSITIONS[first:end], items, strict=True))


_POSITIONS: list[int] = []


class Death(NamedTuple):
    """The process dies at its n-th commit: after it, before it, or by a power cut that loses what is not synced."""

    commits: int
    how: str = "after"


class Journal:
    """The items that survive a death of the process."""

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self.items: list[Item] = list(items)
        self.requested = {item.key for item in self.items if type(item) is Requested}
        self.first = len(self.items)
        """Items that were there from the beginning."""
        self.safe = 0
        """Observations on which nothing but committed items has an influence."""
        self._synced = len(self.items), 0
        self._time = 0
        self.ends: list[int] = [0]
        """Numbers of items after which a death may cut the journal."""

    def append(self, commit: Commit, observations: int, now: int) -> int:
        """Append the items and return the time of the commit, which is that of its outcomes and chunks."""
        self._time = time = max(self._time, now)
        for item in commit.items:
            kind = type(item)
            if kind is EffectOutcome:
                item = EffectOutcome(item.key, item.value, time, item.forced)
            elif kind is Chunk:
                item = item._replace(time=time)
            elif kind is Requested:
                self.requested.add(item.key)
            self.items.append(item)
            if kind is not Chunk and kind is not Drawn:  # chunks may become void, and draws do not prevent it
                self.safe = observations
        if commit.sync:
            self.sync()
        self.ends.append(len(self.items))
        return time

    def append_apart(self, outcome: EffectOutcome) -> None:
        """Append an outcome that the effect writes by itself. What the program did is not committed with it."""
        self.items.append(outcome)
        self.ends.append(len(self.items))
        self.sync()

    def sync(self) -> None:
        self._synced = len(self.items), self.safe

    def lose_unsynced(self) -> None:
        length, self.safe = self._synced
        del self.items[length:]
        self.ends = [end for end in self.ends if end <= length]
        self.requested = {item.key for item in self.items if type(item) is Requested}

    def check_cut(self, outcome: EffectOutcome, end: int) -> None:
        """Check that the record up to `end` has more after the first chunk of a cut stream than its chunks."""
        chunks: list[int] = []
        for position, item in enumerate(self.items[:end]):
            if item == Began(outcome.key):
                chunks.clear()
            elif type(item) is Chunk and item.key == outcome.key:
                chunks.append(position)
        if not chunks or len(chunks) == end - chunks[0]:
            raise Wrong(f"cut, though nothing was done after its chunks: {outcome.key}")
