"""Mask volatile fields: leave fields that differ between two honest runs out of a comparison.

A mask names one path; its siblings are compared as usual. Masks apply to both sides. A masked member is left out,
whether or not the other side has it. A masked list item becomes null, so that the other items keep their positions.

The default rules are in this file. They name the *envelope* of an event (its ids and times, at its top and in its
`trace`, `meta` and `metadata`), never its input or output: a `request_id` that a tool was called with is behaviour.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from onrecord.analysis.compare.pointers import Patterns, Places
from onrecord.errors import InvalidInput


class MaskRule(NamedTuple):
    """A pointer pattern (`*` any one step, `**` any number) for one kind of event, or for all kinds (`*`)."""

    pattern: str
    kind: str = "*"

    def to_data(self) -> dict[str, Any]:
        return {"pattern": self.pattern, "kind": self.kind}


TOOL_EVENT = "tool_event"
MODEL_RESPONSE = "model_response"
HTTP = "http"

_VOLATILE_NAMES = (
    "span_id",
    "parent_span_id",
    "trace_id",
    "traceparent",
    "tracestate",
    "request_id",
    "event_id",
    "call_id",
    "tool_call_id",
    "tool_use_id",
    "correlation_id",
    "timestamp",
    "ts",
    "created_at",
    "started_at",
    "ended_at",
    "finished_at",
    "completed_at",
    "duration_ms",
    "duration_us",
    "latency_ms",
    "elapsed_ms",
)
_VOLATILE_BESIDE = ("parent_id", "start_time", "end_time", "time", "duration")
"""Names that are volatile in `trace`, `meta` and `metadata` only; at the top of an event they may be tool input."""

TOOL_EVENT_MASKS: tuple[MaskRule, ...] = tuple(
    MaskRule(f"{envelope}/{name}", TOOL_EVENT)
    for envelope, names in (
        ("", _VOLATILE_NAMES),
        ("/trace", _VOLATILE_NAMES + _VOLATILE_BESIDE),
        ("/meta", _VOLATILE_NAMES + _VOLATILE_BESIDE),
        ("/metadata", _VOLATILE_NAMES + _VOLATILE_BESIDE),
    )
    for name in names
)

_MODEL_RESPONSE_PLACES = (
    "/id",
    "/created",
    "/created_at",
    "/completed_at",
    "/system_fingerprint",
    "/request_id",
    "/_request_id",
    "/choices/*/message/tool_calls/*/id",
    "/content/*/id",
    "/output/*/id",
    "/output/*/call_id",
    "/responseId",
    "/response_id",
    "/createTime",
    "/create_time",
    "/usage/queue_time",
    "/usage/prompt_time",
    "/usage/completion_time",
    "/usage/total_time",
    "/timings",
    "/total_duration",
    "/load_duration",
    "/prompt_eval_duration",
    "/eval_duration",
)
BODY = "/body/json"
"""The path of a model's answer in an HTTP response."""

MODEL_RESPONSE_MASKS: tuple[MaskRule, ...] = tuple(
    MaskRule(f"{where}{place}", MODEL_RESPONSE) for where in ("", BODY) for place in _MODEL_RESPONSE_PLACES
)
HTTP_MASKS: tuple[MaskRule, ...] = (MaskRule("/headers", HTTP), MaskRule("/headers", MODEL_RESPONSE))
"""Response headers hold the date, the request id and the remaining quota."""

DEFAULT_MASKS = TOOL_EVENT_MASKS + MODEL_RESPONSE_MASKS + HTTP_MASKS


class Masks:
    """Mask rules ready for use. `Masks(DEFAULT_MASKS + (MaskRule("/payload/nonce"),))` adds one to the defaults."""

    def __init__(self, rules: Iterable[MaskRule] = DEFAULT_MASKS) -> None:
        self.rules = tuple(rules)
        if any(rule.pattern == "" for rule in self.rules):
            raise InvalidInput("a mask names a place in the tree, never the whole tree", code="bad_mask")
        self._patterns = {kind: self._patterns_of_kind(kind) for kind in {rule.kind for rule in self.rules}}

    def _patterns_of_kind(self, kind: str) -> Patterns[bool]:
        return Patterns([(rule.pattern, True) for rule in self.rules if rule.kind in ("*", kind)])

    def applied(self, kind: str, tree: Any) -> Any:
        """Return the tree without the fields masked for this kind. Subtrees that no rule can reach are shared."""
        patterns = self._patterns.get(kind) or self._patterns.get("*")
        return tree if patterns is None else _remove_masked(tree, patterns)

    def to_data(self) -> list[dict[str, Any]]:
        return [rule.to_data() for rule in self.rules]


def _remove_masked(tree: Any, patterns: Patterns[bool]) -> Any:
    whole: list[Any] = [tree]
    todo: list[tuple[Any, Any, Places[bool]]] = []

    def copy_value(container: Any, name: Any, value: Any, places: Places[bool]) -> None:
        if places and (type(value) is dict or type(value) is list):
            container[name] = copy = {} if type(value) is dict else [None] * len(value)
            todo.append((value, copy, places))
        else:
            container[name] = value

    copy_value(whole, 0, tree, patterns.start())
    while todo:
        source, copy, places = todo.pop()
        for name, value in source.items() if type(source) is dict else enumerate(source):
            below = patterns.step(places, str(name))
            if not patterns.found(below):
                copy_value(copy, name, value, below)
    return whole[0]
