"""Compare attempts: those at one effect, and those at a whole run.

The attempts at an effect are recorded as `AttemptRecorded`, beside the one outcome that the agent saw; the last attempt
led to that outcome. The attempts at a run are the run itself and its live replays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from onrecord.analysis.compare.drift import MissingOutcome, Outcome, StepDrift, Verdict, compare_outcomes
from onrecord.analysis.compare.masks import Masks
from onrecord.analysis.compare.reasons import Reason
from onrecord.analysis.compare.tolerance import EXACT, DriftTolerance
from onrecord.analysis.live import reasons as live_codes
from onrecord.analysis.live.judge import outcome
from onrecord.analysis.live.results import NOT_REPLAYABLE_STATUS, ReplayBroken, RunReplay
from onrecord.analysis.live.run_effects import EffectPlace, EffectView, RunEffects
from onrecord.analysis.live.runs import judge_runs
from onrecord.core.hashing import render
from onrecord.core.links import parse_header
from onrecord.errors import BadPosition, InvalidInput, NotFound
from onrecord.journal.reader import JournalReader, each_run
from onrecord.store.contract import RunRow, Store

Which = Literal["first_last", "last_two"] | tuple[int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
    number: int
    status: str
    """The recorded status: retried, failed, succeeded, …"""
    seq: int
    """The seq of its record, or of the answer if it has no record."""
    outcome: Outcome | MissingOutcome
    failed: bool

    def to_data(self) -> dict[str, Any]:
        return {"number": self.number, "status": self.status, "seq": self.seq}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AttemptComparison:
    """Comparison of two attempts at one effect. `expected` is the first of the two that were chosen."""

    run: str
    key: str
    name: str
    seq: int
    attempts: tuple[Attempt, ...]
    expected: int | None
    actual: int | None
    """The numbers of the two attempts; None if there is only one."""
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
            return f"{self.name}: only one attempt, nothing to compare - {self.verdict.upper()}"
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
    """Compare two attempts at one effect, named by its replay key or by the seq of its request."""
    run = RunEffects(reader)
    place = _find_effect(run, effect)
    view = run.view(place)
    attempts = attempts_at(run, place, view)
    chosen = _choose_attempts(which, [attempt.number for attempt in attempts], f"{view.name[:80]} of run {reader.run}")
    reasons: tuple[Reason, ...] = (Reason(live_codes.ONE_ATTEMPT, "", "one attempt"),)
    drift = None
    if chosen is not None:
        first, second = (attempts[index] for index in chosen)
        if first.failed != second.failed:
            before, after = ("failed" if one.failed else "succeeded" for one in (first, second))
            reasons = (Reason(live_codes.STATUS_DIFF, "", "changed", before, after),)
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
    """Return all known attempts by number. An effect that succeeded at once has no record but the answer."""
    found = {attempt.number: attempt for attempt in _recorded_attempts(run, place, view)}
    if place.answer is not None and view.status is not None:
        last = max(found, default=0)
        open_end = last == 0 or found[last].status == "retried"
        number = last + 1 if open_end else last
        failed = view.status != "succeeded"
        gap = view.output_gap
        final = MissingOutcome(gap) if gap is not None else outcome(view.output, view.kind, failed=failed)
        kept = found.get(number)
        if kept is None:
            found[number] = Attempt(number, view.status, place.answer, final, failed)
        elif isinstance(final, Outcome):
            events = kept.outcome.tool_events if isinstance(kept.outcome, Outcome) else None
            final = dataclasses.replace(final, tool_events=final.tool_events or events)
            found[number] = dataclasses.replace(kept, outcome=final, failed=failed)
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
        recorded = tree.get("snapshots")
        snapshots: dict[str, Any] = recorded if isinstance(recorded, dict) else {}
        failed = "error" in snapshots or status in ("failed", "retried")
        yield Attempt(tree["attempt"], status, row.seq, _snapshot_outcome(snapshots, view.kind, failed), failed)


def _snapshot_outcome(snapshots: dict[str, Any], kind: str, failed: bool) -> Outcome | MissingOutcome:
    """Return the outcome in an attempt's own record. `attempts_at` takes the last one from the answer."""
    events = _tool_events(snapshots)
    if failed:
        if "error" not in snapshots:
            return MissingOutcome("no_recorded_error")
        return dataclasses.replace(outcome(snapshots["error"], kind, failed=True), tool_events=events)
    if "output" not in snapshots:
        return MissingOutcome("no_recorded_output")
    recorded = outcome(snapshots["output"], kind, failed=False)
    return recorded if recorded.tool_events is not None else dataclasses.replace(recorded, tool_events=events)


