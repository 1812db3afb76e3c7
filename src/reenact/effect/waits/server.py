"""The door served by the standard library alone: a thread for each connection, one request on each.

Bounded everywhere: so many connections, so many bytes of head and body, and one deadline for the whole request, so that
a sender who drips bytes is cut off as one who sends none. Heads are read strictly (CRLF alone ends a line, no line is
folded): what two readers could split differently is refused.
"""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from reenact.effect.waits.desk import WaitDesk
from reenact.effect.waits.http import (
    BODY_SECONDS,
    BUSY,
    CUT_OFF,
    TOO_SLOW,
    Answer,
    Door,
    Request,
    content_length,
    is_loopback,
    problem,
)
from reenact.errors import InvalidInput

HEAD_BYTES = 32 * 1024
CONNECTIONS = 64
BAD_HEAD = problem(400, "bad_request", "the request is not well formed")
HEAD_TOO_LARGE = problem(431, "too_large", f"the head of a request has at most {HEAD_BYTES} bytes")


class WaitsServer(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = CONNECTIONS

    def __init__(self, address: tuple[str, int], door: Door, request_seconds: float = BODY_SECONDS) -> None:
        self.door = door
        self.request_seconds = request_seconds
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        name = host if isinstance(host, str) else host.decode()
        return f"http://{f'[{name}]' if ':' in name else name}:{port}/waits/"

    def server_bind(self) -> None:
        # http.server would ask the resolver for our own name, which can take seconds and is not needed.
        TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            with suppress(OSError):
                request.settimeout(1.0)
                request.sendall(_written(BUSY))
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is nobody's concern but the sender's; the standard one prints to stderr."""


class _TooSlowError(Exception):
    pass


class _DeadlineReader(io.RawIOBase):
    """Reads a socket until one moment, however the bytes come."""

    def __init__(self, connection: socket.socket, end: float) -> None:
        self._connection = connection
        self._end = end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._end - time.monotonic()
        if left <= 0:
            raise _TooSlowError
        self._connection.settimeout(left)
        try:
            return self._connection.recv_into(buffer)
        except TimeoutError:
            raise _TooSlowError from None


class _Handler(BaseHTTPRequestHandler):
    server: WaitsServer

    def handle(self) -> None:
        end = time.monotonic() + self.server.request_seconds
        try:
            answer = self._answer(io.BufferedReader(_DeadlineReader(self.connection, end)))
        except _TooSlowError:
            answer = TOO_SLOW
        except OSError:
            return  # the sender went away
        if answer is not None:
            self._say(answer)

    def _answer(self, reader: io.BufferedReader) -> Answer | None:
        head = _read_head(reader)
        if head is None or isinstance(head, Answer):
            return head
        request = self._parsed(head)
        if isinstance(request, Answer):
            return request
        refusal = self.server.door.refusal(request)
        if refusal is not None:
            return refusal
        length = content_length(request)
        body = reader.read(length)
        return CUT_OFF if len(body) != length else self.server.door.answer(request, body)

    def _parsed(self, lines: list[bytes]) -> Request | Answer:
        words = lines[0].decode("latin-1").split(" ")
        if len(words) != 3 or words[2] not in ("HTTP/1.0", "HTTP/1.1"):
            return BAD_HEAD
        headers = []
        for line in lines[1:]:
            name, colon, value = line.decode("latin-1").partition(":")
            # A space before the colon or at the beginning of a line is read differently by different readers.
            if not colon or not name or any(not 0x21 <= ord(character) <= 0x7E for character in name):
                return BAD_HEAD
            headers.append((name.lower(), value.strip(" \t")))
        return Request(words[0], words[1].partition("?")[0], headers)

    def _say(self, answer: Answer) -> None:
        with suppress(OSError):
            self.connection.settimeout(self.server.request_seconds)
            self.connection.sendall(_written(answer))
            # Closing with unread bytes in the buffer would reset the connection under the answer.
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(1.0)
            for _ in range(64):
                if not self.connection.recv(65536):
                    break


def _read_head(reader: io.BufferedReader) -> list[bytes] | Answer | None:
    """The lines before the body; None when nothing was sent."""
    lines: list[bytes] = []
    size = 0
    while True:
        line = reader.readline(HEAD_BYTES + 1 - size)
        size += len(line)
        if size > HEAD_BYTES:
            return HEAD_TOO_LARGE
        if not line:
            return BAD_HEAD if lines else None
        if not line.endswith(b"\r\n") or b"\r" in line[:-2] or b"\0" in line:
            return BAD_HEAD
        if line == b"\r\n":
            return lines or BAD_HEAD
        lines.append(line[:-2])


_REASONS = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    411: "Length Required",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


def _written(answer: Answer) -> bytes:
    lines = [f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}", "connection: close"]
    lines += [f"{name}: {value}" for name, value in answer.all_headers()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + answer.body


def make_server(
    desk: WaitDesk,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    allow_remote: bool = False,
    allowed_hosts: Collection[str] = (),
    request_seconds: float = BODY_SECONDS,
) -> WaitsServer:
    """A server that is bound and not yet serving: call `serve_forever`. Port 0 takes a free one."""
    if not is_loopback(host) and not allow_remote:
        raise InvalidInput(
            "waits are resolved on loopback unless asked for otherwise",
            hint="Put a proxy with TLS in front of it, or allow remote access explicitly, naming the allowed hosts.",
            code="not_loopback",
        )
    if not is_loopback(host) and not allowed_hosts:
        raise InvalidInput("remote access needs the host names that are served", code="no_allowed_hosts")
    return WaitsServer((host, port), Door(desk, allowed_hosts=allowed_hosts), request_seconds)


@contextmanager
def serving(desk: WaitDesk, **options: Any) -> Iterator[WaitsServer]:
    """The door, open in a thread of its own for as long as the block lasts."""
    server = make_server(desk, **options)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="reenact-waits-http", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
