"""What the tests of the HTTP interface share: a real server on loopback, a real client, and runs to ask for."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import apsw
import httpx
from click.testing import CliRunner

from onrecord.cli.main import cli
from onrecord.core.events import ActionRequested, ActionSucceeded, Completed, Event, StateUpdated
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.store.factory import open_store
from onrecord.web.server import OnrecordServer, make_server
from onrecord.web.stores import Stores

V1 = "/api/v1"
PLAIN: Any = {"timeout": 60, "verify": False, "trust_env": False}
"""Options of every client: certificates, which no test needs, take long to load."""


class Served:
    """A running server, and a client that has its token."""

    def __init__(self, server: OnrecordServer) -> None:
        self.server = server
        self.address = server.address
        self.port = int(self.address.url.rsplit(":", 1)[1].strip("/"))
        headers = {} if self.address.token is None else {"Authorization": f"Bearer {self.address.token}"}
        self.client = httpx.Client(base_url=self.address.url, headers=headers, **PLAIN)
        self.stranger = httpx.Client(base_url=self.address.url, **PLAIN)

    def get(self, path: str, /, **parameters: Any) -> httpx.Response:
        return self.client.get(V1 + path, params=parameters or None)

    def json(self, path: str, /, **parameters: Any) -> Any:
        answer = self.get(path, **parameters)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/json"
        return answer.json()

    def code(self, path: str, expected: int, /, **parameters: Any) -> str:
        """The stable code of a refusal, which says what to do and holds no traceback."""
        return problem(self.get(path, **parameters), expected)

    def raw(self, data: bytes, *, seconds: float = 20) -> bytes:
        """Whatever bytes, and all that comes back until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            connection.sendall(data)
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                while part := connection.recv(65536):
                    answer += part
        return answer

    def head(self, line: str, *headers: str, host: str | None = "") -> bytes:
        """The head of a request with the token, written by hand."""
        lines = [f"{line} HTTP/1.1"]
        if host is not None:
            lines.append(f"Host: {host or f'127.0.0.1:{self.port}'}")
        lines += [f"Authorization: Bearer {self.address.token}", *headers, "", ""]
        return "\r\n".join(lines).encode("latin-1")


def problem(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert error["message"]
    assert "Traceback" not in answer.text
    code: str = error["code"]
    return code


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


@contextmanager
def serving(url: str, namespace: str = "default", **options: Any) -> Iterator[Served]:
    stores = Stores(open_store(url, read_only=True), lambda: open_store(url), namespace)
    server = make_server(stores, **options)
    thread = threading.Thread(target=server.serve_until_stopped, daemon=True)
    thread.start()
    until(lambda: server.started)
    served = Served(server)
    try:
        yield served
    finally:
        served.client.close()
        served.stranger.close()
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive(), "the server did not end"


def until(true: Any, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def record(
    url: str, run: str, events: Sequence[Event | Draft] | None = None, *, namespace: str = "default", **options: Any
) -> str:
    options.setdefault("facts", {"agent": "tester"})
    store = open_store(url)
    try:
        with Journal.create(store, run, namespace, **options) as journal:
            if events is None or events:
                journal.append(list(whole_run() if events is None else events))
    finally:
        store.close()
    return run


def whole_run(question: str = "2+2?", answer: Any = "the answer is 4") -> list[Event | Draft]:
    return [
        ActionRequested(action_id="a1", payload={"question": question}, name="ask", effect="model_call"),
        Draft(ActionSucceeded(action_id="a1", output=answer), parent=1),
        StateUpdated(payload={"sum": 4}),
        Completed(output="4"),
    ]


def states(count: int, size: int = 0) -> list[Event | Draft]:
    """So many events, each with a content of its own of about `size` characters."""
    return [StateUpdated(payload={"n": n, "text": f"{n:08}" * (size // 8)}) for n in range(count)]


def once(number: int, lane: str = "main") -> Draft:
    """An effect that may happen at most once, without an answer."""
    request = ActionRequested(
        action_id=f"a{number}", payload=number, name="mail", effect="tool_call", meta={"once": True}
    )
    return Draft(request, lane=lane, key=f"a{number}")


def command(url: str, *arguments: str) -> Any:
    """What the command line prints with --json."""
    result = CliRunner().invoke(cli, [*arguments, "--store", url, "--json"])
    return json.loads(result.stdout)


def flip_content(path: str, run: str, seq: int) -> None:
    """One bit in the middle of a stored content, as somebody does it who owns the file."""
    connection = apsw.Connection(path)
    triggers = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    place = "WHERE seq = ? AND run_no = (SELECT run_no FROM runs WHERE run = ?)"
    ((data,),) = connection.execute(f"SELECT content FROM events {place}", (seq, run)).fetchall()
    changed = bytearray(data)
    changed[len(changed) // 2] ^= 1
    connection.execute(f"UPDATE events SET content = ? {place}", (bytes(changed), seq, run))
    for _, sql in triggers:
        connection.execute(sql)
    connection.close()


def events_of_stream(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """Server-sent events, as a browser takes them apart."""
    found: dict[str, str] = {}
    for line in lines:
        if not line:
            if found:
                yield found
            found = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            found[name] = value.removeprefix(" ")