def _tool_events(snapshots: dict[str, Any]) -> list[Any] | None:
    """Return the recorded tool events, or the tools noted among the events."""
    if isinstance(snapshots.get("tool_events"), list):
        return list(snapshots["tool_events"])
    noted = snapshots.get("events")
    if not isinstance(noted, list):
        return None
    pairs = [pair for pair in noted if isinstance(pair, list) and len(pair) == 2 and pair[0] == "tool"]
    return [value if isinstance(value, dict) else {"name": value} for _, value in pairs]


def _find_effect(run: RunEffects, effect: str | int) -> EffectPlace:
    if isinstance(effect, int):
        by_seq = next((place for place in run.effects if place.seq == effect), None)
        if by_seq is None:
            raise BadPosition(
                f"event {effect} of run {run.reader.run} is not the request of an effect",
                hint=f"`onrecord show {run.reader.run}` lists the events.",
            )
        return by_seq
    by_key = next((place for place in run.effects if place.key == effect), None)
    by_key = by_key or next((place for place in run.effects if run.action_id(place) == effect), None)
    if by_key is None:
        raise NotFound(
            f"run {run.reader.run} has no effect with the replay key {effect[:128]!r}",
            hint=f"`onrecord show {run.reader.run}` lists the events with their keys.",
            code="unknown_effect",
        )
    return by_key


def _choose_attempts(which: Which, numbers: Sequence[int], target: str) -> tuple[int, int] | None:
    """Return the indexes of the two attempts, or None if there are fewer than two."""
    if isinstance(which, tuple):
        first, second = which
        if first == second:
            raise InvalidInput("an attempt cannot be compared with itself", code="same_attempt")
        for number in which:
            if number not in numbers:
                raise BadPosition(
                    f"there is no attempt {number} at {target}: it has {', '.join(map(str, numbers)) or 'none'}",
                    hint="Attempts are numbered from 1.",
                    code="unknown_attempt",
                )
        return numbers.index(first), numbers.index(second)
    if which not in ("first_last", "last_two"):
        raise InvalidInput("`which` must be first_last, last_two or two numbers", code="bad_choice")
    if len(numbers) < 2:
        return None
    return (0 if which == "first_last" else len(numbers) - 2), len(numbers) - 1


def replays_of(store: Store, run: str, namespace: str = "default") -> list[str]:
    """Return the live replays of a run, oldest first. Reads every header of the namespace."""
    reader = JournalReader(store, run, namespace)
    found = [row.header for row in each_run(store, namespace) if is_replay_of(row, reader)]
    return [header.run for header in sorted(found, key=lambda one: (one.created, one.run))]


def is_replay_of(row: RunRow, reader: JournalReader) -> bool:
    parent = parse_header(row.header.header).parent
    if parent is None or parent.relation != "replay" or parent.run not in (reader.run, reader.recorded_run):
        return False
    replayed_event = reader.store.event(reader.namespace, reader.run, parent.seq) if parent.seq else None
    head = reader.header_row.hash if not parent.seq else None if replayed_event is None else replayed_event.hash
    return head is not None and render(head) == parent.head  # refuses another run of the same name


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
    """Compare a run and its live replays. Attempt 1 is the recorded run; the replays follow, oldest first."""
    runs = [run, *replays_of(store, run, namespace)]
    chosen = _choose_attempts(which, range(1, len(runs) + 1), f"run {run}")
    if chosen is None:
        return RunReplay(
            run=run,
            replay=None,
            effects=len(RunEffects(JournalReader(store, run, namespace)).effects),
            steps=(),
            reasons=(Reason(live_codes.ONE_ATTEMPT, "", "no live replay yet"),),
            tolerance=tolerance.to_data(),
            masks=(Masks() if masks is None else masks).to_data(),
        )
    expected, actual = (JournalReader(store, runs[index], namespace) for index in chosen)
    return judge_runs(expected, actual, tolerance, masks, stop_at_first=stop_at_first)
