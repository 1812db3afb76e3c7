"""Interceptors: installed once, without importing a library, and removed again; and HTTP in forks."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
import urllib.request
from typing import Any

import aiohttp
import httpx
import httpx2
import pytest
import requests
import urllib3

import onrecord
from kit.numbered_server import Server
from onrecord.capture.http.bodies import body_bytes, normalize_boundary, request_body, response_body
from onrecord.capture.http.exchange import RequestParts, effect_name, recorded_request
from onrecord.capture.http.providers import find_provider
from onrecord.capture.interceptors import install_http, uninstall_http
from onrecord.runtime.forks.fork import AnotherInput
from onrecord.store.memory import MemoryStore


def test_nothing_is_imported_for_the_interceptors() -> None:
    script = """
        import sys
        from onrecord.capture.interceptors import install_http
        install_http()
        libraries = ("httpx", "httpx2", "requests", "urllib3", "aiohttp")
        assert not any(name in sys.modules for name in libraries), "imported"
        import httpx, requests
        assert "onrecord" in httpx.Client.send.__code__.co_filename
        assert "onrecord" in requests.adapters.HTTPAdapter.send.__code__.co_filename
        assert "httpx2" not in sys.modules
    """
    code = "\n".join(line.strip() for line in script.splitlines())
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_they_are_put_in_once_and_taken_out() -> None:
    owners: list[tuple[Any, str]] = [
        (httpx.Client, "send"),
        (httpx2.AsyncClient, "_transport_for_url"),
        (requests.adapters.HTTPAdapter, "send"),
        (urllib3.HTTPConnectionPool, "urlopen"),
        (http.client.HTTPConnection, "getresponse"),
    ]
    put = [getattr(owner, name) for owner, name in owners]
    install_http()
    assert [getattr(owner, name) for owner, name in owners] == put
    uninstall_http()
    originals = [getattr(owner, name) for owner, name in owners]
    assert originals == [one.__wrapped__ for one in put]
    assert not any(hasattr(one, "__wrapped__") for one in originals)
    install_http()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"text",
        b"\xff\x00",
        b'{"a":1,"b":[1.0,null]}',
        b'{"a": 1}',
        b'{\n  "a": 1\n}',
        b'{ "a":1}',
        '{"a":"ä"}'.encode(),
        b'{"a":"\\u00e4"}',
        b'{"a":1,"a":2}',
        b'{"a":123456789012345678901234567890}',
        b'{"a":1e400}',
        b'{"a":1e+16,"b":1e16,"c":-0.0}',
        b'{"a":1e+16}',
        b'{"a": 1e+16, "b": 0.1}',
        b"[1,2",
        b"\xef\xbb\xbf{}",
    ],
)
def test_a_body_comes_back_to_the_byte(body: bytes) -> None:
    assert body_bytes(response_body(body)) == body


def test_a_request_is_what_it_says() -> None:
    assert request_body(b'{"a": 1}') == request_body(b'{"a":1}') == {"json": {"a": 1}}
    one, other = (
        normalize_boundary(f'multipart/form-data; boundary="{drawn}"', f"--{drawn}\r\n\r\nx\r\n--{drawn}--".encode())
        for drawn in ("abc", "def")
    )
    assert one == other


@pytest.mark.parametrize(
    ("url", "body", "provider"),
    [
        ("https://api.openai.com/v1/chat/completions", b'{"model":"m","messages":[]}', "openai"),
        ("http://localhost:8080/chat/completions", b'{"messages":[]}', "openai"),
        (
            "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=1",
            b'{"messages":[]}',
            "openai",
        ),
        ("https://api.openai.com/v1/responses", b'{"model":"m","input":"hi"}', "openai"),
        ("https://api.anthropic.com/v1/messages", b'{"model":"m","messages":[]}', "anthropic"),
        ("https://g.com/v1beta/models/gemini:generateContent", b'{"contents":[]}', "google"),
        (
            "https://g.com/v1/projects/p/locations/l/publishers/google/models/g:streamGenerateContent?alt=sse",
            b'{"contents":[]}',
            "google",
        ),
        ("https://b.amazonaws.com/model/anthropic.claude-v1%3A0/converse", b'{"messages":[]}', "bedrock"),
        ("https://b.amazonaws.com/model/m/converse-stream", b'{"messages":[]}', "bedrock"),
        ("https://b.amazonaws.com/model/amazon.titan/invoke", b'{"inputText":"hi"}', "bedrock"),
        ("https://example.com/model/m/invoke", b'{"order":"tea"}', None),
        ("https://example.com/messages", b'{"text":"hello"}', None),
        ("https://example.com/chat/completions", b"text", None),
    ],
)
def test_whose_interface_it_is(url: str, body: bytes, provider: str | None) -> None:
    assert find_provider("POST", url, recorded_request(RequestParts("POST", url, (), body)).get("body")) == provider


def test_names() -> None:
    assert (
        effect_name(RequestParts("GET", "https://user:pass@example.com:443/a/b?key=1#x", ())) == "GET example.com/a/b"
    )
    assert effect_name(RequestParts("PUT", "http://example.com:8080", ())) == "PUT example.com:8080/"
    assert effect_name(RequestParts("GET", "http://[::1]:80/x", ())) == "GET ::1/x"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_fork_whose_tail_is_mocked_asks_nobody(is_async: bool, server: Server, store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    def agent(url: str) -> list[Any]:
        with httpx.Client(base_url=url) as client:
            seen: list[Any] = [client.get("/number").json(), client.post("/echo", content="x").text]
            with client.stream("GET", "/parts") as response:
                seen.append("".join(response.iter_text()))
        return seen

    @onrecord.agent(store=store)
    async def awaited(url: str) -> list[Any]:
        async with httpx.AsyncClient(base_url=url) as client:
            seen: list[Any] = [(await client.get("/number")).json(), (await client.post("/echo", content="x")).text]
            async with client.stream("GET", "/parts") as response:
                seen.append("".join([part async for part in response.aiter_text()]))
        return seen

    if is_async:
        recorded = asyncio.run(awaited.run(server.url, run_id="r"))
        server.stop()
        assert asyncio.run(awaited.fork("r", 0, tail="mocked", fork_id="f", store=store)) == recorded
        assert asyncio.run(awaited.replay("f", store=store)) == recorded
    else:
        recorded = agent.run(server.url, run_id="r")
        server.stop()
        assert agent.fork("r", 0, tail="mocked", fork_id="f", store=store) == recorded
        assert agent.replay("f", store=store) == recorded
    assert server.requests == 3


def test_a_divergence_names_what_differs(server: Server, store: MemoryStore) -> None:
    question = "how"

    @onrecord.agent(store=store)
    def agent(url: str) -> int:
        asked = {"model": "m", "messages": [{"role": "user", "content": question}]}
        return httpx.post(f"{url}/v1/chat/completions", json=asked).status_code

    agent.run(server.url, run_id="r")
    question = "why"
    with pytest.raises(onrecord.Divergence) as caught:
        agent.replay("r", store=store)
    assert caught.value.where["path"] == "/payload/body/json/messages/0/content"
    assert server.requests == 1


CLIENTS: list[Any] = [
    lambda url, asked: httpx.post(url, json=asked).json(),
    lambda url, asked: requests.post(url, json=asked).json(),
    lambda url, asked: json.loads(_posted(url, asked)),
]


def _posted(url: str, asked: Any) -> bytes:
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(asked).encode(), headers)) as response:
        body: bytes = response.read()
        return body


@pytest.mark.parametrize("post", CLIENTS, ids=["httpx", "requests", "urllib"])
def test_a_fork_that_asks_otherwise(post: Any, server: Server, store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    def agent(url: str) -> str:
        asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        said: str = post(f"{url}/v1/chat/completions", asked)["choices"][0]["message"]["content"]
        return said

    assert agent.run(server.url, run_id="r") == "answer 1"
    entries = onrecord.JournalReader(store, "r").scan()
    seq, event = next(
        (entry.seq, entry.event) for entry in entries if isinstance(entry.event, onrecord.ActionRequested)
    )
    assert isinstance(event, onrecord.ActionRequested)
    payload = {**event.payload, "body": {"json": {"model": "other", "messages": []}}}
    assert agent.fork("r", change=AnotherInput(seq, payload), fork_id="f", store=store) == "answer 2"
    assert json.loads(server.seen[-1][3]) == {"model": "other", "messages": []}
    server.stop()
    assert agent.replay("f", store=store) == "answer 2"
    assert server.requests == 2


async def _aiohttp(url: str, asked: Any) -> Any:
    async with aiohttp.ClientSession() as session, session.post(url, json=asked) as response:
        return await response.json()


def test_a_fork_that_asks_otherwise_with_aiohttp(server: Server, store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    async def agent(url: str) -> str:
        asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        said: str = (await _aiohttp(f"{url}/v1/chat/completions", asked))["choices"][0]["message"]["content"]
        return said

    assert asyncio.run(agent.run(server.url, run_id="r")) == "answer 1"
    event = onrecord.JournalReader(store, "r").event(1).event
    assert isinstance(event, onrecord.ActionRequested)
    payload = {**event.payload, "body": {"json": {"model": "other", "messages": []}}}
    forked = agent.fork("r", change=AnotherInput(1, payload), fork_id="f", store=store)
    assert asyncio.run(forked) == "answer 2"
    assert json.loads(server.seen[-1][3]) == {"model": "other", "messages": []}
    server.stop()
    assert asyncio.run(agent.replay("f", store=store)) == "answer 2"
