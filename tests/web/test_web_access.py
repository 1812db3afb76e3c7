"""Who is let in: Host, Origin, tokens, methods, and requests that no client of good will sends."""

from __future__ import annotations

import contextlib
import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from kit.web import PLAIN, V1, Served, problem, record, serving, status_of, until
from onrecord.errors import InvalidInput
from onrecord.store.factory import open_store
from onrecord.web import protocol
from onrecord.web.server import make_server
from onrecord.web.stores import Stores

RUNS = V1 + "/runs"


@contextmanager
def log_in(served: Served) -> Iterator[httpx.Client]:
    """A browser that has opened the printed address."""
    with httpx.Client(base_url=served.address.url, **PLAIN) as browser:
        answer = browser.get(served.address.login_url)
        assert answer.status_code == 303, answer.text
        yield browser


def own_origin(served: Served) -> dict[str, str]:
    return {"Origin": served.address.url.rstrip("/")}


# Tokens


@pytest.mark.parametrize(
    "target", ["/", RUNS, V1 + "/runs/first/follow", V1 + "/waits", "/nothing", V1 + "/runs/nobody"]
)
def test_without_a_token_nothing_is_said(shared: Served, target: str) -> None:
    answer = shared.stranger.get(target)
    assert problem(answer, 401) == "not_authorised"
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "first" not in answer.text


@pytest.mark.parametrize(
    "sent",
    [
        "Bearer",
        "Bearer wrong",
        "Bearer {token}x",
        "Bearer {token} {token}",
        "Basic {token}",
        "{token}",
        "Bearer \xff\xfe",
        "Bearer " + "a" * 5_000,
    ],
)
def test_a_wrong_token_is_refused(shared: Served, sent: str) -> None:
    value = sent.replace("{token}", str(shared.address.token)).encode("latin-1")
    answer = shared.stranger.get(RUNS, headers=[(b"Authorization", value)])
    assert problem(answer, 401) == "not_authorised"


def test_two_tokens_are_refused_though_one_is_right(served: Served) -> None:
    right = f"Bearer {served.address.token}"
    answer = served.stranger.get(RUNS, headers=[("Authorization", right), ("Authorization", right)])
    assert problem(answer, 401) == "not_authorised"


def test_the_token_in_the_address_is_of_no_use(served: Served) -> None:
    assert problem(served.stranger.get(f"{RUNS}?token={served.address.token}"), 401) == "not_authorised"
    assert str(served.address.token) not in served.address.login_url


def test_the_printed_address_is_exchanged_once_for_a_cookie(served: Served) -> None:
    browser = httpx.Client(base_url=served.address.url, **PLAIN)
    answer = browser.get(served.address.login_url)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert answer.headers["referrer-policy"] == "no-referrer"
    attributes = [part.strip() for part in answer.headers["set-cookie"].split(";")]
    assert attributes[0].startswith(f"onrecord-{served.port}=")
    assert set(attributes[1:]) == {"Path=/", "HttpOnly", "SameSite=Strict"}
    assert browser.get(RUNS).status_code == 200
    again = served.stranger.get(served.address.login_url)
    assert problem(again, 403) == "bad_code"
    assert "set-cookie" not in again.headers
    assert browser.get(RUNS).status_code == 200, "the cookie goes on"
    clicked_again = browser.get(served.address.login_url)
    assert (clicked_again.status_code, clicked_again.headers["location"]) == (303, "/")
    assert "set-cookie" not in clicked_again.headers
    guessed = served.stranger.get(served.address.login_url, headers={"Cookie": f"onrecord-{served.port}=guessed"})
    assert problem(guessed, 403) == "bad_code"
    browser.close()


@pytest.mark.parametrize("query", ["", "?code=", "?code=wrong", "?code=a&code=b", "?token=x"])
def test_another_code_opens_nothing(served: Served, query: str) -> None:
    answer = served.stranger.get("/login" + query)
    assert answer.status_code in (400, 403)
    assert "set-cookie" not in answer.headers
    with log_in(served) as browser:
        assert browser.get(RUNS).status_code == 200, "a guess has not used the right one up"


def test_a_cookie_of_another_server_opens_nothing(served: Served, path: str) -> None:
    with serving(path) as other, log_in(other) as browser:
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        assert problem(served.stranger.get(RUNS, headers={"Cookie": cookie}), 401) == "not_authorised"


def test_without_auth_everybody_on_this_machine_looks(path: str) -> None:
    record(path, "first")
    with serving(path, auth=False) as served:
        assert served.address.token is None
        assert served.json("/runs")["runs"]
        assert problem(served.client.get(RUNS, headers={"Origin": "https://evil.example"}), 403) == "bad_origin"
        assert problem(served.client.get(RUNS, headers={"Host": "evil.example"}), 403) == "bad_host"


# Host and Origin


