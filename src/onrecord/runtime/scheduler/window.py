"""The history of a run, read through a window.

The scheduler looks at the item under the cursor and, for each lane, at its next recorded request. Both are near: what
a program does between two deliveries is between them in the journal, except for deliveries that were committed ahead.
So the window holds few items, however long the journal is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from onrecord.runtime.scheduler.items import (
    ACTS,
    AHEAD,
    APART,
    DELIVERIES,
    Act,
    Away,
    Began,
    Chunk,
    Drawn,
    EffectOutcome,
    Ended,
    Item,
    SettledItem,
)


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


def digest_history(items: Iterable[Item], *, writable: bool) -> Digest:
    """Read a history once, for what depends on its end."""
    retries: set[str] = set()
    void: set[int] = set()
    chunks: dict[str, list[int]] = {}
    position, others = -1, -1
    last: Item | None = None
    ends = _Ends()
    for position, item in enumerate(items):
        last = item
        ends.add(position, item)
        if isinstance(item, Chunk):
            chunks.setdefault(item.key, []).append(position)
            continue
        others = position
        if isinstance(item, SettledItem) and item.how == "retry":
            retries.add(item.key)
        elif isinstance(item, Began):
            retries.discard(item.key)
            void.update(chunks.pop(item.key, ()))
        elif isinstance(item, EffectOutcome):
            chunks.pop(item.key, None)
    anew: set[str] = set()
    if writable:
        # Chunks of two streams may alternate at the end: then the program may have acted on either.
        for key, positions in chunks.items():
            if positions[0] > others and len(positions) == position - positions[0] + 1:
                void.update(positions)
                anew.add(key)
    loose = ends.before_chunks if anew else ends.loose
    return Digest(isinstance(last, Ended), frozenset(retries), frozenset(void), frozenset(anew), loose)


class _Ends:
    """The position from which a history is loose, as it is read."""

    def __init__(self) -> None:
        self.loose: int | None = 0
        self.before_chunks: int | None = 0
        """The same without the chunks at the end, which are void for a stream that is executed again."""

    def add(self, position: int, item: Item) -> None:
        if getattr(item, "forced", 0) == APART or (isinstance(item, SettledItem) and item.how == "retry"):
            return
        if isinstance(item, EffectOutcome | Chunk) and item.forced != AHEAD:
            self.loose = position + 1  # committed before it was delivered
        elif not isinstance(item, DELIVERIES) or item.forced != AHEAD:
            self.loose = None  # the commit was made after it, at rest
        elif self.loose is None:
            self.loose = position + 1  # settled after the last commit
        if not isinstance(item, Chunk):
            self.before_chunks = self.loose


class Window:
    """A cursor in the history, and the recorded acts of each lane that are still to be made again."""

    def __init__(self, items: Iterable[Item] = (), digest: Digest | None = None) -> None:
        self.digest = digest or Digest()
        self.position = 0
        """That of the item under the cursor."""
        self._items: Iterator[Item] | None = iter(items)
        self._ahead: deque[Item] = deque()
        self._acts: dict[str, deque[tuple[int, Act]]] = {}
        self._made: set[int] = set()
        self._draws: dict[tuple[str, str], deque[Any]] = {}
        self._aways: dict[tuple[str, int], list[int]] = {}
        self._rests = 0
        """Deliveries in the window that come after the program has done what was recorded before them."""

    # The cursor

    def head(self) -> Item | None:
        """Return the item under the cursor; None at the end."""
        return self._ahead[0] if self._ahead or self._read() else None

    def advance(self) -> None:
        self._rests -= self._is_rest(self._ahead.popleft(), self.position)
        self._made.discard(self.position)
        self.position += 1

    @property
    def is_loose(self) -> bool:
        """True if nothing that the program does from here on is on record."""
        loose = self.digest.loose
        return loose is not None and self.position >= loose

    @property
    def head_is_made(self) -> bool:
        return self.position in self._made

    @property
    def head_is_void(self) -> bool:
        return self.position in self.digest.void

    def _read(self) -> bool:
        """Read one more item into the window; False at the end."""
        if self._items is None:
            return False
        item = next(self._items, None)
        if item is None:
            self._items = None
            return False
        position = self.position + len(self._ahead)
        self._ahead.append(item)
        self._rests += self._is_rest(item, position)
        if isinstance(item, ACTS):
            self._acts.setdefault(item.lane, deque()).append((position, item))
        elif isinstance(item, Drawn):
            self._draws.setdefault((item.lane, item.site), deque()).append(item.value)
        elif isinstance(item, Away):
            self._aways.setdefault((item.lane, item.ordinal), []).append(item.draws)
        return True

    def _read_to_rest(self) -> None:
        """Read what the program does before the next delivery."""
        while not self._rests and self._read():
            pass

    # The acts of lanes

    def next_act(self, lane: str) -> tuple[int, Act] | None:
        """Return the next recorded act of a lane that was not made again, with its position."""
        while not (acts := self._acts.get(lane)):
            if not self._read():
                return None
        return acts[0]

    def pending_act(self, lane: str) -> tuple[int, Act] | None:
        """Return the next recorded act of a lane before the next delivery, as far as was read."""
        self._read_to_rest()
        acts = self._acts.get(lane)
        return acts[0] if acts else None

    def mark_made(self, lane: str) -> None:
        """Note that the lane made its next recorded act again."""
        acts = self._acts[lane]
        position, _ = acts.popleft()
        if not acts:
            del self._acts[lane]
        self._made.add(position)

    def first_unmade(self) -> tuple[int, Act] | None:
        """Return the first act of the history that was not made again."""
        while True:
            found = min((acts[0] for acts in self._acts.values()), default=None, key=lambda act: act[0])
            if found is not None or not self._read():
                return found

    # Draws and aways

    def draw(self, lane: str, site: str) -> tuple[Any] | None:
        """Return the next recorded value of that lane and site, in a tuple."""
        values = self._draws.get((lane, site))
        if not values:
            self._read_to_rest()
            values = self._draws.get((lane, site))
        if not values:
            return None
        return (values.popleft(),)

    def meet_away(self, lane: str, ordinal: int, draws: int | None) -> bool:
        """Return True, once for each such item, if the record says that the strand was away there.

        `draws` is None at the act itself: an away before a draw that is not made any more is met there.
        """
        self._read_to_rest()
        aways = self._aways.get((lane, ordinal))
        if not aways or (draws is not None and draws not in aways):
            return False
        aways.remove(aways[0] if draws is None else draws)
        return True

    def meet_next_away(self, lane: str, ordinal: int) -> bool:
        """Return True, once, if the strand goes away before the same act again, after the return under the cursor."""
        while self._rests < 2 and self._read():
            pass
        aways = self._aways.get((lane, ordinal))
        if not aways:
            return False
        del aways[0]
        return True

    def _is_rest(self, item: Item, position: int) -> bool:
        # A void chunk is never delivered: what was recorded after it belongs to the rest before it.
        return isinstance(item, DELIVERIES) and item.forced >= 0 and position not in self.digest.void
