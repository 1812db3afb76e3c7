"""One schedule: a case from its first life to the replay of its record, with every property checked.

1. The program runs, dies, is resumed, is settled where it is in doubt, and ends.
2. The record replays: the same observations in the same global order, and nothing is executed.
3. So does each prefix that a death left, up to its last commit.
4. A fork at any position ends, and its record replays.
5. An edit of the program is reported at its first differing request.
6. A program that sleeps more or less often is reported only if it does something else.
7. An edited program that is accepted ends, repeats nothing that has an outcome, and its record replays.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from kit.simulation.cases import Case
from kit.simulation.edits import apply_edit, check_edit, check_shift
from kit.simulation.interpreter import run_root
from kit.simulation.journal import Death, Journal, place, position_of
from kit.simulation.life import Entry, Life, Machine, Verdict
from kit.simulation.memory import Memory
from kit.simulation.outside import ChangedLedger, Ledger, Outside, Wrong
from kit.simulation.programs import Program, walk
from onrecord.core.lane_names import next_root
from onrecord.runtime.scheduler.items import (
    APART,
    DELIVERIES,
    Began,
    CheckpointTaken,
    Cut,
    Drawn,
    Dropped,
    EffectCancelled,
    EffectOutcome,
    Item,
    Requested,
    SettledItem,
    Token,
)
from onrecord.runtime.scheduler.window import Digest, Placed

Tally = Counter[str]
_MOST_LIVES = 40


def run_schedule(case: Case, tally: Tally, machine: Machine = Machine()) -> None:  # noqa: B008
    """Run the case and raise `Wrong` if a property does not hold."""
    tally["schedules"] += 1
    _Schedule(case, tally, machine).run()


class _Schedule:
    def __init__(self, case: Case, tally: Tally, machine: Machine) -> None:
        self._case = case
        self._tally = tally
        self._machine = machine
        self._rng = random.Random(case.seed + 1)

    def run(self) -> None:
        case, journal = self._case, Journal()
        life, verdict = self._live(journal, Ledger(), case.deaths)
        items = journal.items
        if verdict.how == "stuck":
            self._tally["deadlocked programs"] += 1
            self._check_prefix(journal, life)
            return
        self._check_replay(items, life, verdict)
        if case.cut is not None:
            self._check_cut(items, int(case.cut * len(items)), life)
        if case.edit is not None and case.edit.how == "renamed":
            self._check_loosely(apply_edit(case.program, case.edit), items, verdict)
        elif case.edit is not None:
            edited = apply_edit(case.program, case.edit)
            _, answer = self._replay(edited, items)
            check_edit(case, items, answer, self._tally)
            if case.accept is not None:
                self._accept(edited, items[: journal.ends[int(case.accept * (len(journal.ends) - 1))]])
        if case.shift is not None:
            _, answer = self._replay(apply_edit(case.program, case.shift), items)
            check_shift(case, answer, self._tally)
        if case.fork is not None:
            self._fork(items, int(case.fork * len(items)))

    # Lives

    def _live(
        self,
        journal: Journal,
        ledger: Ledger,
        deaths: tuple[Death | None, ...],
        substitutes: dict[str, Any] | None = None,
        digest: Digest | None = None,
        changed: Program | None = None,
    ) -> tuple[Life, Verdict]:
        """Let the program live until it ends, or waits for itself. Return its last life."""
        before: Life | None = None
        for number in range(_MOST_LIVES):
            death = deaths[number] if number < len(deaths) else None
            outside = Outside(self._rng, ledger, substitutes or {})
            safe = journal.safe
            if changed is None:
                life = self._next_life(before, outside, digest, journal=journal, death=death)
            else:
                life = self._changed_life(changed, outside, journal=journal, death=death)
            verdict = life.run()
            digest = None
            self._tally["lives"] += 1
            if before is not None:
                self._tally["resumes"] += 1
                _check_same(before.seen[:safe], life.seen[:safe], "a resume")
            if verdict.how == "dead":
                self._tally["deaths"] += 1
                if number % 2 == 0 and changed is None:
                    self._check_prefix(journal, life)
            elif verdict.how == "in doubt":
                self._tally["in doubt"] += 1
                self._check_doubts(verdict.detail, life, ledger)
                self._settle(journal, verdict.detail, ledger)
            elif verdict.how in ("done", "stuck"):
                if changed is None:
                    _check_ledger(journal, ledger)
                if verdict.how == "done":
                    _check_requests(journal, life)
                return life, verdict
            else:
                raise Wrong(f"a live run ends as {verdict}")
            before = life
        raise Wrong("the run does not come to an end")

    def _check_doubts(self, tokens: list[Token], life: Life, ledger: Ledger) -> None:
        if {token.key for token in tokens} & life.kernel.history.digest.retries:
            raise Wrong("in doubt, though a retry was allowed")
        if self._case.knows_begun and any(ledger.was_never_begun(token) for token in tokens):
            raise Wrong("in doubt, though known not to have been begun")

    def _next_life(
        self, before: Life | None, outside: Outside, digest: Digest | None, journal: Journal, death: Death | None
    ) -> Life:
        """Resume from the beginning, or from the last checkpoint."""
        writes = {"journal": journal, "death": death, "knows_begun": self._case.knows_begun}
        if before is not None and self._rng.random() < 0.6 and (taken := _last_checkpoint(journal.items)) is not None:
            self._tally["resumes from a checkpoint"] += 1
            return self._life_from(journal.items, taken, before.seen, outside, **writes)
        history = place(journal.items)
        digest = digest or self._machine.digest(history, writable=True)
        return self._life(self._case.program, history, digest, outside, **writes)

    def _changed_life(self, program: Program, outside: Outside, journal: Journal, death: Death | None) -> Life:
        history = place(journal.items)
        digest = self._machine.digest(history, writable=True)
        # What changed code committed is its own record: it need not be accepted again.
        is_accepted = any(_is_of_program(item) for item in journal.items[journal.first :])
        accepts = not digest.is_whole and not (is_accepted and len(journal.items) % 2)
        self._tally["resumes of accepted code"] += not accepts and not digest.is_whole
        options = {"accepts": accepts, "knows_begun": self._case.knows_begun}
        return self._life(program, history, digest, outside, journal=journal, death=death, **options)

    def _life(self, program: Program, history: list[Placed], digest: Digest, outside: Outside, **options: Any) -> Life:
        body = run_root(Memory(self._case.sees_memory), program)
        return Life(body, self._machine, history, digest, outside, is_cancelled=self._case.is_cancelled, **options)

    def _life_from(self, items: list[Item], number: int, seen: list[Any], outside: Outside, **options: Any) -> Life:
        """Make a life that starts at a checkpoint, with only the items after it."""
        taken, history = items[number], place(items[number + 1 :], number + 1)
        assert type(taken) is CheckpointTaken
        reached, values = taken.digest
        root = next_root(taken.lane)
        before = next(count for count, one in enumerate(seen, 1) if one[1] == "TakeCheckpoint" and one[3] == root)
        program = self._case.program
        left = program[1 + next(at for at, node in enumerate(program) if node.number == reached) :]
        body = run_root(Memory(self._case.sees_memory, values), left)
        digest = self._machine.digest(history, writable="journal" in options)
        is_cancelled = self._case.is_cancelled and not any(_is_order(item) for item in items[:number])
        entry = Entry(root, taken.time, tuple(seen[:before]))
        return Life(body, self._machine, history, digest, outside, is_cancelled=is_cancelled, entry=entry, **options)

    def _settle(self, journal: Journal, tokens: list[Token], ledger: Ledger) -> None:
        """Decide effects in doubt as an operator does who may see what happened."""
        for token in tokens:
            key = token.key
            if key not in journal.requested:
                raise Wrong(f"in doubt without a request: {key}")
            if key in ledger.executed:
                how = ("done", "done", "fail", "retry")[int(self._rng.random() * 4)]
            else:
                how = ("retry", "retry", "fail", "done")[int(self._rng.random() * 4)]
            value = ledger.executed.get(key, -1) if how == "done" else how
            journal.items.append(SettledItem(key, how, value))
            self._tally[f"settled {how}"] += 1
            if how == "retry":
                ledger.retries[key] += 1
            else:
                ledger.acknowledge(key, value)
        journal.sync()

    # Replays

    def _replay(self, program: Program, items: list[Item], **options: Any) -> tuple[Life, Verdict]:
        """Replay with other latencies, other random numbers and nothing outside."""
        ledger = Ledger()
        history = place(items)
        digest = self._machine.digest(history, writable=False)
        life = self._life(program, history, digest, Outside(random.Random(self._case.seed), ledger, {}), **options)
        verdict = life.run()
        self._tally["replays"] += 1
        return life, verdict

    def _check_replay(self, items: list[Item], life: Life, verdict: Verdict) -> None:
        replay, answer = self._replay(self._case.program, items)
        if answer != verdict:
            raise Wrong(f"a replay ends as {answer} instead of {verdict}")
        _check_same(life.seen, replay.seen, "a replay")
        if replay.kernel.drawn_anew:
            raise Wrong("a replay draws anew")
        if (taken := _last_checkpoint(items)) is not None:
            outside = Outside(random.Random(self._case.seed), Ledger(), {})
            replay = self._life_from(items, taken, life.seen, outside)
            if (answer := replay.run()) != verdict:
                raise Wrong(f"a replay from a checkpoint ends as {answer} instead of {verdict}")
            _check_same(life.seen, replay.seen, "a replay from a checkpoint")
        longest = _longest_stretch(items, replay.kernel.history.digest.void)
        if replay.peak > 2 * longest:
            raise Wrong(f"the window held {replay.peak} items, and the longest stretch has {longest}")

    def _check_prefix(self, journal: Journal, life: Life) -> None:
        """Check that a replay of an unfinished record sees the same, up to its last commit."""
        replay, answer = self._replay(self._case.program, list(journal.items))
        if answer.how not in ("over", "done"):
            raise Wrong(f"a replay of a prefix ends as {answer}")
        _check_same(life.seen[: journal.safe], replay.seen[: journal.safe], "a replay of a prefix")

    def _check_cut(self, items: list[Item], position: int, life: Life) -> None:
        """Check that a replay up to any position sees no more than the whole run, and the same."""
        replay, answer = self._replay(self._case.program, items[:position])
        if answer.how not in ("over", "done"):
            raise Wrong(f"a replay up to {position} ends as {answer}")
        goes_away = any(node.kind in ("compute", "measure", "slow") for node in walk(self._case.program))
        if not goes_away and not any(type(item) in (Drawn, Began) for item in items[position:]):
            _check_same(life.seen[: len(replay.seen)], replay.seen, f"a replay up to {position}")

    def _check_loosely(self, program: Program, items: list[Item], verdict: Verdict) -> None:
        """Check tolerant replays: of the same program, and of one whose lanes have other names."""
        _, answer = self._replay(self._case.program, items, loosen=lambda request, candidates: None)
        if answer != verdict:
            raise Wrong(f"a tolerant replay of the same program ends as {answer} instead of {verdict}")
        _, answer = self._replay(program, items, loosen=_find_alike)
        self._tally["tolerant replays"] += 1
        if answer.how != "done" or str(answer.detail) != str(verdict.detail):
            raise Wrong(f"a tolerant replay ends as {answer} instead of {verdict}")

    # Changed code

    def _accept(self, program: Program, prefix: list[Item]) -> None:
        """Continue a record with another program."""
        journal = Journal(prefix)
        life, verdict = self._live(journal, ChangedLedger(prefix), self._case.fork_deaths, changed=program)
        self._tally["accepted"] += 1
        self._tally["accepted with drops"] += any(type(item) is Dropped for item in journal.items)
        if verdict.how == "done":
            replay, answer = self._replay(program, journal.items)
            if answer != verdict:
                raise Wrong(f"a replay of changed code ends as {answer} instead of {verdict}")
            _check_same(life.seen, replay.seen, "a replay of changed code")

    # Forks

    def _fork(self, items: list[Item], position: int) -> None:
        """Fork the run at any position. What was open there is asked again in the fork's name."""
        prefix, tail = items[:position], items[position:]
        ledger = Ledger()
        for item in prefix:
            if (type(item) is EffectOutcome and not _is_dropped(item)) or (
                type(item) is SettledItem and item.how != "retry"
            ):
                ledger.acknowledge(item.key, item.value)
        substitutes = {item.key: item.value for item in tail if _is_answer(item)}
        digest = self._machine.digest(place(prefix), writable=True)
        once = {item.key for item in prefix if type(item) is Requested and item.once}
        loose = position_of(position)
        # The cut may be in the middle of a commit, where no strand had come to rest.
        digest = digest._replace(retries=digest.retries | (once - ledger.acknowledged.keys()), loose=loose)
        journal = Journal(prefix)
        life, verdict = self._live(journal, ledger, self._case.fork_deaths, substitutes, digest)
        self._tally["forks"] += 1
        if verdict.how == "done":
            self._check_replay(journal.items, life, verdict)


