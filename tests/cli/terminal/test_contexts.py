"""What a model saw: the labels of messages against the call before, of every maker's requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kit.cli import asking, assert_two_lines, flip_content, onrecord, onrecord_json, onrecord_process, record
from kit.numbered_server import Server
from kit.terminal import shown
from onrecord.core.events import ActionRequested, ActionSucceeded, Completed
from onrecord.journal.chain import Draft


def call(at: int, payload: Any, output: Any = "fine", *, lane: str = "main") -> list[Any]:
    asked = ActionRequested(action_id=f"a{at}", payload=payload, name="ask", effect="model_call")
    return [Draft(asked, lane=lane), Draft(ActionSucceeded(action_id=f"a{at}", output=output), parent=at, lane=lane)]


def said(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


def posted(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """A request as it is recorded of an HTTP client."""
    return {"method": "POST", "url": f"https://models.example{path}", "headers": {}, "body": {"json": body}}


def labels(run: str = "one", *arguments: str) -> list[tuple[str | None, str, str]]:
    found = onrecord_json("show", run, "--context", *arguments)
    return [(one["label"], one["role"], one["text"]) for one in found["messages"]]


SYSTEM, QUESTION, LONG = said("system", "Be kind."), said("user", "Where is my order?"), "word " * 50


def test_each_label() -> None:
    before = [SYSTEM, QUESTION, said("assistant", LONG), said("user", "red or blue?"), said("user", "thanks")]
    after = [
        SYSTEM,
        said("system", "Mention the sale."),
        QUESTION,
        said("assistant", LONG[:40] + "…"),
        said("user", "red or green?"),
        said("assistant", "fine"),
    ]
    answer = {"choices": [{"message": said("assistant", "fine")}]}
    record("one", [*call(1, {"messages": before}, answer), *call(3, {"messages": after}), Completed()])
    found = onrecord_json("show", "one", "--context")
    assert found["before"]["seq"] == 1
    assert [(one["label"], one["text"][:18]) for one in found["messages"]] == [
        ("SAME", "Be kind."),
        ("INJECTED", "Mention the sale."),
        ("SAME", "Where is my order?"),
        ("TRUNCATED", LONG[:18]),
        ("CHANGED", "red or green?"),
        ("DROPPED", "thanks"),
        ("INJECTED", "fine"),
    ]
    injected = [one for one in found["messages"] if one["label"] == "INJECTED"]
    assert [(one["place"], one["origin"]) for one in injected] == [("between", None), ("end", "answer")]
    changed = next(one for one in found["messages"] if one["label"] == "CHANGED")
    assert [run["text"] for run in changed["words"]["runs"] if run["kind"] != "equal"] == ["blue", "green"]
    assert found["counts"] == {"SAME": 2, "INJECTED": 2, "TRUNCATED": 1, "CHANGED": 1, "DROPPED": 1}


def test_the_first_call_is_compared_with_nothing() -> None:
    record("one", [*call(1, {"messages": [SYSTEM, QUESTION]}), Completed()])
    assert labels() == [(None, "system", "Be kind."), (None, "user", "Where is my order?")]
    assert "the first model call" in onrecord("show", "one", "--context").stdout


MAKERS = {
    "openai chat": (
        "/v1/chat/completions",
        lambda texts: {"model": "m", "messages": [SYSTEM, *(said("user", text) for text in texts)]},
    ),
    "openai responses": (
        "/v1/responses",
        lambda texts: {"model": "m", "instructions": "Be kind.", "input": [said("user", text) for text in texts]},
    ),
    "anthropic": (
        "/v1/messages",
        lambda texts: {"model": "m", "system": "Be kind.", "messages": [said("user", text) for text in texts]},
    ),
    "google": (
        "/v1beta/models/m:generateContent",
        lambda texts: {
            "systemInstruction": {"parts": [{"text": "Be kind."}]},
            "contents": [{"role": "user", "parts": [{"text": text}]} for text in texts],
        },
    ),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_requests_of_every_maker(maker: str) -> None:
    path, body = MAKERS[maker]
    first, second = (posted(path, body(texts)) for texts in (["one", "two"], ["one", "three", "four"]))
    record("one", [*call(1, first, {"status": 200}), *call(3, second, {"status": 200}), Completed()])
    assert labels() == [
        ("SAME", "system", "Be kind."),
        ("SAME", "user", "one"),
        ("CHANGED", "user", "three"),
        ("INJECTED", "user", "four"),
    ]
    assert onrecord_json("show", "one", "--context")["model"] == "m"


PROGRAM = """
import sys
import anthropic, openai
from google import genai
from google.genai import types

