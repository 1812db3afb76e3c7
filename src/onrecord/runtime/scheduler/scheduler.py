"""The order in which things are handed to the agent: one rule for recording and for coming back.

1. Answers, due timers, ended jobs and new threads are handed over one at a time, each when the run has nothing else to
   do: no callback of its loop is ready, no thread of it runs.
2. While recording they come in the order in which they arrived; answers are committed before, all that are there in one
   batch. What has no event of its own is noted, and the note is written with the next commit.
3. When the run comes back they come in the recorded order, each after every request recorded before it was made again.
4. A run that never rests does not starve: an answer that has waited for many steps is handed over regardless, and the
   number of steps is noted. A thread that goes on for long without asking for anything is not waited for; before it
   takes a lock of the run it waits for a turn of its own (`locks`).

Life of a hand-over: arrive → (commit) → `advance` finds the run at rest → `hand`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterable
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from onrecord.runtime.replay.cursor import ReplayCursor
from onrecord.runtime.replay.history import History
from onrecord.runtime.replay.records import (
    MISS,
    TAKE,
    HandOver,
    RecordedAnswer,
    RecordedChunk,
    RecordedMark,
    RecordedRequest,
    RecordedTurn,
)
from onrecord.runtime.scheduler.delivery_item import Item, name_of

if TYPE_CHECKING:
    from onrecord.runtime.scheduler.lanes import Lane, LaneBook

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
RELAX_BESIDE_WORK_SECONDS = 5.0
"""The same while another is at work that asks for nothing, and may still ask for what the record has next."""


class Loop(Protocol):
    """What turns need to know of the loop that runs the agent's tasks."""

    steps: int
    """Taken since the last hand-over."""
    stands: bool
    """Its thread is held by a step that waits for another thread: nothing can be handed to its tasks before that is
    over, and it never will be unless threads go on."""

    @property
    def ready(self) -> Collection[object]:
        """Callbacks of the run that wait for the loop."""
        ...

    @property
    def timers(self) -> Collection[object]:
        """Timers of the run that have not come yet."""
        ...

    @property
    def busy(self) -> bool: ...

    @property
    def is_here(self) -> bool:
        """The calling thread is the loop's own."""
        ...

    def wake(self) -> None:
        """Has `Scheduler.advance` called from the loop's thread, soon."""
        ...

    def look_again(self, seconds: float) -> None:
        """Has `Scheduler.overdue` called from the loop's thread after that time."""
        ...


