"""The official clients of OpenAI, Anthropic and Google: blocking, awaited and streaming, with no line changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types
from numbered_server import Server

import reenact
from reenact.capture.usage import Usage, usage_of
from reenact.store.memory import MemoryStore

MESSAGES: Any = [{"role": "user", "content": "hi"}]


def _openai(url: str) -> list[Any]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="sk-canary") as client:
        chat = client.chat.completions
        seen: list[Any] = [chat.create(model="m", messages=MESSAGES).choices[0].message.content for _ in range(2)]
        stream = chat.create(model="m", messages=MESSAGES, stream=True, stream_options={"include_usage": True})
        seen.append([part.model_dump() for part in stream])
        seen.append(client.responses.create(model="m", input="hi").output_text)
        seen.append([event.type for event in client.responses.create(model="m", input="hi", stream=True)])
    return seen


async def _openai_async(url: str) -> list[Any]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-canary") as client:
        chat = client.chat.completions
        answers = await asyncio.gather(*(chat.create(model="m", messages=MESSAGES) for _ in range(5)))
        seen: list[Any] = [one.choices[0].message.content for one in answers]
        stream = await chat.create(model="m", messages=MESSAGES, stream=True, stream_options={"include_usage": True})
        seen.append([part.model_dump() async for part in stream])
        events = await client.responses.create(model="m", input="hi", stream=True)
        seen.append([event.type async for event in events])
    return seen


def _anthropic(url: str) -> list[Any]:
    with anthropic.Anthropic(base_url=url, api_key="sk-canary") as client:
        asked: Any = {"model": "claude-haiku-4-5", "max_tokens": 9, "messages": MESSAGES}
        seen: list[Any] = [client.messages.create(**asked).model_dump() for _ in range(2)]
        with client.messages.stream(**asked) as stream:
            seen.append(list(stream.text_stream))
            seen.append(stream.get_final_message().model_dump())
        seen.append([event.type for event in client.messages.create(**asked, stream=True)])
    return seen


async def _anthropic_async(url: str) -> list[Any]:
    async with anthropic.AsyncAnthropic(base_url=url, api_key="sk-canary") as client:
        asked: Any = {"model": "claude-haiku-4-5", "max_tokens": 9, "messages": MESSAGES}
        answers = await asyncio.gather(*(client.messages.create(**asked) for _ in range(5)))
        seen: list[Any] = [one.model_dump() for one in answers]
        async with client.messages.stream(**asked) as stream:
            seen.append([text async for text in stream.text_stream])
        seen.append([event.type async for event in await client.messages.create(**asked, stream=True)])
    return seen


def _google_client(url: str) -> genai.Client:
    return genai.Client(api_key="canary", http_options=types.HttpOptions(base_url=url))


def _google(url: str) -> list[Any]:
    client = _google_client(url)
    seen: list[Any] = [client.models.generate_content(model="gemini-2.0-flash", contents="hi").text for _ in range(2)]
    stream = client.models.generate_content_stream(model="gemini-2.0-flash", contents="hi")
    seen.append([part.text for part in stream])
    client.close()
    return seen


async def _google_async(url: str) -> list[Any]:
    client = _google_client(url)
    models = client.aio.models
    answers = await asyncio.gather(
        *(models.generate_content(model="gemini-2.0-flash", contents="hi") for _ in range(5))
    )
    seen: list[Any] = [one.text for one in answers]
    stream = await models.generate_content_stream(model="gemini-2.0-flash", contents="hi")
    seen.append([part.text async for part in stream])
    await client.aio.aclose()
    client.close()
    return seen


every = pytest.mark.parametrize(
    "use",
    [_openai, _openai_async, _anthropic, _anthropic_async, _google, _google_async],
    ids=lambda use: use.__name__.strip("_"),
)


def _carried(made: Any) -> Any:
    return asyncio.run(made) if asyncio.iscoroutine(made) else made


def _events(store: MemoryStore) -> list[Any]:
    return [entry.event for entry in reenact.JournalReader(store, "r").scan()]


@every
@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")  # google-genai's own
def test_an_sdk_comes_back_with_the_server_gone(use: Callable[[str], Any], server: Server, store: MemoryStore) -> None:
    agent = reenact.agent(use, store=store)
    recorded = _carried(agent.run(server.url, run_id="r"))
    asked, connections = server.requests, server.connections
    server.stop()
    assert _carried(agent.replay("r", store=store)) == recorded
    assert (server.requests, server.connections) == (asked, connections)
    events = _events(store)
    requests = [one for one in events if isinstance(one, reenact.ActionRequested)]
    assert len(requests) == asked
    assert {one.effect for one in requests} == {"model_call"}
    assert "canary" not in str(events)
    answers = [one for one in events if isinstance(one, reenact.ActionSucceeded)]
    assert len(answers) == asked
    usages = [usage_of(one.output) for one in answers]
    assert [(one.input_tokens, one.output_tokens) for one in usages if one is not None] == [(10, 2)] * asked
    ended = [one.output["ended"] for one in answers if "ended" in one.output]
    assert set(ended) <= {"terminator", "end of body"}
    assert "google" in use.__name__ or set(ended) == {"terminator"}


def test_tries_of_one_call_are_effects_that_know_each_other(server: Server, store: MemoryStore) -> None:
    @reenact.agent(store=store)
    def agent(url: str) -> str | None:
        with openai.OpenAI(base_url=f"{url}/v1", api_key="sk-canary", max_retries=2) as client:
            return client.chat.completions.create(model="flaky", messages=MESSAGES).choices[0].message.content

    assert agent.run(server.url, run_id="r") == "answer 2"
    server.stop()
    assert agent.replay("r", store=store) == "answer 2"
    requests = [one for one in _events(store) if isinstance(one, reenact.ActionRequested)]
    assert [one.meta["retry"] for one in requests] == [0, 1]
    assert requests[0].payload == requests[1].payload


def test_a_budget_counts_what_models_say(server: Server, store: MemoryStore) -> None:
    @reenact.agent(store=store, policy=reenact.Policy(budget=reenact.Budget(tokens=20)))
    def agent(url: str) -> int:
        with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0) as client:
            for turn in range(5):
                try:
                    with client.messages.stream(model="claude-haiku-4-5", max_tokens=9, messages=MESSAGES) as stream:
                        stream.get_final_text()
                except anthropic.APIConnectionError as refused:  # what the SDK makes of any error below it
                    return turn if isinstance(refused.__cause__, reenact.BudgetExceeded) else -1
        return -1

    assert agent.run(server.url, run_id="r") == 2
    server.stop()
    assert agent.replay("r", store=store) == 2


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
