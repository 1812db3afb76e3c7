"""A model server on loopback: it speaks the wire formats of the providers, with random latencies, and counts requests.

A prompt that holds the word "busy" is refused once in each process of a program, so that clients retry.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any

from frameworks.model import Reply, answer
from frameworks.wires import chat, converse, gemini, messages, responses

LATENCY_SECONDS = 0.08
CHUNK_SECONDS = 0.01
WIRES: dict[str, ModuleType] = {
    "/chat/completions": chat,
    "/responses": responses,
    "/messages": messages,
    ":generateContent": gemini,
    ":streamGenerateContent": gemini,
    "/converse": converse,
}


class ModelServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests = 0
        self.on_request: Callable[[int], None] = lambda number: None
        """Called with the number of requests so far, before the answer is sent."""
        self.refused: set[str] = set()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def count(self) -> int:
        with self._lock:
            self.requests += 1
            return self.requests

    def refuses(self, prompt: str) -> bool:
        """Return True for the first request of a busy prompt."""
        with self._lock:
            if "busy" not in prompt or prompt in self.refused:
                return False
            self.refused.add(prompt)
            return True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: clients are killed here."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number = self.server.count()
        self.server.on_request(number)
        path = self.path.partition("?")[0]
        wire = next((wire for ending, wire in WIRES.items() if path.endswith(ending)), None)
        if wire is None:
            self._send({"error": {"message": f"no such path: {path}"}}, status=404)
            return
        ask = wire.read(body)
        time.sleep(random.random() * LATENCY_SECONDS)
        if self.server.refuses(ask.prompt):
            self._send({"error": {"message": "busy"}}, status=503)
        elif ask.is_streamed or "stream" in path:
            self._stream(wire, answer(ask, number))
        else:
            self._send(wire.whole(answer(ask, number)))

    def _send(self, value: Any, status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status != 200:
            self.send_header("retry-after-ms", "20")
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, wire: ModuleType, reply: Reply) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for name, value in wire.events(reply):
            data = value if isinstance(value, str) else json.dumps(value)
            event = (f"event: {name}\n" if name else "") + f"data: {data}\n\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event.encode()), event.encode()))
            self.wfile.flush()
            time.sleep(random.random() * CHUNK_SECONDS)
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def serving() -> Iterator[ModelServer]:
    with ModelServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
