"""Tries of one call: a request that says again what the one before it in its lane said, and which had failed.

Clients try again by themselves, and so do programs. Each try is an effect of its own; all but the first have the first
one's request as their causal parent, so that a reader finds them together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from onrecord.core.events import ActionFailed, ActionRequested, ActionSucceeded
from onrecord.errors import OnrecordError

if TYPE_CHECKING:
    from onrecord.runtime.engine.open_effect import OpenEffect
    from onrecord.runtime.engine.run import LiveRun
    from onrecord.runtime.scheduler.lanes import Lane

_KINDS = frozenset({"http", "model_call"})
_TRY_AGAIN = frozenset({408, 409, 425, 429})


class ClientRetries:
    """Of one run, while it is live."""

    def __init__(self, run: LiveRun) -> None:
        self._run = run
        self._last: WeakKeyDictionary[Lane, OpenEffect] = WeakKeyDictionary()

    def first_of(self, ticket: OpenEffect) -> int | None:
        """The seq of the first try's request; None: this is the first, as far as is known."""
        if ticket.spec.kind not in _KINDS:
            return None
        before = self._last.get(ticket.lane)
        self._last[ticket.lane] = ticket
        try:
            return self._repeated(ticket, before) if before is not None else self._repeated_recorded(ticket)
        except OnrecordError:  # what cannot be read any more: it is only told less
            return None

    def _repeated(self, ticket: OpenEffect, before: OpenEffect) -> int | None:
        now, then = ticket.event, before.event
        if before.answer is None or not before.answer_seq or not _has_failed(before.answer):
            return None
        if not isinstance(now, ActionRequested) or not isinstance(then, ActionRequested):
            return None
        if (now.name, now.payload) != (then.name, then.payload):
            return None
        return self._first(self._run.reader.event(before.answer_seq).parent)

    def _repeated_recorded(self, ticket: OpenEffect) -> int | None:
        """An earlier process has tried before."""
        run, (name, _, ordinal) = self._run, ticket.key.rpartition("/")
        if run.past is None or not ordinal.isdigit() or ordinal == "0":
            return None
        recorded = run.past.by_key.get(f"{name}/{int(ordinal) - 1}")
        if recorded is None or recorded.answer is None or recorded.row.seq <= 0:
            return None
        now = ticket.event
        if run.rules.match_of(now.kind, now.content()) != recorded.match:
            return None
        answer = run.reader.event(recorded.answer.seq)
        return self._first(answer.parent) if _has_failed(answer.event) else None

    def _first(self, request: int | None) -> int | None:
        return None if request is None else self._run.reader.event(request).parent or request


def _has_failed(answer: Any) -> bool:
    if isinstance(answer, ActionFailed):
        return True
    output = answer.output if isinstance(answer, ActionSucceeded) else None
    status = output.get("status") if isinstance(output, dict) else None
    return isinstance(status, int) and (status in _TRY_AGAIN or status >= 500)
