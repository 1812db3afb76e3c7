"""Settle an effect in doubt, and cancel a run, from outside the run."""

from __future__ import annotations

from typing import Any

from onrecord.core.events import Cancelled
from onrecord.errors import InvalidInput, NotFound, OnrecordError, Refused
from onrecord.journal import inbox
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.journal.reader import JournalReader
from onrecord.runtime.engine.lease_keeper import CANCEL_KEY, keeper
from onrecord.runtime.forks.recorded_answers import child_id
from onrecord.runtime.replay.delivery_marks import make_mark
from onrecord.runtime.replay.history import History
from onrecord.runtime.replay.in_doubt import DONE, FAIL, RETRY, settling_events
from onrecord.runtime.replay.records import OUTSIDE, RecordedRequest
from onrecord.runtime.scheduler.items import AHEAD
from onrecord.runtime.secrets.run_secrets import load_secrets
from onrecord.store.contract import Store


class SettledAsFailed(OnrecordError):
    """The error of an effect that an operator settled as failed."""

    code = "settled_as_failed"


def find_in_doubt(store: Store, run: str, namespace: str = "default") -> list[RecordedRequest]:
    """Return the run's requests without an outcome, in the order of their requests."""
    history = History(JournalReader(store, run, namespace))
    return [] if history.end is not None else _open_effects(history)


def _open_effects(history: History) -> list[RecordedRequest]:
    """Return the open effects of the run itself.

    Requests that a fork's parent left open do not belong to it. A called run is resumed, and has effects of its own.
    """
    return [one for one in _open_requests(history) if not _is_called_run(history, one)]


def _open_requests(history: History) -> list[RecordedRequest]:
    return [one for one in history.open.values() if one.kind == "ActionRequested" and not one.is_shared]


def _is_called_run(history: History, request: RecordedRequest) -> bool:
    members = history.members(request.row)
    return members.get("effect") == "process" and not (members.get("meta") or {}).get("once")


def settle(
    store: Store,
    run: str,
    effect: int | None = None,
    namespace: str = "default",
    *,
    decision: str,
    value: Any = None,
    message: str = "",
    by: str | None = None,
) -> int:
    """Settle the effect at that seq, or the only one in doubt: `done` with its value, `retry` or `fail`.

    Return its seq. A resume continues the run. The value is redacted as an outcome is, and its secrets are sealed for
    that resume.
    """
    if decision not in (DONE, RETRY, FAIL):
        raise InvalidInput(f"the decision must be {DONE}, {RETRY} or {FAIL}", code="bad_decision")
    if keeper.find(store, run, namespace) is not None:
        raise Refused(f"run {run} is being executed by this process; nothing in it is in doubt", code="run_busy")
    with Journal.open(store, run, namespace) as journal:
        request = _select_effect(run, History(journal), effect)
        seq = request.row.seq
        if request.settled:
            raise Refused(f"the effect at seq {seq} of run {run} is settled already", code="already_settled")
        error = SettledAsFailed(message or f"the effect at seq {seq} was declared failed") if decision == FAIL else None
        said = value if decision == DONE else message or None
        settled, *outcome = settling_events(request.key, decision, said, error, by)
        drafts = [Draft(settled, lane=request.lane)]
        drafts += [Draft(event, lane=request.lane, key=make_mark(AHEAD)) for event in outcome]
        journal.append(load_secrets(journal).redact_batch(drafts, journal))
        return seq


def _select_effect(run: str, history: History, effect: int | None) -> RecordedRequest:
    open_requests, has_ended = _open_effects(history), history.end is not None
    if has_ended or not open_requests:
        called = [] if has_ended else [child_id(f"{run}/{one.key}") for one in _open_requests(history)]
        hint = f"It called {', '.join(called[:3])}: settle the effects in doubt there." if called else ""
        raise NotFound(
            f"run {run} has no effect in doubt",
            hint=hint or f"`onrecord show {run}` shows its status.",
            code="no_doubt",
        )
    if effect is None and len(open_requests) == 1:
        return open_requests[0]
    for request in open_requests:
        if request.row.seq == effect:
            return request
    listed = ", ".join(str(one.row.seq) for one in open_requests)
    raise InvalidInput(f"run {run} has effects in doubt at seq {listed}", hint="Name one of them.", code="which_effect")


def cancel(store: Store, run: str, namespace: str = "default", *, reason: Any = None) -> bool:
    """Cancel a run. Return True if it has ended, False if the process that holds it was asked to end it."""
    held = keeper.find(store, run, namespace)
    if held is not None:
        held.cancellation.ask(reason)
        return False
    reader = JournalReader(store, run, namespace)
    if History(reader).end is not None:
        raise Refused(f"run {run} has ended already", code="closed_run")
    try:
        with Journal.open(store, run, namespace) as journal:
            journal.append(Draft(Cancelled(reason), key=OUTSIDE))
            return True
    except Refused as busy:
        if busy.code != "run_busy":
            raise
    inbox.post(store, run, CANCEL_KEY, {"reason": reason}, namespace)
    return False
