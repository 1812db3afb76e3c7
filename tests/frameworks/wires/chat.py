"""OpenAI's chat completions."""

from __future__ import annotations

from typing import Any

from frameworks.model import Ask, Reply, Tool


def read(body: dict[str, Any]) -> Ask:
    messages = body["messages"]
    return Ask(
        prompt="\n".join(text_of(one.get("content")) for one in messages if one["role"] in ("user", "system")),
        tools=[Tool(one["function"]["name"], one["function"]["parameters"]) for one in body.get("tools") or ()],
        results=sum(_is_result(one) for one in messages),
        is_streamed=bool(body.get("stream")),
    )


def _is_result(message: dict[str, Any]) -> bool:
    """Return True for the result of a tool. smolagents sends it as a message of the user."""
    text = text_of(message.get("content"))
    return message["role"] == "tool" or (message["role"] == "user" and text.startswith("Observation:"))


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", "")) for part in content or ())


def whole(reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = _tool_calls(reply)
    choice = {"index": 0, "message": message, "finish_reason": _reason(reply)}
    return {**_head(reply), "object": "chat.completion", "choices": [choice], "usage": _usage()}


def events(reply: Reply) -> list[tuple[str, Any]]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in reply.pieces]
    for at, call in enumerate(_tool_calls(reply)):
        arguments = call["function"]["arguments"]
        function = {"name": call["function"]["name"], "arguments": ""}
        deltas.append({"tool_calls": [{**call, "index": at, "function": function}]})
        for part in (arguments[:5], arguments[5:]):
            deltas.append({"tool_calls": [{"index": at, "function": {"arguments": part}}]})
    choices = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": _reason(reply)}])
    head = {**_head(reply), "object": "chat.completion.chunk"}
    chunks: list[Any] = [{**head, "choices": one} for one in choices]
    return [("", one) for one in [*chunks, {**head, "choices": [], "usage": _usage()}, "[DONE]"]]


def _tool_calls(reply: Reply) -> list[dict[str, Any]]:
    return [
        {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": one.json}} for one in reply.calls
    ]


def _head(reply: Reply) -> dict[str, Any]:
    return {"id": f"chatcmpl-{reply.number}", "created": 1_700_000_000, "model": "gpt-4o-mini"}


def _reason(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


def _usage() -> dict[str, int]:
    return {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
