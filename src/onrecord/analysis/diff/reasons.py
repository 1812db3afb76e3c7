"""Reasons why two events differ: a stable code and a sentence for each cause.

The sentences never hold recorded values.
"""

from __future__ import annotations

from typing import Any, Literal

from onrecord.core.events import TERMINAL_KINDS

Reason = Literal[
    "other_input",
    "other_tool",
    "other_answer",
    "other_error",
    "other_denial",
    "other_state",
    "other_wait",
    "other_interrupt",
    "other_signal",
    "other_end",
    "other_event",
    "other_order",
    "extra",
    "missing",
    "ended_earlier",
    "longer",
    "erased",
]

WORDS: dict[Reason, str] = {
    "other_input": "the same tool was called with another input",
    "other_tool": "another tool was called",
    "other_answer": "the same request was answered with something else",
    "other_error": "the same request failed in another way, or only in one of the runs",
    "other_denial": "policy denied it in one of the runs only, or for another reason",
    "other_state": "another state was set",
    "other_wait": "the runs waited for different things",
    "other_interrupt": "the runs asked a person different things",
    "other_signal": "another signal arrived",
    "other_end": "the runs ended with different results",
    "other_event": "an event of another kind happened",
    "other_order": "the same events happened in another order",
    "extra": "the second run did something that the first did not",
    "missing": "the second run did not do what the first did",
    "ended_earlier": "the second run ends where the first continues",
    "longer": "the second run continues where the first ends",
    "erased": "a content was erased, so it is unknown whether the two are equal",
}

_CALLS = frozenset({"ActionRequested"})
_FAILURES = frozenset({"ActionFailed"})
_ANSWERS = frozenset({"ActionSucceeded", "ActionFailed", "ActionDenied"})
_OF_ONE_KIND: dict[str, Reason] = {
    "ActionSucceeded": "other_answer",
    "ActionFailed": "other_error",
    "ActionDenied": "other_denial",
    "StateUpdated": "other_state",
    "WaitCreated": "other_wait",
    "WaitResolved": "other_answer",
    "Interrupted": "other_interrupt",
    "Resumed": "other_answer",
    "SignalReceived": "other_signal",
}


def reason_between(kind_a: str, kind_b: str, content_a: Any, content_b: Any) -> Reason:
    """Return why two events at the same position differ. Contents are encoded, or None when erased."""
    ends = (kind_a in TERMINAL_KINDS, kind_b in TERMINAL_KINDS)
    if all(ends):
        return "erased" if content_a is None or content_b is None else "other_end"
    if any(ends):
        return "longer" if ends[0] else "ended_earlier"
    if kind_a == kind_b and (content_a is None or content_b is None):
        return "erased"
    if kind_a == kind_b == "ActionRequested":
        return "other_tool" if _tool(content_a) != _tool(content_b) else "other_input"
    if kind_a == kind_b:
        return _OF_ONE_KIND.get(kind_a, "other_event")
    kinds = {kind_a, kind_b}
    if "ActionDenied" in kinds and kinds <= _ANSWERS | _CALLS:
        return "other_denial"
    return "other_error" if kinds <= _ANSWERS and kinds & _FAILURES else "other_event"


def _tool(content: Any) -> tuple[Any, Any]:
    return (content.get("name"), content.get("effect")) if isinstance(content, dict) else (None, None)
