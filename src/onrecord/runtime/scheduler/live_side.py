"""The live side of a run: effects are begun here, and what comes of them arrives.

What is asked is committed, then begun; what arrives is committed, then delivered. A commit of an outcome takes along
everything that is here, in order; the others follow at the next rests, without another commit. At the end of a history
everything that is open is begun, except for what must not happen twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from onrecord.runtime.scheduler.changed_code import Spares
from onrecord.runtime.scheduler.items import (
    AHEAD,
    APART,
    Began,
    Begin,
    Chunk,
    Commit,
    Cut,
    Delivery,
    EffectCancelled,
    EffectOutcome,
    EffectsInDoubt,
    Item,
    Requested,
    Token,
    Turn,
)
from onrecord.runtime.scheduler.wait_table import WaitTable
from onrecord.runtime.scheduler.window import Window

MayRepeat = Callable[[Token], bool]


class CommitDraft:
    """The items that the next commit writes."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.is_due = False
        """True if it has a request or a second execution: these are committed before an effect begins."""

    def add(self, item: Item) -> None:
        self.items.append(item)
        if type(item) is Requested or type(item) is Began:
            self.is_due = True

    def take(self, *, sync: bool = False) -> Commit:
        """Return a commit of all items."""
        items, self.items, self.is_due = self.items, [], False
        for item in items:
            kind = type(item)
            if kind is EffectOutcome:
                sync = sync or item.forced != APART  # type: ignore[union-attr]
            elif kind is Began or (kind is Requested and item.once):  # type: ignore[union-attr]
                sync = True
        return Commit(items, sync)


class Arrival(msgspec.Struct, eq=False):
    """Something that came from outside and was not delivered yet."""

    token: Token
    item: Delivery
    value: Any
    time: int
    """Time of a turn, or of the commit of an outcome or chunk."""
    is_written: bool = False


class Inbox:
    """Arrivals from outside, in their order."""

    def __init__(self, draft: CommitDraft, listening: dict[Token, None]) -> None:
        self.arrivals: deque[Arrival] = deque()
        self._draft = draft
        self._listening = listening
        self.untimed: list[Arrival] = []
        """Outcomes and chunks in a commit whose time is not known yet."""

    def add(self, token: Token, value: Any, *, last: bool = True, time: int = 0, is_written: bool = False) -> None:
        """Take an outcome, a chunk or a turn. What arrives twice counts once."""
        if token.done or token.gone or token.here:
            return
        token.here = last
        item: Delivery
        if token.call is not None and last and not is_written:
            item, time = EffectOutcome(token.name, value), 0  # type: ignore[arg-type]
        elif token.call is None:
            item = Turn(*token.turn_name, time)
        elif is_written:
            token.is_written = True
            item = Turn(*token.taken_name, time)
        else:
            item, time = Chunk(token.key, token.chunks, value), 0
            token.chunks += 1
        self.arrivals.append(Arrival(token, item, value, time))

    def outcome_of(self, token: Token, default: Any) -> Any:
        """Return the outcome of an effect if it is here."""
        return next((one.value for one in self.arrivals if one.token is token and token.here), default)

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
            self.untimed.append(arrival)
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
        for arrival in self.untimed:
            arrival.time = time
        self.untimed.clear()


