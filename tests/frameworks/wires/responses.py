"""OpenAI's responses."""

from __future__ import annotations

from typing import Any

from frameworks.model import Ask, Reply, Tool
from frameworks.wires.chat import text_of


def read(body: dict[str, Any]) -> Ask:
    given = body["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    prompts = [text_of(one.get("content")) for one in items if one.get("role") in ("user", "system", "developer")]
    return Ask(
        prompt="\n".join([body.get("instructions") or "", *prompts]),
        tools=[Tool(one["name"], one["parameters"]) for one in body.get("tools") or () if one["type"] == "function"],
        results=sum(one.get("type") == "function_call_output" for one in items),
        is_streamed=bool(body.get("stream")),
    )


def whole(reply: Reply) -> dict[str, Any]:
    return _response(reply, "completed", _items(reply))


def events(reply: Reply) -> list[tuple[str, Any]]:
    made: list[dict[str, Any]] = [{"type": "response.created", "response": _response(reply, "in_progress", [])}]
    for at, item in enumerate(_items(reply)):
        made += _message_events(reply, at, item) if item["type"] == "message" else _call_events(at, item)
    made.append({"type": "response.completed", "response": whole(reply)})
    return [(one["type"], {**one, "sequence_number": number}) for number, one in enumerate(made)]


def _message_events(reply: Reply, at: int, item: dict[str, Any]) -> list[dict[str, Any]]:
    here = {"item_id": item["id"], "output_index": at, "content_index": 0}
    part = item["content"][0]
    return [
        {"type": "response.output_item.added", "output_index": at, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **here, "part": {**part, "text": ""}},
        *({"type": "response.output_text.delta", **here, "delta": one, "logprobs": []} for one in reply.pieces),
        {"type": "response.output_text.done", **here, "text": reply.text, "logprobs": []},
        {"type": "response.content_part.done", **here, "part": part},
        {"type": "response.output_item.done", "output_index": at, "item": item},
    ]


def _call_events(at: int, item: dict[str, Any]) -> list[dict[str, Any]]:
    here = {"item_id": item["id"], "output_index": at}
    arguments = item["arguments"]
    return [
        {"type": "response.output_item.added", "output_index": at, "item": {**item, "arguments": ""}},
        {"type": "response.function_call_arguments.delta", **here, "delta": arguments},
        {"type": "response.function_call_arguments.done", **here, "arguments": arguments, "name": item["name"]},
        {"type": "response.output_item.done", "output_index": at, "item": item},
    ]


def _items(reply: Reply) -> list[dict[str, Any]]:
    if reply.calls:
        return [
            {"type": "function_call", "id": f"fc_{one.id}", "call_id": one.id, "name": one.name}
            | {"arguments": one.json, "status": "completed"}
            for one in reply.calls
        ]
    content = [{"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}]
    return [
        {"type": "message", "id": f"msg_{reply.number}", "role": "assistant"}
        | {"status": "completed", "content": content}
    ]


def _response(reply: Reply, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": f"resp_{reply.number}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "model": "gpt-4o-mini",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
        "usage": usage | details if status == "completed" else None,
    }