url = sys.argv[1]
for maker, number in [(maker, number) for maker in sys.argv[2:] for number in (1, 2)]:
    texts = [f"first question of {maker}", f"second question of {maker}"][:number]
    said = [{"role": "user", "content": text} for text in texts]
    if maker == "openai chat":
        with openai.OpenAI(base_url=f"{url}/v1", api_key="k") as client:
            client.chat.completions.create(model="m", messages=said)
    elif maker == "openai responses":
        with openai.OpenAI(base_url=f"{url}/v1", api_key="k") as client:
            client.responses.create(model="m", input=said)
    elif maker == "anthropic":
        with anthropic.Anthropic(base_url=url, api_key="k") as client:
            client.messages.create(model="claude-haiku-4-5", max_tokens=9, messages=said)
    else:
        client = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url))
        contents = [types.Content(role="user", parts=[types.Part(text=text)]) for text in texts]
        client.models.generate_content(model="m", contents=contents)
"""


def test_calls_of_the_real_clients(server: Server) -> None:
    Path("program.py").write_text(PROGRAM)
    done = onrecord_process("run", "program.py", server.url, *MAKERS)
    assert done.returncode == 0, done.stderr
    timeline = onrecord_json("show", "@last", "--limit", "1000")["timeline"]
    calls = [event["seq"] for event in timeline if event["content"].get("effect") == "model_call"]
    assert len(calls) == 2 * len(MAKERS)
    for maker, second in zip(MAKERS, calls[1::2], strict=True):
        assert labels("@last", "--event", str(second)) == [
            ("SAME", "user", f"first question of {maker}"),
            ("INJECTED", "user", f"second question of {maker}"),
        ]


AGENT = """
import onrecord

@onrecord.tool(kind="model_call")
def complete(prompt: str, temperature: float) -> str:
    return f"answer to {prompt}"

@onrecord.agent
def support(question: str) -> str:
    complete(question, 0.0)
    return complete(question + " And why?", 0.5)
