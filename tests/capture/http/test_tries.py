"""Clients that try again by themselves: each try is an effect, all belong to the first, and a replay does not wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import requests
import urllib3
from requests.adapters import HTTPAdapter

import onrecord
from kit.numbered_server import Server
from kit.sdk_uses import load_sdks
from onrecord.runtime.scheduler.drivers import threads
from onrecord.runtime.scheduler.drivers.timers import TIMERS
from onrecord.store.memory import MemoryStore

if TYPE_CHECKING:
    import anthropic
    import openai
    from google import genai
    from google.genai import types

MESSAGES: Any = [{"role": "user", "content": "hi"}]


@pytest.fixture(autouse=True, scope="module")
def _sdks() -> None:
    load_sdks(globals())


def _openai(url: str) -> Any:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=4) as client:
        return client.chat.completions.create(model="busy", messages=MESSAGES).choices[0].message.content


async def _openai_async(url: str) -> Any:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=4) as client:
        return (await client.chat.completions.create(model="busy", messages=MESSAGES)).choices[0].message.content


def _anthropic(url: str) -> Any:
    with anthropic.Anthropic(base_url=url, api_key="k", max_retries=4) as client:
        return client.messages.create(model="busy", max_tokens=9, messages=MESSAGES).id


async def _anthropic_async(url: str) -> Any:
    async with anthropic.AsyncAnthropic(base_url=url, api_key="k", max_retries=4) as client:
        return (await client.messages.create(model="busy", max_tokens=9, messages=MESSAGES)).id


def _google_client(url: str) -> genai.Client:
    again = types.HttpRetryOptions(attempts=5, initial_delay=0.1, max_delay=0.2, jitter=0.01)
    return genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url, retry_options=again))


def _google(url: str) -> Any:
    client = _google_client(url)
    try:
        return client.models.generate_content(model="busy", contents="hi").text
    finally:
        client.close()


async def _google_async(url: str) -> Any:
    client = _google_client(url)
    try:
        return (await client.aio.models.generate_content(model="busy", contents="hi")).text
    finally:
        await client.aio.aclose()
        client.close()


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long lanes have really slept."""
    threads.install()
    real, real_sleep, seconds = TIMERS.add, threads._REAL["sleep"], []

    def add(delay: float, *timer: Any) -> None:
        seconds.append(delay)
        real(delay, *timer)

    def sleep(delay: float) -> None:
        if delay > 0.0005:  # less is none: a replay only yields
            seconds.append(delay)
        real_sleep(delay)

    monkeypatch.setattr(TIMERS, "add", add)
    monkeypatch.setitem(threads._REAL, "sleep", sleep)
    return seconds


def _carried(made: Any) -> Any:
    return asyncio.run(made) if asyncio.iscoroutine(made) else made


def _requests(store: MemoryStore) -> list[Any]:
    return [entry for entry in onrecord.JournalReader(store, "r").scan() if entry.kind == "ActionRequested"]


@pytest.mark.parametrize(
    "use",
    [_openai, _openai_async, _anthropic, _anthropic_async, _google, _google_async],
    ids=lambda use: use.__name__.strip("_"),
)
@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")  # google-genai's own
def test_tries_of_an_sdk(use: Callable[[str], Any], server: Server, store: MemoryStore, slept: list[float]) -> None:
    agent = onrecord.agent(use, store=store)
    recorded = _carried(agent.run(server.url, run_id="r"))
    assert server.requests == 3
    tries = _requests(store)
    assert [entry.parent for entry in tries] == [None, tries[0].seq, tries[0].seq]
    assert onrecord.verify_run(store, "r").valid
    server.stop()
    assert any(slept) or asyncio.iscoroutinefunction(use)
    slept.clear()
    assert _carried(agent.replay("r", store=store)) == recorded
    assert not any(slept), "a replay does not wait"


def test_a_program_that_tries_again_by_itself(server: Server, store: MemoryStore, slept: list[float]) -> None:
    @onrecord.agent(store=store)
    def agent(url: str) -> list[int]:
        seen: list[int] = []
        with httpx.Client(base_url=url) as client:
            while not seen or seen[-1] != 200:
                seen.append(client.get("/twice").status_code)
                time.sleep(0.01)
            client.get("/twice")  # the one before was answered: this is none of its tries
            client.get("/number")
        return seen

    assert agent.run(server.url, run_id="r") == [429, 500, 200]
    requests = _requests(store)
    first = requests[0].seq
    assert [entry.parent for entry in requests] == [None, first, first, None, None]
    server.stop()
    assert agent.replay("r", store=store) == [429, 500, 200]


def test_tries_go_on_after_a_crash(server: Server, store: MemoryStore) -> None:
    lights_out = [True]

    @onrecord.agent(store=store)
    def agent(url: str) -> list[int]:
        with httpx.Client(base_url=url) as client:
            seen = [client.get("/twice").status_code]
            if lights_out:
                raise KeyboardInterrupt
            seen += [client.get("/twice").status_code, client.get("/twice").status_code]
        return seen

    with pytest.raises(KeyboardInterrupt):
        agent.run(server.url, run_id="r")
    lights_out.clear()
    assert agent.resume("r", store=store) == [429, 500, 200]
    first = _requests(store)[0].seq
    assert [entry.parent for entry in _requests(store)] == [None, first, first]


@pytest.mark.parametrize("client", ["requests", "urllib3"])
def test_tries_within_a_library_are_one_effect(
    client: str, server: Server, store: MemoryStore, slept: list[float]
) -> None:
    again = urllib3.Retry(total=5, status_forcelist=[429, 500], backoff_factor=0.02)

    @onrecord.agent(store=store)
    def agent(url: str) -> Any:
        if client == "urllib3":
            with urllib3.PoolManager(retries=again) as pool:
                return pool.request("GET", f"{url}/twice").json()["number"]
        with requests.Session() as session:
            session.mount("http://", HTTPAdapter(max_retries=again))
            return session.get(f"{url}/twice").json()["number"]

    assert agent.run(server.url, run_id="r") == 3
    assert (server.requests, len(_requests(store))) == (3, 1)
    server.stop()
    slept.clear()
    assert agent.replay("r", store=store) == 3
    assert not any(slept)


def test_whoever_waits_by_the_clock_of_a_library_is_not_kept_waiting(
    store: MemoryStore, slept: list[float], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that sleeps until its clock says so: its readings are recorded."""
    source = """
import time

def wait(seconds):
    until = time.monotonic() + seconds
    rounds = 0
    while time.monotonic() < until:
        time.sleep(seconds)
        rounds += 1
    return rounds
"""
    file = tmp_path / "waiting_library.py"
    file.write_text(source)
    monkeypatch.setattr("onrecord.capture.draws.INSTALLED", (str(tmp_path),))
    monkeypatch.setattr("onrecord.capture.draws._LIBRARIES", (str(tmp_path),))
    monkeypatch.syspath_prepend(str(tmp_path))
    import waiting_library  # type: ignore[import-not-found]

    @onrecord.agent(store=store)
    def agent() -> int:
        rounds: int = waiting_library.wait(0.3)
        onrecord.run_step("after", int)
        return rounds

    assert agent.run(run_id="r") == 1
    slept.clear()
    assert agent.replay("r", store=store) == 1
    assert not any(slept)
