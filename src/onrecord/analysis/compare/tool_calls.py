"""The tool calls a model asked for, found in its answer whatever its maker's shape is.

Known are those of OpenAI (chat and responses), Anthropic and Google. A call is brought into one shape, its name and its
input; the id that ties it to its result is drawn anew each time and left out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from reenact.core.canonical import canonical_bytes
from reenact.errors import InvalidValue

_CALL_TYPES = frozenset({"tool_use", "server_tool_use", "mcp_tool_use", "function_call", "custom_tool_call"})
_INPUTS = ("arguments", "input", "args")
_KNOWN = frozenset({"name", *_INPUTS, "type", "id", "call_id", "index", "status", "cache_control", "thoughtSignature"})
"""What a call may hold. With anything else in it, it is left where it is: nothing is taken out unseen."""


class ToolCall(NamedTuple):
    name: str
    input: Any

    def to_data(self) -> dict[str, Any]:
        return {"name": self.name, "input": self.input}


def tool_call_of(part: Any) -> ToolCall | None:
    """The call that a part of a message, or an item of its `tool_calls`, is; None when it is something else."""
    if not isinstance(part, dict):
        return None
    if part.get("type") in _CALL_TYPES:
        return _call(part)
    for name in ("function", "custom", "functionCall", "function_call"):
        if isinstance(part.get(name), dict) and part.keys() - {name} <= _KNOWN:
            return _call(part[name], needs_input=name in ("function", "custom"))
    return None


def _call(named: dict[str, Any], *, needs_input: bool = False) -> ToolCall | None:
    if not isinstance(named.get("name"), str) or not named.keys() <= _KNOWN:
        return None
    given = [named[member] for member in _INPUTS if member in named]
    if len(given) > 1 or (needs_input and not given):
        return None
    return ToolCall(named["name"], parsed_input(given[0]) if given else None)


def parsed_input(value: Any) -> Any:
    """Arguments that came as JSON text, as the tree they are: blanks and the order of keys say nothing."""
    if not isinstance(value, str):
        return value
    try:
        tree = orjson.loads(value)
        canonical_bytes(tree)
    except (orjson.JSONDecodeError, InvalidValue):
        return value
    return tree


class WithoutCalls(NamedTuple):
    tree: Any
    calls: list[ToolCall]


def without_tool_calls(tree: Any) -> WithoutCalls:
    """The tree with the calls taken out, and the calls in the order of the tree."""
    whole: list[Any] = [tree]
    calls: list[ToolCall] = []
    todo: list[list[Any] | dict[str, Any]] = [whole]
    while todo:
        container = todo.pop()
        if isinstance(container, list):
            kept = [item for item in container if not _taken(tool_call_of(item), calls)]
            container[:] = kept
            inner: list[Any] = list(enumerate(kept))
        else:
            _take_members(container, calls)
            inner = list(container.items())
        below = []
        for name, value in inner:
            if type(value) is dict or type(value) is list:
                copy = value.copy()
                container[name] = copy
                below.append(copy)
        todo += reversed(below)
    return WithoutCalls(whole[0] if whole else None, calls)


def _taken(call: ToolCall | None, calls: list[ToolCall]) -> bool:
    if call is None:
        return False
    calls.append(call)
    return True


def _take_members(message: dict[str, Any], calls: list[ToolCall]) -> None:
    listed = message.get("tool_calls")
    if isinstance(listed, list) and all(tool_call_of(item) is not None for item in listed):
        calls.extend(call for item in listed if (call := tool_call_of(item)) is not None)
        del message["tool_calls"]
    elif listed is None:
        message.pop("tool_calls", None)  # some makers write null for none
    legacy = message.get("function_call")
    if isinstance(legacy, dict) and _taken(_call(legacy, needs_input=True), calls):
        del message["function_call"]
