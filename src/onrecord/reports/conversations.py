"""The conversation in a recorded model call: what was sent over HTTP, or what a tool of kind `model_call` was given.

Of a tool's arguments it is the object that holds `messages`, `input` or `contents` (the arguments themselves, or one
of them), a list of messages, or, where there is nothing of the kind, every text that is given.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from onrecord.analysis.compare.messages import ChatMessage, messages_of
from onrecord.errors import OnrecordError
from onrecord.reports.streamed import streamed_answer
from onrecord.reports.usages import plain

_HELD_IN = ("messages", "input", "contents")
_SYSTEM = ("system", "instructions", "systemInstruction", "system_instruction")
_NO_TEXT = frozenset({"model", "name", "role", *_SYSTEM})
_TOOL_NAMES = ("name", "type")
MARKS_DEPTH = 5
"""In a request: its messages, one of these, its parts, one of these."""


class Conversation(NamedTuple):
    request: Any
    """What `messages_of` reads."""
    settings: dict[str, Any]
    """All the rest of the request: model, tools, temperature, …"""
    tools: list[str]
    goes_on_from: str | None = None


def conversation_of(payload: Any) -> Conversation | None:
    """None where nothing of the kind is in it."""
    given = plain(payload)
    if not isinstance(given, dict):
        return None
    body = given.get("body")
    if "method" in given and "url" in given:
        asked = body.get("json") if isinstance(body, dict) else None
        return _told(asked) if isinstance(asked, dict) and _holds_one(asked) else None
    for held in (given, *given.values()):
        if isinstance(held, dict) and _holds_one(held):
            return _told(held) if held is given else _told(held)._replace(settings=_without(given, held))
    for name, held in given.items():
        if isinstance(held, list) and held and all(isinstance(one, dict) and "role" in one for one in held):
            others = {key: value for key, value in given.items() if key != name}
            return Conversation(held, others, _tools(given))
    return _texts(given)


def _holds_one(held: dict[str, Any]) -> bool:
    return any(isinstance(held.get(name), list | str) for name in _HELD_IN)


def _told(given: dict[str, Any]) -> Conversation:
    asked = _without_cache_marks(given)
    before = asked.get("previous_response_id")
    settings = {name: value for name, value in asked.items() if name not in (*_HELD_IN, *_SYSTEM)}
    return Conversation(asked, settings, _tools(asked), before if isinstance(before, str) else None)


def _without_cache_marks(tree: Any, depth: int = MARKS_DEPTH) -> Any:
    """They tell the provider what to keep at hand, and wander from message to message; no model sees them."""
    if depth and isinstance(tree, list):
        return [_without_cache_marks(item, depth - 1) for item in tree]
    if not depth or not isinstance(tree, dict):
        return tree
    return {name: _without_cache_marks(value, depth - 1) for name, value in tree.items() if not _is_mark(name, value)}


def _is_mark(name: str, value: Any) -> bool:
    return name == "cache_control" and isinstance(value, dict) and isinstance(value.get("type"), str)


def _without(given: dict[str, Any], held: dict[str, Any]) -> dict[str, Any]:
    inner = {name: value for name, value in held.items() if name not in (*_HELD_IN, *_SYSTEM)}
    return {name: inner if value is held else value for name, value in given.items()}


def _texts(given: dict[str, Any]) -> Conversation | None:
    messages: list[Any] = [{"role": "system", "content": given[name]} for name in _SYSTEM if given.get(name)]
    texts = [value for name, value in given.items() if isinstance(value, str) and name not in _NO_TEXT]
    messages += [{"role": "user", "content": text} for text in texts]
    others = {name: value for name, value in given.items() if value not in texts and name not in _SYSTEM}
    return Conversation(messages, others, _tools(given)) if messages else None


def _tools(asked: dict[str, Any]) -> list[str]:
    """The names of the tools that the model is offered."""
    listed = asked.get("tools")
    names: list[str] = []
    for tool in listed if isinstance(listed, list) else ():
        if not isinstance(tool, dict):
            continue
        declared = tool.get("functionDeclarations") or tool.get("function_declarations")
        inner = declared if isinstance(declared, list) else [tool.get("function") or tool]
        for one in inner:
            found = [one[name] for name in _TOOL_NAMES if isinstance(one, dict) and isinstance(one.get(name), str)]
            names += found[:1]
    return names


def answering_model(output: Any) -> str | None:
    """Who answered, as the answer itself says."""
    told = _told_by(output)
    found = (told.get("model") or told.get("modelVersion")) if isinstance(told, dict) else None
    return found if isinstance(found, str) else None


def _told_by(output: Any) -> Any:
    answer = plain(output)
    body = answer.get("body") if isinstance(answer, dict) else None
    if not isinstance(body, dict):
        return answer
    streamed = body.get("text")
    return streamed_answer(streamed) if isinstance(streamed, str) else body.get("json")


def answered_message(output: Any) -> ChatMessage | None:
    """What a model answered, as the message that it is when it comes back; None where that is not plain to see."""
    told = _told_by(output)
    message = _message_in(told) if isinstance(told, dict) else None
    try:
        return messages_of([message])[0] if message is not None else None
    except (OnrecordError, IndexError):
        return None


def answered_messages(output: Any) -> list[ChatMessage]:
    """The same, where an answer is several messages: of responses each item is one."""
    told = _told_by(output)
    items = told.get("output") if isinstance(told, dict) else None
    if not isinstance(items, list):
        message = answered_message(output)
        return [] if message is None else [message]
    try:
        return messages_of([item for item in items if isinstance(item, dict)])
    except OnrecordError:
        return []


def _message_in(told: dict[str, Any]) -> dict[str, Any] | None:
    for listed, member in (("choices", "message"), ("candidates", "content")):
        inner = told.get(listed)
        if isinstance(inner, list) and inner and isinstance(inner[0], dict) and isinstance(inner[0].get(member), dict):
            found: dict[str, Any] = inner[0][member]
            return found
    if isinstance(told.get("output"), list):
        said = [one for one in told["output"] if isinstance(one, dict) and one.get("type") == "message"]
        return said[0] if len(said) == 1 else None
    return told if "role" in told and "content" in told else None
