"""Amazon Bedrock's converse."""

from __future__ import annotations

from typing import Any

from frameworks.model import Ask, Reply, Tool


def read(body: dict[str, Any]) -> Ask:
    parts = [part for message in body["messages"] if message["role"] == "user" for part in message["content"]]
    tools = [one["toolSpec"] for one in (body.get("toolConfig") or {"tools": []})["tools"]]
    return Ask(
        prompt="\n".join(part.get("text", "") for part in [*(body.get("system") or ()), *parts]),
        tools=[Tool(one["name"], one["inputSchema"]["json"]) for one in tools],
        results=sum("toolResult" in part for part in parts),
    )


def whole(reply: Reply) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"text": reply.text}] if reply.text else []
    content += [{"toolUse": {"toolUseId": one.id, "name": one.name, "input": one.arguments}} for one in reply.calls]
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "tool_use" if reply.calls else "end_turn",
        "usage": {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15},
        "metrics": {"latencyMs": 1},
    }
