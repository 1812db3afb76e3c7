"""Attempts against each other: those at one effect, and those at a whole run.

The attempts at an effect are on record as `AttemptRecorded`, beside the one outcome that the agent saw; the last of
them came to that outcome. The attempts at a run are the run itself and the runs that replayed it live.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from reenact.core.hashing import render
from reenact.core.links import parse_header
from reenact.errors import BadPosition, InvalidInput, NotFound
from reenact.journal.reader import JournalReader
from reenact.replays.comparing.drift import NotReplayable, Outcome, StepDrift, Verdict, compare_outcomes
from reenact.replays.comparing.masks import Masks
from reenact.replays.comparing.reasons import Reason
from reenact.replays.comparing.tolerance import EXACT, DriftTolerance
from reenact.replays.live import reasons as live_codes
from reenact.replays.live.judging import outcome
from reenact.replays.live.reading import EffectPlace, EffectView, RunEffects
from reenact.replays.live.results import NOT_REPLAYABLE_STATUS, ReplayBroken, RunReplay
from reenact.replays.live.runs import judge_runs
from reenact.store.contract import RunRow, Store

Which = Literal["first_last", "last_two"] | tuple[int, int]
PAGE = 200


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
    number: int
    status: str
    """As recorded: retried, failed, succeeded, …"""
    seq: int
    """Of its record, or of the answer where it has no other."""
    outcome: Outcome | NotReplayable
    failed: bool

    def to_data(self) -> dict[str, Any]:
        return {"number": self.number, "status": self.status, "seq": self.seq}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AttemptComparison:
    """Two attempts at one effect. `expected` is the earlier one."""

    run: str
    key: str
    name: str
    seq: int
    attempts: tuple[Attempt, ...]
    expected: int | None
    actual: int | None
    """Numbers of the two; None: there is only one."""
    reasons: tuple[Reason, ...]
    drift: StepDrift | None
    tolerance: dict[str, Any]

    @property
    def verdict(self) -> Verdict:
        if any(not reason.tolerated for reason in self.reasons):
            return "broken"
        return "drift" if self.reasons else "pass"

    @property
    def exit_status(self) -> int:
        if self.verdict != "broken":
            return 0
        return NOT_REPLAYABLE_STATUS if self.drift is not None and not self.drift.replayable else 1

    @property
    def message(self) -> str:
        if self.expected is None:
            return f"{self.name}: one attempt, nothing to compare it with - {self.verdict.upper()}"
        return f"{self.name}: attempt {self.expected} against attempt {self.actual} - {self.verdict.upper()}"

    def to_data(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "key": self.key,
            "name": self.name,
            "seq": self.seq,
            "verdict": self.verdict,
            "message": self.message,
            "attempts": [attempt.to_data() for attempt in self.attempts],
            "expected": self.expected,
            "actual": self.actual,
            "reasons": [reason.to_data() for reason in self.reasons],
            "drift": None if self.drift is None else self.drift.to_data(),
            "tolerance": self.tolerance,
        }

    def raise_if_broken(self) -> None:
        if self.verdict == "broken":
            error = ReplayBroken(self.message, code=self.reasons[0].code)
            error.exit_status = self.exit_status
            raise error


def compare_attempts(
    reader: JournalReader,
    effect: str | int,
    which: Which = "first_last",
    tolerance: DriftTolerance = EXACT,
    masks: Masks | None = None,
) -> AttemptComparison:
    """Two attempts at one effect, which is named by its replay key or by the seq of its request."""
    run = RunEffects(reader)
    place = _found(run, effect)
    view = run.view(place)
    attempts = attempts_at(run, place, view)
    chosen = _chosen(which, [attempt.number for attempt in attempts], f"{view.name[:80]} of run {reader.run}")
    reasons: tuple[Reason, ...] = (Reason(live_codes.ONE_ATTEMPT, "", "one attempt"),)
    drift = None
    if chosen is not None:
        first, second = (attempts[index] for index in chosen)
        if first.failed != second.failed:
            was, came = ("failed" if one.failed else "succeeded" for one in (first, second))
            reasons = (Reason(live_codes.STATUS_DIFF, "", "changed", was, came),)
        else:
            drift = compare_outcomes(first.outcome, second.outcome, tolerance, masks)
            reasons = drift.reasons
    return AttemptComparison(
        run=reader.run,
        key=place.key,
        name=view.name,
        seq=place.seq,
        attempts=tuple(attempts),
        expected=None if chosen is None else attempts[chosen[0]].number,
        actual=None if chosen is None else attempts[chosen[1]].number,
        reasons=reasons,
        drift=drift,
        tolerance=tolerance.to_data(),
    )


def attempts_at(run: RunEffects, place: EffectPlace, view: EffectView) -> list[Attempt]:
    """All attempts that are known of, by number. One that succeeded at once has no record but the answer."""
    found = {attempt.number: attempt for attempt in _recorded_attempts(run, place, view)}
    if place.answer is not None and view.status is not None:
        last = max(found, default=0)
        open_end = last == 0 or found[last].status == "retried"
        number = last + 1 if open_end else last
        failed = view.status != "succeeded"
        gap = view.output_gap
        came = NotReplayable(gap) if gap is not None else outcome(view.output, view.kind, failed=failed)
        kept = found.get(number)
        if kept is None:
            found[number] = Attempt(number, view.status, place.answer, came, failed)
        elif isinstance(came, Outcome):
            events = kept.outcome.tool_events if isinstance(kept.outcome, Outcome) else None
            came = dataclasses.replace(came, tool_events=came.tool_events or events)
            found[number] = dataclasses.replace(kept, outcome=came, failed=failed)
    return [found[number] for number in sorted(found)]


def _recorded_attempts(run: RunEffects, place: EffectPlace, view: EffectView) -> Iterator[Attempt]:
    action = run.action_id(place)
    for row in run.rows():
        if row.kind != "AttemptRecorded":
            continue
        tree = run.tree(row.seq)
        if not isinstance(tree, dict) or tree.get("action_id") != action or type(tree.get("attempt")) is not int:
            continue
        status = str(tree.get("status"))
        made = tree.get("snapshots")
        snapshots: dict[str, Any] = made if isinstance(made, dict) else {}
        failed = "error" in snapshots or status in ("failed", "retried")
        yield Attempt(tree["attempt"], status, row.seq, _snapshot_outcome(snapshots, view.kind, failed), failed)


def _snapshot_outcome(snapshots: dict[str, Any], kind: str, failed: bool) -> Outcome | NotReplayable:
    """What an attempt came to by its own record. One that points to the answer is filled in from there."""
    events = _tool_events(snapshots)
    if failed:
        if "error" not in snapshots:
            return NotReplayable("no_recorded_error")
        return dataclasses.replace(outcome(snapshots["error"], kind, failed=True), tool_events=events)
    if "output" not in snapshots:
        return NotReplayable("no_recorded_output")
    made = outcome(snapshots["output"], kind, failed=False)
    return made if made.tool_events is not None else dataclasses.replace(made, tool_events=events)


def _tool_events(snapshots: dict[str, Any]) -> list[Any] | None:
    """Events that the attempt kept as such, and what was noted of its tools."""
    if isinstance(snapshots.get("tool_events"), list):
        return list(snapshots["tool_events"])
    noted = snapshots.get("events")
    if not isinstance(noted, list):
        return None
    pairs = [pair for pair in noted if isinstance(pair, list) and len(pair) == 2 and pair[0] == "tool"]
    return [value if isinstance(value, dict) else {"name": value} for _, value in pairs]


def _found(run: RunEffects, effect: str | int) -> EffectPlace:
    if isinstance(effect, int):
        by_seq = next((place for place in run.effects if place.seq == effect), None)
        if by_seq is None:
            raise BadPosition(
                f"event {effect} of run {run.reader.run} is no request of an effect",
                hint="`reenact show` lists the events of a run.",
            )
        return by_seq
    by_key = next((place for place in run.effects if place.key == effect), None)
    by_key = by_key or next((place for place in run.effects if run.action_id(place) == effect), None)
    if by_key is None:
        raise NotFound(
            f"run {run.reader.run} has no effect with the replay key {effect[:128]!r}",
            hint="`reenact show` lists the events of a run with their keys.",
            code="unknown_effect",
        )
    return by_key


def _chosen(which: Which, numbers: Sequence[int], of_what: str) -> tuple[int, int] | None:
    """Indexes of the two attempts; None when there are not two."""
    if isinstance(which, tuple):
        first, second = which
        if first == second:
            raise InvalidInput("an attempt is not compared with itself", code="same_attempt")
        for number in which:
            if number not in numbers:
                raise BadPosition(
                    f"there is no attempt {number} at {of_what}: it has {', '.join(map(str, numbers)) or 'none'}",
                    hint="Attempts are numbered from 1.",
                    code="unknown_attempt",
                )
        return numbers.index(first), numbers.index(second)
    if which not in ("first_last", "last_two"):
        raise InvalidInput("which is first_last, last_two or two numbers", code="bad_choice")
    if len(numbers) < 2:
        return None
    return (0 if which == "first_last" else len(numbers) - 2), len(numbers) - 1


# Of whole runs


def replays_of(store: Store, run: str, namespace: str = "default") -> list[str]:
    """The runs that replayed this one live, oldest first. Every header of the namespace is looked at."""
    reader = JournalReader(store, run, namespace)
    found: list[tuple[int, str]] = []
    before: tuple[int, str] | None = None
    while page := store.list_runs(namespace, before=before, limit=PAGE):
        found += [_place(row) for row in page if _replays(row, reader)]
        before = _place(page[-1])
    return [name for _, name in sorted(found)]


def _place(row: RunRow) -> tuple[int, str]:
    return row.header.created, row.header.run


def _replays(row: RunRow, reader: JournalReader) -> bool:
    parent = parse_header(row.header.header).parent
    if parent is None or parent.relation != "replay" or parent.run not in (reader.run, reader.recorded_run):
        return False
    named = reader.store.event(reader.namespace, reader.run, parent.seq) if parent.seq else None
    head = reader.header_row.hash if not parent.seq else None if named is None else named.hash
    return head is not None and render(head) == parent.head  # another run of that name is another run


def compare_run_attempts(
    store: Store,
    run: str,
    namespace: str = "default",
    which: Which = "first_last",
    tolerance: DriftTolerance = EXACT,
    masks: Masks | None = None,
    *,
    stop_at_first: bool = False,
) -> RunReplay:
    """A run and its live replays against each other. Attempt 1 is the recorded run, the replays follow by age."""
    runs = [run, *replays_of(store, run, namespace)]
    chosen = _chosen(which, range(1, len(runs) + 1), f"run {run}")
    if chosen is None:
        return RunReplay(
            run=run,
            replay=None,
            effects=len(RunEffects(JournalReader(store, run, namespace)).effects),
            steps=(),
            reasons=(Reason(live_codes.ONE_ATTEMPT, "", "never replayed live"),),
            tolerance=tolerance.to_data(),
            masks=(Masks() if masks is None else masks).to_data(),
        )
    expected, actual = (JournalReader(store, runs[index], namespace) for index in chosen)
    return judge_runs(expected, actual, tolerance, masks, stop_at_first=stop_at_first)
