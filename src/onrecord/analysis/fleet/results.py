"""Results of judging many runs, and the exit status that follows.

    verdict         counts as
    same            passed    the code did what the record says, to its end
    unfinished      passed    the code did what the unfinished record says
    valid           passed    the record is unchanged
    pass, drift     passed    executed again: equal, or different within the tolerance
    broken          failed    executed again: different beyond the tolerance
    diverged        failed    the code did something else than the record says
    not_replayable  failed    an effect has no recorded value to deliver
    damaged         failed    the record was changed
    error           error     the run could not be judged: its code was not found, or failed to load
    died            error     the judging process was killed, or exited
    timed_out       error     judging took longer than allowed
    not_judged      error     the command was interrupted before this run's turn
    skipped         skipped   there is nothing to judge, and the reason is given

An empty selection never passes: at least one run has to pass. Only an empty shard of a selection that is not empty
passes without one.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from onrecord.analysis.fleet.shard import Shard

PASSED, FAILED, ERROR, SKIPPED = "passed", "failed", "error", "skipped"
OUTCOMES = {
    "same": PASSED,
    "unfinished": PASSED,
    "valid": PASSED,
    "pass": PASSED,
    "drift": PASSED,
    "broken": FAILED,
    "diverged": FAILED,
    "not_replayable": FAILED,
    "damaged": FAILED,
    "error": ERROR,
    "died": ERROR,
    "timed_out": ERROR,
    "not_judged": ERROR,
    "skipped": SKIPPED,
}
CHECK_FOUND_SOMETHING = 1
INTEGRITY_BROKEN = 4
WORST_FIRST = (INTEGRITY_BROKEN, 70, 5, CHECK_FOUND_SOMETHING, 7)
"""Exit statuses of single runs, most severe first."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of judging one run."""

    verdict: str
    events: int = 0
    seconds: float = 0.0
    code: str = ""
    message: str = ""
    hint: str = ""
    where: dict[str, Any] = {}
    """The position of a divergence: seq, key, lane, expected, actual, path, …, as JSON."""
    output: str = ""
    """The end of the agent's output, if the run did not pass."""
    status: int = 0
    """The exit status for this run alone."""
    report: dict[str, Any] | None = None
    """The full verification report."""

    @property
    def outcome(self) -> str:
        return OUTCOMES[self.verdict]

    @property
    def passed(self) -> bool:
        return self.outcome == PASSED

    def problem(self) -> dict[str, Any] | None:
        if not self.code:
            return None
        problem_data = {"code": self.code, "message": self.message, "hint": self.hint, **self.where}
        return {**problem_data, "output": self.output} if self.output else problem_data


def skipped(code: str, message: str, hint: str = "", *, events: int = 0) -> Finding:
    return Finding(verdict="skipped", code=code, message=message, hint=hint, events=events)


class RunResult(msgspec.Struct, frozen=True):
    run: str
    agent: str | None
    created: str | None
    """ISO 8601, in UTC."""
    finding: Finding

    def to_data(self) -> dict[str, Any]:
        found = self.finding
        return {
            **(found.report or {}),
            "run": self.run,
            "agent": self.agent,
            "created": self.created,
            "verdict": found.verdict,
            "outcome": found.outcome,
            "events": found.events,
            "seconds": round(found.seconds, 6),
            "problem": found.problem(),
        }


class FleetReport(msgspec.Struct, frozen=True, kw_only=True):
    """Report on many runs, with results in the order in which the runs began."""

    command: str
    namespace: str
    results: Sequence[RunResult]
    selected: int
    """Runs that the filter chose, in all shards."""
    to_judge: int
    """Selected runs that no rule skips."""
    to_judge_here: int
    """Selected runs of this shard that no rule skips."""
    shard: Shard | None = None
    interrupted: int = 0
    """The signal that ended the command early."""
    seconds: float = 0.0

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of runs by verdict, in the order of the table above."""
        found = Counter(result.finding.verdict for result in self.results)
        return {verdict: found[verdict] for verdict in OUTCOMES if found[verdict]}

    def outcomes(self, outcome: str) -> int:
        return sum(result.finding.outcome == outcome for result in self.results)

    @property
    def nothing_here(self) -> bool:
        """Return True if this shard has nothing to judge, but others have."""
        return self.shard is not None and self.to_judge_here == 0 < self.to_judge

    @property
    def exit_status(self) -> int:
        if self.interrupted:
            return 128 + self.interrupted
        found = {result.finding.status for result in self.results}
        for status in WORST_FIRST:
            if status in found:
                return status
        if self.outcomes(PASSED) or self.nothing_here:
            return 0
        return CHECK_FOUND_SOMETHING

    def to_data(self) -> dict[str, Any]:
        return {
            "command": self.command,
            "namespace": self.namespace,
            "passed": self.exit_status == 0,
            "exit_status": self.exit_status,
            "interrupted": signal.Signals(self.interrupted).name if self.interrupted else None,
            "shard": self.shard._asdict() if self.shard is not None else None,
            "selected": self.selected,
            "verdicts": self.counts,
            "seconds": round(self.seconds, 3),
            "runs": [result.to_data() for result in self.results],
        }
