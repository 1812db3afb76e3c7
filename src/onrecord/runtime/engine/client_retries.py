"""Link client-level retries: a request identical to the failed one before it in its lane has it as its causal parent.

Clients retry by themselves, and so do programs. Each try is an effect of its own; all but the first have the first
one's request as their parent, so that a reader finds them together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onrecord.core.events import ActionFailed, ActionRequested, ActionSucceeded
from onrecord.errors import OnrecordError
from onrecord.runtime.engine.open_effect import MadeOutcome
from onrecord.runtime.replay.records import Asked

if TYPE_CHECKING:
    from onrecord.runtime.engine.open_effect import OpenEffect
    from onrecord.runtime.engine.run import LiveRun

CLIENT_KINDS = frozenset({"http", "model_call"})
_RETRIED = frozenset({408, 409, 425, 429})


class ClientRetries:
    def __init__(self, run: LiveRun) -> None:
        self._run = run
        self._last: dict[str, OpenEffect] = {}
        """The last such request of each lane."""

    def find_first(self, effect: OpenEffect) -> int | None:
        """Return the seq of the first try's request; None if this is the first, as far as is known."""
        before = self._last.get(effect.lane)
        self._last[effect.lane] = effect
        try:
            return self._find_before(effect, before) if before is not None else self._find_recorded(effect)
        except OnrecordError:  # the record cannot be read any more: the link is left out
            return None

    def _find_before(self, effect: OpenEffect, before: OpenEffect) -> int | None:
        now, then, outcome = effect.event, before.event, before.outcome
        if not isinstance(outcome, MadeOutcome) or not outcome.seq or not _has_failed(outcome.event):
            return None
        if not isinstance(now, ActionRequested) or not isinstance(then, ActionRequested):
            return None
        if (now.name, now.payload) != (then.name, then.payload):
            return None
        return self._find_chain(before.request_seq)

    def _find_recorded(self, effect: OpenEffect) -> int | None:
        """Look for a try of an earlier process."""
        history = self._run.history
        request, answered_at = (history.last_requests if history is not None else {}).get(effect.lane, (None, 0))
        if request is None or request.row.seq <= 0:
            return None
        if request != Asked(effect.event, self._run.rules):
            return None
        is_failed = _has_failed(self._run.reader.event(answered_at).event)
        return self._find_chain(request.row.seq) if is_failed else None

    def _find_chain(self, request: int) -> int | None:
        return self._run.reader.event(request).parent or request if request else None


def _has_failed(outcome: Any) -> bool:
    if isinstance(outcome, ActionFailed):
        return True
    output = outcome.output if isinstance(outcome, ActionSucceeded) else None
    status = output.get("status") if isinstance(output, dict) else None
    return isinstance(status, int) and (status in _RETRIED or status >= 500)
