"""The scheduler of one run: a state machine without threads, loops, clocks or I/O.

Terms. A *lane* is one concurrent branch of the agent. A *strand* is what can be scheduled: an event loop, which holds
many lanes, or a thread, which holds one. A *token* is something that a lane waits for and that comes from outside. The
run *rests* when no strand is ready.

Rules:

1. One strand runs at a time. What happens inside the program (start, join, lock, queue, callback) is decided by first
   in, first out, and is not recorded.
2. What comes from outside is delivered one thing at a time, when the run rests, in the order of the journal.
3. At rest, in this order: commit what was asked, begin it, deliver the next thing.
4. With a history nothing is begun: deliveries come from it. It is over when its last item was passed at rest.
5. An act is compared at once with the next recorded act of its own lane.

Lanes and drivers report what happens; `next` answers what to do. Recording is the same machine with an empty history.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, NoReturn

from onrecord.runtime.scheduler.items import (
    ACTS,
    AHEAD,
    APART,
    DELIVERIES,
    STEPS_BETWEEN_RESTS,
    Act,
    Action,
    Away,
    Began,
    Begin,
    Call,
    CheckpointTaken,
    Chunk,
    Commit,
    Cut,
    Deliver,
    Delivery,
    Diverged,
    Divergent,
    Done,
    Drawn,
    Dropped,
    EffectCancelled,
    EffectFailed,
    EffectOutcome,
    EffectsInDoubt,
    Ended,
    Item,
    Live,
    Loosen,
    MakeValue,
    Noted,
    RecordOver,
    Requested,
    Run,
    SettledItem,
    Token,
    Turn,
    TurnName,
    Wait,
    delivery_name,
)
from onrecord.runtime.scheduler.names import ROOT, child_lane, next_root
from onrecord.runtime.scheduler.spares import Spares
from onrecord.runtime.scheduler.window import Window


class _Lane:
    __slots__ = ("acts", "births", "children", "counts", "draws", "ended", "number", "parent")

    def __init__(self, parent: str | None = None, number: int = 0) -> None:
        self.parent = parent
        self.number = number
        """How many lanes the parent had started before."""
        self.births = 0
        self.children = 0
        """Lanes that it started and that are still known."""
        self.acts = 0
        """Without draws."""
        self.draws = 0
        """Since the last other act."""
        self.counts: dict[Any, int] = {}
        self.ended = False

    def count(self, name: Any) -> int:
        """Return how often the lane did this before."""
        number = self.counts.get(name, 0)
        self.counts[name] = number + 1
        return number


class _Arrival:
    """Something that came from outside and was not delivered yet."""

    __slots__ = ("is_written", "item", "time", "token", "value")

    def __init__(self, token: Token, item: Delivery, value: Any) -> None:
        self.token = token
        self.item = item
        self.value = value
        self.time = item.time
        """That of a turn; of an outcome or a chunk that of its commit."""
        self.is_written = False


class Kernel:
    def __init__(
        self,
        history: Window | None = None,
        *,
        writable: bool = True,
        root: str = ROOT,
        time: int = 0,
        accepts: bool = False,
        loosen: Loosen | None = None,
        may_repeat: Callable[[Token], bool] | None = None,
    ) -> None:
        """Start at the beginning, or at a checkpoint: with its `root` and `time`, and the history after it.

        With `accepts` the code may have changed: what it does not do any more is dropped from the record. A tolerant
        replay asks `loosen` which recorded request answers one that differs. `may_repeat` is asked of an effect that
        may run at most once and has no outcome: True if it is known that it was not begun.
        """
        assert not accepts or writable
        assert loosen is None or not writable
        self._loosen = loosen
        self._may_repeat = may_repeat
        self.history = Window() if history is None else history
        self.root = root
        self.live = False
        self.done = False
        self.time = time
        """The run's clock: that of the last delivery."""
        self.diverged: Diverged | None = None
        self.open: dict[Token, None] = {}
        """Tokens that were not delivered and are still waited for, in order of creation."""
        self.listening: dict[Token, None] = {}
        """Tokens that no request asks for and that no lane waits for."""
        self.drawn_anew = 0
        """Draws that the record does not have."""
        self.dropped: list[int] = []
        """Positions of the history that changed code does not need."""
        self._accepts = accepts
        self._spares = Spares()
        self._doubts: set[Token] = set()
        """Tokens of requests that were dropped without an outcome and are made again."""
        self._left: set[str] = set()
        """Lanes that made an act which their record does not have: all that follows in their record is dropped."""
        self._writable = writable
        self._lanes: dict[str, _Lane] = {root: _Lane()}
        self._alive = 1
        """Lanes that have not ended."""
        self._tokens: dict[str | TurnName, Token] = {}
        """Tokens that the history may ask for by name."""
        self._apart: dict[Token, Any] = {}
        """Values of the history that were written by their effects and are delivered by a turn."""
        self._draft: list[Item] = []
        self._is_commit_due = False
        """The draft has a request or a second execution, which are committed before anything is begun."""
        self._to_begin: list[Token] = []
        self._to_stop: list[Token] = []
        self._inbox: deque[_Arrival] = deque()
        self._untimed: list[_Arrival] = []
        """Outcomes and chunks in a commit whose time is not known yet."""
        self._ready: deque[Any] = deque()
        self._queued: set[Any] = set()
        self._away: set[str] = set()
        """Lanes whose strand is away now."""

    # Lanes

    def born(self, parent: str, label: str) -> str:
        """Name a new lane. It needs no item: the same program names it the same way."""
        self._check()
        parent = self._living(parent)
        above = self._lanes[parent]
        name = child_lane(parent, label, above.count(("born", label)))
        self._lanes[name] = _Lane(parent, above.births)
        above.births += 1
        above.children += 1
        self._alive += 1
        return name

    def ended(self, lane: str) -> None:
        """Note that the lane does nothing any more. It is forgotten when its children have ended too."""
        own = self._lanes.get(lane)
        if own is None or own.ended:
            return
        own.ended = True
        self._alive -= 1
        left = self.history.pending_act(lane)
        if left is not None and self.diverged is None and not self._accepts and self._loosen is None:
            self._diverge(lane, left[1], "ended", "removed", left[0])
        while own.parent is not None and own.ended and not own.children:
            del self._lanes[lane]
            lane, own = own.parent, self._lanes[own.parent]
            own.children -= 1

    def _living(self, lane: str) -> str:
        """Return the lane, or the nearest one above it that has not ended: callbacks may outlive their task."""
        own = self._lanes.get(lane)
        if own is not None and not own.ended:
            return lane
        while (own is None or own.ended) and lane != self.root:
            lane = lane.rpartition(">")[0] or self.root
            own = self._lanes.get(lane)
        return lane

    def finish(self, digest: Any) -> None:
        """End the run: the agent has returned or failed."""
        self._check()
        left = None if self.live or self._accepts else self.history.first_unmade()
        if left is not None:
            self._diverge(left[1].lane, left[1], "the agent ended", "removed", left[0])
            return
        if self.history.digest.is_whole and not self.live and not self._accepts:
            while not isinstance(end := self.history.head(), Ended):
                self.history.advance()
            is_same = end.digest == digest  # a digest compares itself
            if not is_same:
                self._diverge(self.root, end, Ended(digest), "ended differently", self.history.position)
                return
        elif self._writable:
            if not self.live:
                self._pass_history()
                self._leave_history()
            self._draft.append(Ended(digest))
        self.done = True

    # Acts

    def ask(self, lane: str, call: Call) -> Token:
        """Ask for an effect. It is begun when the run rests, unless the record has it."""
        self._check()
        lane = self._living(lane)
        own = self._lanes[lane]
        key = call.key or f"{lane}/{call.name}/{own.count(call.name)}"
        request = Requested(key, lane, call.name, call.digest, call.once, own.births)
        token = Token(lane, key, call, ordinal=own.count(("turn", "taken")))
        if self._loosen is not None and (bound := self._find_loosely(lane, request)) is not None:
            token.name, token.recorded = bound.key, bound
        elif (found := self._find_recorded(lane, request)) is not None:
            assert type(found) is Requested
            token.recorded = found
        elif self.live:
            self._to_begin.append(token)
        self._open(token)
        return token

    def _open(self, token: Token) -> None:
        self.open[token] = None
        if not self.live and (token.recorded or token.call is None):
            self._tokens[token.name] = token

    def note(self, lane: str, digest: Any) -> None:
        """Set the state, or do anything else that is recorded and needs no answer."""
        self._check()
        lane = self._living(lane)
        self._find_recorded(lane, Noted(lane, digest))

    @property
    def is_alone(self) -> bool:
        """A checkpoint may be taken: no other lane is left, nothing is waited for, nothing is ready."""
        return self._alive == 1 and not self.open and not self._ready

    def checkpoint(self, lane: str, digest: Any) -> str:
        """Take a checkpoint. Return the name under which the root lane continues, with all counters at zero."""
        self._check()
        assert self.is_alone, "lanes, effects or turns are open"
        self._find_recorded(lane, CheckpointTaken(lane, digest, self.time))
        self.root = next_root(lane)
        self._lanes = {self.root: _Lane()}
        return self.root

    def _find_recorded(self, lane: str, act: Act) -> Act | None:
        """Return the act of the record. If there is none, the act is written with the next commit."""
        if self._accepts and not self.live:
            self._accept(lane, act)
        recorded = None if self.live or lane in self._left else self.history.next_act(lane)
        if recorded is None:
            if self.history.digest.is_whole and not self.live and not self._accepts:
                self._part(lane, "nothing", act, "added", None)
            self._draft.append(act)
            self._is_commit_due |= type(act) is Requested
            return None
        position, expected = recorded
        if not _is_same(expected, act):
            self._part(lane, expected, act, "changed", position)
        self.history.mark_made(lane)
        return expected

    def peek(self, lane: str) -> Act | None:
        """Return the next recorded act of the lane, if it has one."""
        recorded = None if self.live or lane in self._left else self.history.next_act(lane)
        return None if recorded is None else recorded[1]

    def draw(self, lane: str, site: str, make: MakeValue) -> Any:
        """Return the next recorded value of that lane and site, or a new one."""
        self._check()
        lane = self._living(lane)
        found = self.history.draw(lane, site)
        if found is not None:
            return found[0]
        value = make()
        self.drawn_anew += 1
        self._draft.append(Drawn(lane, site, value))
        return value

    def turn(self, lane: str, kind: str, detail: Any = None) -> Token:
        """Wait for a turn from outside: a timer, a worker of a pool, a wake-up by a thread that is no lane."""
        self._check()
        lane = self._living(lane)
        return self._new_turn(lane, kind, self._lanes[lane].count(("turn", kind)), detail)

    def _new_turn(self, lane: str, kind: str, ordinal: int, detail: Any) -> Token:
        token = Token(lane, (kind, lane, ordinal), None, detail)
        self._open(token)
        if self.live:
            self._to_begin.append(token)
        return token

    def listen(self, name: str, detail: Any = None) -> Token:
        """Take one value from outside at any time of the run, such as the order to cancel it.

        It is no request and is never in doubt. The run may rest, and end, without it.
        """
        self._check()
        token = Token(self.root, f"!{name}", Call(name, None), detail)
        self._tokens[token.name] = token
        self.listening[token] = None
        if self.live:
            self._to_begin.append(token)
        return token

    def cancel(self, token: Token) -> None:
        """Cancel an effect, whose outcome is still waited for, or forget a turn."""
        if token.done or token.gone:
            return
        if token.call is None:
            self._forget(token)
        elif not token.cancelled:
            token.cancelled = True
            if self.live:
                self._to_stop.append(token)

    def drop(self, token: Token) -> None:
        """Wait no longer for an effect, as for a stream that is not read to its end.

        Its outcome is written, so that the record has no open request that the program gave up.
        """
        if token.done or token.gone:
            return
        if self.live or not token.recorded:
            here = next((one.value for one in self._inbox if one.token is token and token.here), EffectCancelled())
            self._write_apart(token, here)
        self._forget(token)
        if self.live:
            self._to_stop.append(token)

    def _write_apart(self, token: Token, value: Any) -> None:
        """Write an outcome that is never delivered, unless the journal has one already."""
        if not token.is_written:
            token.is_written = True
            self._draft.append(EffectOutcome(token.key, value, forced=APART))

    def _forget(self, token: Token) -> None:
        token.gone = True
        self.open.pop(token, None)
        self._apart.pop(token, None)

    # Strands

    def wake(self, strand: Any) -> None:
        """Put the strand at the end of the run queue."""
        if strand not in self._queued:
            self._queued.add(strand)
            self._ready.append(strand)

    def remove(self, strand: Any) -> None:
        """Take the strand out of the run queue."""
        if strand in self._queued:
            self._queued.discard(strand)
            self._ready.remove(strand)

    @property
    def has_ready(self) -> bool:
        return bool(self._ready)

    def away(self, lane: str) -> bool:
        """Return True if the others may continue without a strand that does not reach its next act."""
        lane = self._living(lane)
        if lane in self._away:
            return True
        own = self._lanes[lane]
        if not self.history.meet_away(lane, own.acts, own.draws):
            if not self.live and not self.history.is_loose:
                return False  # at the last commit of the record the strand had come to rest
            self._draft.append(Away(lane, own.acts, own.draws))
        self._away.add(lane)
        return True

    def act(self, lane: str, *, draws: bool = False) -> Token | None:
        """Count an act of a thread. Return the turn to wait for if the strand was away before it."""
        lane = self._living(lane)
        own = self._lanes[lane]
        ordinal, drawn = own.acts, None
        if draws:
            drawn = own.draws
            own.draws += 1
        else:
            own.acts = ordinal + 1
            own.draws = 0
        if lane in self._away:
            self._away.discard(lane)
        elif not self.history.meet_away(lane, ordinal, drawn):
            return None
        token = self._new_turn(lane, "back", ordinal, None)
        self.arrived(token)
        return token

    def returned(self, lane: str) -> Token | None:
        """Return the next turn to wait for, after one before an act that is no draw.

        The strand was away again, before a draw that it does not make any more.
        """
        lane = self._living(lane)
        ordinal = self._lanes[lane].acts - 1
        if self.live or not self.history.meet_away(lane, ordinal, None):
            return None
        token = self._new_turn(lane, "back", ordinal, None)
        self.arrived(token)
        return token

    # The outside

    def arrived(
        self, token: Token, value: Any = None, *, last: bool = True, time: int = 0, is_written: bool = False
    ) -> None:
        """Take an outcome, a chunk (`last=False`) or a turn from outside. It is delivered in its turn.

        `time` is that of a turn. With `is_written` the effect itself wrote its outcome into the journal, marked
        `APART`. It may do so at any time, but not after the token is gone.
        """
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
        self._inbox.append(_Arrival(token, item, value))

    def committed(self, time: int) -> None:
        """Take the time of the last commit: that of the outcomes and chunks in it."""
        for arrival in self._untimed:
            arrival.time = time
        self._untimed.clear()

    # The decision

    def next(self, steps: int | None = None) -> Action | None:
        """Return what to do now.

        Without `steps` no strand runs. With `steps` a busy program has taken that many since the last delivery, and
        None lets it continue.
        """
        if self.diverged is not None:
            return self.diverged
        if self.done:
            return self._commit(sync=True) if self._draft and self._writable else Done()
        if steps is None and self._ready:
            strand = self._ready.popleft()
            self._queued.discard(strand)
            return Run(strand)
        if not self.live:
            action = self._next_recorded(steps)
            if not isinstance(action, _Over):
                return action
            if steps is None and (early := self._deliver_early()) is not None:
                return early
        if steps is not None and steps < STEPS_BETWEEN_RESTS:
            return None
        return self._next_live(steps) if self.live else self._go_live()

    def _next_live(self, steps: int | None) -> Action | None:
        if self._to_begin and self._spares.has_any:
            self._use_spares()
        if self._is_commit_due:
            return self._commit()
        if self._to_begin or self._to_stop:
            begin = self._take_begun()
            if doubts := [token for token in begin.tokens if token in self._doubts]:
                return EffectsInDoubt(doubts)
            if begin.tokens or begin.stop:
                return begin
        while self._inbox and self._inbox[0].token.gone:
            self._inbox.popleft()
        if not self._inbox:
            return Wait() if steps is None else None
        arrival = self._inbox[0]
        if not arrival.is_written:
            self._write(arrival, steps or 0)
            if type(arrival.item) is not Turn:
                self._write_ahead()
                return self._commit()
        self._inbox.popleft()
        if self._accepts:
            self.history.forget(math.inf)
        return self._deliver(arrival.token, arrival.item, arrival.value, arrival.time)

    def _write_ahead(self) -> None:
        """Write everything that is here. What is listened to comes last: a checkpoint may be taken before it."""
        last = []
        for arrival in self._inbox:
            if arrival.is_written or arrival.token.gone:
                continue
            if arrival.token in self.listening:
                last.append(arrival)
            else:
                self._write(arrival, AHEAD)
        for arrival in last:
            self._inbox.remove(arrival)
            self._inbox.append(arrival)

    def _write(self, arrival: _Arrival, forced: int) -> None:
        if forced:
            arrival.item = arrival.item._replace(forced=forced)
        arrival.is_written = True
        arrival.token.is_written |= arrival.token.here
        if type(arrival.item) is not Turn:
            self._untimed.append(arrival)
        self._draft.append(arrival.item)

    def _take_begun(self) -> Begin:
        tokens = []
        for token in self._to_begin:
            if token.cancelled and not token.gone:
                self.arrived(token, EffectCancelled(), time=self.time)  # before it was begun
            elif not token.gone:
                token.begun = True
                tokens.append(token)
        stop = [token for token in self._to_stop if token.begun and not token.done]
        self._to_begin, self._to_stop = [], []
        return Begin(tokens, stop)

    def _commit(self, *, sync: bool = False) -> Commit:
        items, self._draft, self._is_commit_due = self._draft, [], False
        for item in items:
            sync = sync or _needs_sync(item)
        return Commit(items, sync)

    def _deliver(self, token: Token, item: Delivery, value: Any, time: int) -> Deliver:
        self.time = max(self.time, time)
        last = type(item) is not Chunk
        if last:
            token.done = True
            self.open.pop(token, None)
            self.listening.pop(token, None)
            self._tokens.pop(token.name, None)
        if type(item) is SettledItem and item.how == "fail":
            value = EffectFailed(value)
        return Deliver(token, value, last)

    # With a history

    def _next_recorded(self, steps: int | None) -> Action | _Over | None:
        """Return the next delivery of the history, a divergence, None for a busy program, or `_OVER`."""
        history = self.history
        while (item := history.head()) is not None:
            if isinstance(item, ACTS):
                if not history.head_is_made and not self._is_dropped(item, steps):
                    return self._unless_early(steps, partial(self._missing, item, history.position))
            elif type(item) is Ended:
                if not self._is_dropped(item, steps):
                    return self._unless_early(steps, partial(self._not_ended, item))
            elif isinstance(item, DELIVERIES) and not self._is_skipped(item):
                token = self._tokens.get(delivery_name(item))
                if token is None and self._is_dropped(item, steps):
                    pass
                elif token is None or not token.gone:
                    if steps is not None and not _comes_at(item.forced, steps):
                        return None
                    if token is None:
                        # A busy program waits at this step for a strand that is away.
                        return Wait() if self._away else self._unless_early(steps, partial(self._unexpected, item))
                    if type(item) is Chunk:
                        token.chunks = item.number + 1
                    history.advance()
                    return self._deliver(token, item, self._value_of(token, item), item.time)
                elif type(item) is not Chunk:
                    self._tokens.pop(delivery_name(item), None)
            history.advance()
        return _OVER

    def _value_of(self, token: Token, item: Delivery) -> Any:
        if type(item) is not Turn:
            return item.value  # type: ignore[union-attr]
        self._tokens.pop(token.taken_name, None)
        return self._apart.pop(token, None)

    def _keep_apart(self, item: EffectOutcome) -> None:
        """Keep an outcome that the effect wrote by itself until the turn that delivers it."""
        token = self._tokens.get(item.key)
        if token is None and self._accepts:
            self._drop(item)
        elif token is None or token.gone:
            self._tokens.pop(item.key, None)
        else:
            token.is_written = True
            self._apart[token] = item.value
            self._tokens[token.taken_name] = token

    def _is_skipped(self, item: Delivery) -> bool:
        """Return True for what is delivered by something else, or never: outcomes apart, void chunks, retries."""
        if type(item) is EffectOutcome and item.forced == APART:
            self._keep_apart(item)
            return True
        if self._loosen is not None and type(item) is Turn and item.kind == "taken":
            return delivery_name(item) not in self._tokens  # its outcome was given to another lane
        if type(item) is Chunk and self.history.head_is_void:
            if self._accepts and item.key not in self._tokens:
                self.dropped.append(self.history.position)
            return True
        return type(item) is SettledItem and item.how == "retry"

    def _go_live(self) -> Action:
        if not self._writable:
            return RecordOver()
        digest = self.history.digest
        while self.history.dropped:
            self._spares.add(self.history.dropped.pop(0))
        spared = {token for token in self.open if token.recorded and self._take_spare(token)}
        doubts = [
            token for token in self.open if _is_in_doubt(token) and token not in spared and not self._is_allowed(token)
        ]
        if doubts:
            return EffectsInDoubt(doubts)
        self._leave_history()
        self._inbox = deque(one for one in self._inbox if not one.token.done and not one.token.gone)
        self._to_begin.extend(self.listening)
        for token in self.open:
            if token in spared:
                continue
            if token.call is None or not token.recorded:
                self._to_begin.append(token)
            elif token in self._apart:
                self.arrived(token, self._apart.pop(token), time=self.time, is_written=True)
            elif token.cancelled:
                self.arrived(token, EffectCancelled(unknown=True), time=self.time)
            elif token.chunks:
                self.arrived(token, Cut(), time=self.time)
            else:
                if token.call.once or token.key in digest.anew:
                    self._draft.append(Began(token.key))
                    self._is_commit_due = True
                self._to_begin.append(token)
        return Live()

    def _is_allowed(self, token: Token) -> bool:
        """Return True if an effect without an outcome may be begun, though it may run at most once."""
        return token.key in self.history.digest.retries or (self._may_repeat is not None and self._may_repeat(token))

    def _leave_history(self) -> None:
        self.live = True
        for token in self._tokens.values():
            if token.gone and token.recorded:  # the program gave it up before the process died
                self._write_apart(token, EffectCancelled(unknown=True))
        self._tokens.clear()
        if self._accepts and (self.dropped or self._draft or self.history.has_unmet):
            self._draft.insert(0, Dropped(tuple(self.dropped)))

    def _pass_history(self) -> None:
        """Pass what is left of the history: deliveries that are not waited for, and what changed code left out."""
        history = self.history
        while (item := history.head()) is not None:
            if isinstance(item, DELIVERIES):
                token = self._tokens.get(delivery_name(item))
                if token is None and self._accepts:
                    self._drop(item)
                elif type(item) is EffectOutcome and token is not None:
                    token.is_written = True
            elif isinstance(item, ACTS) and not history.head_is_made and self._accepts:
                self._drop(item)
            history.advance()

    # Tolerant replays

    def _find_loosely(self, lane: str, request: Requested) -> Requested | None:
        """Return the recorded request that answers one which differs from the next recorded act of its lane."""
        assert self._loosen is not None
        expected = self.peek(lane)
        if expected is not None and _is_same(expected, request):
            return None
        position = self._loosen(request, self.history.unmade_requests())
        if position is None:
            return None
        bound = self.history.mark_made_at(position)
        assert isinstance(bound, Requested)
        return bound

    def _deliver_early(self) -> Deliver | None:
        """Deliver out of order what lanes of a tolerant replay wait for."""
        if self._loosen is None:
            return None
        for token in self.open:
            if token in self._apart:
                item: Delivery = Turn(*token.taken_name)
                return self._deliver(token, item, self._value_of(token, item), item.time)
        found = self.history.take_delivery(self._is_awaited)
        if found is None:
            return None
        token = self._tokens[delivery_name(found)]
        return self._deliver(token, found, self._value_of(token, found), found.time)

    def _is_awaited(self, item: Delivery) -> bool:
        token = self._tokens.get(delivery_name(item))
        return token is not None and not token.gone and not (type(item) is SettledItem and item.how == "retry")

    # Changed code

    def _accept(self, lane: str, act: Act) -> None:
        """Drop the recorded acts of the lane before this one, or let the lane leave its record."""
        if lane in self._left:
            return
        recorded = self.history.acts_of(lane)
        found = next((number for number, (_, one) in enumerate(recorded) if _is_same(one, act)), None)
        if found is None:
            self._left.add(lane)
            return
        for position, expected in recorded[:found]:
            self.history.mark_made(lane)
            self.dropped.append(position)
            self._spares.add(expected)

    def _is_dropped(self, item: Item, steps: int | None) -> bool:
        """Drop the item under the cursor if the code may have changed and no strand can still need it."""
        if not self._accepts or steps is not None or self._away:
            return False
        self._drop(item)
        return True

    def _drop(self, item: Item) -> None:
        self.dropped.append(self.history.position)
        self._spares.add(item)
        if isinstance(item, ACTS):
            self.history.mark_made(item.lane)
        self.history.drop()

    def _drop_history(self) -> None:
        """Drop what is left. Values that lanes wait for arrive again when the run is live."""
        history = self.history
        while (item := history.head()) is not None:
            if type(item) is Chunk and history.head_is_void:
                self._is_skipped(item)
            elif isinstance(item, DELIVERIES) or (isinstance(item, ACTS) and not history.head_is_made):
                self._drop(item)
            history.advance()

    def _use_spares(self) -> None:
        """Answer dropped requests that are made again. A retry is spent in the commit of the request."""
        self._to_begin = [
            token for token in self._to_begin if token.cancelled or token.gone or not self._take_spare(token)
        ]

    def _take_spare(self, token: Token) -> bool:
        """Let the recorded values of a dropped request arrive again. Return True if it has any."""
        values = self._spares.take(token) if token.call is not None else None
        for value, last in values or ():
            self.arrived(token, value, last=last)
        if values is not None and not values and token.call is not None and token.call.once and not token.recorded:
            if self._is_allowed(token):
                self._draft.append(Began(token.key))
                self._is_commit_due = True
            else:
                self._doubts.add(token)
        return bool(values)

    # Divergence

    def stuck(self) -> Diverged | None:
        """Return what to report of a program that makes no progress in its history.

        None if the code may have changed: then the rest of the history is dropped.
        """
        item = self.history.head()
        if self.diverged is not None:
            return self.diverged
        if self._accepts:
            self._drop_history()
            return None
        if item is None or type(item) is Ended:
            return self._diverge(self.root, item or "an end", self._doing(self.root), "busy", self.history.position)
        if isinstance(item, ACTS):
            return self._missing(item, self.history.position)
        return self._unexpected(item)

    def _check(self) -> None:
        if self.diverged is not None:
            raise Divergent(self.diverged)

    def _diverge(self, lane: str, expected: Any, actual: Any, reason: str, position: int | None) -> Diverged:
        self.diverged = Diverged(lane, expected, actual, reason, position)
        return self.diverged

    def _part(self, lane: str, expected: Any, actual: Any, reason: str, position: int | None) -> NoReturn:
        """Report an act that differs, or the request that a lane above left out before it started this branch."""
        at, above = self._lanes[lane], self._lanes[lane].parent
        while above is not None:
            left = self.history.pending_act(above)
            if left is not None and type(left[1]) is Requested and left[1].births <= at.number:
                lane, expected, actual, reason, position = above, left[1], f"started {lane}", "removed", left[0]
            at, above = self._lanes[above], self._lanes[above].parent
        raise Divergent(self._diverge(lane, expected, actual, reason, position))

    def _unless_early(self, steps: int | None, diverged: Callable[[], Diverged]) -> Action | None:
        """Return the divergence, unless a strand runs or one that is away may still come."""
        if steps is not None:
            return None
        if self._away:
            return Wait()
        return self._deliver_early() or diverged()

    def _missing(self, item: Act, position: int) -> Diverged:
        return self._diverge(item.lane, item, self._doing(item.lane), "removed", position)

    def _not_ended(self, item: Ended) -> Diverged:
        return self._diverge(self.root, item, self._doing(self.root), "did not end", self.history.position)

    def _unexpected(self, item: Any) -> Diverged:
        """Report a delivery that no lane waits for: the request that was not made explains it better."""
        left = self.history.first_unmade()
        if left is not None:
            return self._missing(left[1], left[0])
        lane = item.lane if type(item) is Turn else item.key.partition("/")[0]
        return self._diverge(lane, item, self._doing(lane), "not awaited", self.history.position)

    def _doing(self, lane: str) -> str:
        own = self._lanes.get(lane)
        if own is None or own.ended:
            return "has ended, or was not started"
        waits = [str(token.name) for token in self.open if token.lane == lane]
        return f"waits for {', '.join(waits)}" if waits else "waits for another lane"


class _Over(Enum):
    """The history is over."""

    OVER = 0


_OVER = _Over.OVER


def _comes_at(forced: int, steps: int) -> bool:
    """Return True if a recorded delivery comes to a busy program at this number of steps."""
    return 0 < forced == steps or (forced == AHEAD and steps >= STEPS_BETWEEN_RESTS)


def _needs_sync(item: Item) -> bool:
    if type(item) is EffectOutcome:
        return item.forced != APART
    return type(item) is Began or (type(item) is Requested and item.once)


def _is_same(expected: Act, act: Act) -> bool:
    """Compare an act with the record. Policy (`once`) is no part of it, and a digest compares itself."""
    if type(expected) is Requested and type(act) is Requested:
        return expected.key == act.key and expected.name == act.name and bool(expected.digest == act.digest)
    return type(expected) is type(act) and bool(expected.digest == act.digest)


def _is_in_doubt(token: Token) -> bool:
    if not token.recorded or token.call is None or not token.call.once:
        return False
    return not token.cancelled and not token.is_written
