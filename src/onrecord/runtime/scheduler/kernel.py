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

The kernel asks its parts: `LaneTable` names lanes, `WaitTable` knows what they wait for, `RecordSide` follows the
history (a `Window`), `LiveSide` begins effects and takes what comes of them. `DivergenceReports` explains a difference,
`ChangedCode` drops what changed code does not do any more, `Tolerance` answers the requests of a tolerant replay.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

from onrecord.core.lane_names import ROOT_LANE, next_root
from onrecord.runtime.scheduler.changed_code import ChangedCode
from onrecord.runtime.scheduler.divergences import DivergenceReports
from onrecord.runtime.scheduler.items import (
    ACTS,
    STEPS_BETWEEN_RESTS,
    Act,
    Action,
    Away,
    Call,
    CheckpointTaken,
    Chunk,
    Deliver,
    Delivery,
    Diverged,
    Done,
    Drawn,
    Dropped,
    EffectCancelled,
    EffectFailed,
    EffectsInDoubt,
    Ended,
    Live,
    Loosen,
    MakeValue,
    Noted,
    RecordOver,
    Requested,
    Run,
    SettledItem,
    Token,
    Wait,
    is_same_act,
)
from onrecord.runtime.scheduler.lanes import LaneTable
from onrecord.runtime.scheduler.live_side import Arrival, LiveSide, MayRepeat
from onrecord.runtime.scheduler.record_side import Due, Over, RecordSide, Tolerance
from onrecord.runtime.scheduler.wait_table import WaitTable
from onrecord.runtime.scheduler.window import Window


