"""Chat messages in one shape, whoever's they are: OpenAI (chat and responses), Anthropic, Google.

A message is its role, its text, the tool calls it asks for, the tool results it brings, and everything else. Text
that came as one string and text that came as parts is the same text; parts are joined by line ends. Ids that tie a
call to its result are drawn anew in every run and left out; what is known of a message otherwise stays, so that
nothing passes unseen.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from reenact.errors import InvalidInput
from reenact.replays.comparing.tool_calls import ToolCall, parsed_input, tool_call_of

_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})
_RESULT_TYPES = frozenset({"tool_result", "function_call_output", "custom_tool_call_output"})
_CALL_IDS = frozenset({"id", "call_id", "tool_call_id", "tool_use_id"})
_SYSTEM_NAMES = ("system", "instructions", "systemInstruction", "system_instruction")


class ChatMessage(NamedTuple):
    role: str
    text: str
    calls: tuple[ToolCall, ...] = ()
    results: tuple[Any, ...] = ()
    rest: Any = None
    """Images, refusals, names, cache marks: a plain tree, compared as it is."""

    def to_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"role": self.role, "text": self.text}
        if self.calls:
            data["calls"] = [call.to_data() for call in self.calls]
        if self.results:
            data["results"] = list(self.results)
        return data if self.rest is None else data | {"rest": self.rest}


def messages_of(conversation: Any) -> list[ChatMessage]:
    """The messages of a list of them, or of a request: system text first, then what it says."""
    if isinstance(conversation, list):
        return [_message(each) for each in conversation]
    if not isinstance(conversation, dict):
        raise InvalidInput("a conversation is a list of messages or a request that holds one", code="bad_conversation")
    found = [_read("system", conversation[name], {}) for name in _SYSTEM_NAMES if conversation.get(name) is not None]
    for name in ("messages", "input", "contents"):
        held = conversation.get(name)
        if isinstance(held, str):
            return [*found, ChatMessage("user", held)]
        if isinstance(held, list):
            return found + [_message(each) for each in held]
    raise InvalidInput("the request has no `messages`, `input` or `contents`", code="bad_conversation")


def _message(message: Any) -> ChatMessage:
    if isinstance(message, str):
        return ChatMessage("user", message)
    if not isinstance(message, dict):
        raise InvalidInput("a message is an object or a text", code="bad_conversation")
    if "role" not in message and "content" not in message and "parts" not in message:
        # An item of its own in a conversation of responses: a call, or what came of it.
        role = "tool" if message.get("type") in _RESULT_TYPES else "assistant"
        return _read(role, [message], {})
    rest = {name: value for name, value in message.items() if name not in ("role", "content", "parts", *_CALL_IDS)}
    if rest.get("type") == "message":
        del rest["type"]
    role = message.get("role") or "user"  # which is what Google takes a message without a role for
    return _read("assistant" if role == "model" else str(role), message.get("content", message.get("parts")), rest)


def _read(role: str, content: Any, rest: dict[str, Any]) -> ChatMessage:
    if isinstance(content, dict) and isinstance(content.get("parts"), list):
        content = content["parts"]
    parts = content if isinstance(content, list) else [] if content is None else [content]
    texts: list[str] = []
    calls: list[ToolCall] = []
    results: list[Any] = []
    others: list[Any] = []
    for part in parts:
        if (text := _text_of(part)) is not None:
            texts.append(text)
        elif (call := tool_call_of(part)) is not None:
            calls.append(call)
        elif (result := _result_of(part)) is not None:
            results.append(result)
        else:
            others.append(part)
    calls += _calls_beside(rest)
    if others:
        rest = rest | {"parts": others}
    kept = {name: value for name, value in rest.items() if value is not None}
    return ChatMessage(role, "\n".join(texts), tuple(calls), tuple(results), kept or None)


def _text_of(part: Any) -> str | None:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        names = set(part) - {"type", "annotations", "logprobs"}
        if names == {"text"} and part.get("type", "text") in _TEXT_TYPES:
            return str(part["text"])
    return None


def _result_of(part: Any) -> Any:
    """What a tool gave back, without the id of the call."""
    if not isinstance(part, dict):
        return None
    if part.get("type") in _RESULT_TYPES:
        return {name: value for name, value in part.items() if name not in _CALL_IDS}
    for name in ("functionResponse", "function_response"):
        if isinstance(part.get(name), dict):
            return {inner: value for inner, value in part[name].items() if inner not in _CALL_IDS}
    return None


def _calls_beside(rest: dict[str, Any]) -> list[ToolCall]:
    """The calls that stand beside the content; they are taken out of the rest."""
    calls: list[ToolCall] = []
    listed = rest.get("tool_calls")
    if isinstance(listed, list):
        found = [tool_call_of(each) for each in listed]
        if all(call is not None for call in found):
            calls += [call for call in found if call is not None]
            del rest["tool_calls"]
    legacy = rest.get("function_call")
    if isinstance(legacy, dict) and isinstance(legacy.get("name"), str):
        calls.append(ToolCall(legacy["name"], parsed_input(legacy.get("arguments"))))
        del rest["function_call"]
    return calls
