"""An operator's word on an effect in doubt, and an end put to a run from outside."""

from __future__ import annotations

from typing import Any

from reenact.core.events import ActionFailed, ActionSucceeded, Cancelled, EffectSettled, Event
from reenact.effect.doubts import DONE, FAIL, RETRY
from reenact.effect.keeping import CANCEL_KEY, keeper
from reenact.effect.other_records import child_id
from reenact.effect.past import Past
from reenact.effect.recorded import OUTSIDE, RecordedRequest
from reenact.effect.secrets import secrets_of
from reenact.errors import InvalidInput, NotFound, ReenactError, Refused
from reenact.journal import inbox
from reenact.journal.chain import Draft
from reenact.journal.journal import Journal
from reenact.journal.reader import JournalReader
from reenact.store.contract import Store


class SettledAsFailed(ReenactError):
    """What the agent sees of an effect that an operator declared failed."""

    code = "settled_as_failed"


def in_doubt(store: Store, run: str, namespace: str = "default") -> list[RecordedRequest]:
    """Requests without an answer, in the order they were made."""
    past = Past.read(JournalReader(store, run, namespace))
    return [] if past.end is not None else _open_effects(past)


def _open_effects(past: Past) -> list[RecordedRequest]:
    """Those of the run itself: what its parents have left open when it was forked is not its to settle, nor is a run
    that it has called: that one is resumed, and has effects of its own."""
    return [one for one in _open_requests(past) if not _is_called_run(past, one)]


def _open_requests(past: Past) -> list[RecordedRequest]:
    return [one for one in past.open_requests if one.kind == "ActionRequested" and not one.is_parents]


def _is_called_run(past: Past, request: RecordedRequest) -> bool:
    members = past.members(request.row)
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
    """Settles the effect at that seq (or the only one in doubt): `done` with its value, `retry`, or `fail`.

    Returns its seq. The run goes on when it is resumed. Your word is redacted as the answer would have been, and what
    was taken out is sealed for whoever resumes the run here.
    """
    if decision not in (DONE, RETRY, FAIL):
        raise InvalidInput(f"an effect is settled as {DONE}, {RETRY} or {FAIL}", code="bad_decision")
    if keeper.find(store, run, namespace) is not None:
        raise Refused(f"run {run} is being carried by this process; nothing in it is in doubt", code="run_busy")
    with Journal.open(store, run, namespace) as journal:
        request = _the_one(run, Past.read(journal), effect)
        seq = request.row.seq
        if request.settled is not None:
            raise Refused(f"the effect at seq {seq} of run {run} is settled already", code="already_settled")
        events: list[Event] = [EffectSettled(request.key, decision, value if decision == DONE else message or None, by)]
        if decision == DONE:
            events.append(ActionSucceeded(request.key, value))
        elif decision == FAIL:
            error = SettledAsFailed(message or f"the effect at seq {seq} was declared failed")
            events.append(ActionFailed(request.key, error))
        drafts = [Draft(event, lane=request.lane) for event in events]
        journal.append(secrets_of(journal).to_be_written(drafts, journal))
        return seq


def _the_one(run: str, past: Past, effect: int | None) -> RecordedRequest:
    open_requests = _open_effects(past)
    if past.end is not None or not open_requests:
        called = [] if past.end is not None else [child_id(f"{run}/{one.key}") for one in _open_requests(past)]
        hint = f"It has called {', '.join(called[:3])}: settle what is in doubt there." if called else ""
        raise NotFound(
            f"run {run} has no effect in doubt", hint=hint or "`reenact show` tells how it stands.", code="no_doubt"
        )
    if effect is None and len(open_requests) == 1:
        return open_requests[0]
    for request in open_requests:
        if request.row.seq == effect:
            return request
    listed = ", ".join(str(one.row.seq) for one in open_requests)
    raise InvalidInput(f"run {run} has effects in doubt at seq {listed}", hint="Name one of them.", code="which_effect")


def cancel(store: Store, run: str, namespace: str = "default", *, reason: Any = None) -> bool:
    """Ends a run. True: it is over now. False: the process that holds it has been told and ends it."""
    held = keeper.find(store, run, namespace)
    if held is not None:
        held.cancelling.asked(reason)
        return False
    reader = JournalReader(store, run, namespace)
    if Past.read(reader).end is not None:
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
