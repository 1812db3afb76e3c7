"""What a comparison of two runs says: values that can be shown, kept, and acted upon."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from reenact.effect.stopping import Divergence
from reenact.replays.divergence.aligned_lanes import Status
from reenact.replays.divergence.reasons import WORDS, Reason

Verdict = Literal["same", "reordered", "diverged", "unknown", "empty"]
"""`reordered`: all of it happened in both, in another order. `unknown`: nothing is known to differ, but contents are
erased. `empty`: neither run did anything, so there is nothing to compare."""

STATUSES: tuple[Status, ...] = ("matched", "changed", "added", "removed", "moved", "unknown")


class ComparedRun(msgspec.Struct, frozen=True):
    run: str
    namespace: str
    events: int
    """Behavioural ones: bookkeeping takes no part."""
    lanes: int
    head: str

    @property
    def empty(self) -> bool:
        return self.events == 0


class EventPlace(msgspec.Struct, frozen=True):
    """An event and where it stands."""

    run: str
    seq: int
    id: str
    kind: str
    lane: str
    position: int
    """Its place among the behavioural events of its lane, from 1."""
    key: str | None
    match: str | None
    """The digest of what it means; None once erased."""


class FirstDivergence(msgspec.Struct, frozen=True):
    position: int
    """In the lane; where lanes are equal and only their interleaving differs, among all behavioural events."""
    lane: str
    """Of the first run, or of the second where only that one has it; empty: the run as a whole."""
    reason: Reason
    expected: EventPlace | None
    """None: the first run has nothing there."""
    actual: EventPlace | None
    differences: dict[str, Any] | None
    """Where the contents differ, when both are there."""

    @property
    def expected_hash(self) -> str | None:
        return self.expected.match if self.expected is not None else None

    @property
    def actual_hash(self) -> str | None:
        return self.actual.match if self.actual is not None else None

    @property
    def where(self) -> str:
        """In words that nobody takes for the number of an event."""
        return f"lane {self.lane}, place {self.position}" if self.lane else f"place {self.position}"

    @property
    def message(self) -> str:
        return f"{self.where}: {WORDS[self.reason]} ({_side(self.expected)}; {_side(self.actual)})"


class RunChange(msgspec.Struct, frozen=True):
    """One event that did not match, or one of each run that stand in each other's place."""

    status: Status
    reason: Reason
    expected: EventPlace | None
    actual: EventPlace | None
    differences: dict[str, Any] | None


class RunComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Where two runs part, why, and what became of the rest."""

    verdict: Verdict
    expected: ComparedRun
    actual: ComparedRun
    first: FirstDivergence | None = None
    begun_differently: list[str] = []
    """Facts that differ (agent, input, code, …): no behaviour, but perhaps why the runs part."""
    aligned: bool
    """False: only the first divergence was looked for, and nothing below is filled in but `unknown` and `reads`."""
    counts: dict[str, int] = {}
    """Events by what became of them; one that is in both runs counts once."""
    changes: list[RunChange] = []
    """The first of all that did not match."""
    changes_in_all: int = 0
    unknown: int = 0
    """Events whose contents are erased on either side."""
    lanes_compared: int = 0
    reads: dict[str, int] = {}
    """Digests read in each lane that was looked into."""

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
        done = "did the same in another order" if self.verdict == "reordered" else "part"
        return f"{runs} {done}{note}{where}"

    def to_data(self) -> dict[str, Any]:
        """Plain JSON."""
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
        """Raises Divergence unless the runs are known to have done the same, in the same order."""
        if self.verdict == "same":
            return
        code = {"empty": "nothing_to_compare", "unknown": "contents_erased"}.get(self.verdict, f"runs_{self.verdict}")
        first = self.first
        raise Divergence(
            self.message,
            hint="`reenact show --event N` shows an event of either run.",
            code=code,
            seq=first.expected.seq if first is not None and first.expected is not None else None,
            lane=first.lane if first is not None else None,
            reason=first.reason if first is not None else None,
        )


def _side(place: EventPlace | None) -> str:
    return "nothing" if place is None else f"{place.kind} at seq {place.seq} of run {place.run}"