@pytest.mark.parametrize(
    "host",
    [
        "evil.com",
        "localhost.evil.com",
        "127.0.0.1.nip.io",
        "127.0.0.1@evil.com",
        "127.0.0.2",
        "0.0.0.0",
        "2130706433",
        "0x7f.1",
        "[::2]",
        "[::1",
        "localhost.",
        "127.0.0.1:80:80",
        "127.0.0.1 evil.com",
    ],
)
def test_a_host_that_is_not_this_one_is_refused(shared: Served, host: str) -> None:
    answer = shared.raw(shared.head(f"GET {RUNS}", "Connection: close", host=host))
    assert status_of(answer) in (400, 403), answer
    assert b"first" not in answer


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1234", "127.0.0.1", "[::1]:99"])
def test_names_of_this_machine_are_served(shared: Served, host: str) -> None:
    assert status_of(shared.raw(shared.head(f"GET {RUNS}", "Connection: close", host=host))) == 200


def test_no_host_and_two_hosts_and_another_target_are_refused(served: Served) -> None:
    assert status_of(served.raw(served.head(f"GET {RUNS}", host=None))) == 400
    assert status_of(served.raw(served.head(f"GET {RUNS}", "Host: localhost"))) == 400
    for target in (f"http://evil.com{RUNS}", "*", f"//evil.com{RUNS}", "evil.com:443"):
        answer = served.raw(served.head(f"GET {target}", "Connection: close"))
        assert status_of(answer) in (400, 404), (target, answer)
        assert b'"runs"' not in answer


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost.evil.com", "http://127.0.0.1", ""]
)
@pytest.mark.parametrize("target", [RUNS, V1 + "/runs/first/follow"])
def test_pages_of_other_origins_read_nothing(shared: Served, origin: str, target: str) -> None:
    assert problem(shared.client.get(target, headers={"Origin": origin}), 403) == "bad_origin"


def test_a_request_that_the_browser_calls_foreign_is_refused(served: Served) -> None:
    with log_in(served) as browser:
        for site in ("cross-site", "same-site"):
            assert problem(browser.get(RUNS, headers={"Sec-Fetch-Site": site}), 403) == "bad_origin"
        for site in ("same-origin", "none"):
            assert browser.get(RUNS, headers={"Sec-Fetch-Site": site}).status_code == 200


def test_our_own_pages_are_served(served: Served) -> None:
    with log_in(served) as browser:
        assert browser.get(RUNS, headers=own_origin(served)).status_code == 200


@pytest.mark.parametrize("target", ["/runs/first/settle", "/waits/some-key"])
def test_with_a_cookie_nothing_is_changed_but_by_our_own_pages(served: Served, target: str) -> None:
    body = {"value": 1} if "waits" in target else {"effect": 1, "decision": "retry"}
    with log_in(served) as browser:
        assert problem(browser.post(V1 + target, json=body), 403) == "no_origin"
        foreign = browser.post(V1 + target, json=body, headers={"Origin": "https://evil.example"})
        assert problem(foreign, 403) == "bad_origin"
        assert browser.post(V1 + target, json=body, headers=own_origin(served)).status_code == 404
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            headers = {**own_origin(served), "Content-Type": kind}
            assert problem(browser.post(V1 + target, content=b'{"value": 1}', headers=headers), 415) == "bad_type"


def test_there_is_no_cors(served: Served) -> None:
    answer = served.client.get(RUNS, headers=own_origin(served))
    assert not [name for name in answer.headers if name.startswith("access-control")]
    preflight = served.client.options(RUNS, headers={"Access-Control-Request-Method": "POST"})
    assert preflight.status_code == 405
    assert not [name for name in preflight.headers if name.startswith("access-control")]


def test_every_answer_is_inert(served: Served) -> None:
    for path in ("/", RUNS, "/nothing", V1 + "/runs/nobody", V1 + "/runs/first/timeline"):
        headers = served.client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in headers


# Methods, targets, framing


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
def test_other_methods_are_405(shared: Served, method: str) -> None:
    answer = shared.client.request(method, RUNS)
    assert problem(answer, 405) == "bad_method"
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD"}


@pytest.mark.parametrize("target", ["/runs/first/settle", "/waits/some-key"])
def test_what_is_changed_is_changed_by_post(shared: Served, target: str) -> None:
    answer = shared.get(target)
    assert problem(answer, 405) == "bad_method"
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize(
    "name", ["..", "%2e%2e", "..%2f..", "a%2fb", "%00", "%0d%0aX-Evil:%201", "%ff", "a'--", "%1b[2J", "a" * 129]
)
def test_what_is_no_id_names_no_run(shared: Served, name: str) -> None:
    answer = shared.raw(shared.head(f"GET {V1}/runs/{name}", "Connection: close"))
    assert status_of(answer) == 404, answer
    assert b"X-Evil: 1\r\n" not in answer
    assert b"\x1b" not in answer


def test_a_path_that_is_too_long_is_refused(served: Served) -> None:
    answer = served.raw(served.head(f"GET {V1}/runs/{'a' * 9_000}", "Connection: close"))
    assert status_of(answer) == 400


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.1\nHost: localhost\n\n",
        b"GET / HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n folded: yes\r\nBad Header: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: \x00\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST /api/v1/waits/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST /api/v1/waits/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /api/v1/runs HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
    ],
)
def test_what_is_not_well_formed_is_400(shared: Served, data: bytes) -> None:
    answer = shared.raw(data)
    assert status_of(answer) == 400, answer
    assert b'{"error":' in answer
    assert shared.json("/runs")["runs"], "nobody else is harmed"


