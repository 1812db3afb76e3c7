"""The live side of a run: effects are begun here, and what comes of them arrives.

What is asked is committed, then begun; what arrives is committed, then delivered. At the end of a history everything
that is open is begun, except for what must not happen twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onrecord.runtime.scheduler.inbox import Arrival, CommitDraft, Inbox
from onrecord.runtime.scheduler.items import (
    APART,
    Began,
    Begin,
    Commit,
    Cut,
    EffectCancelled,
    EffectOutcome,
    EffectsInDoubt,
    Token,
    Turn,
)
from onrecord.runtime.scheduler.spares import Spares
from onrecord.runtime.scheduler.wait_table import WaitTable
from onrecord.runtime.scheduler.window import Window

MayRepeat = Callable[[Token], bool]


class LiveSide:
    def __init__(self, history: Window, awaited: WaitTable, may_repeat: MayRepeat | None) -> None:
        self.draft = CommitDraft()
        self.inbox = Inbox(self.draft, awaited.listening)
        self.spares = Spares()
        """Outcomes of requests that changed code did not make again."""
        self._history = history
        self._awaited = awaited
        self._may_repeat = may_repeat
        self._to_begin: list[Token] = []
        self._to_stop: list[Token] = []
        self._spared: set[Token] = set()
        """Tokens of the history that spares answer."""
        self._doubts: set[Token] = set()
        """Tokens of requests that were dropped without an outcome and are made again."""

    def begin(self, token: Token) -> None:
        """Begin a request or a turn at the next rest."""
        self._to_begin.append(token)

    def stop(self, token: Token) -> None:
        """Tell an effect to end, if it was begun."""
        self._to_stop.append(token)

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
        return not (self.inbox.arrivals or self._to_begin or self._to_stop or self.draft.is_due)

    def next(self, steps: int | None) -> Commit | Begin | EffectsInDoubt | Arrival | None:
        """Return what to do, or the next arrival to deliver; None if nothing is here."""
        if self._to_begin and self.spares.has_any:
            self._use_spares()
        if self.draft.is_due:
            return self.draft.take()
        if self._to_begin or self._to_stop:
            begin = self._take_begun()
            if doubts := [token for token in begin.tokens if token in self._doubts]:
                return EffectsInDoubt(doubts)
            if begin.tokens or begin.stop:
                return begin
        arrival = self.inbox.first()
        if arrival is None:
            return None
        if not arrival.is_written:
            self.inbox.write(arrival, steps or 0)
            if type(arrival.item) is not Turn:
                self.inbox.write_ahead()
                return self.draft.take()
        return self.inbox.arrivals.popleft()

    def _take_begun(self) -> Begin:
        tokens = []
        for token in self._to_begin:
            if token.cancelled and not token.gone:
                self.inbox.add(token, EffectCancelled())  # before it was begun
            elif not token.gone:
                token.begun = True
                tokens.append(token)
        stop = [token for token in self._to_stop if token.begun and not token.done]
        self._to_begin, self._to_stop = [], []
        return Begin(tokens, stop)

    # What changed code did not ask for again, and asks for later

    def _use_spares(self) -> None:
        """Answer dropped requests that are made again. A retry is spent in the commit of the request."""
        self._to_begin = [
            token for token in self._to_begin if token.cancelled or token.gone or not self._take_spare(token)
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
        self._to_begin.extend(self._awaited.listening)
        for token in self._awaited.open:
            if token not in self._spared:
                self._take_over(token, time)

    def _take_over(self, token: Token, time: int) -> None:
        """Begin an open token, or let its outcome arrive if it must not be begun again."""
        if token.call is None or not token.recorded:
            self._to_begin.append(token)
        elif self._awaited.is_apart(token):
            self.inbox.add(token, self._awaited.take_apart(token), time=time, is_written=True)
        elif token.cancelled:
            self.inbox.add(token, EffectCancelled(unknown=True))
        elif token.chunks:
            self.inbox.add(token, Cut())
        else:
            if token.call.once or token.key in self._history.digest.anew:
                self.draft.add(Began(token.key))
            self._to_begin.append(token)


def _is_in_doubt(token: Token) -> bool:
    if not token.recorded or token.call is None or not token.call.once:
        return False
    return not token.cancelled and not token.is_written
