"""Anthropic's messages."""

from __future__ import annotations

from typing import Any

from frameworks.model import Ask, Reply, Tool


def read(body: dict[str, Any]) -> Ask:
    prompts = [_text(body.get("system") or "")]
    results = 0
    for message in body["messages"]:
        if message["role"] == "user":
            prompts.append(_text(message["content"]))
            results += sum(one["type"] == "tool_result" for one in _blocks(message["content"]))
    tools = [Tool(one["name"], one["input_schema"]) for one in body.get("tools") or ()]
    return Ask("\n".join(prompts), tools, results, bool(body.get("stream")))


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _text(content: Any) -> str:
    return " ".join(one.get("text", "") for one in _blocks(content))


def whole(reply: Reply) -> dict[str, Any]:
    return {
        "id": f"msg_{reply.number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5",
        "content": _content(reply),
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def _content(reply: Reply) -> list[dict[str, Any]]:
    if not reply.calls:
        return [{"type": "text", "text": reply.text}]
    return [{"type": "tool_use", "id": one.id, "name": one.name, "input": one.arguments} for one in reply.calls]


def events(reply: Reply) -> list[tuple[str, Any]]:
    message = whole(reply)
    made: list[dict[str, Any]] = [{"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}]
    for at, block in enumerate(message["content"]):
        is_text = block["type"] == "text"
        empty = {**block, "text": ""} if is_text else {**block, "input": {}}
        parts = reply.pieces if is_text else [reply.calls[at].json]
        made.append({"type": "content_block_start", "index": at, "content_block": empty})
        for part in parts:
            delta = {"type": "text_delta", "text": part} if is_text else {"type": "input_json_delta"}
            made.append(
                {
                    "type": "content_block_delta",
                    "index": at,
                    "delta": delta if is_text else {**delta, "partial_json": part},
                }
            )
        made.append({"type": "content_block_stop", "index": at})
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    made += [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}}, {"type": "message_stop"}]
    return [(one["type"], one) for one in made]
