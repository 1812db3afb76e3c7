"""Streams: live while they are recorded, the same parts again, and an end that is told apart."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiohttp
import httpx
import httpx2
import pytest
import requests
import urllib3

import onrecord
from kit.numbered_server import Server
from kit.runtime import Died, broken_off
from onrecord.capture.http import pace
from onrecord.core.events import ChunkReceived
from onrecord.runtime.engine.stops import CUT
from onrecord.store.memory import MemoryStore

# How each client reads a stream: a generator of its parts


def _httpx(url: str, **options: Any) -> Iterator[bytes]:
    with httpx.Client(**options) as client, client.stream("GET", url) as response:
        yield from response.iter_bytes()


def _httpx2(url: str, **options: Any) -> Iterator[bytes]:
    with httpx2.Client(**options) as client, client.stream("GET", url) as response:
        yield from response.iter_raw()


def _requests(url: str, timeout: float = 5) -> Iterator[bytes]:
    with requests.get(url, stream=True, timeout=timeout) as response:
        yield from response.iter_content(None)


def _urllib3(url: str, timeout: float = 5) -> Iterator[bytes]:
    with urllib3.PoolManager(timeout=timeout) as pool:
        response = pool.request("GET", url, preload_content=False)
        try:
            yield from response.stream()
        finally:
            response.close()


def _http_client(url: str, timeout: float = 5) -> Iterator[bytes]:
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=timeout)
    connection.request("GET", f"/{path}")
    response = connection.getresponse()
    try:
        while part := response.read1():
            yield part
    finally:
        response.close()
        connection.close()


async def _httpx_async(url: str, **options: Any) -> AsyncIterator[bytes]:
    async with httpx.AsyncClient(**options) as client, client.stream("GET", url) as response:
        async for part in response.aiter_bytes():
            yield part


async def _httpx2_async(url: str, **options: Any) -> AsyncIterator[bytes]:
    async with httpx2.AsyncClient(**options) as client, client.stream("GET", url) as response:
        async for part in response.aiter_raw():
            yield part


async def _aiohttp(url: str, timeout: float = 5) -> AsyncIterator[bytes]:
    limit = aiohttp.ClientTimeout(sock_read=timeout)
    async with aiohttp.ClientSession(timeout=limit) as session, session.get(url) as response:
        async for part in response.content.iter_any():
            yield part


BLOCKING = [_httpx, _httpx2, _requests, _urllib3, _http_client]
AWAITED = [_httpx_async, _httpx2_async, _aiohttp]
every = pytest.mark.parametrize("read", [*BLOCKING, *AWAITED], ids=lambda read: read.__name__.strip("_"))
Read = Callable[..., Any]


class Reading:
    """An agent that reads a page with one of the clients, a run of it, and its replay."""

    def __init__(self, read: Read, server: Server, store: MemoryStore) -> None:
        self._read = read
        self._server = server
        self._store = store
        self._is_async = read in AWAITED
        self.is_raw = read is _http_client
        """It decodes nothing, so its users do."""

    def run(self, path: str, each: Callable[[bytes], bool] = lambda part: False, **options: Any) -> list[Any]:
        """`each` is called with every part; True: it is the last one that is read."""
        url, read = f"{self._server.url}{path}", self._read

        def blocking(seen: list[Any]) -> None:
            parts = read(url, **options)
            for part in parts:
                seen.append(part)
                if each(part):
                    break
            parts.close()

        async def awaited(seen: list[Any]) -> None:
            parts = read(url, **options)
            async for part in parts:
                seen.append(part)
                if each(part):
                    break
            await parts.aclose()

        @onrecord.agent(store=self._store)
        def agent() -> list[Any]:
            seen: list[Any] = []
            try:
                blocking(seen)
            except Exception as error:
                seen.append([type(error).__name__, str(error)])
            return seen

        @onrecord.agent(store=self._store)
        async def async_agent() -> list[Any]:
            seen: list[Any] = []
            try:
                await awaited(seen)
            except Exception as error:
                seen.append([type(error).__name__, str(error)])
            return seen

        self.agent: Any = async_agent if self._is_async else agent
        return self._carried(self.agent.run(run_id="r"))

    def replay(self) -> list[Any]:
        asked = self._server.requests
        self._server.stop()
        seen = self._carried(self.agent.replay("r", store=self._store))
        assert self._server.requests == asked
        return seen

    def _carried(self, made: Any) -> list[Any]:
        found: list[Any] = asyncio.run(made) if self._is_async else made
        return found

    def answer(self) -> Any:
        return next(
            one.event
            for one in onrecord.JournalReader(self._store, "r").scan()
            if one.kind.startswith("ActionS") or one.kind == "ActionFailed"
        )


@pytest.fixture
def reading(read: Read, server: Server, store: MemoryStore) -> Reading:
    return Reading(read, server, store)


@every
def test_the_first_part_is_seen_before_the_last_is_sent(reading: Reading, server: Server) -> None:
    def first(part: bytes) -> bool:
        assert server.gate.is_set() or part.startswith(b"first")
        server.gate.set()
        return False

    recorded = reading.run("/gated", first)
    assert b"".join(recorded) == b"first;second;last;"
    assert len(recorded) >= 2
    assert reading.replay() == recorded


@every
def test_parts_come_as_they_came(reading: Reading) -> None:
    recorded = reading.run("/parts")
    assert recorded == [f"part {index} of 1;".encode() for index in range(4)]
    assert reading.answer().output["ended"] == "end of body"
    assert reading.replay() == recorded


@every
def test_a_character_that_is_cut_in_two(reading: Reading) -> None:
    recorded = reading.run("/cut-characters")
    assert b"".join(recorded).decode() == "äöü"
    assert recorded[0] == "äöü".encode()[:3]
    assert reading.replay() == recorded


@every
def test_a_stream_that_the_server_cuts_off(reading: Reading) -> None:
    recorded = reading.run("/cut")
    assert recorded[:2] == [b"one;", b"two;"]
    assert len(recorded) == 3
    answer = reading.answer()
    assert isinstance(answer, onrecord.ActionFailed)
    assert answer.error.onrecord_ended == "server closed"
    assert reading.replay() == recorded


CUT_ERRORS: dict[Any, type[Exception]] = {
    _httpx: httpx.ReadError,
    _httpx2: httpx2.ReadError,
    _requests: requests.RequestException,
    _urllib3: urllib3.exceptions.ProtocolError,
    _http_client: ConnectionError,
}


@pytest.mark.parametrize("read_blocking", list(CUT_ERRORS))
def test_a_stream_that_was_cut_off_with_its_process_is_an_error_of_the_client(
    read_blocking: Any, server: Server, store: MemoryStore
) -> None:
    dies = [True]

    @onrecord.agent
    def agent() -> list[str]:
        parts = read_blocking(f"{server.url}/gated")
        seen = [next(parts).decode(), httpx.get(f"{server.url}/number").text]
        if dies[0]:
            raise Died
        try:
            seen += [part.decode() for part in parts]
        except CUT_ERRORS[read_blocking] as error:
            seen.append(str(error))
        return seen

    run_id = broken_off(agent, store=store)
    dies[0] = False
    result = agent.resume(run_id, store=store)
    assert result[0].startswith("first;")
    assert CUT in result[-1]
    assert agent.replay(run_id, store=store) == result


@every
def test_a_stream_that_its_reader_leaves(reading: Reading) -> None:
    recorded = reading.run("/parts", lambda part: part.startswith(b"part 1"))
    assert recorded == [b"part 0 of 1;", b"part 1 of 1;"]
    answer = reading.answer()
    assert (answer.output["ended"], answer.output["body"]) == ("consumer closed", {"text": "part 0 of 1;part 1 of 1;"})
    assert reading.replay() == recorded


@every
def test_a_stream_that_fails(reading: Reading) -> None:
    recorded = reading.run("/hanging", timeout=0.3)
    assert recorded[:2] == [b"one;", b"two;"]
    assert len(recorded) == 3
    answer = reading.answer()
    assert isinstance(answer, onrecord.ActionFailed)
    assert answer.error.onrecord_ended == "error"
    assert reading.replay() == recorded


@every
def test_gaps_are_recorded_and_given_back_on_request(
    reading: Reading, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = reading.run("/parts")
    events = [one.event for one in onrecord.JournalReader(store, "r").scan()]
    gaps = [one.chunk[0] for one in events if isinstance(one, ChunkReceived) and one.index > 0]
    assert gaps == sorted(gaps)
    assert 40_000 < gaps[-1] < 5_000_000
    began = time.monotonic()
    assert reading.replay() == recorded
    at_once = time.monotonic() - began
    monkeypatch.setattr(pace, "realtime", True)
    began = time.monotonic()
    assert reading.replay() == recorded
    assert time.monotonic() - began >= gaps[-1] / 1_000_000
    assert at_once < 5


@every
def test_an_encoded_stream(reading: Reading) -> None:
    recorded = reading.run("/gzip-stream")
    whole = b"".join(recorded)
    assert (gzip.decompress(whole) if reading.is_raw else whole) == b"one two three " * 50
    assert reading.replay() == recorded


def test_blocking_streams_inside_a_loop(server: Server, store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    async def agent(url: str) -> list[Any]:
        async def other() -> int:
            async with httpx.AsyncClient() as client:
                return int((await client.get(f"{url}/slow")).json()["number"])

        task = asyncio.create_task(other())
        await asyncio.sleep(0)
        seen: list[Any] = list(_httpx(f"{url}/parts"))
        return [seen, await task, list(_requests(f"{url}/parts"))]

    recorded = asyncio.run(agent.run(server.url, run_id="r"))
    server.stop()
    assert asyncio.run(agent.replay("r", store=store)) == recorded


def test_streams_side_by_side_in_threads(server: Server, store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    def agent(url: str) -> list[Any]:
        order: list[Any] = []
        with httpx.Client() as client, requests.Session() as session, ThreadPoolExecutor(10) as pool:

            def read(index: int) -> list[bytes]:
                parts = []
                for part in _parts(index, client, session, f"{url}/parts"):
                    parts.append(part)
                    order.append([index, part])
                return parts

            return [list(pool.map(read, range(10))), order]

    recorded = agent.run(server.url, run_id="r")
    assert sorted(one[0].rpartition(b" of ")[2] for one in recorded[0]) == sorted(b"%d;" % n for n in range(1, 11))
    assert [index for index, _ in recorded[1]] != sorted(index for index, _ in recorded[1])
    server.stop()
    assert agent.replay("r", store=store) == recorded


def _parts(index: int, client: httpx.Client, session: requests.Session, url: str) -> Iterator[bytes]:
    if index % 2:
        with client.stream("GET", url) as response:
            yield from response.iter_bytes()
    else:
        with session.get(url, stream=True) as answer:
            yield from answer.iter_content(None)
