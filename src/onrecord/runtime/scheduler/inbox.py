"""The live side of a run: what the next commit writes, and what came from outside.

An arrival is written before it is delivered. A commit of an outcome takes along everything that is here, in order; the
others follow at the next rests, without another commit.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from onrecord.runtime.scheduler.items import (
    AHEAD,
    APART,
    Began,
    Chunk,
    Commit,
    Delivery,
    EffectOutcome,
    Item,
    Requested,
    Token,
    Turn,
)


class CommitDraft:
    """The items that the next commit writes."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.is_due = False
        """It has a request or a second execution, which are committed before anything is begun."""

    def add(self, item: Item) -> None:
        self.items.append(item)
        if type(item) is Requested or type(item) is Began:
            self.is_due = True

    def take(self, *, sync: bool = False) -> Commit:
        """Return a commit of all items."""
        items, self.items, self.is_due = self.items, [], False
        for item in items:
            sync = sync or _needs_sync(item)
        return Commit(items, sync)


def _needs_sync(item: Item) -> bool:
    if type(item) is EffectOutcome:
        return item.forced != APART
    return type(item) is Began or (type(item) is Requested and item.once)


class Arrival:
    """Something that came from outside and was not delivered yet."""

    __slots__ = ("is_written", "item", "time", "token", "value")

    def __init__(self, token: Token, item: Delivery, value: Any) -> None:
        self.token = token
        self.item = item
        self.value = value
        self.time = item.time
        """That of a turn; of an outcome or a chunk that of its commit."""
        self.is_written = False


class Inbox:
    """What came from outside, in the order in which it came."""

    def __init__(self, draft: CommitDraft, listening: dict[Token, None]) -> None:
        self.arrivals: deque[Arrival] = deque()
        self._draft = draft
        self._listening = listening
        self._untimed: list[Arrival] = []
        """Outcomes and chunks in a commit whose time is not known yet."""

    def add(self, token: Token, value: Any, *, last: bool = True, time: int = 0, is_written: bool = False) -> None:
        """Take an outcome, a chunk or a turn. What arrives twice counts once."""
        if token.done or token.gone or token.here:
            return
        token.here = last
        item: Delivery
        if token.call is None:
            item = Turn(*token.turn_name, time)
        elif is_written:
            token.is_written = True
            item = Turn(*token.taken_name, time)
        elif last:
            item = EffectOutcome(token.key, value)
        else:
            item = Chunk(token.key, token.chunks, value)
            token.chunks += 1
        self.arrivals.append(Arrival(token, item, value))

    def outcome_of(self, token: Token, default: Any) -> Any:
        """Return the outcome of an effect if it is here."""
        return next((one.value for one in self.arrivals if one.token is token and token.here), default)

    def first(self) -> Arrival | None:
        """Return the first arrival that a lane still waits for."""
        while self.arrivals and self.arrivals[0].token.gone:
            self.arrivals.popleft()
        return self.arrivals[0] if self.arrivals else None

    def keep_awaited(self) -> None:
        """Drop what the history had, or what no lane waits for any more."""
        self.arrivals = deque(one for one in self.arrivals if not one.token.done and not one.token.gone)

    # Commits

    def write(self, arrival: Arrival, forced: int) -> None:
        """Put an arrival into the draft."""
        if forced:
            arrival.item = arrival.item._replace(forced=forced)
        arrival.is_written = True
        arrival.token.is_written |= arrival.token.here
        if type(arrival.item) is not Turn:
            self._untimed.append(arrival)
        self._draft.add(arrival.item)

    def write_ahead(self) -> None:
        """Write everything that is here. What is listened to comes last: a checkpoint may be taken before it."""
        last = []
        for arrival in self.arrivals:
            if arrival.is_written or arrival.token.gone:
                continue
            if arrival.token in self._listening:
                last.append(arrival)
            else:
                self.write(arrival, AHEAD)
        for arrival in last:
            self.arrivals.remove(arrival)
            self.arrivals.append(arrival)

    def set_time(self, time: int) -> None:
        """Give the time of the last commit to the outcomes and chunks in it."""
        for arrival in self._untimed:
            arrival.time = time
        self._untimed.clear()