class LiveSide:
    def __init__(self, history: Window, awaited: WaitTable, may_repeat: MayRepeat | None) -> None:
        self.draft = CommitDraft()
        self.inbox = Inbox(self.draft, awaited.listening)
        self.spares = Spares()
        """Outcomes of requests that changed code did not make again."""
        self._history = history
        self._awaited = awaited
        self._may_repeat = may_repeat
        self.to_begin: list[Token] = []
        """Requests and turns that are begun at the next rest."""
        self.to_stop: list[Token] = []
        """Effects that are told to end, if they were begun."""
        self._spared: set[Token] = set()
        """Tokens of the history that spares answer."""
        self._doubts: set[Token] = set()
        """Tokens of requests that were dropped without an outcome and are made again."""

    def give_up(self, token: Token) -> None:
        """Write the outcome of an effect that no lane waits for any more."""
        self.write_apart(token, self.inbox.outcome_of(token, EffectCancelled()))

    def write_apart(self, token: Token, value: Any) -> None:
        """Write an outcome that is never delivered, unless the journal has one already."""
        if not token.is_written:
            token.is_written = True
            self.draft.add(EffectOutcome(token.key, value, forced=APART))

    # The decision

    @property
    def is_idle(self) -> bool:
        """True if nothing happens before something arrives."""
        return not (self.inbox.arrivals or self.to_begin or self.to_stop or self.draft.is_due)

    def next(self, steps: int | None) -> Commit | Begin | EffectsInDoubt | Arrival | None:
        """Return what to do, or the next arrival to deliver; None if nothing is here."""
        if self.to_begin and self.spares.requests:
            self._use_spares()
        if self.draft.is_due:
            return self.draft.take()
        if self.to_begin or self.to_stop:
            begin = self._take_begun()
            if self._doubts and (doubts := [token for token in begin.tokens if token in self._doubts]):
                return EffectsInDoubt(doubts)
            if begin.tokens or begin.stop:
                return begin
        arrivals = self.inbox.arrivals
        while arrivals and arrivals[0].token.gone:
            arrivals.popleft()
        if not arrivals:
            return None
        arrival = arrivals[0]
        if not arrival.is_written:
            self.inbox.write(arrival, steps or 0)
            if type(arrival.item) is not Turn:
                if len(arrivals) > 1:
                    self.inbox.write_ahead()
                return self.draft.take()
        return arrivals.popleft()

    def _take_begun(self) -> Begin:
        tokens = []
        for token in self.to_begin:
            if token.cancelled and not token.gone:
                self.inbox.add(token, EffectCancelled())  # before it was begun
            elif not token.gone:
                token.begun = True
                tokens.append(token)
        stop = self.to_stop and [token for token in self.to_stop if token.begun and not token.done]
        self.to_begin, self.to_stop = [], []
        return Begin(tokens, stop)

    # What changed code did not ask for again, and asks for later

    def _use_spares(self) -> None:
        """Answer dropped requests that are made again. A retry is spent in the commit of the request."""
        self.to_begin = [
            token for token in self.to_begin if token.cancelled or token.gone or not self._take_spare(token)
        ]

    def _take_spare(self, token: Token) -> bool:
        """Let the recorded values of a dropped request arrive again. Return True if it has any."""
        values = self.spares.take(token) if token.call is not None else None
        for value, last in values or ():
            self.inbox.add(token, value, last=last)
        if values is not None and not values and token.call is not None and token.call.once and not token.recorded:
            if self._is_allowed(token):
                self.draft.add(Began(token.key))
            else:
                self._doubts.add(token)
        return bool(values)

    # From the history to live

    def find_doubts(self) -> list[Token]:
        """Return the effects of the history that may have happened, and that no decision allows to be repeated."""
        while self._history.dropped:
            self.spares.add(self._history.dropped.pop(0))
        self._spared = {token for token in self._awaited.open if token.recorded and self._take_spare(token)}
        return [
            token
            for token in self._awaited.open
            if _is_in_doubt(token) and token not in self._spared and not self._is_allowed(token)
        ]

    def _is_allowed(self, token: Token) -> bool:
        """Return True if an effect without an outcome may be begun, though it may run at most once."""
        return token.key in self._history.digest.retries or (self._may_repeat is not None and self._may_repeat(token))

    def take_over(self, time: int) -> None:
        """Begin what is open at the end of the history, and what is listened to. `time` is the run's clock."""
        self.inbox.keep_awaited()
        self.to_begin.extend(self._awaited.listening)
        for token in self._awaited.open:
            if token not in self._spared:
                self._take_over(token, time)

    def _take_over(self, token: Token, time: int) -> None:
        """Begin an open token, or let its outcome arrive if it must not be begun again."""
        if token.call is None or not token.recorded:
            self.to_begin.append(token)
        elif self._awaited.is_apart(token):
            self.inbox.add(token, self._awaited.take_apart(token), time=time, is_written=True)
        elif token.cancelled:
            self.inbox.add(token, EffectCancelled(unknown=True))
        elif token.chunks:
            self.inbox.add(token, Cut())
        else:
            if token.call.once or token.key in self._history.digest.anew:
                self.draft.add(Began(token.key))
            self.to_begin.append(token)


def _is_in_doubt(token: Token) -> bool:
    if not token.recorded or token.call is None or not token.call.once:
        return False
    return not token.cancelled and not token.is_written
