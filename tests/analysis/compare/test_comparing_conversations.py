"""Conversations of three makers, message by message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onrecord.analysis.compare.conversations import compare_conversations, is_truncated
from onrecord.analysis.compare.messages import messages_of
from onrecord.errors import InvalidInput


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


HELLO = [{"role": "system", "content": "be brief"}, user("what is 2 + 2"), assistant("it is 4"), user("thank you")]


def kinds(expected: Any, actual: Any) -> list[str]:
    return [change.kind for change in compare_conversations(expected, actual).changes]


@pytest.mark.parametrize(
    ("actual", "expected_kinds"),
    [
        (HELLO, ["SAME"] * 4),
        (HELLO[1:], ["DROPPED", "SAME", "SAME", "SAME"]),
        ([*HELLO[:2], user("ignore all that"), *HELLO[2:]], ["SAME", "SAME", "INJECTED", "SAME", "SAME"]),
        ([*HELLO[:2], assistant("it is 5"), HELLO[3]], ["SAME", "SAME", "CHANGED", "SAME"]),
        ([*HELLO[:2], assistant("it is"), HELLO[3]], ["SAME", "SAME", "TRUNCATED", "SAME"]),
        ([*HELLO[:2], assistant("it …"), HELLO[3]], ["SAME", "SAME", "TRUNCATED", "SAME"]),
        ([*HELLO[:2], assistant(""), HELLO[3]], ["SAME", "SAME", "CHANGED", "SAME"]),
        (
            [HELLO[0], user("now this"), user("what is 2 + 3"), *HELLO[2:]],
            ["SAME", "INJECTED", "CHANGED", "SAME", "SAME"],
        ),
        ([HELLO[0], HELLO[1], user("it is 4"), HELLO[3]], ["SAME", "SAME", "DROPPED", "INJECTED", "SAME"]),
        ([], ["DROPPED"] * 4),
    ],
)
def test_each_message_is_told(actual: list[Any], expected_kinds: list[str]) -> None:
    assert kinds(HELLO, actual) == expected_kinds


def test_a_changed_message_shows_its_words() -> None:
    diff = compare_conversations(HELLO, [*HELLO[:2], assistant("it is 5"), HELLO[3]])
    change = diff.changes[2]
    assert change.words is not None
    assert [(run.kind, run.text) for run in change.words.runs] == [
        ("equal", "it is "),
        ("removed", "4"),
        ("added", "5"),
    ]
    assert diff.counts() == {"SAME": 3, "CHANGED": 1}
    data = json.loads(json.dumps(diff.to_data()))
    assert data["changes"][2]["words"]["runs"][1] == {"kind": "removed", "text": "4"}
    assert data["changes"][0] == {"kind": "SAME", "role": "system", "expected_index": 0, "actual_index": 0}


def test_the_same_conversation_of_three_makers_is_the_same() -> None:
    arguments = {"city": "Rome"}
    openai = {
        "messages": [
            {"role": "system", "content": "be brief"},
            user("weather?"),
            assistant(
                None,
                tool_calls=[
                    {"id": "c1", "type": "function", "function": {"name": "w", "arguments": '{"city":"Rome"}'}}
                ],
            ),
        ]
    }
    anthropic = {
        "system": [{"type": "text", "text": "be brief"}],
        "messages": [
            user([{"type": "text", "text": "weather?"}]),
            assistant([{"type": "tool_use", "id": "t9", "name": "w", "input": arguments}]),
        ],
    }
    google = {
        "systemInstruction": {"parts": [{"text": "be brief"}]},
        "contents": [
            {"role": "user", "parts": [{"text": "weather?"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "w", "args": arguments}}]},
        ],
    }
    responses = {
        "instructions": "be brief",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "weather?"}]},
            {"type": "function_call", "call_id": "c", "name": "w", "arguments": '{"city": "Rome"}'},
        ],
    }
    for other in (anthropic, google, responses):
        assert compare_conversations(openai, other).equal
    changed = {**responses, "input": [responses["input"][0], {**responses["input"][1], "arguments": "{}"}]}  # type: ignore[dict-item]
    diff = compare_conversations(openai, changed)
    assert kinds(openai, changed) == ["SAME", "SAME", "CHANGED"]
    assert diff.changes[2].rest is not None
    assert [each.path for each in diff.changes[2].rest.differences] == ["/calls/0/input/city"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"role": "tool", "tool_call_id": "1", "content": "ok"}, {"role": "tool", "tool_call_id": "1", "content": "x"}),
        (user([{"type": "tool_result", "tool_use_id": "1", "content": "ok"}]),
         user([{"type": "tool_result", "tool_use_id": "1", "content": "ok", "is_error": True}])),
        (user([{"type": "image", "source": {"data": "a"}}]), user([{"type": "image", "source": {"data": "b"}}])),
        (user([{"functionResponse": {"name": "w", "response": 1}}]),
         user([{"functionResponse": {"name": "w", "response": 2}}])),
        ({"role": "user", "content": "x", "name": "ann"}, {"role": "user", "content": "x", "name": "bob"}),
        (user([{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]), user("x")),
        ({"type": "function_call_output", "call_id": "1", "output": "a"},
         {"type": "function_call_output", "call_id": "1", "output": "b"}),
    ],
)  # fmt: skip
def test_what_is_no_text_is_compared_too(one: Any, other: Any) -> None:
    assert kinds([one], [one]) == ["SAME"]
    assert kinds([one], [other]) == ["CHANGED"]


def test_call_ids_that_are_drawn_anew_do_not_count() -> None:
    one, other = ({"role": "tool", "tool_call_id": drawn, "content": "ok"} for drawn in ("call_1", "call_2"))
    assert kinds([one], [other]) == ["SAME"]


@pytest.mark.parametrize(
    ("short", "long", "cut"),
    [
        ("abc", "abcdef", True),
        ("abcdef", "abc", False),
        ("abc…", "abcdef", True),
        ("abc ...", "abcdef", True),
        ("abc [truncated]", "abcdef", True),
        ("abc", "abc", False),
        ("", "abc", False),
        ("...", "abc", False),
        ("abx...", "abcdef", False),
        ("bcd", "abcdef", False),
        ("wait...", "wait... what", True),
    ],
)
def test_a_text_that_was_cut_is_told_from_one_that_was_changed(short: str, long: str, cut: bool) -> None:
    assert is_truncated(long, short) is cut
    assert kinds([user(long)], [user(short)]) == ["TRUNCATED"] or not cut
    assert kinds([user(short)], [user(long)]) == ["EXTENDED"] or not cut


@given(st.lists(st.sampled_from("abcd"), max_size=12), st.lists(st.sampled_from("abcx"), max_size=12))
def test_every_message_of_both_sides_is_told_once_and_in_order(expected: list[str], actual: list[str]) -> None:
    diff = compare_conversations([user(text) for text in expected], [user(text) for text in actual])
    assert [each.expected_index for each in diff.changes if each.expected_index is not None] == [*range(len(expected))]
    assert [each.actual_index for each in diff.changes if each.actual_index is not None] == [*range(len(actual))]
    assert diff.equal == (expected == actual)


def test_long_conversations_with_nothing_in_common_are_told_by_role() -> None:
    expected = [user(f"old {n}") if n % 2 else assistant(f"old {n}") for n in range(300)]
    actual = [user(f"new {n}") if n % 2 else assistant(f"new {n}") for n in range(300)]
    assert kinds(expected, actual) == ["CHANGED"] * 300


@pytest.mark.parametrize("conversation", ["text", 5, None, {"model": "x"}, [5], {"messages": {"role": "user"}}])
def test_what_is_no_conversation_is_refused(conversation: Any) -> None:
    with pytest.raises(InvalidInput) as refusal:
        compare_conversations([], conversation)
    assert refusal.value.code == "bad_conversation"


def test_a_prompt_in_one_text_is_a_message() -> None:
    assert [message.text for message in messages_of({"input": "hi", "instructions": "be brief"})] == ["be brief", "hi"]
