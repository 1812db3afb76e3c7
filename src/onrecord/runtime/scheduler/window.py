"""The history of a run, read through a window.

The scheduler looks at the item under the cursor and, for each lane, at its next recorded request. Both are near: what
a program does between two deliveries is between them in the journal, except for deliveries that were committed ahead.
So the window holds few items, however long the journal is.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from onrecord.runtime.scheduler.items import (
    ACTS,
    AHEAD,
    APART,
    DELIVERIES,
    Act,
    Away,
    Began,
    CheckpointTaken,
    Chunk,
    Delivery,
    Drawn,
    Dropped,
    EffectOutcome,
    Ended,
    Item,
    Requested,
    SettledItem,
    Turn,
    TurnName,
)

_LOOK_AHEAD = 1_000
"""Items from the cursor on in which a turn is looked for."""


class Digest(NamedTuple):
    """What has to be known of a history before its first item is used."""

    is_whole: bool = False
    """The last item is the end of the run."""
    retries: frozenset[str] = frozenset()
    """Keys of effects that an operator allowed to be executed again, and that have not been since."""
    void: frozenset[int] = frozenset()
    """Positions of chunks that are never delivered: their stream was executed again, or is to be."""
    anew: frozenset[str] = frozenset()
    """Keys of streams that are to be executed again: nothing was recorded after their first chunk but chunks."""
    loose: int | None = 0
    """Position from which nothing that the program does is on record: only deliveries committed ahead follow.

    None if the record ends with a commit that was made at rest. Then each strand that was not away had come to rest.
    """
    dropped: frozenset[int] = frozenset()
    """Positions of items that changed code does not need any more."""
    changes: tuple[int, ...] = ()
    """Positions from which the code was changed."""


Placed = tuple[int, Item]
"""An item with its position. Positions grow, with or without gaps."""


def digest_history(items: Iterable[Placed], *, writable: bool) -> Digest:
    """Read a history once, for what depends on its end."""
    retries: dict[str, int] = {}
    dropped: set[int] = set()
    changes: list[int] = []
    void: set[int] = set()
    chunks: dict[str, list[int]] = {}
    position = 0
    last: Item | None = None
    at_end = _LastChunks()
    loose: int | None = 0
    before_chunks: int | None = 0
    """Position like `loose`, without the last chunks, which are void for a stream that is executed again."""
    for position, item in items:
        last = item
        kind = type(item)
        loose = None if kind is Requested else _loose_after(loose, position, item)
        if kind is Chunk:
            assert isinstance(item, Chunk)
            chunks.setdefault(item.key, []).append(position)
            at_end.add(item.key)
            continue
        before_chunks = loose
        if kind is Dropped:
            assert isinstance(item, Dropped)
            own = at_end.of(chunks)
            void.update(own if own and own[0] in item.positions else ())
            dropped.update(item.positions)
            changes.append(position)
            retries = {key: at for key, at in retries.items() if at not in dropped}
            chunks = {key: left for key, own in chunks.items() if (left := [at for at in own if at not in dropped])}
        elif isinstance(item, SettledItem):
            if item.how == "retry":
                retries[item.key] = position
        elif isinstance(item, Began):
            retries.pop(item.key, None)
            void.update(chunks.pop(item.key, ()))
        elif isinstance(item, EffectOutcome):
            chunks.pop(item.key, None)
        elif kind is Drawn:
            continue  # a value that was read between two chunks is nothing that others see
        at_end.clear()
    anew: set[str] = set()
    if writable and (positions := at_end.of(chunks)):
        void.update(positions)
        anew.add(at_end.key)
    loose = before_chunks if anew else loose
    is_whole = isinstance(last, Ended) and position not in dropped
    ends_with = frozenset(retries), frozenset(void), frozenset(anew), loose
    return Digest(is_whole, *ends_with, frozenset(dropped), tuple(changes))


def _loose_after(loose: int | None, position: int, item: Item) -> int | None:
    """Return the position from which a history that ends with this item is loose. It was `loose` before."""
    if type(item) is CheckpointTaken:
        return position + 1  # committed at once, while the root lane runs
    if not isinstance(item, DELIVERIES):
        return None  # the commit was made after it, at rest
    if item.forced == APART or (type(item) is SettledItem and item.how == "retry"):
        return loose
    if item.forced != AHEAD:
        # An outcome or a chunk is committed before it is delivered, a turn after it, at rest.
        return None if type(item) is Turn else position + 1
    return position + 1 if loose is None else loose  # settled after the last commit


class _LastChunks:
    """The chunks of one stream at the end of a history. The program did not act on them if the stream has no others.

    Chunks of two streams may alternate there: then the program may have acted on those of the first.
    """

    def __init__(self) -> None:
        self.key = ""
        self._count = 0

    def add(self, key: str) -> None:
        self._count = self._count + 1 if key == self.key else 1
        self.key = key

    def clear(self) -> None:
        self._count = 0

    def of(self, chunks: dict[str, list[int]]) -> list[int]:
        """Return the positions of a stream whose chunks are all at the end."""
        own = chunks.get(self.key, [])
        return own if self._count and len(own) == self._count else []


class Window:
    """A cursor in the history, and the recorded acts of each lane that are still to be made again."""

    def __init__(self, items: Iterable[Placed] = (), digest: Digest | None = None) -> None:
        self.digest = digest or Digest()
        self._end = 0
        """The position after the last item that was read."""
        self._items: Iterator[Placed] | None = iter(items)
        self.ahead: deque[Placed] = deque()
        """The item under the cursor, and what was read after it."""
        self._acts: dict[str, deque[tuple[int, Act]]] = {}
        self.made: dict[int, str] = {}
        """Positions of acts from the cursor on that were made again, with their lanes."""
        self._draws: dict[tuple[str, Any], deque[tuple[int, Any]]] = {}
        self.aways: dict[tuple[str, Any], deque[tuple[int, Any]]] = {}
        self._last: float = -math.inf
        """Position of the last delivery that came at rest."""
        self._changes = deque(self.digest.changes)
        """Changes of the code that are still to come."""
        self._rests: deque[int] = deque()
        """Positions of deliveries that come after the program has done what was recorded before them."""
        self.dropped: list[Item] = []
        """Items that were dropped before, as far as was read, without void chunks."""
        self._turns: tuple[tuple[int, int], dict[TurnName, int]] = (-1, 0), {}
        """Turns from the cursor on with their positions, and the cursor and the end for which this is known."""

    @property
    def held(self) -> int:
        """How many items are in the window."""
        return len(self.ahead)

    # The cursor

    def head(self) -> Item | None:
        """Return the item under the cursor; None at the end."""
        return self.ahead[0][1] if self.ahead or self.read() else None

    @property
    def position(self) -> int:
        """That of the item under the cursor; at the end of the history one that no item has."""
        return self.ahead[0][0] if self.ahead or self.read() else self._end

    def drop(self) -> None:
        """Drop the item under the cursor. It delivers nothing: draws and aways before it stay those of this rest."""
        self.ahead[0] = self.ahead[0][0], Dropped(())

    def advance(self) -> None:
        position, item = self.ahead.popleft()
        self.made.pop(position, None)
        if position in self._rests and type(item) is not Dropped:
            while self._last < position:
                self._last = self._rests.popleft()
            while self._changes and self._changes[0] < self._last:
                self._changes.popleft()
                self.forget(self._last)

    def next_outcome(self) -> tuple[int, EffectOutcome] | None:
        """Return the next delivery with its position, if it is an outcome and all acts before it were made."""
        number = 0
        while number < len(self.ahead) or self.read():
            position, item = self.ahead[number]
            if isinstance(item, DELIVERIES):
                return (position, item) if type(item) is EffectOutcome else None
            if isinstance(item, ACTS) and position not in self.made:
                return None
            number += 1
        return None

    @property
    def is_loose(self) -> bool:
        """True if nothing that the program does from here on is on record."""
        loose = self.digest.loose
        return loose is not None and self.position >= loose

    @property
    def head_is_made(self) -> bool:
        return self.ahead[0][0] in self.made

    @property
    def head_is_void(self) -> bool:
        return self.position in self.digest.void

    def read(self) -> bool:
        """Read one more item into the window; False at the end."""
        if self._items is None:
            return False
        placed = next(self._items, None)
        if placed is None:
            self._items = None
            return False
        position, item = placed
        self._end = position + 1
        if isinstance(item, DELIVERIES) and item.forced >= 0 and position not in self.digest.void:
            self._rests.append(position)  # what was recorded after a void chunk belongs to the rest before it
        if position in self.digest.dropped:
            if position not in self.digest.void:
                self.dropped.append(item)
            self.ahead.append((position, Dropped(())))
            return True
        self.ahead.append(placed)
        if isinstance(item, ACTS):
            self._acts.setdefault(item.lane, deque()).append((position, item))
        elif type(item) is Drawn:
            self._draws.setdefault((item.lane, item.site), deque()).append((position, item.value))
        elif type(item) is Away:
            self.aways.setdefault((item.lane, item.ordinal), deque()).append((position, item.draws))
        return True

    def _read_to_rest(self, after: float = -math.inf) -> None:
        """Read what the program does before the next delivery, or the next one after a position."""
        if self._items is not None:
            while not (self._rests and self._rests[-1] > after) and self.read():
                pass

    # The acts of lanes

    def next_act(self, lane: str) -> tuple[int, Act] | None:
        """Return the next recorded act of a lane that was not made again, with its position."""
        while not (acts := self._acts.get(lane)):
            if not self.read():
                return None
        return acts[0]

    def pending_act(self, lane: str) -> tuple[int, Act] | None:
        """Return the next recorded act of a lane before the next delivery, as far as was read."""
        self._read_to_rest()
        acts = self._acts.get(lane)
        return acts[0] if acts else None

    def acts_of(self, lane: str) -> list[tuple[int, Act]]:
        """Return all recorded acts of a lane that were not made again. This reads the whole history."""
        while self.read():
            pass
        return list(self._acts.get(lane, ()))

    def mark_made(self, lane: str) -> None:
        """Note that the lane made its next recorded act again."""
        acts = self._acts[lane]
        position, _ = acts.popleft()
        if not acts:
            del self._acts[lane]
        self.made[position] = lane

    def mark_made_at(self, position: int) -> Act:
        """Note that some lane made the recorded act at a position. Return the act."""
        lane = next(lane for lane, acts in self._acts.items() for at, _ in acts if at == position)
        acts = self._acts[lane]
        found = next(act for at, act in acts if at == position)
        acts.remove((position, found))
        if not acts:
            del self._acts[lane]
        self.made[position] = lane
        return found

    def unmade_requests(self) -> list[tuple[int, Requested]]:
        """Return all recorded requests that were not made again, in order. This reads the whole history."""
        while self.read():
            pass
        found = [(at, act) for acts in self._acts.values() for at, act in acts if isinstance(act, Requested)]
        return sorted(found, key=lambda request: request[0])

    def take_delivery(self, is_awaited: Callable[[Delivery], bool]) -> Delivery | None:
        """Take the first delivery from the cursor on that a lane waits for, out of order."""
        number = 0
        while number < len(self.ahead) or self.read():
            position, item = self.ahead[number]
            if isinstance(item, DELIVERIES) and position not in self.digest.void and is_awaited(item):
                self.ahead[number] = position, Dropped(())
                return item
            number += 1
        return None

    def is_ahead(self, lane: str) -> bool:
        """Return True if the lane made an act again that was recorded after the item under the cursor.

        What changed code did is recorded later than it was done, so nothing is known of it.
        """
        return bool(self.made) and not self.digest.changes and lane in self.made.values()

    def is_to_come(self, name: TurnName) -> bool:
        """Return True if the turn is near, and its lane has no other recorded act to make before it."""
        while len(self.ahead) < _LOOK_AHEAD and self.read():
            pass
        stretch = self.position, self._end
        if self._turns[0] != stretch:
            turns = {(item.kind, item.lane, item.ordinal): at for at, item in self.ahead if type(item) is Turn}
            self._turns = stretch, turns
        position = self._turns[1].get(name)
        acts = self._acts.get(name[1])
        return position is not None and not (acts and acts[0][0] < position)

    def first_unmade(self) -> tuple[int, Act] | None:
        """Return the first act of the history that was not made again."""
        while True:
            found = min((acts[0] for acts in self._acts.values()), default=None, key=lambda act: act[0])
            if found is not None or not self.read():
                return found

    # Draws and aways

    def draw(self, lane: str, site: str) -> tuple[Any] | None:
        """Return the next recorded value of that lane and site, in a tuple."""
        self._read_to_rest()
        if not self._draws and not self._changes:
            return None
        found = self._take_draw((lane, site), -math.inf)
        for change in self._changes:
            # What changed code draws while it is replayed is recorded after all that it replays.
            if found is None:
                self._read_to_rest(change)
                found = self._take_draw((lane, site), change)
        return found

    def _take_draw(self, site: tuple[str, str], after: float) -> tuple[Any] | None:
        """Take the next value after a position, and before the next rest."""
        values = self._draws.get(site)
        if values is None:
            return None
        end = self._rest_after(max(after, self._last))
        for number, (position, value) in enumerate(values):
            if after < position < end:
                del values[number]
                if not values:
                    del self._draws[site]
                return (value,)
        return None

    def forget(self, end: float) -> None:
        """Forget draws and aways up to a position: the code was changed since, and did not make them again."""
        for recorded in (self._draws, self.aways):
            for name, values in list(recorded.items()):
                while values and values[0][0] <= end:
                    values.popleft()
                if not values:
                    del recorded[name]

    @property
    def has_changes(self) -> bool:
        """True if the code was changed after the last delivery that came at rest."""
        return bool(self._changes)

    @property
    def has_unmet(self) -> bool:
        """True if a draw or an away was not made again, as far as was read."""
        return bool(self._draws or self.aways)

    def _rest_after(self, position: float) -> float:
        return next((rest for rest in self._rests if rest > position), math.inf)

    def meet_away(self, lane: str, ordinal: int, draws: int | None) -> bool:
        """Return True, once for each such item, if the record says that the strand was away there.

        `draws` is None at the act itself: an away before a draw that is not made any more is met there.
        """
        self._read_to_rest()
        found = bool(self.aways) and self._take_away((lane, ordinal), -math.inf, draws)
        for change in self._changes:
            if not found:
                self._read_to_rest(change)
                found = self._take_away((lane, ordinal), change, draws)
        return found

    def _take_away(self, act: tuple[str, int], after: float, draws: int | None) -> bool:
        """Take an away after a position, and before the next rest."""
        aways = self.aways.get(act)
        if aways is None:
            return False
        end = self._rest_after(max(after, self._last))
        for number, (position, drawn) in enumerate(aways):
            if after < position < end and draws in (None, drawn):
                del aways[number]
                if not aways:
                    del self.aways[act]
                return True
        return False

    def may_meet_away(self, position: int) -> bool:
        """Return True if a strand may have been away before the delivery that follows the one at a position."""
        self._read_to_rest(position)
        return bool(self.aways or self._changes)

    def forget_away(self, lane: str, ordinal: int) -> None:
        """Forget the away that the turn under the cursor ends: the strand did not reach that act."""
        aways = self.aways.get((lane, ordinal))
        if aways and aways[0][0] < self.position:
            aways.popleft()
            if not aways:
                del self.aways[lane, ordinal]
