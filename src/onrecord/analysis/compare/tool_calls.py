"""Find the tool calls in a model's answer: OpenAI (chat and responses), Anthropic and Google.

A call is its name and its input. The id that links it to its result is left out, because it is new each time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from onrecord.core.canonical import canonical_bytes
from onrecord.errors import InvalidValue

_CALL_TYPES = frozenset({"tool_use", "server_tool_use", "mcp_tool_use", "function_call", "custom_tool_call"})
_INPUTS = ("arguments", "input", "args")
_KNOWN = frozenset({"name", *_INPUTS, "type", "id", "call_id", "index", "status", "cache_control", "thoughtSignature"})
"""The members of a known call. A call with any other member stays in the tree, so that no difference is missed."""


class ComparedToolCall(NamedTuple):
    name: str
    input: Any

    def to_data(self) -> dict[str, Any]:
        return {"name": self.name, "input": self.input}


def read_tool_call(part: Any) -> ComparedToolCall | None:
    """Return the call in a part of a message or an item of `tool_calls`, or None if it is no call."""
    if not isinstance(part, dict):
        return None
    if part.get("type") in _CALL_TYPES:
        return _read_call(part)
    for name in ("function", "custom", "functionCall", "function_call"):
        if isinstance(part.get(name), dict) and part.keys() - {name} <= _KNOWN:
            return _read_call(part[name], needs_input=name in ("function", "custom"))
    return None


def _read_call(call: dict[str, Any], *, needs_input: bool = False) -> ComparedToolCall | None:
    if not isinstance(call.get("name"), str) or not call.keys() <= _KNOWN:
        return None
    inputs = [call[member] for member in _INPUTS if member in call]
    if len(inputs) > 1 or (needs_input and not inputs):
        return None
    return ComparedToolCall(call["name"], parse_input(inputs[0]) if inputs else None)


def parse_input(value: Any) -> Any:
    """Return the tree of arguments that are JSON text, so that blanks and key order do not matter."""
    if not isinstance(value, str):
        return value
    try:
        tree = orjson.loads(value)
        canonical_bytes(tree)
    except (orjson.JSONDecodeError, InvalidValue):
        return value
    return tree


class ExtractedCalls(NamedTuple):
    tree: Any
    calls: list[ComparedToolCall]


def extract_tool_calls(tree: Any) -> ExtractedCalls:
    """Return a copy of the tree without its tool calls, and the calls in the order of the tree."""
    whole: list[Any] = [tree]
    calls: list[ComparedToolCall] = []
    todo: list[list[Any] | dict[str, Any]] = [whole]
    while todo:
        container = todo.pop()
        if isinstance(container, list):
            kept = [item for item in container if not _append_call(read_tool_call(item), calls)]
            container[:] = kept
            inner: list[Any] = list(enumerate(kept))
        else:
            _take_listed_calls(container, calls)
            inner = list(container.items())
        below = []
        for name, value in inner:
            if type(value) is dict or type(value) is list:
                copy = value.copy()
                container[name] = copy
                below.append(copy)
        todo += reversed(below)
    return ExtractedCalls(whole[0] if whole else None, calls)


def _append_call(call: ComparedToolCall | None, calls: list[ComparedToolCall]) -> bool:
    if call is None:
        return False
    calls.append(call)
    return True


def _take_listed_calls(message: dict[str, Any], calls: list[ComparedToolCall]) -> None:
    listed = message.get("tool_calls")
    if isinstance(listed, list) and all(read_tool_call(item) is not None for item in listed):
        calls.extend(call for item in listed if (call := read_tool_call(item)) is not None)
        del message["tool_calls"]
    elif listed is None:
        message.pop("tool_calls", None)  # some providers write null for none
    legacy = message.get("function_call")
    if isinstance(legacy, dict) and _append_call(_read_call(legacy, needs_input=True), calls):
        del message["function_call"]