class Kernel:
    def __init__(
        self,
        history: Window | None = None,
        *,
        writable: bool = True,
        root: str = ROOT_LANE,
        time: int = 0,
        accepts: bool = False,
        loosen: Loosen | None = None,
        may_repeat: MayRepeat | None = None,
    ) -> None:
        """Start at the beginning, or at a checkpoint: with its `root` and `time`, and the history after it.

        With `accepts` the code may have changed: what it does not do any more is dropped from the record. A tolerant
        replay asks `loosen` which recorded request answers one that differs. `may_repeat` is asked of an effect that
        may run at most once and has no outcome: True if it is known that it was not begun.
        """
        assert not accepts or writable
        assert loosen is None or not writable
        self.history = Window() if history is None else history
        self.live = False
        self.done = False
        self.time = time
        """The run's clock: that of the last delivery."""
        self.drawn_anew = 0
        """Draws that the record does not have."""
        self._writable = writable
        self._is_checkpoint_due = False
        """The draft has a checkpoint, which is committed without a rest (`flush`)."""
        self._is_time_due = False
        """The clock moves to the time of the next commit, which is that of a checkpoint."""
        self._is_to_forget = False
        """Draws and aways that changed code did not make again are forgotten with the next delivery."""
        self._lanes = LaneTable(root)
        self._awaited = awaited = WaitTable()
        self.open = awaited.open
        """Tokens that were not delivered and are still waited for, in order of creation."""
        self.listening = awaited.listening
        """Tokens that no request asks for and that no lane waits for."""
        self._outside = LiveSide(self.history, awaited, may_repeat)
        self._divergences = DivergenceReports(self.history, self._lanes, self.open)
        self._changed = ChangedCode(self.history, awaited, self._outside.spares) if accepts else None
        self._tolerance = None if loosen is None else Tolerance(loosen, self.history, awaited)
        self._record = RecordSide(self.history, awaited, self._lanes, self._divergences, self._changed, self._tolerance)
        self.ready: deque[Any] = deque()
        """Strands that can continue, in the order in which they were woken."""
        self._queued: set[Any] = set()

    @property
    def root(self) -> str:
        """The name of the root lane."""
        return self._lanes.root

    @property
    def diverged(self) -> Diverged | None:
        return self._divergences.found

    @property
    def dropped(self) -> list[int]:
        """Positions of the history that changed code does not need."""
        return [] if self._changed is None else self._changed.dropped

    # Lanes

    def born(self, parent: str, label: str) -> str:
        """Name a new lane. It needs no item: the same program names it the same way."""
        self._divergences.check()
        return self._lanes.add(parent, label)

    def rename(self, lane: str, label: str) -> str:
        """Name a lane that has done nothing yet, as its program does right after its creation. Return the name."""
        return self._lanes.rename(lane, label)

    def living_lane(self, lane: str) -> str:
        """Return the lane, or the nearest one above it that has not ended: callbacks may outlive their task."""
        return self._lanes.living(lane).name

    def name_request(self, lane: str, name: str) -> tuple[str, str]:
        """Return the living lane, and the key of its next request of that name, which is counted."""
        own = self._lanes.states.get(lane)
        if own is None or own.ended:
            own = self._lanes.living(lane)
        number = own.counts.get(name, 0)
        own.counts[name] = number + 1
        return own.name, f"{own.name}/{name}/{number}"

    def ended(self, lane: str) -> None:
        """Note that the lane does nothing any more. It is forgotten when its children have ended too."""
        if not self._lanes.end(lane):
            return
        left = self.history.pending_act(lane)
        if left is not None and self.diverged is None and self._changed is None and self._tolerance is None:
            self._divergences.report(lane, left[1], "ended", "removed", left[0])

    def finish(self, digest: Any) -> None:
        """End the run: the agent has returned or failed."""
        self._divergences.check()
        is_compared = not self.live and self._changed is None
        left = self.history.first_unmade() if is_compared else None
        if left is not None:
            self._divergences.report(left[1].lane, left[1], "the agent ended", "removed", left[0])
            return
        if self.history.digest.is_whole and is_compared:
            while not isinstance(end := self.history.head(), Ended):
                self.history.advance()
            is_same = end.digest == digest  # a digest compares itself
            if not is_same:
                position = self.history.position
                self._divergences.report(self.root, end, Ended(digest), "ended differently", position)
                return
        elif self._writable:
            if not self.live:
                self._record.pass_rest()
                self._leave_history()
            self._outside.draft.add(Ended(digest))
        self.done = True

    # Acts

    def ask(self, lane: str, call: Call) -> Token:
        """Ask for an effect. It is begun when the run rests, unless the record has it."""
        if self._divergences.found is not None:
            self._divergences.check()
        own = self._lanes.states.get(lane)
        if own is None or own.ended:
            own = self._lanes.living(lane)
        lane = own.name
        key = call.key or self.name_request(lane, call.name)[1]
        request = Requested(key, lane, call.name, call.digest, call.once, own.births)
        token = Token(lane, key, call, None, own.requests)
        own.requests += 1
        if self.live:
            self._outside.draft.add(request)
            self._outside.to_begin.append(token)
            self.open[token] = None
            return token
        bound = None if self._tolerance is None else self._tolerance.find_request(self.peek(lane), request)
        if bound is not None:
            token.name = bound.key
        recorded = bound or self._find_recorded(lane, request)
        if recorded is not None:
            assert type(recorded) is Requested
            token.recorded = recorded
            self._awaited.named[token.name] = token
        self.open[token] = None
        return token

    def note(self, lane: str, digest: Any) -> None:
        """Set the state, or do anything else that is recorded and needs no answer."""
        self._divergences.check()
        lane = self._lanes.living(lane).name
        self._find_recorded(lane, Noted(lane, digest))

    @property
    def is_alone(self) -> bool:
        """A checkpoint may be taken: no other lane is left, nothing is waited for, nothing is ready."""
        return self._lanes.alive == 1 and not self.open and not self.ready

    def checkpoint(self, lane: str, digest: Any) -> str:
        """Take a checkpoint. Return the name under which the root lane continues, with all counters at zero.

        The clock moves to the time of a recorded one: a run that starts there has that time.
        """
        self._divergences.check()
        assert self.is_alone, "lanes, effects or turns are open"
        has_acts = any(isinstance(item, ACTS) for item in self._outside.draft.items)
        if self._changed is not None and not self.live and has_acts:
            self._changed.drop_rest()  # what changed code did before the checkpoint is to be written before it
        recorded = self._find_recorded(lane, CheckpointTaken(lane, digest, self.time))
        if isinstance(recorded, CheckpointTaken):
            self.time = max(self.time, recorded.time)
        self._is_checkpoint_due |= recorded is None
        self._lanes.restart(next_root(lane))
        return self.root

    def flush(self) -> Action | None:
        """Return what is to be done to commit a new checkpoint at once, one thing at a time; None if nothing is.

        The root lane is alone and does not rest for it. If the history is over, the run goes live.
        """
        if self.diverged is not None:
            return self.diverged
        if not self._is_checkpoint_due or not self._writable:
            return None
        if not self.live:
            action = self._next_recorded(None)
            if isinstance(action, Over):
                return self._go_live()
            return None if isinstance(action, Wait) else action
        self._is_checkpoint_due = False
        self._is_time_due = True
        return self._outside.draft.take(sync=True)

    def _find_recorded(self, lane: str, act: Act) -> Act | None:
        """Return the act of the record. If there is none, the act is written with the next commit."""
        if self._changed is not None and not self.live:
            self._changed.follow(lane, act)
        recorded = self._next_act(lane)
        if recorded is None:
            if self.history.digest.is_whole and not self.live and self._changed is None:
                self._divergences.part(lane, "nothing", act, "added", None)
            self._outside.draft.add(act)
            return None
        position, expected = recorded
        if type(expected) is Requested and type(act) is Requested:
            is_same = expected.key == act.key and expected.digest == act.digest
        else:
            is_same = is_same_act(expected, act)
        if not is_same:
            self._divergences.part(lane, expected, act, "changed", position)
        self.history.mark_made(lane)
        return expected

    def _next_act(self, lane: str) -> tuple[int, Act] | None:
        if self.live or (self._changed is not None and self._changed.has_left(lane)):
            return None
        return self.history.next_act(lane)

    def tolerate(self, loosen: Loosen) -> None:
        """Make a replay tolerant, before its first act."""
        assert not self._writable
        self._tolerance = self._record.tolerance = Tolerance(loosen, self.history, self._awaited)

    def peek(self, lane: str) -> Act | None:
        """Return the next recorded act of the lane, if it has one."""
        recorded = self._next_act(lane)
        return None if recorded is None else recorded[1]

    def draw(self, lane: str, site: str, make: MakeValue) -> Any:
        """Return the next recorded value of that lane and site, or a new one."""
        self._divergences.check()
        lane = self._lanes.living(lane).name
        found = self.history.draw(lane, site)
        if found is not None:
            return found[0]
        value = make()
        self.drawn_anew += 1
        self._outside.draft.add(Drawn(lane, site, value))
        return value

    def turn(self, lane: str, kind: str, detail: Any = None, *, due: int = 0) -> Token:
        """Wait for a turn from outside: a timer, a worker of a pool, a wake-up by a thread that is no lane.

        `due` is the deadline of a timer, on the run's clock.
        """
        self._divergences.check()
        own = self._lanes.living(lane)
        return self._new_turn(own.name, kind, own.count(("turn", kind)), detail, due)

    def _new_turn(self, lane: str, kind: str, ordinal: int, detail: Any, due: int = 0) -> Token:
        token = Token(lane, (kind, lane, ordinal), None, detail)
        token.due = due
        self.open[token] = None
        if self.live:
            self._outside.to_begin.append(token)
        else:
            self._awaited.named[token.name] = token
        return token

    def listen(self, name: str, detail: Any = None) -> Token:
        """Take one value from outside at any time of the run, such as the order to cancel it.

        It is no request and is never in doubt. The run may rest, and end, without it.
        """
        self._divergences.check()
        token = Token(self.root, f"!{name}", Call(name, None), detail)
        self._awaited.named[token.name] = token
        self.listening[token] = None
        if self.live:
            self._outside.to_begin.append(token)
        return token

    def cancel(self, token: Token) -> None:
        """Cancel an effect, whose outcome is still waited for, or forget a turn."""
        if token.done or token.gone:
            return
        if token.call is None:
            self._awaited.forget(token)
        elif not token.cancelled:
            token.cancelled = True
            if self.live:
                self._outside.to_stop.append(token)

    def drop(self, token: Token) -> None:
        """Wait no longer for an effect, as for a stream that is not read to its end.

        Its outcome is written, so that the record has no open request that the program gave up.
        """
        if token.done or token.gone:
            return
        if self.live or not token.recorded:
            self._outside.give_up(token)
        self._awaited.forget(token)
        if self.live:
            self._outside.to_stop.append(token)

    # Strands

    def wake(self, strand: Any) -> None:
        """Put the strand at the end of the run queue."""
        if strand not in self._queued:
            self._queued.add(strand)
            self.ready.append(strand)

    def remove(self, strand: Any) -> None:
        """Take the strand out of the run queue."""
        if strand in self._queued:
            self._queued.discard(strand)
            self.ready.remove(strand)

    @property
    def is_replaying(self) -> bool:
        """True while the history has something left, and in a read-only run."""
        return not self.live and (not self._writable or self.history.head() is not None)

    @property
    def is_idle(self) -> bool:
        """True if nothing happens before something arrives."""
        return not self.ready and self._outside.is_idle

    def away(self, lane: str) -> bool:
        """Return True if the others may continue without a strand that does not reach its next act."""
        own = self._lanes.living(lane)
        if own.name in self._record.away:
            return True
        if not self.history.meet_away(own.name, own.acts, own.draws):
            if not self.live and not self.history.is_loose:
                return False  # at the last commit of the record the strand had come to rest
            self._outside.draft.add(Away(own.name, own.acts, own.draws))
        self._record.away.add(own.name)
        return True

    def act(self, lane: str, *, draws: bool = False) -> Token | None:
        """Count an act of a thread. Return the turn to wait for if the strand was away before it."""
        own = self._lanes.states.get(lane)
        if own is None or own.ended:
            own = self._lanes.living(lane)
        ordinal: int = own.acts
        drawn = None
        if draws:
            drawn = own.draws
            own.draws += 1
        else:
            own.acts = ordinal + 1
            own.draws = 0
        if own.name in self._record.away:
            self._record.away.discard(own.name)
        elif (self.live and not self.history.aways) or not self.history.meet_away(own.name, ordinal, drawn):
            return None
        return self._wait_back(own.name, ordinal)

    def returned(self, lane: str) -> Token | None:
        """Return the next turn to wait for, after one before an act that is no draw.

        The strand was away again, before a draw that it does not make any more.
        """
        own = self._lanes.living(lane)
        ordinal = own.acts - 1
        if self.live or not self.history.meet_away(own.name, ordinal, None):
            return None
        return self._wait_back(own.name, ordinal)

    def _wait_back(self, lane: str, ordinal: int) -> Token:
        token = self._new_turn(lane, "back", ordinal, None)
        self.arrived(token)
        return token

    def deliver_due(self, token: Token, lane: str, acts: int) -> Deliver | None:
        """Deliver a token that a loop has just asked for, if the record delivers it as soon as the loop rests.

        Return None, and do nothing, if anything else can happen before. `lane` is that of the loop's strand, and `acts`
        how many of its acts are between the request and the delivery's effect: they are counted.
        """
        if self.live or self.ready or self._record.away or self._changed is not None or self._tolerance is not None:
            return None
        found = self.history.next_outcome() if token.recorded and not token.cancelled else None
        if found is None:
            return None
        position, item = found
        if item.key != token.name or item.forced or type(item.value) is EffectCancelled:
            return None
        if self.history.may_meet_away(position):
            return None
        own = self._lanes.living(lane)
        own.acts += acts
        own.draws = 0
        action = self.next()
        assert isinstance(action, Deliver)
        return action

    def expects(self, key: str) -> bool:
        """Return True if the history delivers that outcome next."""
        found = self.history.next_outcome()
        return found is not None and found[1].key == key

    # The outside

    def arrived(
        self, token: Token, value: Any = None, *, last: bool = True, time: int = 0, is_written: bool = False
    ) -> None:
        """Take an outcome, a chunk (`last=False`) or a turn from outside. It is delivered in its turn.

        `time` is that of a turn. With `is_written` the effect itself wrote its outcome into the journal, marked
        `APART`. It may do so at any time, but not after the token is gone.
        """
        self._outside.inbox.add(token, value, last=last, time=time, is_written=is_written)

    def committed(self, time: int) -> None:
        """Take the time of the last commit: that of the outcomes, the chunks and the checkpoint in it."""
        if self._is_time_due:
            self._is_time_due = False
            self.time = max(self.time, time)
        if self._outside.inbox.untimed:
            self._outside.inbox.set_time(time)

    # The decision

    def next(self, steps: int | None = None) -> Action | None:
        """Return what to do now.

        Without `steps` no strand runs. With `steps` a busy program has taken that many since the last delivery, and
        None lets it continue.
        """
        if self._divergences.found is not None:
            return self._divergences.found
        if self.done:
            return self._outside.draft.take(sync=True) if self._outside.draft.items and self._writable else Done()
        if steps is None and self.ready:
            strand = self.ready.popleft()
            self._queued.discard(strand)
            return Run(strand)
        if not self.live:
            found = self._next_recorded(steps)
            if found is not Over.OVER:
                return found
        if steps is not None and steps < STEPS_BETWEEN_RESTS:
            return None
        if not self.live:
            return self._go_live()
        action = self._outside.next(steps)
        if isinstance(action, Arrival):
            if self._is_to_forget:
                self._is_to_forget = False
                self.history.forget(math.inf)
            return self._deliver(action.token, action.item, action.value, action.time)
        return Wait() if action is None and steps is None else action

    def _next_recorded(self, steps: int | None) -> Action | Over | None:
        found = self._record.next(steps)
        if isinstance(found, Due):
            return self._deliver(found.token, found.item, found.value, found.item.time)
        return found

    def _deliver(self, token: Token, item: Delivery, value: Any, time: int) -> Deliver:
        if time > self.time:
            self.time = time
        last = type(item) is not Chunk
        if last:
            token.done = True
            if self.open.pop(token, self) is self:
                self.listening.pop(token, None)
            if not self.live:
                self._awaited.named.pop(token.name, None)
        if type(item) is SettledItem and item.how == "fail":
            value = EffectFailed(value)
        return Deliver(token, value, last)

    def _go_live(self) -> Action:
        if not self._writable:
            return RecordOver()
        if doubts := self._outside.find_doubts():
            return EffectsInDoubt(doubts)
        self._leave_history()
        self._outside.take_over(self.time)
        return Live()

    def _leave_history(self) -> None:
        self.live = True
        self._is_to_forget = self._changed is not None or self.history.has_changes
        for token in self._awaited.take_given_up():  # before the process died
            self._outside.write_apart(token, EffectCancelled(unknown=True))
        changed, draft = self._changed, self._outside.draft
        if changed is not None and (changed.dropped or draft.items or self.history.has_unmet):
            draft.items.insert(0, Dropped(tuple(changed.dropped)))

    def stuck(self) -> Diverged | None:
        """Return what to report of a program that makes no progress in its history.

        None if the code may have changed: then the rest of the history is dropped. None, too, if code outside of every
        lane was waited for: then it is not any more.
        """
        item = self.history.head()
        if self.diverged is not None:
            return self.diverged
        if self._record.give_up_waiting():
            return None
        if self._changed is not None:
            self._changed.drop_rest()
            return None
        return self._divergences.stuck(item)
