"""A live replay beside its run, step by step: the verdict, and what both took and used."""

from __future__ import annotations

from typing import Any, NamedTuple

from onrecord.analysis.live import RunReplay
from onrecord.analysis.live.results import StepReplay
from onrecord.journal.reader import JournalReader
from onrecord.reports.effects import ReportedEffect, effects_of
from onrecord.reports.usages import ReadAnswer

MEASURES = ("tokens", "cost", "latency")
"""In tokens, US dollars and microseconds."""
REASONS = 3


class _Measured(NamedTuple):
    tokens: int | None
    cost: float | None
    latency: int | None


_NOTHING = _Measured(None, None, None)


def measured_replay(
    judged: RunReplay, run: JournalReader, replay: JournalReader, read: ReadAnswer, *, after: int, limit: int
) -> dict[str, Any]:
    """The steps behind the first `after`; `totals` are of all steps. `next` is the `after` of the page that follows."""
    effects, others = _by_seq(run, read), _by_seq(replay, read)
    steps = [_step(one, effects, others, run.run) for one in judged.steps]
    shown = steps[after : after + limit]
    data = judged.to_data()
    return {
        **{name: data[name] for name in data if name != "steps"},
        "totals": {name: _total(steps, name) for name in MEASURES},
        "steps": shown,
        "steps_in_all": len(steps),
        "next": after + limit if after + limit < len(steps) else None,
    }


def _by_seq(reader: JournalReader, read: ReadAnswer) -> dict[int, ReportedEffect]:
    return {effect.seq: effect for effect in effects_of(reader, read)}


def _step(
    step: StepReplay, effects: dict[int, ReportedEffect], others: dict[int, ReportedEffect], run: str
) -> dict[str, Any]:
    here = step.kept_in in (None, run)  # what is shared with a parent was not measured in this run
    was = _measured(effects.get(step.seq or 0)) if here else _NOTHING
    came = _measured(others.get(step.replay_seq or 0))
    return {
        "key": step.key,
        "name": step.name,
        "kind": step.kind,
        "seq": step.seq,
        "kept_in": step.kept_in,
        "replay_seq": step.replay_seq,
        "how": step.how,
        "verdict": step.verdict,
        "model": step.model,
        "reasons": [_reason(one.to_data()) for one in step.reasons[:REASONS]],
        "reason_count": step.reason_count,
        "expected": was._asdict(),
        "actual": came._asdict() if step.how != "recorded" else _NOTHING._asdict(),
    }


def _reason(reason: dict[str, Any]) -> dict[str, Any]:
    """Without values: these are one click away."""
    return {name: reason[name] for name in ("code", "path", "tolerated") if name in reason}


def _measured(effect: ReportedEffect | None) -> _Measured:
    if effect is None:
        return _NOTHING
    used = effect.used
    tokens = used.tokens if used is not None and used.tokens else None
    return _Measured(tokens, None if used is None else used.cost, effect.took_us)


def _total(steps: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Of steps that both have; None where nobody said anything."""
    both = [one for one in steps if one["expected"][name] is not None and one["actual"][name] is not None]
    if not both:
        return {"expected": None, "actual": None, "steps": 0}
    sums = {side: sum(one[side][name] for one in both) for side in ("expected", "actual")}
    return {**sums, "steps": len(both)}
