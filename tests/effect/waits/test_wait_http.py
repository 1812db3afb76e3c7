"""Resolving over HTTP, through real sockets on loopback and as an ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from reenact.core.wait_keys import Resolution, WaitIdentity, WaitKey
from reenact.effect.keys import KeyRing
from reenact.effect.waits import WaitDesk, server
from reenact.effect.waits.http import BODY_BYTES, WaitsApp
from reenact.effect.waits.server import WaitsServer, make_server, serving
from reenact.errors import InvalidInput
from reenact.store.memory import MemoryStore

APPROVAL = WaitIdentity.named("approval")
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def desk(memory: MemoryStore, ring: KeyRing) -> WaitDesk:
    return WaitDesk(memory, keyring=ring)


@pytest.fixture
def served(desk: WaitDesk) -> Iterator[WaitsServer]:
    with serving(desk, request_seconds=2.0) as running:
        yield running


@pytest.fixture
def key(desk: WaitDesk) -> WaitKey:
    return desk.key("run-1", APPROVAL, session="session-1")


class Said:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def send(served: WaitsServer, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Said:
    connection = http.client.HTTPConnection("127.0.0.1", served.server_address[1], timeout=30)
    try:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(method, path, data, JSON if headers is None else headers)
        answer = connection.getresponse()
        return Said(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def raw(served: WaitsServer, data: bytes, *, end: bool = True) -> bytes:
    """Whatever bytes, and all that comes back."""
    with socket.create_connection(("127.0.0.1", served.server_address[1]), timeout=30) as connection:
        connection.sendall(data)
        if end:
            connection.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(65536):
                answer += part
    return answer


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_resolve_again_and_conflict(served: WaitsServer, desk: WaitDesk, key: WaitKey) -> None:
    path = f"/waits/{key.text}"
    first = send(served, "POST", path, {"value": {"approved": True, "by": "me"}})
    assert (first.status, first.json) == (200, {"status": "resolved"})
    again = send(served, "POST", path, b'{ "value": {"by": "me", "approved": true} }')
    assert (again.status, again.body) == (first.status, first.body)
    other = send(served, "POST", path, {"value": {"approved": False}})
    assert other.status == 409
    assert other.json == {
        "status": "already_resolved",
        "resolution": {"status": "ok", "value": {"approved": True, "by": "me"}},
    }
    assert desk.wait_blocking(key) == Resolution.ok({"approved": True, "by": "me"})


@pytest.mark.parametrize(
    ("body", "resolution"),
    [
        ({"value": None}, Resolution.ok(None)),
        ({"error": "no budget"}, Resolution.error("no budget")),
        ({"cancel": True}, Resolution.cancelled()),
    ],
)
def test_bodies(served: WaitsServer, desk: WaitDesk, key: WaitKey, body: Any, resolution: Resolution) -> None:
    assert send(served, "POST", f"/waits/{key.text}", body).status == 200
    assert desk.peek(key) == resolution


def refused_keys(desk: WaitDesk, key: WaitKey) -> dict[str, str]:
    other = WaitDesk(desk.store, "other", keyring=desk.keyring).key("run-1", APPROVAL)
    revoked = desk.key("run-2", APPROVAL, session="revoked")
    desk.revoke_session("revoked")
    return {
        "unknown": desk.keyring.sign(msgspec.structs.replace(key, run="run-9")).text,
        "tampered": msgspec.structs.replace(key, name="other").text,
        "signature": key.text[:-2] + "AA",
        "cut": key.text[:-1],
        "namespace": other.text,
        "revoked": revoked.text,
        "minted after": desk.key("run-3", APPROVAL, session="revoked").text,
        "not a key": "approval",
        "percent": "%00%ff%2e%2e%2f",
        "dots": "..",
    }


def test_everything_else_is_one_and_the_same_404(served: WaitsServer, desk: WaitDesk, key: WaitKey) -> None:
    answers = {
        name: send(served, "POST", f"/waits/{text}", {"value": 1}) for name, text in refused_keys(desk, key).items()
    }
    assert {(said.status, said.body, tuple(said.headers.items())) for said in answers.values()} == {
        (404, next(iter(answers.values())).body, tuple(next(iter(answers.values())).headers.items()))
    }
    for path in ("/", "/waits", "/waits/", "/waits/a/b", "/other/" + key.text):
        assert send(served, "POST", path, {"value": 1}).status == 404
    assert desk.peek(key) is None


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FETCH"])
def test_other_methods(served: WaitsServer, key: WaitKey, method: str) -> None:
    said = send(served, method, f"/waits/{key.text}")
    assert said.status == 405
    assert said.headers["allow"] == "POST"


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/jsonx",
        "application/json; charset=utf-16",
        "text/plain, application/json",
    ],
)
def test_other_types(served: WaitsServer, key: WaitKey, content_type: str | None) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    assert send(served, "POST", f"/waits/{key.text}", b'{"value":1}', headers).status == 415


def test_a_compressed_body(served: WaitsServer, key: WaitKey) -> None:
    bomb = gzip.compress(b'{"value":"' + b"0" * 10_000_000 + b'"}')
    assert send(served, "POST", f"/waits/{key.text}", bomb, {**JSON, "Content-Encoding": "gzip"}).status == 415


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"1",
        b"nonsense",
        b'{"value":1,"error":2}',
        b'{"value":1,"value":2}',
        b'{"value":NaN}',
        b'{"value":1e400}',
        b'{"value":"\\ud800"}',
        b'{"value":1} ',
        b'\xff\xfe{"value":1}',
        b'{"value":' + b"[" * 70 + b"]" * 70 + b"}",
        b'{"cancel":false}',
        b'{"cancel":1}',
        b'{"error":null}',
        b'{"other":1}',
    ],
)
def test_bodies_that_are_none(served: WaitsServer, desk: WaitDesk, key: WaitKey, body: bytes) -> None:
    if body == b'{"value":1} ':
        assert send(served, "POST", f"/waits/{key.text}", body).status == 200  # white space is JSON
        return
    said = send(served, "POST", f"/waits/{key.text}", body)
    assert said.status == 400
    assert said.json["error"]["code"]
    assert desk.peek(key) is None


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("localhost:8000", 200),
        ("LOCALHOST", 200),
        ("[::1]:80", 200),
        ("evil.com", 403),
        ("localhost.evil.com", 403),
        ("127.0.0.1.nip.io", 403),
        ("127.0.0.1@evil.com", 403),
        ("", 403),
    ],
)
def test_hosts(served: WaitsServer, key: WaitKey, host: str, status: int) -> None:
    assert send(served, "POST", f"/waits/{key.text}", {"value": 1}, {**JSON, "Host": host}).status == status


@pytest.mark.parametrize("origin", ["https://evil", "null", "http://127.0.0.1", ""])
def test_pages_are_refused(served: WaitsServer, key: WaitKey, origin: str) -> None:
    assert send(served, "POST", f"/waits/{key.text}", {"value": 1}, {**JSON, "Origin": origin}).status == 403


HEAD = b"POST /waits/KEY HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (HEAD + b"Content-Length: 11\r\n\r\n" + b'{"value":1}', 200),
        (HEAD + b"\r\n", 411),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nb\r\n" + b'{"value":1}' + b"\r\n0\r\n\r\n", 411),
        (HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 11\r\n\r\n" + b'{"value":1}', 400),
        (HEAD + b"Content-Length: 11\r\nContent-Length: 11\r\n\r\n" + b'{"value":1}', 400),
        (HEAD + b"Content-Length: 11, 11\r\n\r\n" + b'{"value":1}', 400),
        (HEAD + b"Content-Length: +11\r\n\r\n" + b'{"value":1}', 400),
        (HEAD + b"Content-Length: -1\r\n\r\n", 400),
        (HEAD + b"Content-Length: 0x0b\r\n\r\n" + b'{"value":1}', 400),
        (HEAD + b"Content-Length: 12\r\n\r\n" + b'{"value":1}', 400),
        (HEAD + b"Content-Length: 99999999999\r\n\r\n", 413),
        (HEAD + b"Content-Length: 9999999999999999999999\r\n\r\n", 400),
        (HEAD.replace(b"\r\n", b"\n") + b"Content-Length: 11\n\n" + b'{"value":1}', 400),
        (HEAD + b"Content-Length : 11\r\n\r\n" + b'{"value":1}', 400),
        (HEAD + b"X: a\r\n folded\r\nContent-Length: 11\r\n\r\n" + b'{"value":1}', 400),
        (HEAD + b"X: a\rContent-Length: 11\r\n\r\n" + b'{"value":1}', 400),
        (HEAD + b"Host: localhost\r\nContent-Length: 11\r\n\r\n" + b'{"value":1}', 400),
        (HEAD.replace(b"Host: localhost\r\n", b"") + b"Content-Length: 11\r\n\r\n" + b'{"value":1}', 400),
        (HEAD.replace(b"/waits", b"http://localhost/waits") + b"Content-Length: 11\r\n\r\n" + b'{"value":1}', 400),
        (HEAD.replace(b"HTTP/1.1", b"HTTP/2.0") + b"\r\n", 400),
        (HEAD.replace(b" HTTP/1.1", b"") + b"\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00", 400),
        (HEAD + b"X: " + b"x" * 40_000 + b"\r\n\r\n", 431),
        (HEAD + b"X: x\r\n" * 10_000 + b"\r\n", 431),
    ],
)
def test_framing(served: WaitsServer, desk: WaitDesk, key: WaitKey, data: bytes, status: int) -> None:
    answer = raw(served, data.replace(b"KEY", key.text.encode()))
    assert status_of(answer) == status
    assert (desk.peek(key) is not None) is (status == 200)


def test_the_body_limit(served: WaitsServer, desk: WaitDesk, key: WaitKey) -> None:
    fits = b'{"value":"' + b"0" * (BODY_BYTES - 12) + b'"}'
    assert send(served, "POST", f"/waits/{key.text}", fits + b" ").status == 413
    assert send(served, "POST", f"/waits/{key.text}", fits).status == 200


def test_a_sender_who_is_slow_is_cut_off(desk: WaitDesk, key: WaitKey) -> None:
    with serving(desk, request_seconds=0.3) as served:
        head = HEAD.replace(b"KEY", key.text.encode())
        for data in (b"", b"POST", head, head + b"Content-Length: 11\r\n\r\n{"):
            answer = raw(served, data, end=False)
            assert status_of(answer) == 408
    assert desk.peek(key) is None


def test_a_sender_who_drips_is_cut_off(desk: WaitDesk, key: WaitKey) -> None:
    """Each byte comes in time; the whole does not."""
    with (
        serving(desk, request_seconds=0.5) as served,
        socket.create_connection(("127.0.0.1", served.server_address[1]), timeout=30) as connection,
    ):
        stop = threading.Event()

        def drip() -> None:
            with contextlib.suppress(OSError):
                while not stop.wait(0.02):
                    connection.sendall(b"P")

        thread = threading.Thread(target=drip)
        thread.start()
        answer = connection.recv(65536)
        stop.set()
        thread.join()
    assert status_of(answer) == 408


def test_too_many_connections(desk: WaitDesk, key: WaitKey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CONNECTIONS", 2)
    with serving(desk, request_seconds=30.0) as served:
        address = ("127.0.0.1", served.server_address[1])
        idle = [socket.create_connection(address, timeout=30) for _ in range(2)]
        while served._free._value:
            pass
        assert status_of(raw(served, b"", end=False)) == 503
        for connection in idle:
            connection.close()
        while not served._free._value:
            pass
        assert send(served, "POST", f"/waits/{key.text}", {"value": 1}).status == 200


def test_answers_are_not_kept_and_nothing_is_logged(
    served: WaitsServer, key: WaitKey, capfd: pytest.CaptureFixture[str]
) -> None:
    said = send(served, "POST", f"/waits/{key.text}", {"value": 1})
    assert said.headers["cache-control"] == "no-store"
    assert said.headers["referrer-policy"] == "no-referrer"
    raw(served, b"junk\r\n\r\n")
    assert capfd.readouterr() == ("", "")


def test_loopback_unless_asked_for_otherwise(desk: WaitDesk, key: WaitKey) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org", ""):
        with pytest.raises(InvalidInput) as caught:
            make_server(desk, host)
        assert caught.value.code == "not_loopback"
    with pytest.raises(InvalidInput) as caught:
        make_server(desk, "0.0.0.0", allow_remote=True)
    assert caught.value.code == "no_allowed_hosts"
    with serving(desk, host="0.0.0.0", allow_remote=True, allowed_hosts=["agents.example"]) as served:
        said = send(served, "POST", f"/waits/{key.text}", {"value": 1}, {**JSON, "Host": "agents.example"})
        assert said.status == 200


def test_many_at_once_have_one_winner(served: WaitsServer, desk: WaitDesk, key: WaitKey) -> None:
    statuses: list[int] = []
    barrier = threading.Barrier(16)

    def resolve(number: int) -> None:
        barrier.wait()
        statuses.append(send(served, "POST", f"/waits/{key.text}", {"value": number}).status)

    threads = [threading.Thread(target=resolve, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] + [409] * 15


def test_a_store_that_is_away_is_not_a_404(desk: WaitDesk, key: WaitKey, monkeypatch: pytest.MonkeyPatch) -> None:
    from reenact.errors import OutcomeUnknown

    def away(*_: Any, **__: Any) -> Any:
        raise OutcomeUnknown("secret detail")

    with serving(desk) as served:
        monkeypatch.setattr(desk.store, "inbox_put", away)
        said = send(served, "POST", f"/waits/{key.text}", {"value": 1})
        assert said.status == 503
        assert b"secret detail" not in said.body
        monkeypatch.undo()
        assert send(served, "POST", f"/waits/{key.text}", {"value": 1}).status == 200


# --- ASGI ---


class Asked:
    """One request to an ASGI application, and its answer."""

    def __init__(self, app: WaitsApp) -> None:
        self.app = app
        self.ends = True

    def __call__(
        self, method: str, path: str, parts: list[bytes], headers: list[tuple[bytes, bytes]] | None = None
    ) -> Said:
        length = str(sum(map(len, parts))).encode()
        usual = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", length)]
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "headers": usual if headers is None else headers,
        }
        messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts[:-1]]
        messages.append({"type": "http.request", "body": parts[-1] if parts else b"", "more_body": not self.ends})
        sent: list[Any] = []

        async def receive() -> Any:
            return messages.pop(0) if messages else await asyncio.Event().wait()

        async def sending(message: Any) -> None:
            sent.append(message)

        asyncio.run(self.app(scope, receive, sending))
        start, body = sent
        return Said(start["status"], {name.decode(): value.decode() for name, value in start["headers"]}, body["body"])


def test_asgi(desk: WaitDesk, key: WaitKey) -> None:
    ask = Asked(WaitsApp(desk))
    path = f"/waits/{key.text}"
    missing = ask("POST", "/waits/nothing", [b'{"value":1}'])
    assert missing.status == 404
    for text in refused_keys(desk, key).values():
        said = ask("POST", f"/waits/{text}", [b'{"value":1}'])
        assert (said.status, said.body, said.headers) == (404, missing.body, missing.headers)
    assert ask("GET", path, [b""]).status == 405
    assert ask("POST", path, [b'{"value"', b":1}"]).status == 200
    assert ask("POST", path, [b'{"value":1}']).status == 200
    assert ask("POST", path, [b'{"value":2}']).status == 409


def test_asgi_bodies_are_bounded(desk: WaitDesk, key: WaitKey, monkeypatch: pytest.MonkeyPatch) -> None:
    from reenact.effect.waits import http as module

    ask, path = Asked(WaitsApp(desk)), f"/waits/{key.text}"
    host, kind = (b"host", b"localhost"), (b"content-type", b"application/json")
    assert ask("POST", path, [b"x" * 20], [host, kind, (b"content-length", b"11")]).status == 413
    assert ask("POST", path, [b"x"], [host, kind, (b"content-length", b"11")]).status == 400
    assert ask("POST", path, [b'{"value":1}'], [host, kind]).status == 411
    monkeypatch.setattr(module, "BODY_SECONDS", 0.05)
    ask.ends = False
    assert ask("POST", path, [b"{"], [host, kind, (b"content-length", b"11")]).status == 408
    assert desk.peek(key) is None


def test_asgi_lifespan(desk: WaitDesk) -> None:
    messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def sending(message: Any) -> None:
        sent.append(message["type"])

    asyncio.run(WaitsApp(desk)({"type": "lifespan"}, receive, sending))
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
