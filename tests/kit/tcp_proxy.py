"""A TCP proxy on loopback that does to a connection what networks do: cut it, hold it, swallow it.

It carries bytes faithfully until a fault is armed. A fault hits the next bytes that a client sends, on
whichever connection, once; a partition hits everything until it is lifted. One thread, select, no timers:
what is held back is sent when the test says so.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from typing import Literal

Fault = Literal["cut_request", "cut_part", "cut_answer", "hold_request", "swallow_answer"]
"""cut_request: nothing of the request arrives. cut_part: its first `keep` bytes do. cut_answer: all of it
does, the answer does not come back.
hold_request: the client is cut, the server's side stays open and `release()` delivers the request late.
swallow_answer: as cut_answer, in silence."""


class Link:
    """One client and its connection to the server."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.answer_fault: Literal["", "cut", "swallow"] = ""
        self.held = b""

    def close(self) -> None:
        for side in (self.client, self.server):
            with contextlib.suppress(OSError):
                side.close()


class TcpProxy:
    def __init__(self, port: int) -> None:
        self.target = port
        self.partitioned = False
        self.hits = 0
        self._fault: tuple[Fault, int] | None = None
        self._links: list[Link] = []
        self._held: list[Link] = []
        self._stop = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, name="tcp-proxy", daemon=True)
        self._thread.start()

    def arm(self, fault: Fault, keep: int = 0) -> None:
        self._fault = (fault, keep)

    def cut_all(self) -> None:
        for link in list(self._links):
            self._drop(link)

    def release(self) -> None:
        """Delivers the held request, now."""
        for link in self._held:
            with contextlib.suppress(OSError):
                link.server.sendall(link.held)

    def close(self) -> None:
        self._stop = True
        self._thread.join(5)
        for link in self._links + self._held:
            link.close()
        self._listener.close()

    def _serve(self) -> None:
        while not self._stop:
            links = list(self._links)
            sockets: dict[socket.socket, tuple[Link, bool]] = {}
            for link in links:
                sockets[link.client] = (link, True)
                sockets[link.server] = (link, False)
            try:
                ready, _, _ = select.select([self._listener, *sockets], [], [], 0.02)
            except (OSError, ValueError):
                continue  # closed by cut_all() between the list and the call
            for side in ready:
                if side is self._listener:
                    self._accept()
                else:
                    link, from_client = sockets[side]
                    if link in self._links:
                        self._carry(link, from_client)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection(("127.0.0.1", self.target), timeout=5)
        except OSError:
            client.close()
            return
        for side in (client, server):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._links.append(Link(client, server))

    def _carry(self, link: Link, from_client: bool) -> None:
        try:
            data = (link.client if from_client else link.server).recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._drop(link)
        elif self.partitioned:
            pass
        elif from_client:
            self._request(link, data)
        else:
            self._answer(link, data)

    def _request(self, link: Link, data: bytes) -> None:
        fault, keep = self._fault or ("", 0)
        self._fault = None
        self.hits += bool(fault)
        if fault == "cut_request":
            self._drop(link)
            return
        if fault == "cut_part":
            self._send(link, link.server, data[:keep])
            self._drop(link)
            return
        if fault == "hold_request":
            link.held = data
            self._links.remove(link)
            self._held.append(link)
            link.client.close()
            return
        if fault in ("cut_answer", "swallow_answer"):
            link.answer_fault = "cut" if fault == "cut_answer" else "swallow"
        self._send(link, link.server, data)

    def _answer(self, link: Link, data: bytes) -> None:
        if link.answer_fault == "cut":
            self._drop(link)
        elif not link.answer_fault:
            self._send(link, link.client, data)

    def _send(self, link: Link, side: socket.socket, data: bytes) -> None:
        try:
            side.sendall(data)
        except OSError:
            self._drop(link)

    def _drop(self, link: Link) -> None:
        with contextlib.suppress(ValueError):
            self._links.remove(link)
        link.close()


@contextlib.contextmanager
def tcp_proxy(port: int) -> Iterator[TcpProxy]:
    proxy = TcpProxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
