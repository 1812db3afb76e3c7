"""Outcomes as the agent receives them: the same value, or the same error, now and in every replay."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onrecord.core.codec import decode, encode
from onrecord.core.events import ActionFailed, ActionSucceeded, Event, Resumed, WaitResolved
from onrecord.errors import Damaged, OnrecordError
from onrecord.runtime.engine.open_effect import MadeOutcome, OpenEffect
from onrecord.runtime.engine.stops import CUT, BudgetExceeded, Denied, NotReplayable, RunStopped
from onrecord.runtime.replay.records import RecordedDenial, RecordedOutcome
from onrecord.runtime.scheduler.items import Cut, EffectCancelled

if TYPE_CHECKING:
    from onrecord.journal.reader import JournalReader
    from onrecord.runtime.engine.run import LiveRun
    from onrecord.store.contract import EventRow

_PLAIN = frozenset({str, int, float, bool, type(None)})
_MEMBER = {"ActionSucceeded": "output", "ActionFailed": "error", "WaitResolved": "resolution", "Resumed": "value"}
"""The member of an outcome that the agent receives."""


def open_outcome(run: LiveRun, effect: OpenEffect) -> Any:
    """Return the value of a delivered outcome, or raise its error."""
    outcome = effect.outcome
    if isinstance(outcome, MadeOutcome):
        event = outcome.event
        is_plain = type(event) is ActionSucceeded and type(event.output) in _PLAIN
        value = event.output if is_plain else _open_made(run, effect, outcome)  # type: ignore[attr-defined]
        if run.guard is not None:
            run.count_usage(effect, outcome.seq, value)
        return value
    if isinstance(outcome, RecordedOutcome):
        return open_recorded(run, effect, outcome)
    if isinstance(outcome, EffectCancelled):
        raise asyncio.CancelledError
    assert isinstance(outcome, Cut)
    raise ConnectionError(CUT)


def _open_made(run: LiveRun, effect: OpenEffect, outcome: MadeOutcome) -> Any:
    answer: Event = outcome.event
    if isinstance(answer, ActionFailed):
        raise _same_error(outcome.error, answer.error, classes=not run.reader.holds_foreign)
    value: Any = None
    if isinstance(answer, ActionSucceeded):
        value = answer.output
    elif isinstance(answer, WaitResolved):
        value = answer.resolution
    elif isinstance(answer, Resumed):
        value = answer.value
    if type(value) in _PLAIN or effect.spec.handed_as_is:
        return value
    return own_copy(value, effect.spec.annotation, classes=not run.reader.holds_foreign)


def own_copy(value: Any, annotation: Any = None, *, classes: bool = True) -> Any:
    """Return the value as the record will give it: a copy of its own."""
    if type(value) in _PLAIN:
        return value
    encoded = encode(value)
    if not encoded.replayable:
        return value  # a value without a data form cannot be delivered twice; the record says so
    return decode(
        _copied(encoded.tree), loaded_classes=classes, annotation=annotation, artifact=encoded.artifacts.__getitem__
    )


def _copied(tree: Any) -> Any:
    """Copy the tree: the effect may keep the value and change it later."""
    if type(tree) is dict:
        return {name: item if type(item) in _PLAIN else _copied(item) for name, item in tree.items()}
    if type(tree) is list:
        return [item if type(item) in _PLAIN else _copied(item) for item in tree]
    return tree


def _same_error(error: BaseException | None, recorded: Any, *, classes: bool) -> BaseException:
    """Return the error itself if the record gives one of its class, otherwise what the record gives."""
    again = decode(encode(recorded).tree, loaded_classes=classes)
    if error is not None and type(again) is type(error):
        return error
    return again if isinstance(again, BaseException) else OnrecordError(f"the effect failed: {again!r}")


def open_recorded(run: LiveRun, effect: OpenEffect, outcome: RecordedOutcome, *, is_counted: bool = True) -> Any:
    """Return the recorded value, or raise the recorded error. A damaged record stops the run."""
    spec, row, reader = effect.spec, outcome.row, run.reader
    if row.seq <= 0 and run.history is not None:  # shared with the run that it was forked from
        reader, row = run.history.reader_of(row), run.history.own_row(row)
    try:
        tree = reader.tree_of(row, outcome.committed)
    except Damaged as damage:
        run.stop_here(damage)
    if tree is None:
        raise _stop(run, f"the outcome at seq {row.seq} of run {reader.run} was erased")
    if row.kind == "ActionDenied":
        raise _denial(tree.get("reason"))
    inner = tree.get(_MEMBER[row.kind])
    if run.secrets.redacts:
        inner = _unsealed(run, reader, row, inner)
    if type(inner) in _PLAIN and row.kind != "ActionFailed":
        if run.guard is not None and is_counted:
            run.count_usage(effect, outcome.seq, inner)
        return inner
    if row.kind != "ActionFailed" and (kind := opaque_type(inner)) is not None:
        result = f"the result of {spec.name} at seq {row.seq} of run {reader.run}"
        message = f"{result} has no value that could be recorded: of the {kind} in it only the type was"
        raise _stop(run, message, row.seq if reader is run.reader else 0)
    missing: list[str] = []
    try:
        value = reader.decoded(inner, spec.annotation, missing=missing)
    except Damaged as damage:
        run.stop_here(damage)
    if missing:
        run.stop_here(class_missing(missing, f"the result of {spec.name} at seq {row.seq}", reader.run, row.seq))
    if row.kind == "ActionFailed":
        raise value if isinstance(value, BaseException) else OnrecordError(f"the effect failed: {value!r}")
    if run.guard is not None and is_counted:
        run.count_usage(effect, outcome.seq, value)
    return value


def open_denial(run: LiveRun, denial: RecordedDenial) -> Denied:
    """Return the error of a recorded denial."""
    assert run.history is not None
    return _denial(run.history.members(denial.row)["reason"])


def _unsealed(run: LiveRun, reader: JournalReader, row: EventRow, tree: Any) -> Any:
    """Unseal a value. A replay may continue with placeholders; a live run would send them out."""
    try:
        return run.secrets.unseal(reader, row, tree, needed=run.journal is not None)
    except OnrecordError as reason:
        run.stop_here(reason)


def _stop(run: LiveRun, message: str, seq: int = 0) -> RunStopped:
    """Stop the run: without the value the agent would behave as it never did."""
    reason = NotReplayable(message, seq=seq)
    run.stop(reason)
    return RunStopped(reason)


def class_missing(labels: list[str], what: str, run: str, seq: int = 0) -> NotReplayable:
    """Return the stop of a run whose agent would get a stand-in for a value that had its class when it was recorded.

    With a stand-in `isinstance` and `except` take another branch than the recording program did.
    """
    module = labels[0].partition(":")[0]
    return NotReplayable(
        f"the class {labels[0]} of {what} of run {run} is missing here or has changed; nothing was written",
        hint=f"Use the code that recorded the run. If only a function imports {module}, import it in the agent's file.",
        code="class_missing",
        seq=seq,
    )


def _denial(reason: Any) -> Denied:
    code = reason.get("code", "denied") if isinstance(reason, dict) else "denied"
    message = str(reason.get("message", "")) if isinstance(reason, dict) else str(reason)
    hint = str(reason.get("hint", "")) if isinstance(reason, dict) else ""
    cls = BudgetExceeded if code == BudgetExceeded.code else Denied
    return cls(message, hint=hint, code=None if code == cls.code else code)


def is_opaque(tree: Any) -> bool:
    """Return True if a part of the value was recorded by its type only."""
    return opaque_type(tree) is not None


def opaque_type(tree: Any) -> str | None:
    """Return the type of a part that was recorded by its type only."""
    todo = [tree]
    while todo:
        value = todo.pop()
        if type(value) is dict:
            if len(value) == 1 and "$opaque" in value:
                found = value["$opaque"]
                return str(found.get("type", "thing")) if type(found) is dict else "thing"
            todo.extend(value.values())
        elif type(value) is list:
            todo.extend(value)
    return None
