"""Google's generateContent."""

from __future__ import annotations

from typing import Any

from frameworks.model import Ask, Reply, Tool


def read(body: dict[str, Any]) -> Ask:
    parts = [part for content in body["contents"] if content.get("role") != "model" for part in content["parts"]]
    system = body.get("systemInstruction") or {"parts": []}
    declared = [one for tool in body.get("tools") or () for one in tool.get("functionDeclarations") or ()]
    return Ask(
        prompt="\n".join(part.get("text", "") for part in [*system["parts"], *parts]),
        tools=[Tool(one["name"], _schema(one)) for one in declared],
        results=sum("functionResponse" in part for part in parts),
    )


def _schema(declared: dict[str, Any]) -> dict[str, Any]:
    names = ("parameters", "parametersJsonSchema", "parameters_json_schema")
    return next((declared[name] for name in names if name in declared), {})


def whole(reply: Reply) -> dict[str, Any]:
    return _answer(reply, [{"text": reply.text}] if not reply.calls else _calls(reply), "STOP")


def events(reply: Reply) -> list[tuple[str, Any]]:
    if reply.calls:
        return [("", whole(reply))]
    return [("", _answer(reply, [{"text": one}], "")) for one in reply.pieces] + [("", _answer(reply, [], "STOP"))]


def _calls(reply: Reply) -> list[dict[str, Any]]:
    return [{"functionCall": {"id": one.id, "name": one.name, "args": one.arguments}} for one in reply.calls]


def _answer(reply: Reply, parts: list[dict[str, Any]], reason: str) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts or [{"text": ""}], "role": "model"}, "index": 0}
    if reason:
        candidate["finishReason"] = reason
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": "gemini-2.0-flash",
        "responseId": f"r{reply.number}",
    }
