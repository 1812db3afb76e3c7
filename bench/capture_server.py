"""A cheap server on loopback, so that the client is measured.

It runs in a thread of the measuring process, which is otherwise idle.
"""

from __future__ import annotations

import json
import socket
import threading
import time

STREAM_PARTS = 10
STREAM_GAP_SECONDS = 0.01
GATE_SECONDS = 3.0


class LeanServer:
    def __init__(self) -> None:
        self.requests = 0
        self.late = 0
        """Parts of gated streams that were sent after a timeout, without being released."""
        self._released = threading.Semaphore(0)
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def release_part(self) -> None:
        """Allow the next part of a gated stream to be sent."""
        self._released.release()

    def stop(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            try:
                while line := lines.readline():
                    length = 0
                    while (header := lines.readline()) not in (b"\r\n", b""):
                        name, _, value = header.partition(b":")
                        if name.lower() == b"content-length":
                            length = int(value)
                    self.requests += 1
                    self._answer(connection, line.split()[1].decode(), lines.read(length))
            except OSError:
                return  # the client has gone

    def _answer(self, connection: socket.socket, path: str, body_bytes: bytes) -> None:
        if path.startswith("/stream"):
            self._stream(connection, path)
            return
        if path.endswith("/chat/completions"):
            content = f"answer {self.requests}"
            if (wanted := json.loads(body_bytes).get("user")) is not None:
                content = wanted  # the program chooses the answer, so that its texts are unique
            message = {"role": "assistant", "content": content}
            usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            answer = {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini"}
            body = json.dumps({**answer, "choices": [choice], "usage": usage}).encode()
        else:
            body = json.dumps({"number": self.requests, "text": "x" * 400}).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        connection.sendall(head % len(body) + body)

    def _stream(self, connection: socket.socket, path: str) -> None:
        """Send the first part at once, or after a gap (`thinking`), or each part when it is released (`gated`)."""
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        for number in range(STREAM_PARTS):
            if path.endswith("gated"):
                self.late += not self._released.acquire(timeout=GATE_SECONDS)
            elif number or path.endswith("thinking"):
                time.sleep(STREAM_GAP_SECONDS)
            part = f"part {number};".encode()
            connection.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        connection.sendall(b"0\r\n\r\n")
