"""Streams of the providers, put together as the answers that they would have been."""

from __future__ import annotations

import json
from typing import Any

from onrecord.reports.chats import answer_message
from onrecord.reports.gists import ITEMS_ROOM, gist_of, trimmed
from onrecord.reports.streamed import streamed_answer


def stream(*events: Any) -> str:
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"


def told(text: str) -> dict[str, Any]:
    message = answer_message({"status": 200, "body": {"text": text}})
    assert message is not None
    return message.to_data()


def test_openai_chat() -> None:
    def part(**delta: Any) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": delta}]}

    call = {"index": 0, "id": "c", "function": {"name": "look_up", "arguments": '{"or'}}
    text = stream(
        part(role="assistant", content="Hel"),
        part(content="lo"),
        part(tool_calls=[call]),
        part(tool_calls=[{"index": 0, "function": {"arguments": 'der": 1}'}}]),
        {"choices": [], "usage": {"total_tokens": 3}},
    )
    assert told(text) == {"role": "assistant", "text": "Hello", "calls": [{"name": "look_up", "input": {"order": 1}}]}


def test_openai_responses() -> None:
    output = [
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]},
        {"type": "function_call", "name": "look_up", "arguments": "{}", "call_id": "c"},
    ]
    text = stream(
        {"type": "response.output_text.delta", "delta": "Hel"},
        {"type": "response.completed", "response": {"output": output}},
    )
    for found in (told(text), answer_message({"output": output}).to_data()):  # type: ignore[union-attr]
        assert (found["role"], found["text"]) == ("assistant", "Hello")
        assert found["calls"] == [{"name": "look_up", "input": {}}]


def test_anthropic() -> None:
    text = stream(
        {"type": "message_start", "message": {"role": "assistant", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo"}},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "t", "name": "look_up", "input": {}},
        },
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"a":'}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": " 1}"}},
    )
    assert told(text) == {"role": "assistant", "text": "Hello", "calls": [{"name": "look_up", "input": {"a": 1}}]}


def test_google() -> None:
    def part(text: str) -> dict[str, Any]:
        return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}]}

    assert told(stream(part("Hel"), part("lo"))) == {"role": "assistant", "text": "Hello"}


def test_whatever_else_comes() -> None:
    for text in ("", "data: {", "data: 1", stream({"type": "ping"}), stream({"choices": "x"}), "\x00" * 100):
        assert streamed_answer(text) is None
    assert streamed_answer(stream({"choices": [None]})) is not None
    for odd in (None, 1, [], {"body": 1}, {"body": {"text": 1}}, {"output": [1]}, {"choices": [1]}):
        answer_message(odd)
    assert answer_message("text") is not None


def test_gists_are_short_and_lose_nothing_small() -> None:
    assert gist_of("StateUpdated", {"payload": {"a": 1, "b": [True, None, "x"]}}) == "{a: 1, b: [true, null, x]}"
    for value in ("x" * 10**6, ["y"] * 10**6, {str(n): n for n in range(10**5)}, {"k" * 10**6: 1}):
        assert len(gist_of("StateUpdated", {"payload": value})) <= 160
    assert gist_of("StateUpdated", None) == ""


def test_values_are_trimmed_however_they_are_large() -> None:
    deep: Any = "end"
    for _ in range(5_000):
        deep = [deep]
    wide = [[["x"] * 300] * 300] * 300
    for value in (deep, wide, {"a": "x" * 10**6}, ["x" * 10**5] * 1000):
        found = trimmed(value)
        assert found.cut
        assert len(json.dumps(found.value)) < 500_000
    small = {"a": [1, {"b": "c"}], "d": ""}
    assert trimmed(small) == (small, False)
    assert trimmed(list(range(ITEMS_ROOM))).cut is False
