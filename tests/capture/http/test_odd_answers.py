"""Answers that are cut off, empty or encoded: what a program makes of them is the same without a run, in one, and in
its replay."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
import shutil
import urllib.request
from collections.abc import Callable
from typing import Any

import aiohttp
import httpx
import pytest
import requests
import urllib3

import onrecord
from kit.numbered_server import Server
from onrecord.store.memory import MemoryStore


def outcome(ask: Callable[[], Any]) -> list[Any]:
    try:
        return [ask()]
    except Exception as error:
        return [type(error).__name__, getattr(error, "partial", None)]


def copied(url: str) -> bytes:
    into = io.BytesIO()
    with urllib.request.urlopen(url, timeout=5) as response:
        shutil.copyfileobj(response, into)
    return into.getvalue()


def same_with_and_without_a_run(ask: Callable[[str], Any], server: Server, store: MemoryStore) -> Any:
    @onrecord.agent(store=store)
    def agent(url: str) -> Any:
        return ask(url)

    without, asked = ask(server.url), server.requests
    recorded = agent.run(server.url, run_id="r")
    assert recorded == without
    assert server.requests == 2 * asked
    server.stop()
    assert agent.replay("r", store=store) == recorded
    return recorded


@pytest.mark.parametrize("page", ["cut", "short"])
def test_a_body_that_is_cut_off(page: str, server: Server, store: MemoryStore) -> None:
    def ask(url: str) -> list[list[Any]]:
        url = f"{url}/{page}"
        return [
            outcome(lambda: requests.get(url, timeout=5).text),
            outcome(lambda: urllib.request.urlopen(url, timeout=5).read()),
            outcome(lambda: copied(url)),
            outcome(lambda: urllib3.request("GET", url, retries=False).data),
            outcome(lambda: httpx.get(url, timeout=5).text),
        ]

    seen = same_with_and_without_a_run(ask, server, store)
    assert seen[0][0] == "ChunkedEncodingError"
    assert seen[1] == ["IncompleteRead", b"one;two;" if page == "cut" else b"too short"]


def test_a_body_that_is_late(server: Server, store: MemoryStore) -> None:
    """requests tells a time-out of the body from one of the head."""

    def ask(url: str) -> list[list[Any]]:
        return [
            outcome(lambda: requests.get(f"{url}/hanging", timeout=0.2)),
            outcome(lambda: requests.get(f"{url}/never", timeout=0.2)),
        ]

    assert same_with_and_without_a_run(ask, server, store) == [["ConnectionError", None], ["ReadTimeout", None]]


def test_what_is_cut_off_is_tried_again(server: Server, store: MemoryStore) -> None:
    seen = same_with_and_without_a_run(
        lambda url: outcome(lambda: urllib3.request("GET", f"{url}/cut", retries=2)), server, store
    )
    assert seen[0] == "MaxRetryError"
    assert server.requests == 6


def test_answers_without_a_body(server: Server, store: MemoryStore) -> None:
    """Each twice: aiohttp has one reader for all of them."""
    asked = [("GET", "/no-content"), ("GET", "/not-modified"), ("HEAD", "/gzip"), ("HEAD", "/identity")] * 2

    def ask(url: str) -> list[Any]:
        seen: list[Any] = []
        for method, page in asked:
            for one in (httpx.request(method, url + page), requests.request(method, url + page, timeout=5)):
                seen += [one.status_code, one.content, one.headers.get("content-length")]
        return seen

    same_with_and_without_a_run(ask, server, store)


def test_answers_without_a_body_by_aiohttp(server: Server, store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    async def agent(url: str) -> list[Any]:
        seen: list[Any] = []
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(5)) as session:
            for method, page in [("GET", "no-content"), ("GET", "not-modified"), ("HEAD", "gzip")] * 2:
                async with session.request(method, f"{url}/{page}") as response:
                    seen.append([response.status, await response.read(), response.headers.get("content-length")])
        return seen

    recorded = asyncio.run(agent.run(server.url, run_id="r"))
    assert [one[:2] for one in recorded] == [[204, b""], [304, b""], [200, b""]] * 2
    assert recorded[2][2] is not None
    server.stop()
    assert asyncio.run(agent.replay("r", store=store)) == recorded


def test_the_length_is_that_of_what_the_program_has(server: Server, store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    def agent(url: str) -> list[Any]:
        answers = [httpx.get(url + page) for page in ("/gzip", "/identity")]
        answers += [requests.get(url + page, timeout=5) for page in ("/gzip", "/identity")]
        return [
            [len(one.content), one.headers["content-length"], one.headers.get("content-encoding")] for one in answers
        ]

    recorded = agent.run(server.url, run_id="r")
    assert recorded == [[525, "525", None], [8, "8", "identity"]] * 2
    server.stop()
    assert agent.replay("r", store=store) == recorded


def test_reads_of_a_connection_go_on_to_the_cut(server: Server, store: MemoryStore) -> None:
    def ask(url: str) -> list[Any]:
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=5)
        connection.request("GET", "/short")
        with contextlib.closing(connection), connection.getresponse() as response:
            return [response.read(4), response.read(50), response.read(50)]

    assert same_with_and_without_a_run(ask, server, store) == [b"too ", b"short", b""]
