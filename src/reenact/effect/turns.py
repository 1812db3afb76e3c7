"""The order in which things are handed to the agent: one rule for recording and for coming back.

1. Answers, due timers, ended jobs and new threads are handed over one at a time, each when the run has nothing else to
   do: no callback of its loop is ready, no thread of it runs.
2. While recording they come in the order in which they arrived; answers are committed before, all that are there in one
   batch. What has no event of its own is noted, and the note is written with the next commit.
3. When the run comes back they come in the recorded order, each after every request recorded before it was made again.
4. A run that never rests does not starve: an answer that has waited for many steps is handed over regardless, and the
   number of steps is noted. A thread that goes on for long without asking for anything is not waited for.

Life of a hand-over: arrive → (commit) → `advance` finds the run at rest → `hand`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from reenact.effect.past import HandOver, Past, RecordedChunk, RecordedMark, RecordedRequest, RecordedTurn

if TYPE_CHECKING:
    from reenact.effect.lanes import Lane, LaneBook
    from reenact.effect.tickets import Ticket

STARVING_STEPS = 200
"""Steps of a run without a rest after which what waits is handed over all the same."""
LOOK_SECONDS = 0.005
"""How often a thread that waits for its turn looks around."""
GRACE_SECONDS = 0.02
"""How long a thread that goes on without asking for anything is waited for."""
GRACE_COMING_BACK_SECONDS = 0.25
"""The same where nothing is lost by waiting."""
WORK_SECONDS = 120.0
"""How long a run that comes back waits for a thread that asks for nothing."""
RELAX_SECONDS = 0.3
"""How long a thread that comes back waits for its turn while nothing else goes on."""
ANSWER, SIGNAL, CHUNK = "answer", "signal", "chunk"


class Loop(Protocol):
    """What turns need to know of the loop that runs the agent's tasks."""

    steps: int
    """Taken since the last hand-over."""

    @property
    def ready(self) -> Collection[object]:
        """Callbacks of the run that wait for the loop."""
        ...

    @property
    def busy(self) -> bool: ...

    @property
    def is_here(self) -> bool:
        """The calling thread is the loop's own."""
        ...

    def wake(self) -> None:
        """Has `Turns.advance` called from the loop's thread, soon."""
        ...

    def look_again(self, seconds: float) -> None:
        """Has `Turns.overdue` called from the loop's thread after that time."""
        ...


class Item:
    """Something to be handed over. `hand` is called once, with the run's lock held, by the loop's thread if looped."""

    __slots__ = ("chunk", "chunk_seq", "committed", "hand", "kind", "lane", "looped", "ordinal", "ticket")

    def __init__(
        self,
        kind: str,
        lane: Lane,
        ordinal: int,
        hand: Callable[[], None],
        *,
        looped: bool,
        ticket: Ticket | None = None,
    ) -> None:
        self.kind = kind
        self.lane = lane
        self.ordinal = ordinal
        self.hand = hand
        self.looped = looped
        self.ticket = ticket
        self.committed = False
        self.chunk: Any = None
        """A part of a stream, as an event or as it was recorded."""
        self.chunk_seq = 0