def test_a_head_that_is_too_large_is_refused(served: Served) -> None:
    whole = served.head(f"GET {RUNS}", "X: " + "y" * 40_000, "Connection: close")
    assert status_of(served.raw(whole)) in (400, 431)
    many = served.head(f"GET {RUNS}", *(f"X-{n}: {n}" for n in range(5_000)), "Connection: close")
    assert status_of(served.raw(many)) in (400, 431)
    endless = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 200_000
    assert status_of(served.raw(endless)) == 400


def test_a_line_feed_alone_is_refused_wherever_the_head_is_cut(served: Served) -> None:
    data = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: y\n\r\n"
    for cut in (14, 15, 16, 30, 36, 37):
        with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
            connection.sendall(data[:cut])
            time.sleep(0.02)
            connection.sendall(data[cut:])
            assert status_of(connection.recv(65536)) == 400


def test_a_head_that_is_cut_anywhere_is_read(served: Served) -> None:
    data = served.head(f"GET {RUNS}", "Connection: close")
    for cut in (1, data.index(b"\r") + 1, len(data) - 3, len(data) - 1):
        with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
            connection.sendall(data[:cut])
            time.sleep(0.02)
            connection.sendall(data[cut:])
            assert status_of(connection.recv(65536)) == 200


def test_what_was_sent_ahead_is_not_looked_at(served: Served) -> None:
    """One answer, then the connection ends: junk behind a request is never taken for a request."""
    one = served.head(f"GET {RUNS}")
    for more in (one, b"GARBAGE\n\n" * 100, b"POST /api/v1/waits/k HTTP/1.1\nHost: localhost\n\n"):
        answer = served.raw(one + more)
        assert answer.count(b"HTTP/1.1 ") == 1
        assert status_of(answer) == 200


def test_a_connection_is_used_again(served: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
    connection.connect()
    first = connection.sock
    for _ in range(3):
        connection.request("GET", RUNS, headers={"Authorization": f"Bearer {served.address.token}"})
        assert connection.getresponse().read()
        assert connection.sock is first
    connection.close()


def test_an_upgrade_is_not_followed(served: Served) -> None:
    headers = ("Connection: Upgrade, close", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
    answer = served.raw(served.head(f"GET {V1}/runs/first/follow?after=3", *headers, "Sec-WebSocket-Version: 13"))
    assert status_of(answer) == 200
    assert b"101 " not in answer


# Slow and many


def test_a_head_that_drips_is_cut_off(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.5)
    with (
        socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection,
        pytest.raises((ConnectionResetError, BrokenPipeError)),
    ):
        for _ in range(1_000):
            connection.sendall(b"X")
            time.sleep(0.05)


def test_a_connection_that_says_nothing_is_cut_off(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.3)
    with (
        socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection,
        contextlib.suppress(ConnectionResetError),
    ):
        assert connection.recv(1) == b""


def test_beyond_so_many_connections_new_ones_end_at_once(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "CONNECTIONS", 10)
    served.json("/runs")
    held = [socket.create_connection(("127.0.0.1", served.port), timeout=10) for _ in range(9)]
    try:
        until(lambda: len(served.server.server_state.connections) == 10)
        assert served.raw(served.head(f"GET {RUNS}")) == b""
        assert served.json("/runs")["runs"], "those that are there are served"
    finally:
        for connection in held:
            connection.close()
    until(lambda: status_of(served.raw(served.head(f"GET {RUNS}", "Connection: close"))) == 200)


# Where it listens


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.com"])
def test_another_address_needs_a_token_and_names(host: str, path: str) -> None:
    record(path, "first")
    store = open_store(path, read_only=True)
    stores = Stores(store, lambda: store)
    with pytest.raises(InvalidInput) as refused:
        make_server(stores, host, auth=False, allowed_hosts=["onrecord.example"])
    assert refused.value.code == "not_loopback"
    with pytest.raises(InvalidInput) as refused:
        make_server(stores, host)
    assert refused.value.code == "no_allowed_hosts"
    store.close()


@pytest.mark.parametrize("host", ["127.0.0.2", "::1", "localhost"])
def test_every_address_of_this_machine_can_be_served(path: str, host: str) -> None:
    record(path, "first")
    with serving(path, host=host) as served:
        assert served.json("/runs")["runs"]
        answer = served.client.post(V1 + "/waits/some-key", json={"value": 1})
        assert problem(answer, 404) == "await_event_unknown_or_revoked"


def test_an_allowed_name_is_served(path: str) -> None:
    record(path, "first")
    with serving(path, host="0.0.0.0", allowed_hosts=["Onrecord.example"]) as served:
        head = served.head(f"GET {RUNS}", "Connection: close", host="onrecord.example:443")
        assert status_of(served.raw(head)) == 200
        head = served.head(f"GET {RUNS}", "Connection: close", host="other.example")
        assert status_of(served.raw(head)) == 403