def _last_checkpoint(items: list[Item]) -> int | None:
    return next((len(items) - number for number, item in enumerate(reversed(items), 1) if _is_checkpoint(item)), None)


def _find_alike(request: Requested, candidates: list[tuple[int, Requested]]) -> int | None:
    return next((at for at, one in candidates if (one.name, one.digest) == (request.name, request.digest)), None)


def _is_checkpoint(item: Item) -> bool:
    return type(item) is CheckpointTaken


def _is_of_program(item: Item) -> bool:
    return type(item) is not SettledItem and not (type(item) is EffectOutcome and item.forced == APART)


def _is_order(item: Item) -> bool:
    return type(item) is EffectOutcome and item.key.startswith("!")


def _is_dropped(outcome: EffectOutcome) -> bool:
    return outcome.forced == APART and type(outcome.value) is EffectCancelled


def _is_answer(item: Item) -> bool:
    return type(item) is EffectOutcome and type(item.value) not in (EffectCancelled, Cut)


def _check_same(expected: list[Any], seen: list[Any], who: str) -> None:
    if expected != seen:
        pairs = zip([*expected, "the end"], [*seen, "the end"], strict=False)
        place, (one, other) = next((place, pair) for place, pair in enumerate(pairs) if pair[0] != pair[1])
        raise Wrong(f"{who} sees {other} instead of {one}, at {place} of {len(expected)}")


