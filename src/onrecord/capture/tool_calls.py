"""The tools that a model asked for in its answer, whole or as the events of a stream.

OpenAI (chat completions, responses), Anthropic and Google. In streams their arguments come in pieces, which are put
together here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from reenact.capture.http.bodies import body_bytes
from reenact.replays.comparing.tool_calls import ToolCall, parsed_input, without_tool_calls


def tool_calls_of(answer: Any) -> list[ToolCall]:
    """Of the recorded answer to a model call, in the order in which the model named them."""
    body = answer.get("body") if isinstance(answer, Mapping) else None
    if not isinstance(body, Mapping):
        return []
    if "json" in body:
        return without_tool_calls(body["json"]).calls
    return _streamed(_events(body_bytes(body)))


def _events(body: bytes) -> list[dict[str, Any]]:
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


def _streamed(events: list[dict[str, Any]]) -> list[ToolCall]:
    whole = [event["response"] for event in events if _is_end_of_response(event)]
    if whole:  # the last event of the stream repeats all of it
        return without_tool_calls(whole[-1]).calls
    pieces = _Pieces()
    calls: list[ToolCall] = []
    for event in events:
        if not pieces.took(event):
            calls += without_tool_calls(event).calls
    return [*pieces.calls(), *calls]


def _is_end_of_response(event: Mapping[str, Any]) -> bool:
    ended = event.get("type") in ("response.completed", "response.incomplete")
    return ended and isinstance(event.get("response"), Mapping)


class _Pieces:
    """Calls whose arguments come in pieces, by the choice and the place that they have in the answer."""

    def __init__(self) -> None:
        self._names: dict[tuple[Any, Any], str] = {}
        self._arguments: dict[tuple[Any, Any], str] = {}

    def took(self, event: Mapping[str, Any]) -> bool:
        if isinstance(event.get("choices"), list):
            for choice in event["choices"]:
                self._take_choice(choice)
            return True
        if event.get("type") in ("content_block_start", "content_block_delta"):
            self._take_block(event)
            return True
        return str(event.get("type", "")).startswith("response.") and event["type"] != "response.output_item.done"

    def _take_choice(self, choice: Any) -> None:
        delta = choice.get("delta") if isinstance(choice, Mapping) else None
        for call in (delta.get("tool_calls") or ()) if isinstance(delta, Mapping) else ():
            function = call.get("function") if isinstance(call, Mapping) else None
            if isinstance(function, Mapping):
                self._take((choice.get("index"), call.get("index")), function.get("name"), function.get("arguments"))

    def _take_block(self, event: Mapping[str, Any]) -> None:
        block, delta = event.get("content_block"), event.get("delta")
        if isinstance(block, Mapping) and str(block.get("type", "")).endswith("tool_use"):
            self._take((0, event.get("index")), block.get("name"), "")
        elif isinstance(delta, Mapping) and delta.get("type") == "input_json_delta":
            self._take((0, event.get("index")), None, delta.get("partial_json"))

    def _take(self, place: tuple[Any, Any], name: Any, arguments: Any) -> None:
        if isinstance(name, str) and name:
            self._names[place] = name
        if isinstance(arguments, str):
            self._arguments[place] = self._arguments.get(place, "") + arguments

    def calls(self) -> list[ToolCall]:
        return [ToolCall(name, parsed_input(self._arguments.get(place) or "{}")) for place, name in self._names.items()]
