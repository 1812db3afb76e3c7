"""The official clients of OpenAI, Anthropic and Google: blocking, awaited and streaming, with no line changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import onrecord
from kit.numbered_server import Server
from kit.sdk_uses import MESSAGES, USES, carried, load_sdks
from onrecord.capture.usage import Usage, usage_of
from onrecord.store.memory import MemoryStore

if TYPE_CHECKING:
    import anthropic
    import openai

every = pytest.mark.parametrize("use", USES.values(), ids=USES)


@pytest.fixture(autouse=True, scope="module")
def _sdks() -> None:
    load_sdks(globals())


def _events(store: MemoryStore) -> list[Any]:
    return [entry.event for entry in onrecord.JournalReader(store, "r").scan()]


@every
@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")  # google-genai's own
def test_an_sdk_comes_back_with_the_server_gone(use: Callable[[str], Any], server: Server, store: MemoryStore) -> None:
    agent = onrecord.agent(use, store=store)
    recorded = carried(agent.run(server.url, run_id="r"))
    asked, connections = server.requests, server.connections
    server.stop()
    assert carried(agent.replay("r", store=store)) == recorded
    assert (server.requests, server.connections) == (asked, connections)
    events = _events(store)
    requests = [one for one in events if isinstance(one, onrecord.ActionRequested)]
    assert len(requests) == asked
    assert {one.effect for one in requests} == {"model_call"}
    assert "canary" not in str(events)
    answers = [one for one in events if isinstance(one, onrecord.ActionSucceeded)]
    assert len(answers) == asked
    usages = [usage_of(one.output) for one in answers]
    assert [(one.input_tokens, one.output_tokens) for one in usages if one is not None] == [(10, 2)] * asked
    ended = [one.output["ended"] for one in answers if "ended" in one.output]
    assert set(ended) <= {"terminator", "end of body"}
    assert "google" in use.__name__ or set(ended) == {"terminator"}


def test_tries_of_one_call_are_effects_that_know_each_other(server: Server, store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    def agent(url: str) -> str | None:
        with openai.OpenAI(base_url=f"{url}/v1", api_key="sk-canary", max_retries=2) as client:
            return client.chat.completions.create(model="flaky", messages=MESSAGES).choices[0].message.content

    assert agent.run(server.url, run_id="r") == "answer 2"
    server.stop()
    assert agent.replay("r", store=store) == "answer 2"
    requests = [one for one in _events(store) if isinstance(one, onrecord.ActionRequested)]
    assert [one.meta["retry"] for one in requests] == [0, 1]
    assert requests[0].payload == requests[1].payload


def test_a_budget_counts_what_models_say(server: Server, store: MemoryStore) -> None:
    @onrecord.agent(store=store, policy=onrecord.Policy(budget=onrecord.Budget(tokens=20)))
    def agent(url: str) -> int:
        with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0) as client:
            for turn in range(5):
                try:
                    with client.messages.stream(model="claude-haiku-4-5", max_tokens=9, messages=MESSAGES) as stream:
                        stream.get_final_text()
                except anthropic.APIConnectionError as refused:  # what the SDK makes of any error below it
                    return turn if isinstance(refused.__cause__, onrecord.BudgetExceeded) else -1
        return -1

    assert agent.run(server.url, run_id="r") == 2
    server.stop()
    assert agent.replay("r", store=store) == 2


def test_bedrock_names_no_model_in_its_answer() -> None:
    body = {"usage": {"inputTokens": 3, "outputTokens": 4, "cacheReadInputTokens": 5}}
    assert usage_of({"status": 200, "body": {"json": body}}) == Usage("", 8, 4, 5)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {"model": "gpt-4o-mini", "usage": {"prompt_tokens": 1000, "completion_tokens": 100}},
            Usage("gpt-4o-mini", 1000, 100, 0),
        ),
        (
            {"model": "gpt-4o-mini", "usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}},
            Usage("gpt-4o-mini", 9, 0, 4),
        ),
        (
            {"model": "claude-haiku-4-5", "usage": {"input_tokens": 5, "cache_read_input_tokens": 7}},
            Usage("claude-haiku-4-5", 12, 0, 7),
        ),
        (
            {"modelVersion": "gemini-2.0-flash", "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4}},
            Usage("gemini-2.0-flash", 3, 4, 0),
        ),
    ],
)
def test_usage_of_whole_answers(body: dict[str, Any], expected: Usage) -> None:
    found = usage_of({"status": 200, "body": {"json": body, "style": "compact"}})
    assert found is not None
    assert found._replace(cost=None) == expected
    assert found.cost is not None
    assert found.cost > 0


def test_a_model_that_nobody_knows_has_no_price() -> None:
    found = usage_of({"body": {"json": {"model": "nobody-knows", "usage": {"prompt_tokens": 1}}}})
    assert found == Usage("nobody-knows", 1, 0, 0, None)
    assert usage_of({"body": {"text": "data: {}\n\n"}}) is None
    assert usage_of({"body": {"bytes": b"\xff"}}) is None
    assert usage_of("nothing") is None
