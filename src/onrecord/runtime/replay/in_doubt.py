"""Effects in doubt: requested, without a recorded outcome. They may have happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onrecord.core.events import ActionFailed, ActionSucceeded, EffectSettled, Event
from onrecord.runtime.engine.stops import InDoubt

if TYPE_CHECKING:
    from onrecord.runtime.engine.open_effect import OpenEffect
    from onrecord.runtime.engine.run import LiveRun

DONE, RETRY, FAIL = "done", "retry", "fail"


def settling_events(key: str, decision: str, value: Any, error: Exception | None, by: str | None) -> list[Event]:
    """Return the decision, with its value or reason, and the outcome. A retry has no outcome yet."""
    events: list[Event] = [EffectSettled(key, decision, value, by)]
    if decision != RETRY:
        events.append(ActionSucceeded(key, value) if error is None else ActionFailed(key, error))
    return events


def settling_hint(settle: str) -> str:
    """Return the three commands that settle an effect; each works as printed."""
    choices = (("It happened", "--done null"), ("it did not", "--retry"), ("it failed", "--fail failed"))
    return f"Find out. {'; '.join(f'{case}: {settle} {option}' for case, option in choices)}."


def effect_in_doubt(run: LiveRun, effect: OpenEffect) -> InDoubt:
    recorded = effect.recorded
    seq = recorded.row.seq if recorded is not None else 0
    return InDoubt(
        f"run {run.name}: {effect.spec.name} at seq {seq} was begun and may have happened; "
        "it is not repeated without a decision",
        hint=settling_hint(f"onrecord settle {run.name} --effect {seq}"),
        key=effect.key,
        seq=seq,
        run=run.name,
    )
