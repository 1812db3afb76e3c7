"""The fixture `onrecord`: tokens, cost, tool calls; and cassettes in place of recordings."""

from __future__ import annotations

import json
from pathlib import Path

from kit.plugin import Project

pytest_plugins = ["pytester"]

CASSETTE = """
version: 1
interactions:
- request: {method: POST, uri: 'https://api.example.com/v1/orders', body: '{"order": 1}', headers: {}}
  response: {status: {code: 201, message: Created}, headers: {}, body: {string: '{"order": "first"}'}}
- request: {method: POST, uri: 'https://api.example.com/v1/orders', body: '{"order": 2}', headers: {}}
  response: {status: {code: 201, message: Created}, headers: {}, body: {string: '{"order": "second"}'}}
"""


def test_what_a_test_can_assert(project: Project) -> None:
    project.write(
        """
def ask(**more):
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}], **more}
    return httpx.post(f"{URL}/v1/chat/completions", json=body)


def test_spending(onrecord):
    assert (onrecord.tokens, onrecord.calls, onrecord.tool_calls, onrecord.cost) == (0, [], [], 0)
    ask()
    assert (onrecord.input_tokens, onrecord.output_tokens, onrecord.tokens) == (10, 5, 15)
    assert 0 < onrecord.cost < 0.01
    assert [(call.name, call.input) for call in onrecord.tool_calls] == [("refund", {"order": "A-17"})]
    ask(stream=True)
    httpx.get(f"{URL}/plain")
    assert [(call.name, call.input) for call in onrecord.tool_calls][1:] == [("refund", {"o": 1})]
    assert [call.kind for call in onrecord.calls] == ["model_call", "model_call", "http"]
    assert onrecord.calls[0].body["messages"][0]["content"] == "hi"
    assert onrecord.calls[0].status == 200
    assert onrecord.calls[2].answered["path"] == "/plain"
    assert onrecord.run_id.startswith("test_spending-")
    assert onrecord.path.name == "test_spending.jsonl"
    assert onrecord.is_replay == (onrecord.mode == "none")
"""
    )
    project.run("--onrecord=once").assert_outcomes(passed=1)
    project.server.stop()
    project.run().assert_outcomes(passed=1)


def test_a_cassette_answers_in_place(project: Project) -> None:
    (project.folder / "cassettes").mkdir()
    (project.folder / "cassettes" / "orders.yaml").write_text(CASSETTE)
    project.write(
        """
def order(number):
    return httpx.post("https://api.example.com/v1/orders", json={"order": number})


@pytest.mark.onrecord(cassette="cassettes/orders.yaml")
def test_played(onrecord):
    assert order(2).json() == {"order": "second"}
    assert order(1).json() == {"order": "first"}
    assert len(onrecord.calls) == 2


@pytest.mark.onrecord(cassette="cassettes/orders.yaml", match_on=["method", "uri"])
def test_in_order():
    assert [order(7).json()["order"], order(8).json()["order"]] == ["first", "second"]


@pytest.mark.onrecord(cassette="cassettes/orders.yaml")
def test_miss():
    order(3)


@pytest.mark.onrecord(cassette="cassettes/orders.yaml")
def test_too_often():
    order(1), order(2), order(1)


@pytest.mark.onrecord(cassette="cassettes/none.yaml")
def test_missing():
    order(1)
"""
    )
    result = project.run("--onrecord=all")
    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines(
        [
            "the cassette orders.yaml has no answer to POST api.example.com/v1/orders; the nearest*",
            "  /payload/body/json/order",
            "      recorded: 1",
            "      now:      3",
            "*each answer is used once*",
            "there is no cassette *none.yaml*",
        ]
    )
    assert project.recordings() == []


def test_cassettes_lie_where_pytest_recording_puts_them(project: Project) -> None:
    folder = project.folder / "cassettes" / "test_agent"
    folder.mkdir(parents=True)
    text = json.dumps(
        {
            "interactions": [
                {
                    "request": {"method": "GET", "uri": "https://example.com/", "body": None, "headers": {}},
                    "response": {"status": {"code": 200, "message": "OK"}, "headers": {}, "body": {"string": "hi"}},
                }
            ]
        }
    )
    Path(folder / "test_one.yaml").write_text(text)
    Path(folder / "TestTwo.test_two[x].yaml").write_text(text)
    project.write(
        """
pytestmark = pytest.mark.onrecord(cassette=True)


def test_one():
    assert httpx.get("https://example.com/").text == "hi"


class TestTwo:
    @pytest.mark.parametrize("name", ["x"])
    def test_two(self, name):
        assert httpx.get("https://example.com/").text == "hi"
"""
    )
    project.run().assert_outcomes(passed=2)
