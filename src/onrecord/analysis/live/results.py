"""Results of a live replay: values with stable reason codes. Only `raise_if_broken` raises.

The verdict on a run:

- **pass**: at least one effect was executed live, and nothing differs.
- **drift**: the tolerance allows every difference.
- **broken**: a difference that it does not allow, an effect that is missing, unexpected or not replayable, or no
  effect that was executed. A run without effects, or with recorded answers only, never passes.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

from onrecord.analysis.compare import reasons as codes
from onrecord.analysis.compare.drift import StepDrift, Verdict
from onrecord.analysis.compare.reasons import Reason
from onrecord.analysis.live import reasons as live_codes
from onrecord.errors import OnrecordError

How = Literal["live", "recorded", "none"]
"""Executed again, answered from the record, or neither."""
StepVerdict = Literal["pass", "drift", "broken", "missing", "unexpected", "not_replayable", "recorded", "ignored"]
"""`recorded`: served from the record, so only the request was judged. `ignored`: a tool call of one run only, where
the tolerance ignores tools."""

STEP_VERDICTS: tuple[StepVerdict, ...] = (
    "pass",
    "drift",
    "broken",
    "missing",
    "unexpected",
    "not_replayable",
    "recorded",
    "ignored",
)
BREAKING: frozenset[str] = frozenset({"broken", "missing", "unexpected", "not_replayable"})
NO_EVIDENCE: frozenset[str] = frozenset({"sleep", "await_event", "clock", "random", "end"})
"""Kinds of effects that test nothing outside: a run in which only these were live was not replayed live."""
NOT_REPLAYABLE_STATUS = 7


class ReplayBroken(OnrecordError):
    """Raised by `raise_if_broken`."""

    code = "replay_broken"
    exit_status = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepReplay:
    """Result of one effect, or of the end of the run. `expected` is the recorded side, `actual` the new one."""

    key: str
    name: str
    kind: str
    seq: int | None
    """The seq of the request in the recorded run; None if it has none."""
    kept_in: str | None = None
    """The run that stores the request, if a fork shares it with its parent."""
    replay_seq: int | None = None
    """The seq of the request in the replay; None if there is no such run or request."""
    how: How
    verdict: StepVerdict
    reasons: tuple[Reason, ...] = ()
    """The first reasons, broken ones before tolerated ones; `reason_count` counts all."""
    reason_count: int = 0
    drift: StepDrift | None = None
    """Drift of the outcome; None if there was none to judge."""
    expected_digest: str | None = None
    actual_digest: str | None = None
    actual: Any = None
    """The new encoded outcome, if it differs from the recorded one."""
    difference: str | None = None
    """The digest of the kept difference (`keep_differences`)."""
    model: str | None = None
    """The model called instead of the recorded one."""
    receipt: str | None = None
    """The hash of the receipt for the call."""
    inner: RunReplay | None = None
    """The result of the child run, if both sides have it."""

    @property
    def first_reason(self) -> Reason | None:
        return self.reasons[0] if self.reasons else None

    @property
    def is_evidence(self) -> bool:
        if self.kind == "process":  # calling a run proves nothing; its effects do
            return self.inner is not None and self.inner.counts["live"] > 0
        return self.how == "live" and self.kind not in NO_EVIDENCE and self.verdict != "ignored"

    def to_data(self) -> dict[str, Any]:
        data = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        data["reasons"] = [reason.to_data() for reason in self.reasons]
        data["drift"] = None if self.drift is None else self.drift.to_data()
        data["inner"] = None if self.inner is None else self.inner.to_data()
        return data


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunReplay:
    run: str
    replay: str | None
    """The run that the replay made; None if an invoker executed the effects one by one."""
    effects: int
    """The number of effects in the recorded run."""
    steps: tuple[StepReplay, ...]
    reasons: tuple[Reason, ...] = ()
    """Reasons that concern the run as a whole."""
    tolerance: dict[str, Any]
    masks: list[dict[str, Any]]
    stopped: bool = False
    """True if the replay stopped at the first broken step."""
    model: str | None = None
    """The model called instead of the recorded one."""
    unused_live_tools: tuple[str, ...] = ()
    """Tools named as live that the run never called."""

    @property
    def verdict(self) -> Verdict:
        if any(step.verdict in BREAKING for step in self.steps) or any(not one.tolerated for one in self.reasons):
            return "broken"
        return "drift" if self.reasons or any(step.verdict == "drift" for step in self.steps) else "pass"

    @property
    def passed(self) -> bool:
        return self.verdict == "pass"

    @property
    def within_tolerance(self) -> bool:
        return self.verdict != "broken"

    @property
    def codes(self) -> tuple[str, ...]:
        """Return every reason code once, in order of appearance."""
        found = [reason.code for reason in self.reasons]
        found += [reason.code for step in self.steps for reason in step.reasons]
        return tuple(dict.fromkeys(found))

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of steps by verdict, and of live ones. The end of the run is a step too."""
        by_verdict = Counter(step.verdict for step in self.steps)
        counts: dict[str, int] = {verdict: by_verdict[verdict] for verdict in STEP_VERDICTS}
        return counts | {"live": sum(step.is_evidence for step in self.steps)}

    @property
    def first_broken(self) -> StepReplay | None:
        return next((step for step in self.steps if step.verdict in BREAKING), None)

    @property
    def exit_status(self) -> int:
        if self.within_tolerance:
            return 0
        breaking = [step.verdict for step in self.steps if step.verdict in BREAKING]
        run_codes = {reason.code for reason in self.reasons if not reason.tolerated} - {live_codes.NOTHING_LIVE}
        # Effects that are missing after one that could not be replayed are missing because of it.
        unreplayable = breaking[:1] == ["not_replayable"] and set(breaking) <= {"not_replayable", "missing"}
        return NOT_REPLAYABLE_STATUS if unreplayable and not run_codes else 1

    @property
    def message(self) -> str:
        counts = self.counts
        counted = ", ".join(f"{counts[name]} {name.replace('_', ' ')}" for name in STEP_VERDICTS if counts[name])
        why = "" if self.verdict == "pass" or not self.codes else f" ({', '.join(self.codes[:3])})"
        stop = "; stopped at the first that broke" if self.stopped else ""
        live = f"{counts['live']} of {self.effects} effects carried out live"
        return (
            f"live replay of {self.run}: {live}{': ' + counted if counted else ''}{stop} - {self.verdict.upper()}{why}"
        )

    def __str__(self) -> str:
        return self.message

    def to_data(self) -> dict[str, Any]:
        """Return plain JSON data. Outcomes are encoded trees."""
        return {
            "run": self.run,
            "replay": self.replay,
            "verdict": self.verdict,
            "codes": list(self.codes),
            "message": self.message,
            "effects": self.effects,
            "counts": self.counts,
            "stopped": self.stopped,
            "model": self.model,
            "unused_live_tools": list(self.unused_live_tools),
            "tolerance": self.tolerance,
            "masks": self.masks,
            "reasons": [reason.to_data() for reason in self.reasons],
            "steps": [step.to_data() for step in self.steps],
        }

    def raise_if_broken(self) -> None:
        """Raise ReplayBroken if the verdict is broken. Drift within the tolerance is not."""
        if self.within_tolerance:
            return
        first = self.first_broken
        reason = first.first_reason if first is not None else (self.reasons[0] if self.reasons else None)
        error = ReplayBroken(
            self.message,
            hint=_describe_step(first) or "Name the effects to execute live: a recorded answer proves nothing.",
            code=reason.code if reason is not None else None,
        )
        error.exit_status = self.exit_status
        raise error


def _describe_step(step: StepReplay | None) -> str:
    if step is None:
        return ""
    place = f"seq {step.seq}" if step.seq is not None else f"seq {step.replay_seq} of the replay"
    return f"The first broken step: {step.name[:80]} at {place}."


def effect_names(steps: Iterable[StepReplay]) -> set[str]:
    """Return the names of all requested effects, child runs included."""
    found: set[str] = set()
    for step in steps:
        found.add(step.name)
        if step.inner is not None:
            found |= effect_names(step.inner.steps)
    return found


def find_empty_reasons(steps: list[StepReplay], effects: int) -> list[Reason]:
    """Return the reason why nothing can pass: no effects, or none that was executed."""
    if not effects and not any(step.is_evidence for step in steps):
        return [Reason(live_codes.EMPTY, "", "no effects")]
    if not any(step.is_evidence for step in steps):
        return [Reason(live_codes.NOTHING_LIVE, "", "nothing was carried out live")]
    return []


def not_replayable(why: str) -> Reason:
    return Reason(codes.NOT_REPLAYABLE, "", why)
