"""One life of a program: obeys the kernel, and checks each thing that must never happen.

An effect begun too early or twice, a replay that executes or commits, a program that makes no progress: each raises
`Wrong` where it happens.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from kit.simulation.journal import Death, Journal
from kit.simulation.operations import Steps
from kit.simulation.outside import Outside, Wrong
from kit.simulation.strands import Strands
from onrecord.core.lane_names import ROOT_LANE
from onrecord.runtime.scheduler.items import (
    APART,
    STEPS_BETWEEN_RESTS,
    Action,
    Begin,
    Chunk,
    Commit,
    Cut,
    Deliver,
    Diverged,
    Done,
    EffectCancelled,
    EffectOutcome,
    EffectsInDoubt,
    Item,
    Live,
    Loosen,
    RecordOver,
    Run,
    Token,
    Turn,
    Wait,
    delivery_name,
)
from onrecord.runtime.scheduler.kernel import Kernel
from onrecord.runtime.scheduler.window import Digest, Placed, Window, digest_history

_PATIENCE_STEPS = 600
"""Steps of a busy program after which it is taken to spin for ever if nothing more can arrive. In a history twice as
many, after those of the latest recorded delivery."""
_MOST_TURNS = 20_000
"""Actions and steps of one life. The longest programs need some hundreds."""


class Machine(NamedTuple):
    """The scheduler under test. A negative control changes one part."""

    kernel: type[Kernel] = Kernel
    window: type[Window] = Window
    digest: Callable[..., Digest] = digest_history


class Entry(NamedTuple):
    """The beginning of a program, or a checkpoint. `seen` are the observations before it."""

    root: str = ROOT_LANE
    time: int = 0
    seen: tuple[Any, ...] = ()


class Verdict(NamedTuple):
    """How a life ended: done, dead, in doubt, over (of a record), diverged, or stuck (the program waits for itself)."""

    how: str
    detail: Any = None


class _Died(Exception):
    pass


class _Ended(Exception):
    """The kernel ended the run while the loop was busy."""


class Life:
    def __init__(
        self,
        body: Steps,
        machine: Machine,
        history: list[Placed],
        digest: Digest,
        outside: Outside,
        *,
        journal: Journal | None = None,
        death: Death | None = None,
        is_cancelled: bool = False,
        entry: Entry = Entry(),  # noqa: B008
        accepts: bool = False,
        loosen: Loosen | None = None,
        knows_begun: bool = False,
    ) -> None:
        """Without a journal the life is a replay."""
        self.peak = 0
        """The largest number of items that the window held."""
        self.journal = journal
        self._given = 0
        self._history = history
        self._journal_length = len(journal.items) if journal is not None else 0
        self._given_items = self._give(history)
        window = machine.window(self._given_items, digest)
        options = {"writable": journal is not None, "root": entry.root, "time": entry.time, "accepts": accepts}
        if loosen is not None:
            options["loosen"] = loosen
        if knows_begun:
            options["may_repeat"] = outside.ledger.was_never_begun
        self.kernel = machine.kernel(window, **options)
        self.kernel._record.steps_of_spin = _PATIENCE_STEPS
        self._outside = outside
        outside.arrive = self._arrive
        outside.write = self._write
        self._death = death
        self._commits = 0
        self._turns = 0
        self._is_adrift = False
        """A busy program was given up with its record: its next life goes live at an earlier step."""
        self._unwritten: list[Token] = []
        """Tokens of what has arrived and is in no commit."""
        self._strands = Strands(body, self.kernel, outside, is_cancelled=is_cancelled)
        self.seen = self._strands.seen
        self.seen += entry.seen

    def _give(self, history: list[Placed]) -> Generator[Placed, None, None]:
        for placed in history:
            self._given += 1
            held = self.kernel.history.held
            if held >= self.peak:
                self.peak = held + 1
            yield placed

    def run(self) -> Verdict:
        try:
            return self._run()
        except _Died:
            assert self.journal is not None
            assert self._death is not None
            if self._death.how == "power":
                self.journal.lose_unsynced()
            return Verdict("dead")
        except _Ended as end:
            return self._verdict(end.args[0])
        finally:
            self._strands.close()
            self._outside.close()
            self._given_items.close()

    def _run(self) -> Verdict:
        kernel, outside, chance = self.kernel, self._outside, self._outside.rng.random
        while True:
            self._turns += 1
            if self._turns > _MOST_TURNS:
                self._stop_idling()
            if kernel.live and chance() < 0.1:
                outside.happen()  # while the program runs
            action = kernel.next()
            kind = type(action)
            if kind is Run:
                self._strands.run_strand(action.strand, self._between_steps)
            elif kind is Wait:
                if not outside.happen():
                    if not kernel.live and kernel.history.head() is not None:  # the patience of the driver is over
                        if (stuck := kernel.stuck()) is not None:
                            return self._verdict(stuck)
                        continue
                    self._strands.check_deadlock()
                    return Verdict("stuck")
                while chance() < 0.45 and outside.happen():
                    pass  # several things arrive at once
            elif kind in _VERDICTS:
                return self._verdict(action)
            else:
                self._obey(action)

    def _between_steps(self) -> None:
        """Ask the kernel whether a busy loop is interrupted."""
        kernel, steps = self.kernel, self._strands.steps
        self._turns += 1
        if self._turns > _MOST_TURNS:
            self._stop_idling()
        if steps > _PATIENCE_STEPS:
            if not kernel.live and steps > self._patience():
                if (stuck := kernel.stuck()) is not None:
                    raise _Ended(stuck)
                self._is_adrift = True
            if kernel.live and self._outside.is_still and not self._has_arrivals and not kernel.ready:
                self._strands.check_deadlock()
                raise _Ended(Wait())
        while (action := kernel.next(self._strands.steps)) is not None:
            if type(action) is Wait:
                if not self._outside.happen():
                    raise Wrong("a busy loop waits for nothing")
            elif type(action) in _VERDICTS:
                raise _Ended(action)
            else:
                self._obey(action)
        if steps >= STEPS_BETWEEN_RESTS and not self._has_arrivals:
            self._outside.happen()

    @property
    def _has_arrivals(self) -> bool:
        return any(not token.gone for token in self._unwritten)

    def _patience(self) -> int:
        return 2 * _PATIENCE_STEPS + max((getattr(item, "forced", 0) for _, item in self._history), default=0)

    def _stop_idling(self) -> None:
        raise Wrong(f"no progress: {list(self.kernel.open)} open, the history is at {self.kernel.history.head()}")

    def _verdict(self, action: Action) -> Verdict:
        details = {Diverged: action, EffectsInDoubt: getattr(action, "tokens", None), Done: self._strands.root.result}
        return Verdict(_VERDICTS[type(action)], details.get(type(action)))

    def _obey(self, action: Action) -> None:
        kind = type(action)
        if kind is Deliver:
            self._strands.steps = 0
            self._is_adrift = False
            if action.token in self._unwritten:
                self._unwritten.remove(action.token)
            self._strands.handlers[action.token](action.value, action.last)
        elif kind is Commit:
            self._commit(action)
        elif kind is Begin:
            for token in action.stop:
                self._outside.stop(token, EffectCancelled())
            for token in action.tokens:
                self._begin(token)
        elif kind is not Live:
            raise Wrong(f"unknown action: {action}")

    def _begin(self, token: Token) -> None:
        if self.journal is None:
            raise Wrong(f"a replay executes: {token}")
        if len(self.seen) < self.journal.safe or self._given < len(self._history):
            raise Wrong(f"begun before the history is over: {token}")
        if token.call is not None and token not in self.kernel.listening:
            if token.key not in self.journal.requested:
                raise Wrong(f"begun before its request is committed: {token}")
            if token in self._strands.cancelled:
                raise Wrong(f"begun after the program cancelled it: {token}")
        self._outside.begin(token)

    def _commit(self, commit: Commit) -> None:
        if self.journal is None:
            raise Wrong(f"a replay commits: {commit.items}")
        self._check_batch(commit.items)
        dies = self._dies()
        self._outside.now += self._outside.upto(1)
        safe = self.journal.safe if self._is_adrift else len(self.seen)
        time = self.journal.append(commit, safe, self._outside.now)
        for item in commit.items:
            if type(item) is EffectOutcome and item.forced != APART:
                self._outside.ledger.acknowledge(item.key, item.value)
                if type(item.value) is Cut:
                    self.journal.check_cut(item, self._journal_length)
        if dies:
            raise _Died
        self.kernel.committed(time)

    def _dies(self) -> bool:
        """Let the process die before a commit; return True if it dies after it."""
        self._commits += 1
        if self._death is None or self._commits < self._death.commits:
            return False
        if self._death.how == "before":
            raise _Died
        return True

    def _check_batch(self, items: list[Item]) -> None:
        """Check that a commit of an outcome holds everything that has arrived."""
        if self._unwritten and any(type(item) in (EffectOutcome, Chunk) and item.forced != APART for item in items):
            written = {delivery_name(item) for item in items if type(item) in (EffectOutcome, Chunk, Turn)}
            last = [token for token in self._unwritten if token in self.kernel.listening]
            for token in self._unwritten:
                if token not in last and not token.gone and written.isdisjoint((token.name, token.taken_name)):
                    raise Wrong(f"arrived, and not in the commit of the batch: {token}")
            self._unwritten = last

    def _arrive(self, token: Token, value: Any = None, *, last: bool = True, is_written: bool = False) -> None:
        if self.kernel.live and not (token.done or token.gone or token.here):
            self._unwritten.append(token)
        self.kernel.arrived(token, value, last=last, time=self._outside.now, is_written=is_written)

    def _write(self, token: Token, value: Any) -> None:
        """Write the outcome of an effect in one transaction with the effect, unless the run has ended."""
        assert self.journal is not None
        if self.kernel.done:
            return
        dies = self._dies()
        self._outside.ledger.executed[token.key] = value
        self._outside.ledger.acknowledge(token.key, value)
        self.journal.append_apart(EffectOutcome(token.key, value, self._outside.now, APART))
        if dies:
            raise _Died


_VERDICTS = {Done: "done", Diverged: "diverged", EffectsInDoubt: "in doubt", RecordOver: "over", Wait: "stuck"}
"""Actions that end a life. `Wait` does so only for a busy loop for which nothing can arrive."""
