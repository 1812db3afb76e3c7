"""Reasons for which a run stops without having ended. Each can be continued."""

from __future__ import annotations

from typing import Any

from onrecord.errors import OnrecordError
from onrecord.runtime.scheduler.drivers.strands import RunStopped

CUT = "the stream was cut off when the process that read it died"


class Divergence(OnrecordError):
    """The program does not do what the record says. `expected` is what was recorded, `actual` what came now."""

    code = "divergence"
    exit_status = 1
    default_hint = "Put the recorded code back, or record the run again."

    def __init__(self, message: str, *, hint: str = "", code: str | None = None, **where: Any) -> None:
        super().__init__(message, hint=hint, code=code)
        self.where = where
        """seq, key, lane, expected, actual, path (the first differing field), nearest, line: whatever is known."""


class CodeChanged(OnrecordError):
    """The code is pinned to what recorded the run, and is another one now. Nothing has run."""

    code = "code_changed"
    exit_status = 1
    default_hint = "Put the recorded code back, or resume without pinning: what differs is then named."


class InDoubt(OnrecordError):
    """An effect may have happened and must not be repeated unasked."""

    code = "in_doubt"
    exit_status = 6

    def __init__(
        self, message: str, *, hint: str = "", code: str | None = None, key: str = "", seq: int = 0, run: str = ""
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.key = key
        self.seq = seq
        self.run = run
        """Where it is in doubt: the run itself, or one that it has called."""


class Suspended(OnrecordError):
    """The process lets go of the run, which goes on from here when it is resumed."""

    code = "suspended"
    exit_status = 6
    default_hint = "`onrecord resume` goes on where it stands."


class Superseded(OnrecordError):
    """Another process has taken the run over; this one may not write to it any more."""

    code = "superseded"
    exit_status = 6
    default_hint = "Nothing is to be done: the run goes on elsewhere."


class RecordEnded(OnrecordError):
    """A replay has come to the end of what was recorded of an unfinished run."""

    code = "record_ended"
    exit_status = 0
    default_hint = "`onrecord resume` goes on from there."


class RecordCancelled(RecordEnded):
    """A replay has come to where a run was cancelled from outside. Its agent was never told, and ends as the record
    does: whoever asked for the replay sees a cancellation."""


class NotReplayable(OnrecordError):
    """What was recorded has no value that could be handed over again."""

    code = "not_replayable"
    exit_status = 7
    default_hint = "Let the effect return data: what it returned before is not on record."

    def __init__(self, message: str, *, hint: str = "", code: str | None = None, seq: int = 0) -> None:
        super().__init__(message, hint=hint, code=code)
        self.seq = seq
        """Of the answer that has no value."""


class NotCarriedOut(OnrecordError):
    """In a live replay, or in the tail of a fork, an effect was asked for that must not be carried out unasked, and
    that the other record cannot answer either. It has not happened."""

    code = "not_carried_out"
    exit_status = 6


class EffectConflict(OnrecordError):
    """A replay key was used for something else before. Nothing has run."""

    code = "effect_conflict"
    exit_status = 1
    default_hint = "Give each effect a key of its own, and the same key only to the same effect."


class Denied(OnrecordError):
    """Policy said no before anything happened; the denial is on record."""

    code = "denied"
    exit_status = 1


class BudgetExceeded(Denied):
    """A limit of the run's budget is reached: this effect, and every later one, is denied."""

    code = "budget_exceeded"


class OutsideRun(OnrecordError):
    """An effect was called outside of any run, where that is not allowed."""

    code = "outside_run"
    exit_status = 2
    default_hint = "Call it from an agent, or inside `with onrecord.record(...)`."


__all__ = [
    "CUT",
    "BudgetExceeded",
    "CodeChanged",
    "Denied",
    "Divergence",
    "EffectConflict",
    "InDoubt",
    "NotCarriedOut",
    "NotReplayable",
    "OutsideRun",
    "RecordCancelled",
    "RecordEnded",
    "RunStopped",
    "Superseded",
    "Suspended",
]
