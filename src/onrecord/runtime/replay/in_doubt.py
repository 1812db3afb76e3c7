"""An effect in doubt: requested, and no answer on record. It may have happened.

Decided without looking at anything but what is known of the effect and of its record.
"""

from __future__ import annotations

from onrecord.runtime.engine.open_effect import EffectSpec
from onrecord.runtime.engine.stops import InDoubt
from onrecord.runtime.replay.records import RecordedRequest

DONE, RETRY, FAIL = "done", "retry", "fail"


def may_be_done_again(spec: EffectSpec, recorded: RecordedRequest) -> bool:
    """Whatever can be repeated without harm is; an unknown side effect only on an operator's word."""
    if not spec.once:
        return True
    return recorded.not_begun or recorded.settled is not None  # a settlement but for `retry` comes with an answer


def settling_hint(settle: str) -> str:
    """Return the three commands that settle an effect; each works as printed."""
    choices = (("It happened", "--done null"), ("it did not", "--retry"), ("it failed", "--fail failed"))
    return f"Find out. {'; '.join(f'{case}: {settle} {option}' for case, option in choices)}."


def effect_in_doubt(run: str, spec: EffectSpec, recorded: RecordedRequest) -> InDoubt:
    seq = recorded.row.seq
    settle = f"onrecord settle {run} --effect {seq}"
    return InDoubt(
        f"run {run}: {spec.name} at seq {seq} was begun and may have happened; it is not repeated unasked",
        hint=settling_hint(settle),
        key=recorded.key,
        seq=seq,
        run=run,
    )
