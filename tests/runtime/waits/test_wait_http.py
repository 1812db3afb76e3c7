"""Resolving a wait over HTTP: the decisions through the ASGI application, the framing through `onrecord.web`."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kit.web import V1, Served, serving, status_of
from onrecord.core.wait_keys import Resolution, WaitIdentity, WaitKey
from onrecord.errors import OutcomeUnknown
from onrecord.runtime.secrets.keys import KeyRing
from onrecord.runtime.waits import WaitRegistry
from onrecord.runtime.waits import http_endpoint as waits_http
from onrecord.runtime.waits.http_endpoint import BODY_BYTES, WaitsApp
from onrecord.store.factory import open_store
from onrecord.store.memory import MemoryStore

APPROVAL = WaitIdentity.named("approval")
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def desk(memory: MemoryStore, ring: KeyRing) -> WaitRegistry:
    return WaitRegistry(memory, keyring=ring)


@pytest.fixture
def key(desk: WaitRegistry) -> WaitKey:
    return desk.key("run-1", APPROVAL, session="session-1")


class Answer:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Send = Callable[..., Answer]


@pytest.fixture
def send(desk: WaitRegistry) -> Send:
    """Send one request to the ASGI application. `headers` replaces the content type; the rest is added."""
    app = WaitsApp(desk)

    def sending(method: str, path: str, body: Any = b"", headers: dict[str, str] | None = None) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {"Host": "localhost", "Content-Length": str(len(data)), **(JSON if headers is None else headers)}
        return request(app, method, path, list(given.items()), [data])

    return sending


def request(
    app: WaitsApp, method: str, path: str, headers: list[tuple[str, str]], parts: list[bytes], *, ends: bool = True
) -> Answer:
    """Send a request to an ASGI application. Without `ends` the body never ends."""
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    messages[-1]["more_body"] = not ends
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0) if messages else await asyncio.Event().wait()

    async def sending(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, sending))
    start, body = sent
    return Answer(start["status"], {name.decode(): value.decode() for name, value in start["headers"]}, body["body"])


@pytest.fixture
def stored_desk(tmp_path: Path, ring: KeyRing, monkeypatch: pytest.MonkeyPatch) -> Iterator[WaitRegistry]:
    """The waits of a store file, which `served` serves."""
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(ring.path))
    store = open_store(str(tmp_path / "store.db"))
    yield WaitRegistry(store, keyring=ring)
    store.close()


@pytest.fixture
def stored_key(stored_desk: WaitRegistry) -> WaitKey:
    return stored_desk.key("run-1", APPROVAL)


@pytest.fixture
def served(stored_desk: WaitRegistry) -> Iterator[Served]:
    with serving(stored_desk.store.private_url, auth=False) as running:
        yield running


def test_resolve_again_and_conflict(send: Send, desk: WaitRegistry, key: WaitKey) -> None:
    path = f"/waits/{key.text}"
    first = send("POST", path, {"value": {"approved": True, "by": "me"}})
    assert (first.status, first.json) == (200, {"status": "resolved"})
    again = send("POST", path, b'{ "value": {"by": "me", "approved": true} }')
    assert (again.status, again.body) == (first.status, first.body)
    other = send("POST", path, {"value": {"approved": False}})
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
def test_bodies(send: Send, desk: WaitRegistry, key: WaitKey, body: Any, resolution: Resolution) -> None:
    assert send("POST", f"/waits/{key.text}", body).status == 200
    assert desk.peek(key) == resolution


def refused_keys(desk: WaitRegistry, key: WaitKey) -> dict[str, str]:
    other = WaitRegistry(desk.store, "other", keyring=desk.keyring).key("run-1", APPROVAL)
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


def test_everything_else_is_one_and_the_same_404(send: Send, desk: WaitRegistry, key: WaitKey) -> None:
    answers = {name: send("POST", f"/waits/{text}", {"value": 1}) for name, text in refused_keys(desk, key).items()}
    assert {(answer.status, answer.body, tuple(answer.headers.items())) for answer in answers.values()} == {
        (404, next(iter(answers.values())).body, tuple(next(iter(answers.values())).headers.items()))
    }
    for path in ("/", "/waits", "/waits/", "/waits/a/b", "/other/" + key.text):
        assert send("POST", path, {"value": 1}).status == 404
    assert desk.peek(key) is None


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FETCH"])
def test_other_methods(send: Send, key: WaitKey, method: str) -> None:
    answer = send(method, f"/waits/{key.text}")
    assert answer.status == 405
    assert answer.headers["allow"] == "POST"


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
def test_other_types(send: Send, key: WaitKey, content_type: str | None) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    assert send("POST", f"/waits/{key.text}", b'{"value":1}', headers).status == 415


def test_a_compressed_body(send: Send, key: WaitKey) -> None:
    bomb = gzip.compress(b'{"value":"' + b"0" * 10_000_000 + b'"}')
    assert send("POST", f"/waits/{key.text}", bomb, {**JSON, "Content-Encoding": "gzip"}).status == 415


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
def test_bodies_that_are_none(send: Send, desk: WaitRegistry, key: WaitKey, body: bytes) -> None:
    if body == b'{"value":1} ':
        assert send("POST", f"/waits/{key.text}", body).status == 200  # white space is JSON
        return
    answer = send("POST", f"/waits/{key.text}", body)
    assert answer.status == 400
    assert answer.json["error"]["code"]
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
def test_hosts(send: Send, key: WaitKey, host: str, status: int) -> None:
    assert send("POST", f"/waits/{key.text}", {"value": 1}, {**JSON, "Host": host}).status == status


@pytest.mark.parametrize("origin", ["https://evil", "null", "http://127.0.0.1", ""])
def test_pages_are_refused(send: Send, key: WaitKey, origin: str) -> None:
    assert send("POST", f"/waits/{key.text}", {"value": 1}, {**JSON, "Origin": origin}).status == 403


def test_an_answer_is_not_cached(send: Send, key: WaitKey) -> None:
    answer = send("POST", f"/waits/{key.text}", {"value": 1})
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"


HOST, LENGTH, CHUNKED = ("Host", "localhost"), ("Content-Length", "11"), ("Transfer-Encoding", "chunked")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([HOST, LENGTH], 200),
        ([HOST], 411),
        ([HOST, CHUNKED], 411),
        ([HOST, CHUNKED, LENGTH], 400),
        ([HOST, LENGTH, LENGTH], 400),
        ([HOST, ("Content-Length", "11, 11")], 400),
        ([HOST, ("Content-Length", "+11")], 400),
        ([HOST, ("Content-Length", "-1")], 400),
        ([HOST, ("Content-Length", "0x0b")], 400),
        ([HOST, ("Content-Length", "12")], 400),
        ([HOST, ("Content-Length", "1")], 413),
        ([HOST, ("Content-Length", "99999999999")], 413),
        ([HOST, ("Content-Length", "9999999999999999999999")], 400),
        ([HOST, HOST, LENGTH], 400),
        ([LENGTH], 400),
    ],
)
def test_headers(desk: WaitRegistry, key: WaitKey, headers: list[tuple[str, str]], status: int) -> None:
    answer = request(WaitsApp(desk), "POST", f"/waits/{key.text}", [*headers, *JSON.items()], [b'{"value":1}'])
    assert answer.status == status
    assert (desk.peek(key) is not None) is (status == 200)


def test_the_target_is_a_path(send: Send, desk: WaitRegistry, key: WaitKey) -> None:
    assert send("POST", f"http://localhost/waits/{key.text}", {"value": 1}).status == 400
    assert desk.peek(key) is None


def test_the_body_limit(send: Send, key: WaitKey) -> None:
    fits = b'{"value":"' + b"0" * (BODY_BYTES - 12) + b'"}'
    assert send("POST", f"/waits/{key.text}", fits + b" ").status == 413
    assert send("POST", f"/waits/{key.text}", fits).status == 200


def test_a_body_in_parts(desk: WaitRegistry, key: WaitKey) -> None:
    answer = request(WaitsApp(desk), "POST", f"/waits/{key.text}", [HOST, LENGTH, *JSON.items()], [b'{"value"', b":1}"])
    assert answer.status == 200


def test_a_body_that_does_not_end_is_cut_off(desk: WaitRegistry, key: WaitKey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits_http, "BODY_SECONDS", 0.05)
    headers = [HOST, LENGTH, *JSON.items()]
    assert request(WaitsApp(desk), "POST", f"/waits/{key.text}", headers, [b"{"], ends=False).status == 408
    assert desk.peek(key) is None


def test_a_store_that_is_away_is_not_a_404(
    send: Send, desk: WaitRegistry, key: WaitKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise OutcomeUnknown("secret detail")

    monkeypatch.setattr(desk.store, "inbox_put", away)
    answer = send("POST", f"/waits/{key.text}", {"value": 1})
    assert answer.status == 503
    assert b"secret detail" not in answer.body
    monkeypatch.undo()
    assert send("POST", f"/waits/{key.text}", {"value": 1}).status == 200


def test_lifespan(desk: WaitRegistry) -> None:
    messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def sending(message: Any) -> None:
        sent.append(message["type"])

    asyncio.run(WaitsApp(desk)({"type": "lifespan"}, receive, sending))
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


# Through the server


HEAD = b"POST /api/v1/waits/KEY HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (HEAD + b"Content-Length: 11\r\n\r\n" + b'{"value":1}', 200),
        (HEAD + b"\r\n", 411),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nb\r\n" + b'{"value":1}' + b"\r\n0\r\n\r\n", 411),
        (HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 11\r\n\r\n" + b'{"value":1}', 400),
        (HEAD + b"Content-Length: 11\r\nContent-Length: 12\r\n\r\n" + b'{"value":1}', 400),
        (HEAD + b"Content-Length: +11\r\n\r\n" + b'{"value":1}', 400),
        (HEAD + b"Content-Length: -1\r\n\r\n", 400),
        (HEAD + b"Content-Length: 0x0b\r\n\r\n" + b'{"value":1}', 400),
        (HEAD + b"Content-Length: 99999999999\r\n\r\n", 413),
        (HEAD + b"Content-Length: 9999999999999999999999\r\n\r\n", 400),
        (HEAD.replace(b"\r\n", b"\n") + b"Content-Length: 11\n\n" + b'{"value":1}', 400),
        (HEAD + b"Content-Length : 11\r\n\r\n" + b'{"value":1}', 400),
        # A folded line continues the header before it: it is no length of its own.
        (HEAD + b"X: a\r\n Content-Length: 12\r\nContent-Length: 11\r\n\r\n" + b'{"value":1}', 200),
        (HEAD + b"X: a\rContent-Length: 11\r\n\r\n" + b'{"value":1}', 400),
        (HEAD + b"Host: localhost\r\nContent-Length: 11\r\n\r\n" + b'{"value":1}', 400),
        (HEAD.replace(b"Host: localhost\r\n", b"") + b"Content-Length: 11\r\n\r\n" + b'{"value":1}', 400),
        (HEAD.replace(b"/api", b"http://localhost/api") + b"Content-Length: 11\r\n\r\n" + b'{"value":1}', 400),
        (HEAD.replace(b" HTTP/1.1", b"") + b"\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00", 400),
        (HEAD + b"X: " + b"x" * 40_000 + b"\r\n\r\n", 431),
        (HEAD + b"X: x\r\n" * 10_000 + b"\r\n", 431),
    ],
)
def test_framing(served: Served, stored_desk: WaitRegistry, stored_key: WaitKey, data: bytes, status: int) -> None:
    answer = served.raw(data.replace(b"KEY", stored_key.text.encode()))
    assert status_of(answer) == status
    assert (stored_desk.peek(stored_key) is not None) is (status == 200)


def test_many_at_once_have_one_winner(served: Served, stored_key: WaitKey) -> None:
    statuses: list[int] = []
    barrier = threading.Barrier(16)

    def resolve(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
        barrier.wait()
        connection.request("POST", f"{V1}/waits/{stored_key.text}", json.dumps({"value": number}), JSON)
        statuses.append(connection.getresponse().status)
        connection.close()

    threads = [threading.Thread(target=resolve, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] + [409] * 15


def test_nothing_is_logged(served: Served, stored_key: WaitKey, capfd: pytest.CaptureFixture[str]) -> None:
    assert served.client.post(f"{V1}/waits/{stored_key.text}", json={"value": 1}).status_code == 200
    served.raw(b"junk\r\n\r\n")
    assert capfd.readouterr() == ("", "")
