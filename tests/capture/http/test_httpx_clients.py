"""httpx and httpx2, blocking and not: recorded, replayed with the server gone, and the same to the byte."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import httpx2
import pytest

import onrecord
from kit.numbered_server import BINARY, Server
from onrecord.store.memory import MemoryStore

both = pytest.mark.parametrize("module", [httpx, httpx2], ids=["httpx", "httpx2"])


def _facts(response: Any) -> list[Any]:
    return [
        response.status_code,
        response.reason_phrase,
        response.http_version,
        [(name, value) for name, value in response.headers.raw if name.lower() != b"date"],
        response.content,
        [one.status_code for one in response.history],
        str(response.url),
        sorted(response.extensions.items()),
        [response.is_closed, response.is_stream_consumed, response.num_bytes_downloaded],
        response.elapsed.total_seconds() >= 0,
    ]


@both
def test_blocking_calls_come_back(module: Any, server: Server, store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    def agent(url: str) -> list[Any]:
        seen: list[Any] = []
        with module.Client(base_url=url, follow_redirects=True) as client:
            seen += [_facts(client.get("/number?a=1")) for _ in range(3)]
            seen.append(_facts(client.post("/echo", json={"b": 1, "a": [1.0, None]})))
            seen.append(_facts(client.post("/echo", content=BINARY)))
            seen.append(_facts(client.post("/echo", content=iter([b"piece ", b"by piece"]))))
            seen.append(_facts(client.get("/binary")))
            seen.append(_facts(client.get("/gzip")))
            seen.append(_facts(client.get("/first")))
            seen.append(_facts(client.get("/odd")))
            seen.append(_facts(client.head("/number")))
            seen.append(sorted(client.cookies.items()))
            files = {"file": ("a.txt", b"contents", "text/plain")}
            seen.append(client.post("/echo", files=files).status_code)
        return seen

    recorded = agent.run(server.url, run_id="r")
    requests, connections = server.requests, server.connections
    server.stop()
    assert agent.replay("r", store=store) == recorded
    assert (server.requests, server.connections) == (requests, connections)
    assert [b'"number": 1' in one[4] for one in recorded[:3]] == [True, False, False]
    assert recorded[4][4] == recorded[6][4] == BINARY
    assert recorded[8][5] == [302]


@both
def test_awaited_calls_come_back(module: Any, server: Server, store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    async def agent(url: str) -> list[Any]:
        seen: list[Any] = []
        async with module.AsyncClient(base_url=url, follow_redirects=True) as client:
            seen += [_facts(await client.get("/number?a=1")) for _ in range(3)]
            seen.append(_facts(await client.post("/echo", json={"b": 1})))
            seen.append(_facts(await client.get("/binary")))
            seen.append(_facts(await client.get("/gzip")))
            seen.append(_facts(await client.get("/first")))
            seen.append(_facts(await client.get("/odd")))
            files = {"file": ("a.txt", b"contents", "text/plain")}
            seen.append((await client.post("/echo", files=files)).status_code)
        return seen

    recorded = asyncio.run(agent.run(server.url, run_id="r"))
    requests, connections = server.requests, server.connections
    server.stop()
    assert asyncio.run(agent.replay("r", store=store)) == recorded
    assert (server.requests, server.connections) == (requests, connections)


@both
def test_transports_of_the_programs_own_come_back(module: Any, server: Server, store: MemoryStore) -> None:
    class Ready(module.HTTPTransport):  # type: ignore[misc]
        """Hands over what it has read itself."""

        def handle_request(self, request: Any) -> Any:
            response = super().handle_request(request)
            response.read()
            return response

    class Other(module.Response):  # type: ignore[misc]
        pass

    class Made(module.HTTPTransport):  # type: ignore[misc]
        def handle_request(self, request: Any) -> Any:
            response = super().handle_request(request)
            return Other(203, headers=response.headers, stream=response.stream, extensions={"made": b"up"})

    @onrecord.agent(store=store)
    def agent(url: str) -> list[Any]:
        seen: list[Any] = []
        for transport in (Ready(), Made()):
            with module.Client(base_url=url, transport=transport) as client:
                seen += [_facts(client.get(path)) for path in ("/number", "/gzip", "/odd")]
        return seen

    recorded = agent.run(server.url, run_id="r")
    server.stop()
    assert agent.replay("r", store=store) == recorded
    assert [one[0] for one in recorded[3:]] == [203, 203, 203]


@both
def test_fifty_alike_at_once_return_to_their_callers(module: Any, server: Server, store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    async def agent(url: str) -> list[Any]:
        order: list[int] = []

        async def ask(client: Any, index: int) -> int:
            number: int = (await client.get("/slow")).json()["number"]
            order.append(index)
            return number

        async with module.AsyncClient(base_url=url, timeout=30) as client:
            numbers = await asyncio.gather(*(ask(client, index) for index in range(50)))
        return [numbers, order]

    recorded = asyncio.run(agent.run(server.url, run_id="r"))
    server.stop()
    assert sorted(recorded[0]) == list(range(1, 51))
    assert asyncio.run(agent.replay("r", store=store)) == recorded
    assert server.requests == 50


@both
def test_a_race_has_its_winner_again(module: Any, server: Server, store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    async def agent(url: str) -> list[Any]:
        winners = []
        async with module.AsyncClient(base_url=url) as client:
            for seconds in (("0.2", "0.01"), ("0.01", "0.2")):
                tasks = [asyncio.create_task(client.get(f"/lazy?s={one}")) for one in seconds]
                done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in pending:
                    task.cancel()
                await asyncio.gather(*pending, return_exceptions=True)
                winners.append(done.pop().result().json())
        return winners

    recorded = asyncio.run(agent.run(server.url, run_id="r"))
    server.stop()
    assert [one["seconds"] for one in recorded] == ["0.01", "0.01"]
    assert asyncio.run(agent.replay("r", store=store)) == recorded


@both
def test_errors_are_outcomes_of_their_class(module: Any, server: Server, store: MemoryStore) -> None:
    def ask(client: Any, path: str) -> list[str]:
        try:
            client.get(path)
        except module.ConnectError as error:
            return ["connect", str(error), str(error.request.url)]
        except module.ReadTimeout as error:
            return ["timeout", str(error), str(error.request.url)]
        except module.RemoteProtocolError as error:
            return ["protocol", str(error), str(error.request.url)]
        raise AssertionError("it fails")

    @onrecord.agent(store=store)
    def agent(url: str) -> list[Any]:
        with module.Client(timeout=0.2) as client:
            paths = ("http://127.0.0.1:1/", f"{url}/never", f"{url}/refused")
            return [ask(client, path) for path in paths]

    recorded = agent.run(server.url, run_id="r")
    server.stop()
    assert [one[0] for one in recorded] == ["connect", "timeout", "protocol"]
    assert agent.replay("r", store=store) == recorded


def test_outside_of_a_run_nothing_is_different(server: Server) -> None:
    assert httpx.get(f"{server.url}/number").json()["number"] == 1
    assert httpx.get(f"{server.url}/gzip").headers["content-encoding"] == "gzip"


def test_inside_a_tool_it_is_the_tools(server: Server, store: MemoryStore) -> None:
    @onrecord.tool
    def fetch(url: str) -> int:
        number: int = httpx.get(f"{url}/number").json()["number"]
        return number

    @onrecord.agent(store=store)
    def agent(url: str) -> int:
        return fetch(url)

    assert agent.run(server.url, run_id="r") == 1
    kinds = [entry.kind for entry in onrecord.JournalReader(store, "r").scan()]
    assert kinds == ["ActionRequested", "ActionSucceeded", "Completed"]


def test_what_is_recorded(server: Server, store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    def agent(url: str) -> int:
        asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        address = url.replace("http://", "http://name:secret-3@")
        with httpx.Client(headers={"authorization": "Bearer secret-1", "x-api-key": "secret-2"}) as client:
            client.post(f"{address}/v1/chat/completions", json=asked, headers={"OpenAI-Beta": "b"})
            return client.post(f"{url}/echo", content="text", headers={"cookie": "c=secret-4"}).status_code

    agent.run(server.url, run_id="r")
    events = [entry.event for entry in onrecord.JournalReader(store, "r").scan() if entry.kind != "ValuesDrawn"]
    first, answer, second = events[:3]
    host = server.url.removeprefix("http://")
    assert isinstance(first, onrecord.ActionRequested)
    assert first.effect == "model_call"
    assert first.name == f"POST {host}/v1/chat/completions"
    assert first.payload == {
        "method": "POST",
        "url": f"{server.url}/v1/chat/completions",
        "headers": {"accept": "*/*", "content-type": "application/json", "openai-beta": "b"},
        "body": {"json": {"model": "m", "messages": [{"role": "user", "content": "hi"}]}},
    }
    assert first.meta is None
    assert isinstance(answer, onrecord.ActionSucceeded)
    assert answer.output["body"]["json"]["usage"]["total_tokens"] == 12
    assert isinstance(second, onrecord.ActionRequested)
    assert (second.effect, second.meta, second.payload["body"]) == ("http", {"once": True}, {"text": "text"})
    assert "secret" not in str(events)
