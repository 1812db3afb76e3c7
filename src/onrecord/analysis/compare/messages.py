"""Read chat messages of OpenAI (chat and responses), Anthropic and Google into one shape.

A message has a role, a text, tool calls, tool results and a rest. A string and the same text in parts are equal; parts
are joined by line ends. Ids that link a call to its result are left out, because every run draws new ones. All other
fields stay, so that no difference is missed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from onrecord.analysis.compare.tool_calls import ComparedToolCall, parse_input, read_tool_call
from onrecord.errors import InvalidInput

_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})
_RESULT_TYPES = frozenset({"tool_result", "function_call_output", "custom_tool_call_output"})
_CALL_IDS = frozenset({"id", "call_id", "tool_call_id", "tool_use_id"})
_SYSTEM_NAMES = ("system", "instructions", "systemInstruction", "system_instruction")


class ChatMessage(NamedTuple):
    role: str
    text: str
    calls: tuple[ComparedToolCall, ...] = ()
    results: tuple[Any, ...] = ()
    rest: Any = None
    """Images, refusals, names, cache marks: a plain tree, compared unchanged."""

    def says_same(self, other: ChatMessage) -> bool:
        """Return True if the messages differ at most in results and rest."""
        return self[:3] == other[:3]

    def to_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"role": self.role, "text": self.text}
        if self.calls:
            data["calls"] = [call.to_data() for call in self.calls]
        if self.results:
            data["results"] = list(self.results)
        return data if self.rest is None else data | {"rest": self.rest}


def messages_of(conversation: Any) -> list[ChatMessage]:
    """Return the messages of a list or of a model request, system text first."""
    if isinstance(conversation, list):
        return [_read_message(each) for each in conversation]
    if not isinstance(conversation, dict):
        raise InvalidInput("a conversation is a list of messages or a request that holds one", code="bad_conversation")
    found = [
        _read_content("system", conversation[name], {}) for name in _SYSTEM_NAMES if conversation.get(name) is not None
    ]
    for name in ("messages", "input", "contents"):
        held = conversation.get(name)
        if isinstance(held, str):
            return [*found, ChatMessage("user", held)]
        if isinstance(held, list):
            return found + [_read_message(each) for each in held]
    raise InvalidInput("the request has no `messages`, `input` or `contents`", code="bad_conversation")


def _read_message(message: Any) -> ChatMessage:
    if isinstance(message, str):
        return ChatMessage("user", message)
    if not isinstance(message, dict):
        raise InvalidInput("a message is an object or a text", code="bad_conversation")
    if "role" not in message and "content" not in message and "parts" not in message:
        # The responses API has calls and their results as items of the conversation.
        role = "tool" if message.get("type") in _RESULT_TYPES else "assistant"
        return _read_content(role, [message], {})
    rest = {name: value for name, value in message.items() if name not in ("role", "content", "parts", *_CALL_IDS)}
    if rest.get("type") == "message":
        del rest["type"]
    role = message.get("role") or "user"  # as Google reads a message without a role
    return _read_content(
        "assistant" if role == "model" else str(role), message.get("content", message.get("parts")), rest
    )


def _read_content(role: str, content: Any, rest: dict[str, Any]) -> ChatMessage:
    if isinstance(content, dict) and isinstance(content.get("parts"), list):
        content = content["parts"]
    parts = content if isinstance(content, list) else [] if content is None else [content]
    texts: list[str] = []
    calls: list[ComparedToolCall] = []
    results: list[Any] = []
    others: list[Any] = []
    for part in parts:
        if (text := _read_text(part)) is not None:
            texts.append(text)
        elif (call := read_tool_call(part)) is not None:
            calls.append(call)
        elif (result := _read_result(part)) is not None:
            results.append(result)
        else:
            others.append(part)
    calls += _take_listed_calls(rest)
    if others:
        rest = rest | {"parts": others}
    kept = {name: value for name, value in rest.items() if value is not None}
    return ChatMessage(role, "\n".join(texts), tuple(calls), tuple(results), kept or None)


def _read_text(part: Any) -> str | None:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        names = set(part) - {"type", "annotations", "logprobs"}
        if names == {"text"} and part.get("type", "text") in _TEXT_TYPES:
            return str(part["text"])
    return None


def _read_result(part: Any) -> Any:
    """Return a tool result without the id of its call, or None if the part is no result."""
    if not isinstance(part, dict):
        return None
    if part.get("type") in _RESULT_TYPES:
        return {name: value for name, value in part.items() if name not in _CALL_IDS}
    for name in ("functionResponse", "function_response"):
        if isinstance(part.get(name), dict):
            return {inner: value for inner, value in part[name].items() if inner not in _CALL_IDS}
    return None


def _take_listed_calls(rest: dict[str, Any]) -> list[ComparedToolCall]:
    """Remove the calls listed beside the content from `rest` and return them."""
    calls: list[ComparedToolCall] = []
    listed = rest.get("tool_calls")
    if isinstance(listed, list):
        found = [read_tool_call(each) for each in listed]
        if all(call is not None for call in found):
            calls += [call for call in found if call is not None]
            del rest["tool_calls"]
    legacy = rest.get("function_call")
    if isinstance(legacy, dict) and isinstance(legacy.get("name"), str):
        calls.append(ComparedToolCall(legacy["name"], parse_input(legacy.get("arguments"))))
        del rest["function_call"]
    return calls
