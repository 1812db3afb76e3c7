"""What was found about many runs, as values, and the one exit status that follows.

    verdict         counts as
    same            passed    the code did what the record says, to its end
    unfinished      passed    the same, as far as an unfinished record goes
    valid           passed    everything recorded is as it was written
    pass, drift     passed    carried out again, and the same, or different within the tolerance
    broken          failed    carried out again, and different by more than that
    diverged        failed    the code does something else
    not_replayable  failed    an effect has no value that could be handed over again
    damaged         failed    the record is not as it was written
    error           error     it could not be judged: its code was not found, or failed to load
    died            error     the process that judged it was killed, or ended itself
    timed_out       error     it took longer than it may
    not_judged      error     everything was interrupted before its turn
    skipped         skipped   there is nothing to judge, and the reason is given

Nothing of nothing is not a pass: somebody has to have passed. Only a share of the runs that happens to be empty, of a
selection that is not, passes without.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from reenact.replays.fleet.sharding import Shard

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
"""Exit statuses of single runs. A damaged record outweighs everything; 7 is only left where nothing diverged."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What came of judging one run."""

    verdict: str
    events: int = 0
    seconds: float = 0.0
    code: str = ""
    message: str = ""
    hint: str = ""
    where: dict[str, Any] = {}
    """The place of a divergence: seq, key, lane, expected, actual, path, …, as JSON."""
    output: str = ""
    """The end of what the agent's code wrote, where it did not pass."""
    status: int = 0
    """The exit status that this alone would mean."""
    report: dict[str, Any] | None = None
    """What verification found, in full."""

    @property
    def outcome(self) -> str:
        return OUTCOMES[self.verdict]

    @property
    def passed(self) -> bool:
        return self.outcome == PASSED

    def problem(self) -> dict[str, Any] | None:
        if not self.code:
            return None
        told = {"code": self.code, "message": self.message, "hint": self.hint, **self.where}
        return {**told, "output": self.output} if self.output else told


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
    """Results in the order in which the runs were begun, whichever was judged first."""

    command: str
    namespace: str
    results: Sequence[RunResult]
    selected: int
    """Runs that the filter chose, in all shares."""
    to_judge: int
    """Those of them that are not skipped by rule."""
    to_judge_here: int
    """Those of them that are in this share."""
    shard: Shard | None = None
    interrupted: int = 0
    """The signal that ended it early."""
    seconds: float = 0.0

    @property
    def counts(self) -> dict[str, int]:
        """How many of each verdict, in the order of the table above."""
        found = Counter(result.finding.verdict for result in self.results)
        return {verdict: found[verdict] for verdict in OUTCOMES if found[verdict]}

    def outcomes(self, outcome: str) -> int:
        return sum(result.finding.outcome == outcome for result in self.results)

    @property
    def nothing_here(self) -> bool:
        """The share has nothing to judge, and others have."""
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