class Turns:
    def __init__(self, lock: threading.RLock, past: Past | None, book: LaneBook, owner: TurnsOwner) -> None:
        self._lock = lock
        self._past = past
        self._book = book
        self._owner = owner
        self.loop: Loop | None = None
        self.pending: deque[Item] = deque()
        self.log: list[list[Any]] = []
        """What was handed over and has no event of its own, for the next commit."""
        self.threads: dict[object, float] = {}
        """Threads of the agent that run its code, by what they are known by, and since when; not yet awake: `inf`."""
        self._expected: dict[tuple[Any, ...], Item] = {}
        self._next = 0
        self._last_answer = 0
        self._looking = False
        self._handed_at = monotonic()
        self.requests_made = 0
        self.away: set[object] = set()
        """Threads that have been running for so long that nobody waits for them any more."""
        self.coming = 0
        """Jobs that have been given to an executor and have no thread yet."""
        self.reordered: list[int] = []
        """Seqs of answers that had to be handed over before their turn, since the run would have stood still."""

    @property
    def replaying(self) -> bool:
        return self._past is not None

    def is_busy(self) -> bool:
        return bool(self.threads) or (self.loop is not None and self.loop.busy)

    def may_go_on(self) -> bool:
        """A thread is at work, or about to begin, that may still ask for something. Not for ever."""
        at_work = bool(self.away) or self.coming > 0
        return at_work and monotonic() - self._handed_at < WORK_SECONDS

    def is_quiet(self) -> bool:
        """Nothing of the run could go on but the step that is being taken."""
        return not self.threads and (self.loop is None or not self.loop.ready)

    # What there is to hand over

    def arrive(self, item: Item) -> None:
        """Something is ready to be handed over: an answer came, a timer is due, a job has ended."""
        with self._lock:
            if self._past is not None and item.ticket is None:
                self._expected[_name(item)] = item
            else:
                self.pending.append(item)
            self.advance()

    def expect(self, item: Item) -> None:
        """Someone waits for what the record has for it."""
        self._expected[_name(item)] = item

    def forget(self, item: Item) -> None:
        """Nobody waits for it any more."""
        self._expected.pop(_name(item), None)
        if item in self.pending:
            self.pending.remove(item)

    # Handing over

    def advance(self) -> None:
        """Hands over what comes next, as long as the run is at rest. May be called at any time, from any thread."""
        with self._lock:
            while not self._owner.is_stopped:
                if self.is_busy():
                    self._look_again()
                    return
                item = self._peek()
                if item is None:
                    if self._past is not None:
                        self._owner.at_rest()
                        if self._past is None and self.pending:
                            continue  # the record has just ended, and things have arrived meanwhile
                    return
                if item.looped and self.loop is not None and not self.loop.is_here:
                    self.loop.wake()
                    return
                if self._take() is None:
                    return
                self._hand(item)

    def starving(self) -> None:
        """Called by the loop after each step of a run that has more steps ready."""
        assert self.loop is not None
        with self._lock:
            steps = self.loop.steps
            if self._past is not None:
                if self._forced_at() == steps:
                    item = self._take()
                    if item is not None:
                        self._hand(item)
            elif self.pending and steps >= STARVING_STEPS:
                item = self._take(busy=steps)
                if item is not None:
                    self._hand(item)

    def overdue(self) -> None:
        """Threads that have been running for long are not waited for any more."""
        with self._lock:
            self._looking = False
            grace = GRACE_SECONDS if self._past is None else GRACE_COMING_BACK_SECONDS
            before = monotonic() - grace
            for token in [token for token, since in self.threads.items() if since < before]:
                del self.threads[token]
                self.away.add(token)
            self.advance()

    def runs(self, token: object, *, awake: bool = False) -> None:
        """A thread is given its turn, and says so itself once it is awake."""
        self.away.discard(token)
        self.threads[token] = monotonic() if awake else inf

    def rests(self, token: object) -> None:
        self.away.discard(token)
        self.threads.pop(token, None)

    def _look_again(self) -> None:
        if self.threads and not self._looking and self.loop is not None and (self.pending or self._past is not None):
            self._looking = True
            self.loop.look_again(LOOK_SECONDS)

    def _hand(self, item: Item) -> None:
        self._handed_at = monotonic()
        if self.loop is not None:
            self.loop.steps = 0
        item.hand()

    def _take(self, busy: int = 0) -> Item | None:
        return self._take_recorded() if self._past is not None else self._take_arrived(busy)

    def _peek(self) -> Item | None:
        if self._past is None:
            return self.pending[0] if self.pending else None
        entry = self._skip_handed()
        return self._find(entry) if entry is not None and self._is_due(entry) else None

    def _take_arrived(self, busy: int) -> Item | None:
        if not self.pending:
            return None
        item = self.pending[0]
        if item.chunk is not None:
            if not self._owner.commit_chunk(item):
                return None
            self.pending.popleft()
            self._last_answer = item.chunk_seq
            return item
        if item.ticket is not None and not item.committed and not self._commit_pending():
            return None
        self.pending.popleft()
        if item.ticket is not None:
            self._last_answer = item.ticket.answer_seq
            if busy:
                self.log.append(["busy", self._last_answer, busy])
        else:
            entry = [item.kind, item.lane.identity, item.ordinal, self._last_answer, self.requests_made]
            self.log.append([*entry, busy] if busy else entry)
        return item

    def _commit_pending(self) -> bool:
        answers = [one for one in self.pending if one.ticket and not one.committed and one.chunk is None]
        return self._owner.commit_answers(answers)

    # Coming back

    def _skip_handed(self) -> HandOver | None:
        """The next thing of the record that is still to be handed over."""
        past = self._past
        assert past is not None
        while self._next < len(past.hand_overs):
            entry = past.hand_overs[self._next]
            if isinstance(entry, RecordedRequest) and entry.answer is not None and entry.answer.handed:
                self._next += 1
                continue
            return entry
        return None

    def _take_recorded(self) -> Item | None:
        entry, item = self._skip_handed(), self._peek()
        if entry is None or item is None:
            return None
        del self._expected[_name(item)]
        if isinstance(entry, RecordedChunk):
            item.chunk = entry
        self._next += 1
        self._mark_handed(entry)
        return item

    def _mark_handed(self, entry: HandOver) -> None:
        if isinstance(entry, RecordedRequest):
            assert entry.answer is not None
            entry.answer.handed = True
            self._last_answer = entry.answer.seq
            self._owner.reached(entry.answer.time)
        elif isinstance(entry, (RecordedMark, RecordedChunk)):
            self._last_answer = entry.seq

    def _is_due(self, entry: HandOver) -> bool:
        """Every request recorded before it has been made again."""
        if isinstance(entry, RecordedTurn):
            return self.requests_made >= entry.at
        seq = entry.answer.seq if isinstance(entry, RecordedRequest) and entry.answer is not None else entry.seq
        return self._owner.first_unmade() > seq

    def _find(self, entry: HandOver) -> Item | None:
        """Who waits for this."""
        if isinstance(entry, RecordedRequest):
            return self._expected.get((ANSWER, entry.key))
        if isinstance(entry, RecordedMark):
            return self._expected.get((SIGNAL,))
        if isinstance(entry, RecordedChunk):
            return self._expected.get((CHUNK, entry.key, entry.number))
        lane = self._book.find(entry.lane)
        label = entry.lane.partition("=")[2]
        if lane is not None and (not label or lane.label == label):
            return self._expected.get((entry.kind, id(lane), entry.ordinal))
        for item in self._expected.values():  # born in another order than when it was recorded
            if label and item.kind == entry.kind and item.ordinal == entry.ordinal and item.lane.label == label:
                return item
        return self._expected.get((entry.kind, id(lane), entry.ordinal))

    def _forced_at(self) -> int:
        """At which step the next thing of the record came without waiting for a rest; -1: it waited."""
        entry = self._skip_handed()
        if isinstance(entry, RecordedTurn):
            return entry.busy or -1
        if isinstance(entry, RecordedRequest) and entry.answer is not None and self._past is not None:
            return self._past.busy.get(entry.answer.seq, -1)
        return -1

    def forced(self, request: RecordedRequest) -> bool:
        """It was handed over without waiting for a rest."""
        assert self._past is not None
        return bool(self._past.busy) and request.answer is not None and request.answer.seq in self._past.busy

    def handed(self, request: RecordedRequest) -> None:
        """The next thing of the record was handed over at once: as if the run had rested and gone on with it."""
        self._next += 1
        self._mark_handed(request)
        if self.loop is not None:
            self.loop.steps = 1

    def next_recorded(self) -> HandOver | None:
        return self._skip_handed() if self._past is not None else None

    def hand_out_of_order(self, item: Item, request: RecordedRequest) -> None:
        """Nothing else can go on, and this one has waited for long: the order is relaxed, and that is reported."""
        assert request.answer is not None
        self.forget(item)
        request.answer.handed = True
        self.reordered.append(request.answer.seq)
        self._hand(item)

    def drop_unexpected(self, unmade: set[int]) -> list[list[Any]]:
        """Takes out of the record the answers to requests that were never made again, and turns that nobody waits for.
        Returns the turns."""
        assert self._past is not None
        rest, dropped = self._past.hand_overs[self._next :], []
        kept: list[HandOver] = []
        for entry in rest:
            if isinstance(entry, RecordedTurn) and self._find(entry) is None:
                dropped.append([entry.kind, entry.lane, entry.ordinal])
            elif not (isinstance(entry, RecordedRequest) and entry.seq in unmade):
                kept.append(entry)
        self._past.hand_overs[self._next :] = kept
        return dropped

    def go_live(self) -> list[Item]:
        """The record has ended: what is still expected arrives by itself from now on. Returns the timers and jobs."""
        self._past = None
        waiting = list(self._expected.values())
        self._expected.clear()
        return waiting


class TurnsOwner(Protocol):
    """The run, as its turns see it."""

    @property
    def is_stopped(self) -> bool: ...

    def commit_answers(self, items: list[Item]) -> bool:
        """Makes the answers durable, in this order; False when the run has stopped over it."""
        ...

    def commit_chunk(self, item: Item) -> bool:
        """Writes a part of a stream, which outlives the process; False when the run has stopped over it."""
        ...

    def at_rest(self) -> None:
        """The run came to rest, and the record has nothing that could be handed over now."""
        ...

    def first_unmade(self) -> int:
        """Seq of the first recorded request that has not been made again; beyond all if there is none."""
        ...

    def reached(self, time_us: int) -> None:
        """The run has come back to what happened at that time."""
        ...


def _name(item: Item) -> tuple[Any, ...]:
    if item.kind == SIGNAL:
        return (SIGNAL,)
    if item.kind == CHUNK and item.ticket is not None:
        return (CHUNK, item.ticket.key, item.ordinal)
    if item.ticket is not None:
        return (ANSWER, item.ticket.key)
    return (item.kind, id(item.lane), item.ordinal)