def _check_ledger(journal: Journal, ledger: Ledger) -> None:
    """Check that each acknowledged outcome is in the journal."""
    outcomes = {
        item.key: item.value for item in journal.items if type(item) is EffectOutcome or type(item) is SettledItem
    }
    for key, value in ledger.acknowledged.items():
        if outcomes.get(key) != value:
            raise Wrong(f"an acknowledged outcome is lost: {key}")


def _check_requests(journal: Journal, life: Life) -> None:
    """Check that each effect has one outcome, unless a lane still waits for it."""
    dropped = {position for item in journal.items if type(item) is Dropped for position in item.positions}
    items = [item for position, item in place(journal.items) if position not in dropped]
    outcomes = Counter(
        item.key for item in items if type(item) is EffectOutcome or getattr(item, "how", "retry") != "retry"
    )
    if any(count > 1 for count in outcomes.values()):
        raise Wrong(f"more than one outcome: {outcomes.most_common(1)}")
    requested = {item.key for item in items if type(item) is Requested}
    if open_requests := requested - outcomes.keys() - {token.name for token in life.kernel.open}:
        raise Wrong(f"requests without an outcome: {open_requests}")


def _longest_stretch(items: list[Item], void: frozenset[int]) -> int:
    """Return the largest number of items from one delivery at rest to the next."""
    longest = length = 0
    for position, item in place(items):
        length += 1
        if type(item) in DELIVERIES and item.forced >= 0 and position not in void:
            longest = max(longest, length)
            length = 1
    return max(longest, length)