class Scheduler:
    def __init__(self, lock: threading.RLock, past: History | None, book: LaneBook, owner: TurnsOwner) -> None:
        self._lock = lock
        self.order = ReplayCursor(past, book, owner.first_unmade) if past is not None else None
        """Of the record, as long as there is one to come back to."""
        self.replaying = past is not None
        """There is an order to come back to."""
        self._owner = owner
        self.loop: Loop | None = None
        self.pending: deque[Item] = deque()
        self.log: list[list[Any]] = []
        """What was handed over and has no event of its own, for the next commit."""
        self.threads: dict[object, float] = {}
        """Threads of the agent that run its code, by what they are known by, and since when; not yet awake: `inf`."""
        self._last_answer = past.began_at if past is not None else 0
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
    def progress(self) -> tuple[Any, ...]:
        """Another one whenever something was asked for or handed over."""
        return self.requests_made, self._handed_at

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
            if self.order is not None and item.ticket is None:
                self.expect(item)
            else:
                self.pending.append(item)
            self.advance()

    def expect(self, item: Item) -> None:
        """Someone waits for what the record has for it."""
        if self.order is not None:
            self.order.expected[name_of(item)] = item

    def forget(self, item: Item) -> None:
        """Nobody waits for it any more."""
        if self.order is not None:
            self.order.expected.pop(name_of(item), None)
        if item in self.pending:
            self.pending.remove(item)

    def takes_in_turn(self, token: object, lane: Lane, ordinal: int) -> bool:
        """Whether a thread may take a lock, its n-th, only in a turn of its own. While recording that is a thread that
        nobody waits for any more: others run beside it, and who of them was first would be on record nowhere."""
        order = self.order
        return token in self.away if order is None else order.has_lock(TAKE, lane, ordinal)

    def misses_in_turn(self, lane: Lane, ordinal: int) -> bool:
        """The record has it that a thread tried to take this lock in vain."""
        return self.order is not None and self.order.has_lock(MISS, lane, ordinal)

    def missed(self, lane: Lane, ordinal: int) -> None:
        """Whoever has the lock may have gone on for long, beside the others: then he has given it back by now, when the
        run comes back."""
        with self._lock:
            if self.order is None and self.away:
                self.log.append([MISS, lane.identity, ordinal, self._last_answer, self.requests_made])

    def was_in_vain(self, item: Item) -> None:
        """What it was handed over for had gone meanwhile. It comes again, and stands in the record only then."""
        if self.order is None and self.log and self.log[-1][:3] == [item.kind, item.lane.identity, item.ordinal]:
            self.log.pop()

    # Handing over

    def advance(self) -> None:
        """Hands over what comes next, as long as the run is at rest. May be called at any time, from any thread."""
        with self._lock:
            while (self.pending or self.order is not None) and not self._owner.is_stopped:
                if self.threads or (self.loop is not None and self.loop.busy):
                    self._look_again()
                    return
                item = self._first()
                if item is None:
                    if self.order is not None and self._owner.at_rest():
                        continue
                    return
                if item.looped and self.loop is not None and not self.loop.is_here:
                    self.loop.wake()
                    return
                if self._take() is None:
                    return
                self._hand(item)

    def _first(self) -> Item | None:
        """Who is to be handed the next thing; while the loop stands, that is a thread, before all tasks."""
        stands = self.loop is not None and self.loop.stands
        if self.order is not None:
            if stands:
                self.order.bring_threads_forward()
            return self.order.ready(self.requests_made)
        if not stands:
            return self.pending[0]
        item = next((one for one in self.pending if not one.looped), None)
        if item is not None and item is not self.pending[0]:
            self.pending.remove(item)
            self.pending.appendleft(item)
        return item

    def starving(self) -> None:
        """Called by the loop after each step of a run that has more steps ready."""
        assert self.loop is not None
        with self._lock:
            steps = self.loop.steps
            if self.order is not None:
                starves = steps >= STARVING_STEPS and self.order.may_have_been_forced()
                if starves or self.order.forced_at() == steps:
                    item = self._take()
                    if item is not None and starves:
                        self.log.append(["busy", self._last_answer, steps])  # nobody has said so before
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
            grace = GRACE_SECONDS if self.order is None else GRACE_COMING_BACK_SECONDS
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
        if self.threads and not self._looking and self.loop is not None and (self.pending or self.order is not None):
            self._looking = True
            self.loop.look_again(LOOK_SECONDS)

    def _hand(self, item: Item) -> None:
        self._handed_at = monotonic()
        if self.loop is not None:
            self.loop.steps = 0
        item.hand()

    def _take(self, busy: int = 0) -> Item | None:
        return self._take_recorded(self.order) if self.order is not None else self._take_arrived(busy)

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
        answers: list[Item] = []
        for one in self.pending:
            if one.chunk is not None:  # it stands before what came after it, in the record too
                break
            if one.ticket is not None and not one.committed:
                answers.append(one)
        return self._owner.commit_answers(answers)

    # Coming back

    def _take_recorded(self, order: ReplayCursor) -> Item | None:
        entry, item = order.next(), order.ready(self.requests_made)
        if entry is None or item is None:
            return None
        order.take(entry, item)
        self._mark_handed(entry)
        return item

    def _mark_handed(self, entry: HandOver) -> None:
        if isinstance(entry, RecordedRequest):
            assert entry.answer is not None
            self._mark_answered(entry.answer)
        elif isinstance(entry, (RecordedMark, RecordedChunk)):
            self._last_answer = entry.seq

    def _mark_answered(self, answer: RecordedAnswer) -> None:
        answer.handed = True
        self._last_answer = answer.seq
        self._owner.reached(answer.time)

    def handed(self, request: RecordedRequest) -> None:
        """The next thing of the record was handed over at once: as if the run had rested and gone on with it."""
        assert self.order is not None
        assert request.answer is not None
        self.order.take(request)
        self._mark_answered(request.answer)
        if self.loop is not None:
            self.loop.steps = 1

    def will_be_late(self, item: Item | None) -> bool:
        """The record has it that this one, which is expected, was late."""
        with self._lock:
            return item is not None and self.order is not None and self.order.has(item)

    def begin_behind(self, seq: int) -> None:
        """What comes from here on comes behind the checkpoint at `seq`, and is counted from there: as if this were the
        agent's first step."""
        self._last_answer, self.requests_made = seq, 0
        if self.loop is not None:
            self.loop.steps = 1

    def next_recorded(self) -> HandOver | None:
        return self.order.next() if self.order is not None else None

    def hand_out_of_order(self, item: Item, request: RecordedRequest) -> None:
        """Nothing else can go on, and this one has waited for long: the order is relaxed, and that is reported."""
        assert request.answer is not None
        self.forget(item)
        request.answer.handed = True
        self.reordered.append(request.answer.seq)
        self._hand(item)

    def hand_chunk_out_of_order(self, item: Item, chunk: RecordedChunk) -> None:
        """The same of a part of a stream."""
        assert self.order is not None
        self.forget(item)
        self.order.change((), (chunk,))
        item.chunk = chunk
        self._hand(item)

    def go_live(self, beyond: Iterable[RecordedTurn] = ()) -> list[Item]:
        """The record has ended: what is still expected arrives by itself from now on. Returns the timers and jobs.
        `beyond`: turns that were taken and are not on record."""
        assert self.order is not None
        # Lanes that have changed places have had answers that were never handed over in their turn.
        self._last_answer = max(self._last_answer, self.order.past.last_handed)
        self.log += [[one.kind, one.lane, one.ordinal, self._last_answer, self.requests_made] for one in beyond]
        waiting, self.order = list(self.order.expected.values()), None
        self.replaying = False
        return waiting


class Patience:
    """How long a run has been standing still while somebody waits for his turn. Slow is not still."""

    def __init__(self, turns: Scheduler) -> None:
        self._turns = turns
        self._seen = turns.progress
        self._since = self._went_on = monotonic()

    @property
    def seconds(self) -> float:
        turns, seen, now = self._turns, self._turns.progress, monotonic()
        if seen != self._seen or turns.is_busy():
            self._seen, self._since, self._went_on = seen, now, now
        elif turns.may_go_on() and now - self._went_on < RELAX_BESIDE_WORK_SECONDS:
            self._since = now
        return now - self._since


class TurnsOwner(Protocol):
    """The run, as its turns see it."""

    is_stopped: bool

    def commit_answers(self, items: list[Item]) -> bool:
        """Makes the answers durable, in this order; False when the run has stopped over it."""
        ...

    def commit_chunk(self, item: Item) -> bool:
        """Writes a part of a stream, which outlives the process; False when the run has stopped over it."""
        ...

    def at_rest(self) -> bool:
        """The run came to rest, and the record has nothing that could be handed over now. True: there is something
        after all."""
        ...

    def first_unmade(self) -> int:
        """Seq of the first recorded request that has not been made again; beyond all if there is none."""
        ...

    def reached(self, time_us: int) -> None:
        """The run has come back to what happened at that time."""
        ...
