"""requests, urllib3, aiohttp, http.client and urllib.request: recorded, and replayed with the server gone."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiohttp
import pytest
import requests
import urllib3

import onrecord
from kit.numbered_server import BINARY, Server
from onrecord.store.memory import MemoryStore


def _replayed(agent: Any, server: Server, store: MemoryStore, recorded: Any) -> None:
    asked, connections = server.requests, server.connections
    server.stop()
    again = agent.replay("r", store=store)
    if asyncio.iscoroutine(again):
        again = asyncio.run(again)
    assert again == recorded
    assert (server.requests, server.connections) == (asked, connections)


def _kinds(store: MemoryStore) -> list[str]:
    return [entry.kind for entry in onrecord.JournalReader(store, "r").scan()]


# requests and urllib3


def _of_requests(response: requests.Response) -> list[Any]:
    headers = [(name, value) for name, value in response.headers.items() if name.lower() != "date"]
    history = [one.status_code for one in response.history]
    return [response.status_code, response.reason, headers, response.content, history, response.url]


def test_requests(server: Server, store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    def agent(url: str) -> list[Any]:
        with requests.Session() as session:
            seen = [_of_requests(session.get(f"{url}/number", params={"a": "1"})) for _ in range(3)]
            seen.append(_of_requests(session.post(f"{url}/echo", json={"b": 1, "a": [1]})))
            seen.append(_of_requests(session.post(f"{url}/echo", data=BINARY)))
            seen.append(_of_requests(session.post(f"{url}/echo", data=iter([b"piece ", b"by piece"]))))
            seen.append(_of_requests(session.get(f"{url}/binary")))
            seen.append(_of_requests(session.get(f"{url}/gzip")))
            seen.append(_of_requests(session.get(f"{url}/first")))
            seen.append(_of_requests(session.get(f"{url}/odd")))
            seen.append(_of_requests(session.head(f"{url}/number")))
            seen.append(sorted(session.cookies.items()))
            seen.append([session.post(f"{url}/echo", files={"f": ("a.txt", b"contents")}).status_code])
        return seen

    recorded = agent.run(server.url, run_id="r")
    assert [json.loads(one[3])["number"] for one in recorded[:3]] == [1, 2, 3]
    assert recorded[4][3] == recorded[6][3] == BINARY
    assert recorded[5][3] == b"piece by piece"
    assert recorded[8][4] == [302]
    assert recorded[11] == [("a", "1"), ("b", "2"), ("visit", "1")]
    _replayed(agent, server, store, recorded)


def test_requests_that_fail(server: Server, store: MemoryStore) -> None:
    def ask(url: str) -> list[str]:
        try:
            requests.get(url, timeout=0.2)
        except requests.exceptions.ReadTimeout as error:
            return ["timeout", str(error)]
        except requests.exceptions.ConnectionError as error:
            return ["connection", str(error), type(error.args[0]).__name__]
        raise AssertionError("it fails")

    @onrecord.agent(store=store)
    def agent(url: str) -> list[Any]:
        return [ask(one) for one in ("http://127.0.0.1:1/", f"{url}/never", f"{url}/refused")]

    recorded = agent.run(server.url, run_id="r")
    assert [one[0] for one in recorded] == ["connection", "timeout", "connection"]
    _replayed(agent, server, store, recorded)


def test_urllib3(server: Server, store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    def agent(url: str) -> list[Any]:
        with urllib3.PoolManager() as pool:
            seen: list[Any] = [pool.request("GET", f"{url}/number").json()["number"] for _ in range(3)]
            response = pool.request("GET", f"{url}/first")
            seen += [response.status, response.geturl(), response.json()]
            response = pool.request("POST", f"{url}/echo", body=b"abc", preload_content=False)
            seen += [response.read(2), response.read(), response.read(), response.closed]
            seen += [b"".join(pool.request("GET", f"{url}/gzip-stream", preload_content=False).stream(7))]
            try:
                pool.request("GET", "http://127.0.0.1:1/", retries=False)
            except urllib3.exceptions.NewConnectionError as error:
                seen.append(type(error).__name__)
        return seen

    recorded = agent.run(server.url, run_id="r")
    assert recorded[:4] == [1, 2, 3, 200]
    assert recorded[6:9] == [b"ab", b"c", b""]
    assert recorded[10] == b"one two three " * 50
    _replayed(agent, server, store, recorded)


def test_threads_with_requests(server: Server, store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    def agent(url: str) -> list[Any]:
        def ask(index: int) -> list[int]:
            return [index, requests.get(f"{url}/slow", timeout=30).json()["number"]]

        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(ask, range(20)))

    recorded = agent.run(server.url, run_id="r")
    assert sorted(number for _, number in recorded) == list(range(1, 21))
    _replayed(agent, server, store, recorded)


# http.client and urllib.request


def test_http_client(server: Server, store: MemoryStore) -> None:
    def ask(connection: http.client.HTTPConnection, method: str, path: str, **options: Any) -> list[Any]:
        connection.request(method, path, **options)
        response = connection.getresponse()
        headers = [pair for pair in response.getheaders() if pair[0] != "Date"]
        return [response.status, response.reason, response.version, headers, response.read(), response.isclosed()]

    @onrecord.agent(store=store)
    def agent(url: str) -> list[Any]:
        connection = http.client.HTTPConnection(url.removeprefix("http://"))
        seen = [ask(connection, "GET", "/number") for _ in range(2)]
        seen.append(ask(connection, "POST", "/echo", body="text", headers={"Content-Type": "text/plain"}))
        seen.append(ask(connection, "GET", "/parts"))
        seen.append(ask(connection, "GET", "/odd"))
        seen.append(ask(connection, "HEAD", "/number"))
        seen.append(ask(connection, "GET", "/binary"))
        connection.close()
        return seen

    recorded = agent.run(server.url, run_id="r")
    assert [json.loads(one[4])["number"] for one in recorded[:2]] == [1, 2]
    assert recorded[3][4].startswith(b"part 0 of 1;part 1")
    assert recorded[6][4] == BINARY
    assert all(one[5] for one in recorded)
    assert server.connections == 1
    _replayed(agent, server, store, recorded)


def test_urllib_request(server: Server, store: MemoryStore) -> None:
    def ask(url: str, data: bytes | None = None) -> list[Any]:
        try:
            with urllib.request.urlopen(url, data=data, timeout=0.3) as response:
                return [response.status, response.geturl(), response.read()]
        except urllib.error.HTTPError as error:
            return ["http", error.code, error.read()]
        except urllib.error.URLError as error:
            return ["url", type(error.reason).__name__]
        except (TimeoutError, http.client.RemoteDisconnected) as error:
            return [type(error).__name__, str(error)]

    @onrecord.agent(store=store)
    def agent(url: str) -> list[Any]:
        paths = ("/number", "/first", "/missing", "/never", "/refused")
        return [*(ask(url + path) for path in paths), ask("http://127.0.0.1:1/"), ask(f"{url}/echo", b"posted")]

    recorded = agent.run(server.url, run_id="r")
    assert recorded[1][1] == f"{server.url}/second"
    assert recorded[2] == ["http", 404, b"not found"]
    assert [one[0] for one in recorded[3:6]] == ["TimeoutError", "RemoteDisconnected", "url"]
    assert recorded[5] == ["url", "ConnectionRefusedError"]
    assert recorded[6][2] == b"posted"
    _replayed(agent, server, store, recorded)


# aiohttp


async def _of_aiohttp(response: aiohttp.ClientResponse) -> list[Any]:
    async with response:
        body = await response.read()
        headers = [(name, value) for name, value in response.headers.items() if name.lower() != "date"]
        history = [one.status for one in response.history]
        return [response.status, response.reason, headers, body, history, str(response.url), response.closed]


def test_aiohttp(server: Server, store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    async def agent(url: str) -> list[Any]:
        seen: list[Any] = []
        async with aiohttp.ClientSession(url, cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            seen += [await _of_aiohttp(await session.get("/number", params={"a": "1"})) for _ in range(3)]
            seen.append(await _of_aiohttp(await session.post("/echo", json={"b": 1})))
            seen.append(await _of_aiohttp(await session.post("/echo", data=BINARY)))
            seen.append(await _of_aiohttp(await session.get("/binary")))
            seen.append(await _of_aiohttp(await session.get("/gzip")))
            seen.append(await _of_aiohttp(await session.get("/first")))
            seen.append(await _of_aiohttp(await session.get("/odd")))
            seen.append(await _of_aiohttp(await session.head("/number")))
            seen.append(sorted((one.key, one.value) for one in session.cookie_jar))
            form = aiohttp.FormData({"field": "1"})
            form.add_field("file", b"contents", filename="a.txt")
            async with session.post("/echo", data=form) as response:
                seen.append([response.status])
            with pytest.raises(aiohttp.ClientResponseError) as caught:
                await session.get("/missing", raise_for_status=True)
            seen.append([caught.value.status, str(caught.value)])
            async with session.get("/number") as response:
                seen.append(await response.json())
        return seen

    recorded = asyncio.run(agent.run(server.url, run_id="r"))
    assert [json.loads(one[3])["number"] for one in recorded[:3]] == [1, 2, 3]
    assert recorded[4][3] == recorded[5][3] == BINARY
    assert recorded[7][4] == [302]
    assert b"visit=1" in recorded[7][3]
    _replayed(agent, server, store, recorded)


def test_aiohttp_that_fails(server: Server, store: MemoryStore) -> None:
    async def ask(session: aiohttp.ClientSession, url: str) -> list[Any]:
        try:
            await session.get(url)
        except aiohttp.ClientConnectorError as error:
            return ["connector", str(error), error.host, error.port]
        except aiohttp.ServerDisconnectedError as error:
            return ["disconnected", str(error)]
        except TimeoutError as error:
            return ["timeout", type(error).__name__]
        raise AssertionError("it fails")

    @onrecord.agent(store=store)
    async def agent(url: str) -> list[Any]:
        timeouts = (aiohttp.ClientTimeout(total=0.2), aiohttp.ClientTimeout(sock_read=0.2))
        seen = []
        for timeout in timeouts:
            async with aiohttp.ClientSession(timeout=timeout) as session:
                seen += [await ask(session, one) for one in ("http://127.0.0.1:1/", f"{url}/never", f"{url}/refused")]
        return seen

    recorded = asyncio.run(agent.run(server.url, run_id="r"))
    assert [one[0] for one in recorded] == ["connector", "timeout", "disconnected"] * 2
    _replayed(agent, server, store, recorded)


def test_fifty_alike_at_once_with_aiohttp(server: Server, store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    async def agent(url: str) -> list[Any]:
        order: list[int] = []

        async def ask(session: aiohttp.ClientSession, index: int) -> int:
            async with session.get(f"{url}/slow") as response:
                number: int = (await response.json())["number"]
            order.append(index)
            return number

        async with aiohttp.ClientSession() as session:
            return [await asyncio.gather(*(ask(session, index) for index in range(50))), order]

    recorded = asyncio.run(agent.run(server.url, run_id="r"))
    assert sorted(recorded[0]) == list(range(1, 51))
    _replayed(agent, server, store, recorded)


def test_fifty_alike_in_threads_with_http_client(server: Server, store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    def agent(url: str) -> list[Any]:
        numbers: dict[int, int] = {}

        def ask(index: int) -> None:
            with urllib.request.urlopen(f"{url}/slow") as response:
                numbers[index] = json.load(response)["number"]

        threads = [threading.Thread(target=ask, args=(index,)) for index in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(numbers.items())

    recorded = agent.run(server.url, run_id="r")
    assert sorted(number for _, number in recorded) == list(range(1, 51))
    _replayed(agent, server, store, recorded)
