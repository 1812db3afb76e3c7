"""Results of a comparison of two runs."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from onrecord.analysis.diff.lane_alignment import Status
from onrecord.analysis.diff.reasons import WORDS, Reason
from onrecord.core.lane_names import shown_lane
from onrecord.runtime.engine.stops import Divergence

Verdict = Literal["same", "reordered", "diverged", "unknown", "empty"]
"""`reordered`: both runs did the same in another order. `unknown`: nothing is known to differ, but contents are
erased. `empty`: neither run did anything, so there is nothing to compare."""

STATUSES: tuple[Status, ...] = ("matched", "changed", "added", "removed", "moved", "unknown")


class ComparedRun(msgspec.Struct, frozen=True):
    run: str
    namespace: str
    events: int
    """The number of behavioural events, without bookkeeping."""
    lanes: int
    head: str

    @property
    def empty(self) -> bool:
        return self.events == 0


class EventPlace(msgspec.Struct, frozen=True):
    """An event and its position."""

    run: str
    seq: int
    id: str
    kind: str
    lane: str
    position: int
    """The position among the behavioural events of its lane, from 1."""
    key: str | None
    match: str | None
    """The match digest; None once erased."""


class FirstDivergence(msgspec.Struct, frozen=True):
    position: int
    """The position in the lane, or among all behavioural events if only the interleaving differs."""
    lane: str
    """The lane of the first run, or of the second if only that has one; empty for the run as a whole."""
    reason: Reason
    expected: EventPlace | None
    """None if the first run has no event there."""
    actual: EventPlace | None
    differences: dict[str, Any] | None
    """The differences of the contents, if both exist."""

    @property
    def expected_hash(self) -> str | None:
        return self.expected.match if self.expected is not None else None

    @property
    def actual_hash(self) -> str | None:
        return self.actual.match if self.actual is not None else None

    @property
    def where(self) -> str:
        """Return the lane and position. "position" avoids confusion with a seq."""
        return f"lane {shown_lane(self.lane)}, position {self.position}" if self.lane else f"position {self.position}"

    @property
    def message(self) -> str:
        return f"{self.where}: {WORDS[self.reason]} ({_side(self.expected)}; {_side(self.actual)})"


class RunChange(msgspec.Struct, frozen=True):
    """An event that did not match, or a pair of events that differ."""

    status: Status
    reason: Reason
    expected: EventPlace | None
    actual: EventPlace | None
    differences: dict[str, Any] | None


class RunComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Result of comparing two runs: the first divergence, its reason, and the status of every other event."""

    verdict: Verdict
    expected: ComparedRun
    actual: ComparedRun
    first: FirstDivergence | None = None
    begun_differently: list[str] = []
    """Header facts that differ (agent, input, code, …): not behaviour, but a possible cause of the divergence."""
    aligned: bool
    """False if only the first divergence was searched; then of the fields below only `unknown` and `reads` are set."""
    counts: dict[str, int] = {}
    """Events by status; an event of both runs counts once."""
    changes: list[RunChange] = []
    """The first events that did not match."""
    changes_in_all: int = 0
    unknown: int = 0
    """Events whose contents are erased on either side."""
    lanes_compared: int = 0
    reads: dict[str, int] = {}
    """Digests read in each lane."""

    @property
    def same(self) -> bool:
        return self.verdict == "same"

    @property
    def message(self) -> str:
        runs = f"runs {self.expected.run} and {self.actual.run}"
        if self.verdict == "same":
            return f"{runs} did the same: {self.expected.events} events"
        if self.verdict == "empty":
            return f"{runs} are both empty: there is nothing to compare"
        empty = next((one.run for one in (self.expected, self.actual) if one.empty), None)
        note = f" (run {empty} is empty)" if empty is not None else ""
        where = f" at {self.first.message}" if self.first is not None else ""
        if self.verdict == "unknown":
            return f"{runs}: nothing is known to differ, {self.unknown} erased events cannot be compared{note}{where}"
        done = "did the same in another order" if self.verdict == "reordered" else "diverge"
        return f"{runs} {done}{note}{where}"

    def to_data(self) -> dict[str, Any]:
        """Return plain JSON data."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        data["message"] = self.message
        data["expected"]["empty"], data["actual"]["empty"] = self.expected.empty, self.actual.empty
        if self.first is not None:
            data["first"] |= {
                "message": self.first.message,
                "expected_hash": self.first.expected_hash,
                "actual_hash": self.first.actual_hash,
            }
        return data

    def raise_if_diverged(self) -> None:
        """Raise Divergence unless the runs are known to have done the same, in the same order."""
        if self.verdict == "same":
            return
        code = {"empty": "nothing_to_compare", "unknown": "contents_erased"}.get(self.verdict, f"runs_{self.verdict}")
        first = self.first
        raise Divergence(
            self.message,
            hint="`onrecord show --event N` shows an event of either run.",
            code=code,
            seq=first.expected.seq if first is not None and first.expected is not None else None,
            lane=first.lane if first is not None else None,
            reason=first.reason if first is not None else None,
        )


def _side(place: EventPlace | None) -> str:
    return "nothing" if place is None else f"{place.kind} at seq {place.seq} of run {place.run}"
