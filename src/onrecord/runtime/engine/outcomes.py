"""What the agent is handed: the same value, or the same error, now and whenever the run comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onrecord.core.codec import decode, encode
from onrecord.core.events import ActionFailed, ActionSucceeded, Event, Resumed, WaitResolved
from onrecord.errors import Damaged, OnrecordError
from onrecord.runtime.engine.stops import BudgetExceeded, Denied, NotReplayable, RunStopped

if TYPE_CHECKING:
    from onrecord.journal.reader import JournalReader
    from onrecord.runtime.engine.open_effect import EffectSpec, OpenEffect
    from onrecord.runtime.engine.run import LiveRun
    from onrecord.runtime.replay.records import RecordedAnswer
    from onrecord.store.contract import EventRow

_PLAIN = frozenset({str, int, float, bool, type(None)})
_MEMBER = {"ActionSucceeded": "output", "ActionFailed": "error", "WaitResolved": "resolution", "Resumed": "value"}
"""What there is to hand over of an answer."""


def open_answer(run: LiveRun, ticket: OpenEffect) -> Any:
    """The value, or raises the error."""
    if ticket.answer is not None:
        value = _fresh(run, ticket, ticket.answer)
        if run.guard is not None:
            run.counts(ticket.spec, ticket.answer_seq, value)
        return value
    if ticket.recorded is None and ticket.error is not None:
        raise ticket.error  # it was refused when the record had ended
    assert ticket.recorded is not None
    assert ticket.recorded.answer is not None
    return open_recorded(run, ticket.spec, ticket.recorded.answer)


def _fresh(run: LiveRun, ticket: OpenEffect, answer: Event) -> Any:
    if isinstance(answer, ActionFailed):
        raise _same_error(ticket.error, answer.error, classes=not run.reader.holds_foreign)
    value: Any = None
    if isinstance(answer, ActionSucceeded):
        value = answer.output
    elif isinstance(answer, WaitResolved):
        value = answer.resolution
    elif isinstance(answer, Resumed):
        value = answer.value
    if type(value) in _PLAIN or ticket.spec.handed_as_is:
        return value
    return own_copy(value, ticket.spec.annotation, classes=not run.reader.holds_foreign)


def own_copy(value: Any, annotation: Any = None, *, classes: bool = True) -> Any:
    """What the record will give for the value, shared with nobody."""
    if type(value) in _PLAIN:
        return value
    encoded = encode(value)
    if not encoded.replayable:
        return value  # what has no value cannot be handed over twice; the record says so
    return decode(
        _copied(encoded.tree), loaded_classes=classes, annotation=annotation, artifact=encoded.artifacts.__getitem__
    )


def _copied(tree: Any) -> Any:
    """A tree of the agent's own: what the effect keeps and changes later must not change under the agent's hands."""
    if type(tree) is dict:
        return {name: item if type(item) in _PLAIN else _copied(item) for name, item in tree.items()}
    if type(tree) is list:
        return [item if type(item) in _PLAIN else _copied(item) for item in tree]
    return tree


def _same_error(error: BaseException | None, recorded: Any, *, classes: bool) -> BaseException:
    """The error itself if the record will give its like, otherwise what the record will give."""
    again = decode(encode(recorded).tree, loaded_classes=classes)
    if error is not None and type(again) is type(error):
        return error
    return again if isinstance(again, BaseException) else OnrecordError(f"the effect failed: {again!r}")


def foretold(run: LiveRun, ticket: OpenEffect | None) -> Any:
    """The value that an effect will have come to, where the record has it already; otherwise None."""
    answer = ticket.recorded.answer if ticket is not None and ticket.recorded is not None else None
    if ticket is None or answer is None or answer.kind != "ActionSucceeded":
        return None
    return open_recorded(run, ticket.spec, answer, counted=False)


def open_recorded(run: LiveRun, spec: EffectSpec, answer: RecordedAnswer, *, counted: bool = True) -> Any:
    """The value of the record, or raises its error. A damaged record is not the agent's to handle: it stops the run."""
    row, reader = answer.row, run.reader
    if row.seq <= 0 and run.past is not None:  # shared with the run that it was forked from
        reader, row = run.past.reader_of(row), run.past.own_row(row)
    try:
        tree = reader.tree_of(row, answer.committed)
    except Damaged as damage:
        run.stop_here(damage)
    if tree is None:
        raise _stopped(run, f"the answer at seq {row.seq} of run {reader.run} was erased")
    if row.kind == "ActionDenied":
        raise _denial(tree.get("reason"))
    inner = tree.get(_MEMBER[row.kind])
    if run.secrets.redacts:
        inner = _unsealed(run, reader, row, inner)
    if type(inner) in _PLAIN and row.kind != "ActionFailed":
        if run.guard is not None and counted:
            run.counts(spec, answer.seq, inner)
        return inner
    if row.kind != "ActionFailed" and (kind := opaque_type(inner)) is not None:
        what = f"the result of {spec.name} at seq {row.seq} of run {reader.run}"
        message = f"{what} has no value that could be recorded: of the {kind} in it only the type was"
        raise _stopped(run, message, row.seq if reader is run.reader else 0)
    missing: list[str] = []
    try:
        value = reader.decoded(inner, spec.annotation, missing=missing)
    except Damaged as damage:
        run.stop_here(damage)
    if missing:
        run.stop_here(class_missing(missing, f"the result of {spec.name} at seq {row.seq}", reader.run, row.seq))
    if row.kind == "ActionFailed":
        raise value if isinstance(value, BaseException) else OnrecordError(f"the effect failed: {value!r}")
    if counted:
        run.counts(spec, answer.seq, value)
    return value


def _unsealed(run: LiveRun, reader: JournalReader, row: EventRow, tree: Any) -> Any:
    """A replay goes on with placeholders where it has to; a run that goes on would send them out into the world."""
    try:
        return run.secrets.unseal(reader, row, tree, needed=run.journal is not None)
    except OnrecordError as reason:
        run.stop_here(reason)


def _stopped(run: LiveRun, message: str, seq: int = 0) -> RunStopped:
    """Not the agent's to handle: going on without the value would show a behaviour that never was, or end the run."""
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
    """Somewhere in it stands something of which only the type was recorded."""
    return opaque_type(tree) is not None


def opaque_type(tree: Any) -> str | None:
    """The type of something in it of which nothing else was recorded."""
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
