"""What a live replay says: values with stable reasons; nothing is raised unless asked for.

The verdict on a run:

- **pass**: at least one effect was carried out live, and nothing differs;
- **drift**: something differs, and the tolerance allows each of it;
- **broken**: at least one difference that it does not allow, an effect that is missing, unexpected or cannot be
  replayed, or nothing that was carried out at all. No effects, and effects that were only served from the record,
  are never a pass.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

from reenact.errors import ReenactError
from reenact.replays.comparing import reasons as codes
from reenact.replays.comparing.drift import StepDrift, Verdict
from reenact.replays.comparing.reasons import Reason
from reenact.replays.live import reasons as live_codes

How = Literal["live", "recorded", "none"]
"""Carried out again; answered from the record; neither."""
StepVerdict = Literal["pass", "drift", "broken", "missing", "unexpected", "not_replayable", "recorded", "ignored"]
"""`recorded`: served from the record, so nothing was judged but that it was asked for as before. `ignored`: a tool call
that only one of the runs has, where tools take no part."""

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
"""Kinds of effects that say nothing about the world: a run in which only these were live has not been replayed live."""
NOT_REPLAYABLE_STATUS = 7


class ReplayBroken(ReenactError):
    """Raised only by `raise_if_broken`."""

    code = "replay_broken"
    exit_status = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepReplay:
    """One effect, or the end of the run. `expected` is what was recorded, `actual` what came now."""

    key: str
    name: str
    kind: str
    seq: int | None
    """Of the request in the recorded run; None: it is not there."""
    kept_in: str | None = None
    """The run in which that is, where it is shared with the one that it was forked from."""
    replay_seq: int | None = None
    """Of the request in the replay; None: there is no such run, or it is not there."""
    how: How
    verdict: StepVerdict
    reasons: tuple[Reason, ...] = ()
    """The first ones, those that break come first; `reason_count` counts all."""
    reason_count: int = 0
    drift: StepDrift | None = None
    """Of the outcome; None when there was none to judge."""
    expected_digest: str | None = None
    actual_digest: str | None = None
    actual: Any = None
    """The encoded outcome that came now, where it is not what was recorded."""
    difference: str | None = None
    """The digest under which the difference is kept, if it is (`keep_differences`)."""
    model: str | None = None
    """The model that was asked instead of the recorded one."""
    receipt: str | None = None
    """The own hash of the receipt that was minted for it."""
    inner: RunReplay | None = None
    """Of the run that it called, where both are there."""

    @property
    def first_reason(self) -> Reason | None:
        return self.reasons[0] if self.reasons else None

    @property
    def is_evidence(self) -> bool:
        if self.kind == "process":  # calling a run says nothing: what that run did does
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
    """The run that the replay made; None: its effects were carried out one by one, by an invoker."""
    effects: int
    """How many the recorded run has."""
    steps: tuple[StepReplay, ...]
    reasons: tuple[Reason, ...] = ()
    """About the run as a whole."""
    tolerance: dict[str, Any]
    masks: list[dict[str, Any]]
    stopped: bool = False
    """Nothing was judged, or carried out, behind the first step that broke."""
    model: str | None = None
    """Another model than the recorded one was asked, on purpose."""
    unused_live_tools: tuple[str, ...] = ()
    """Tools that were to be called live, and that the run never called."""

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
        """Every reason there is, each once, in the order in which they came up."""
        found = [reason.code for reason in self.reasons]
        found += [reason.code for step in self.steps for reason in step.reasons]
        return tuple(dict.fromkeys(found))

    @property
    def counts(self) -> dict[str, int]:
        """Steps by verdict, and how many were carried out live; the end of the run is among the steps."""
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
        about_run = {reason.code for reason in self.reasons if not reason.tolerated} - {live_codes.NOTHING_LIVE}
        # What is missing behind an effect that could not be replayed is missing because of it.
        unreplayable = breaking[:1] == ["not_replayable"] and set(breaking) <= {"not_replayable", "missing"}
        return NOT_REPLAYABLE_STATUS if unreplayable and not about_run else 1

    @property
    def message(self) -> str:
        counts = self.counts
        told = ", ".join(f"{counts[name]} {name.replace('_', ' ')}" for name in STEP_VERDICTS if counts[name])
        why = "" if self.verdict == "pass" or not self.codes else f" ({', '.join(self.codes[:3])})"
        stop = "; stopped at the first that broke" if self.stopped else ""
        live = f"{counts['live']} of {self.effects} effects carried out live"
        return f"live replay of {self.run}: {live}{': ' + told if told else ''}{stop} - {self.verdict.upper()}{why}"

    def __str__(self) -> str:
        return self.message

    def to_data(self) -> dict[str, Any]:
        """Plain JSON, but for values of the actual outcomes, which are encoded trees and so plain too."""
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
        """Drift within the tolerance is not broken."""
        if self.within_tolerance:
            return
        first = self.first_broken
        reason = first.first_reason if first is not None else (self.reasons[0] if self.reasons else None)
        error = ReplayBroken(
            self.message,
            hint=_where(first) or "Name what is to be carried out live: an effect that is served proves nothing.",
            code=reason.code if reason is not None else None,
        )
        error.exit_status = self.exit_status
        raise error


def _where(step: StepReplay | None) -> str:
    if step is None:
        return ""
    place = f"seq {step.seq}" if step.seq is not None else f"seq {step.replay_seq} of the replay"
    return f"The first that broke: {step.name[:80]} at {place}."


def names_of(steps: Iterable[StepReplay]) -> set[str]:
    """What was asked for, also by runs that were called."""
    found: set[str] = set()
    for step in steps:
        found.add(step.name)
        if step.inner is not None:
            found |= names_of(step.inner.steps)
    return found


def about_run(steps: list[StepReplay], effects: int) -> list[Reason]:
    """Why there is nothing that could pass: no effects, or none that was carried out."""
    if not effects and not any(step.is_evidence for step in steps):
        return [Reason(live_codes.EMPTY, "", "no effects")]
    if not any(step.is_evidence for step in steps):
        return [Reason(live_codes.NOTHING_LIVE, "", "nothing was carried out live")]
    return []


def not_replayable(why: str) -> Reason:
    return Reason(codes.NOT_REPLAYABLE, "", why)
