"""Tool calls in a model's answer, whole or as the events of a stream.

Supported: OpenAI (chat completions, responses), Anthropic and Google. In streams the arguments come in pieces, which
are joined here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from onrecord.analysis.compare.tool_calls import ComparedToolCall, extract_tool_calls, parse_input
from onrecord.capture.http.bodies import body_bytes


def tool_calls_of(answer: Any) -> list[ComparedToolCall]:
    """Return the tool calls of a recorded model answer, in the model's order."""
    body = answer.get("body") if isinstance(answer, Mapping) else None
    if not isinstance(body, Mapping):
        return []
    if "json" in body:
        return extract_tool_calls(body["json"]).calls
    return _join_stream(_parse_events(body_bytes(body)))


def _parse_events(body: bytes) -> list[dict[str, Any]]:
    found = []
    for line in body.splitlines():
        if line.startswith(b"data:"):
            try:
                event = orjson.loads(line[5:])
            except ValueError:
                continue
            if isinstance(event, dict):
                found.append(event)
    return found


def _join_stream(events: list[dict[str, Any]]) -> list[ComparedToolCall]:
    whole = [event["response"] for event in events if _is_end_of_response(event)]
    if whole:  # the last event repeats the whole answer
        return extract_tool_calls(whole[-1]).calls
    pieces = _CallPieces()
    calls: list[ComparedToolCall] = []
    for event in events:
        if not pieces.accept(event):
            calls += extract_tool_calls(event).calls
    return [*pieces.calls(), *calls]


def _is_end_of_response(event: Mapping[str, Any]) -> bool:
    ended = event.get("type") in ("response.completed", "response.incomplete")
    return ended and isinstance(event.get("response"), Mapping)


class _CallPieces:
    """Calls whose arguments come in pieces, by choice and index in the answer."""

    def __init__(self) -> None:
        self._names: dict[tuple[Any, Any], str] = {}
        self._arguments: dict[tuple[Any, Any], str] = {}

    def accept(self, event: Mapping[str, Any]) -> bool:
        if isinstance(event.get("choices"), list):
            for choice in event["choices"]:
                self._add_choice(choice)
            return True
        if event.get("type") in ("content_block_start", "content_block_delta"):
            self._add_block(event)
            return True
        return str(event.get("type", "")).startswith("response.") and event["type"] != "response.output_item.done"

    def _add_choice(self, choice: Any) -> None:
        delta = choice.get("delta") if isinstance(choice, Mapping) else None
        for call in (delta.get("tool_calls") or ()) if isinstance(delta, Mapping) else ():
            function = call.get("function") if isinstance(call, Mapping) else None
            if isinstance(function, Mapping):
                self._add_piece(
                    (choice.get("index"), call.get("index")), function.get("name"), function.get("arguments")
                )

    def _add_block(self, event: Mapping[str, Any]) -> None:
        block, delta = event.get("content_block"), event.get("delta")
        if isinstance(block, Mapping) and str(block.get("type", "")).endswith("tool_use"):
            self._add_piece((0, event.get("index")), block.get("name"), "")
        elif isinstance(delta, Mapping) and delta.get("type") == "input_json_delta":
            self._add_piece((0, event.get("index")), None, delta.get("partial_json"))

    def _add_piece(self, index: tuple[Any, Any], name: Any, arguments: Any) -> None:
        if isinstance(name, str) and name:
            self._names[index] = name
        if isinstance(arguments, str):
            self._arguments[index] = self._arguments.get(index, "") + arguments

    def calls(self) -> list[ComparedToolCall]:
        return [
            ComparedToolCall(name, parse_input(self._arguments.get(index) or "{}"))
            for index, name in self._names.items()
        ]
