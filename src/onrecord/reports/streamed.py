"""A model's answer that came as a stream, put together as the one that it would have been: OpenAI (chat completions and
responses), Anthropic, Google. Whatever else came over the line is left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

MOST_BYTES = 16 * 1024 * 1024


def streamed_answer(text: str) -> dict[str, Any] | None:
    """The answer in the events of a stream; None where there is none that is known."""
    built: dict[str, Any] | None = None
    anthropic: list[dict[str, Any]] = []
    chat: dict[str, Any] = {"role": "assistant", "content": ""}
    google: list[Any] = []
    seen_chat = False
    for event in _events(text[:MOST_BYTES]):
        whole = event.get("response")
        if isinstance(whole, dict) and isinstance(whole.get("output"), list) and whole["output"]:
            built = whole  # responses: the last event holds all of it
        elif isinstance(event.get("choices"), list):
            seen_chat = True
            _add_to_chat(chat, event["choices"])
        elif isinstance(event.get("candidates"), list):
            google += _parts_of(event["candidates"])
        elif isinstance(event.get("type"), str):
            _add_to_blocks(anthropic, event)
    if built is not None:
        return built
    if seen_chat:
        return {"choices": [{"message": _without_empty(chat)}]}
    if google:
        return {"candidates": [{"content": {"role": "model", "parts": _joined(google)}}]}
    return {"role": "assistant", "content": [_closed(block) for block in anthropic]} if anthropic else None


def _events(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.startswith("data:"):
            try:
                event = orjson.loads(line[5:])
            except ValueError:
                continue
            if isinstance(event, dict):
                yield event


def _add_to_chat(message: dict[str, Any], choices: list[Any]) -> None:
    delta = choices[0].get("delta") if choices and isinstance(choices[0], dict) else None
    if not isinstance(delta, dict) or choices[0].get("index", 0) != 0:
        return
    if isinstance(delta.get("content"), str):
        message["content"] += delta["content"]
    if isinstance(delta.get("refusal"), str):
        message["refusal"] = message.get("refusal", "") + delta["refusal"]
    for part in delta.get("tool_calls") or []:
        if not isinstance(part, dict):
            continue
        calls: dict[Any, dict[str, Any]] = message.setdefault("tool_calls", {})
        call = calls.setdefault(part.get("index", 0), {"type": "function", "function": {"name": "", "arguments": ""}})
        told = part.get("function")
        if isinstance(told, dict):
            for name in ("name", "arguments"):
                call["function"][name] += told[name] if isinstance(told.get(name), str) else ""


def _without_empty(message: dict[str, Any]) -> dict[str, Any]:
    calls = message.pop("tool_calls", None)
    return {**message, "tool_calls": list(calls.values())} if calls else message


def _add_to_blocks(blocks: list[dict[str, Any]], event: dict[str, Any]) -> None:
    """Anthropic: blocks of a message, each begun and then added to."""
    if event["type"] == "content_block_start" and isinstance(event.get("content_block"), dict):
        blocks.append(dict(event["content_block"]))
    delta = event.get("delta")
    if event["type"] != "content_block_delta" or not isinstance(delta, dict) or not blocks:
        return
    number = event.get("index")
    block = blocks[number] if isinstance(number, int) and 0 <= number < len(blocks) else blocks[-1]
    for name, kept in (("text", "text"), ("thinking", "thinking"), ("partial_json", "input")):
        if isinstance(delta.get(name), str):
            before = block.get(kept)
            block[kept] = (before if isinstance(before, str) else "") + delta[name]


def _closed(block: dict[str, Any]) -> dict[str, Any]:
    if block.get("type") == "tool_use" and isinstance(block.get("input"), str):
        try:
            return {**block, "input": orjson.loads(block["input"])}
        except ValueError:
            return block
    return block


def _parts_of(candidates: list[Any]) -> list[Any]:
    content = candidates[0].get("content") if candidates and isinstance(candidates[0], dict) else None
    parts = content.get("parts") if isinstance(content, dict) else None
    return parts if isinstance(parts, list) else []


def _joined(parts: list[Any]) -> list[Any]:
    """Texts that follow each other are one text."""
    found: list[Any] = []
    for part in parts:
        is_text = isinstance(part, dict) and set(part) == {"text"} and isinstance(part["text"], str)
        if is_text and found and isinstance(found[-1], dict) and set(found[-1]) == {"text"}:
            found[-1] = {"text": found[-1]["text"] + part["text"]}
        else:
            found.append(part)
    return found