"""


def test_a_tool_that_is_a_model_call() -> None:
    Path("agent.py").write_text(AGENT)
    assert onrecord_process("run", "agent.py:support", "--input", '["What?"]').returncode == 0
    assert labels("@last") == [("EXTENDED", "user", "What? And why?")]
    found = onrecord_json("show", "@last", "--context")
    assert [(one["path"], one["actual"]) for one in found["settings"]["differences"]] == [("/temperature", 0.5)]
    assert "/temperature" in onrecord("show", "@last", "--context").stdout


def test_two_conversations_in_one_lane_are_told_apart() -> None:
    ours = [said("system", "planner"), said("user", "plan it")]
    theirs = [said("system", "writer"), said("user", "write it")]
    record(
        "one",
        [
            *call(1, {"messages": ours}),
            *call(3, {"messages": theirs}),
            *call(5, {"messages": [*ours, said("user", "again")]}),
            Completed(),
        ],
    )
    assert onrecord_json("show", "one", "--context")["before"]["seq"] == 1
    assert labels()[-1] == ("INJECTED", "user", "again")


def test_a_conversation_that_goes_on_in_another_lane() -> None:
    talk = [SYSTEM, QUESTION]
    record(
        "one",
        [
            *call(1, {"messages": talk}, lane="main>a"),
            *call(3, {"messages": [SYSTEM, said("user", "something else")]}, lane="main>a#1"),
            *call(5, {"messages": [*talk, said("user", "again")]}, lane="main>a#2"),
            Completed(),
        ],
    )
    assert onrecord_json("show", "one", "--context")["before"] == {
        "run": "one",
        "seq": 1,
        "lane": "main>a",
        "model": None,
    }
    # The same system text alone is no conversation.
    assert onrecord_json("show", "one", "--context", "--event", "3")["before"] is None


def test_a_fork_looks_on_in_its_parent() -> None:
    Path("agent.py").write_text(AGENT)
    assert onrecord_process("run", "agent.py:support", "--input", '["What?"]', "--run-id", "base").returncode == 0
    forked = onrecord_process("fork", "base", "--at", "2")
    assert forked.returncode == 0, forked.stderr
    run = json.loads(onrecord("ls", "--json").stdout)["runs"][0]["run"]
    assert run != "base"
    assert onrecord_json("show", run, "--context")["before"]["run"] == "base"


def test_calls_and_results_of_tools_are_shown() -> None:
    asked = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"order": 7}'}}],
    }
    result = {"role": "tool", "tool_call_id": "c1", "content": "42 EUR"}
    first = {"messages": [QUESTION], "tools": [{"type": "function", "function": {"name": "look_up"}}]}
    record("one", [*call(1, first), *call(3, first | {"messages": [QUESTION, asked, result]}), Completed()])
    text = onrecord("show", "one", "--context").stdout
    assert 'look_up({"order": 7})' in text
    assert "42 EUR" in text
    assert "tools     look_up" in text


STREAMED = {
    "openai chat": (
        '{"choices": [{"delta": {"content": "fi"}}]}',
        '{"choices": [{"delta": {"content": "ne"}}]}',
        "[DONE]",
    ),
    "anthropic": (
        '{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}',
        '{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "fine"}}',
        '{"type": "message_stop"}',
    ),
}


@pytest.mark.parametrize("maker", STREAMED)
def test_an_answer_that_came_as_a_stream_is_known_again(maker: str) -> None:
    path, _ = MAKERS[maker]
    output = {"status": 200, "body": {"text": "".join(f"data: {event}\n\n" for event in STREAMED[maker])}}
    first, second = ({"model": "m", "messages": talk} for talk in ([QUESTION], [QUESTION, said("assistant", "fine")]))
    record("one", [*call(1, posted(path, first), output), *call(3, posted(path, second)), Completed()])
    assert onrecord_json("show", "one", "--context")["messages"][-1]["origin"] == "answer"


def test_calls_that_a_model_asked_for_are_its_own_answer() -> None:
    asked = {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": '{"order": 7}'}
    result = {"type": "function_call_output", "call_id": "c1", "output": "42 EUR"}
    output = {"status": 200, "body": {"json": {"model": "m", "output": [{"type": "reasoning", "id": "r1"}, asked]}}}
    first, second = ({"model": "m", "input": [QUESTION, *more]} for more in ([], [asked, result]))
    record(
        "one",
        [*call(1, posted("/v1/responses", first), output), *call(3, posted("/v1/responses", second)), Completed()],
    )
    found = onrecord_json("show", "one", "--context")["messages"]
    assert [(one["label"], one.get("origin")) for one in found] == [
        ("SAME", None),
        ("INJECTED", "answer"),
        ("INJECTED", None),
    ]


def test_marks_for_a_cache_are_nothing_that_a_model_sees() -> None:
    def marked(text: str) -> dict[str, Any]:
        return {"role": "user", "content": [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]}

    first = {"model": "m", "messages": [marked("one")], "max_tokens": 9}
    second = {"model": "m", "messages": [said("user", "one"), marked("two")], "max_tokens": 9}
    record("one", [*call(1, posted("/v1/messages", first)), *call(3, posted("/v1/messages", second)), Completed()])
    assert labels() == [("SAME", "user", "one"), ("INJECTED", "user", "two")]


def test_what_a_provider_keeps_is_said_to_be_missing() -> None:
    body = {"model": "m", "previous_response_id": "resp_1", "input": "and now?"}
    record("one", [*call(1, posted("/v1/responses", body)), Completed()])
    assert onrecord_json("show", "one", "--context")["goes_on_from"] == "resp_1"
    assert "not in this request" in onrecord("show", "one", "--context").stdout


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (["none", "--context"], 3, "no_model_call"),
        (["odd", "--context"], 2, "no_conversation"),
        (["odd", "--context", "--event", "3"], 2, "no_model_call"),
        (["odd", "--context", "--event", "9"], 2, "bad_position"),
        (["odd", "--context", "--state", "1"], 2, "usage"),
        (["odd", "--context", "--follow"], 2, "usage"),
        (["bad", "--context"], 3, "no_model_call"),
    ],
)
def test_what_cannot_be_shown(arguments: list[str], status: int, code: str) -> None:
    record("none", [Completed()])
    record("odd", [*call(1, 7), Completed()])
    record("bad", [*call(1, {"messages": [QUESTION]}), Completed()])
    flip_content("bad", 1)
    result = onrecord("show", *arguments)
    assert result.exit_code == status, result.output
    assert_two_lines(result.stderr, code)


def test_a_damaged_call_before_is_passed_over() -> None:
    talk = [QUESTION]
    record(
        "one", [*call(1, {"messages": talk}), *call(3, {"messages": talk}), *call(5, {"messages": talk}), Completed()]
    )
    flip_content("one", 3)
    assert onrecord_json("show", "one", "--context")["before"]["seq"] == 1


def test_long_messages_are_cut_until_all_is_asked_for() -> None:
    text = "\n".join(f"line {number}" for number in range(100))
    record("one", [*call(1, {"messages": [said("user", text)]}), Completed()])
    assert "line 99" not in onrecord("show", "one", "--context").stdout
    assert "line 99" in onrecord("show", "one", "--context", "--full").stdout
    assert "88 more lines" in shown("show", "one", "--context").text


def test_an_unusual_question_is_still_a_conversation() -> None:
    record("one", [*asking("What now?", "That."), Completed()])
    assert labels() == [(None, "user", "What now?")]
