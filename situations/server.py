"""A model on loopback: its answers are numbered, every request is counted, and what was slow becomes fast when asked.

What a question says decides how it is answered: slow, fast, of rank N, shuffled, busy, long, gated, cut.
"""

from __future__ import annotations

import json
import random
import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

SLOW_SECONDS = 0.6
FAST_SECONDS = 0.02
RANK_SECONDS = 0.2
RANKS = 5
"""The last of them is answered first, until they swap."""
GATE_SECONDS = 5.0
BUSY_TIMES = 2
PIECES = 5


class ModelServer:
    def __init__(self, notes: Path) -> None:
        self.notes = notes
        self.swapped = False
        """Slow questions are answered fast, and the other way round."""
        self.gate_timed_out = False
        """The last part of a gated stream went out although nobody had seen the first."""
        self.requests = 0
        self.busy = 0
        self._number = 0
        self._lock = threading.Lock()
        self._chance = random.Random(17)
        outer = self

        class Handler(_Handler):
            model = outer

        self._http = _Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def number(self) -> int:
        with self._lock:
            self._number += 1
            return self._number

    def count_request(self) -> None:
        with self._lock:
            self.requests += 1

    def seconds(self, question: str) -> float:
        if "shuffled" in question:
            with self._lock:
                return self._chance.random() * 0.3
        if rank := re.search(r"rank (\d)", question):
            place = int(rank[1])
            return RANK_SECONDS * (1 + (place if self.swapped else RANKS - 1 - place))
        for word, seconds in (("slow", (SLOW_SECONDS, FAST_SECONDS)), ("fast", (FAST_SECONDS, SLOW_SECONDS))):
            if word in question:
                return seconds[self.swapped]
        return 0.0

    def wait_at_the_gate(self) -> None:
        """Until the program has seen the first part, which it says with a file."""
        until = time.monotonic() + GATE_SECONDS
        while not (self.notes / "first-piece-seen").exists():
            if time.monotonic() > until:
                self.gate_timed_out = True
                return
            time.sleep(0.01)

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is what some situations are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ClassVar[ModelServer]

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.model.count_request()
        self._answer({"number": self.model.number()})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
        self.model.count_request()
        path = self.path.partition("?")[0]
        if path.endswith("/chat/completions"):
            self._openai(asked)
        elif path.endswith("/messages"):
            self._anthropic(asked)
        elif path.endswith(":generateContent"):
            self._google()
        else:
            self._answer({"error": "unknown"}, status=404)

    # Providers

    def _openai(self, asked: dict[str, Any]) -> None:
        question = str(asked["messages"][-1]["content"])
        if "busy" in question and self.model.busy < BUSY_TIMES:
            self.model.busy += 1
            self._answer({"error": {"message": "busy"}}, status=503)
            return
        number = self.model.number()
        time.sleep(self.model.seconds(question))
        base = {"id": f"c{number}", "created": 1, "model": "gpt-4o-mini"}
        if asked.get("stream"):
            deltas = [{"content": f"piece {piece} of {number} "} for piece in range(PIECES)]
            chunks = [
                {**base, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]}
                for delta in deltas
            ]
            self._stream([_event(chunk) for chunk in chunks] + [b"data: [DONE]\n\n"], question)
            return
        message = {"role": "assistant", "content": f"answer-{number}"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
        self._answer({**base, "object": "chat.completion", "choices": [choice], "usage": usage})

    def _anthropic(self, asked: dict[str, Any]) -> None:
        number = self.model.number()
        message = {
            "id": f"m{number}",
            "type": "message",
            "role": "assistant",
            "model": "claude-haiku-4-5",
            "content": [{"type": "text", "text": f"answer-{number}"}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 2},
        }
        if not asked.get("stream"):
            self._answer(message)
            return
        delta = {"stop_reason": "end_turn", "stop_sequence": None}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "answer-"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": str(number)}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 2}},
            {"type": "message_stop"},
        ]
        self._stream([b"event: %s\n%s" % (event["type"].encode(), _event(event)) for event in events], "")

    def _google(self) -> None:
        parts = [{"text": f"answer-{self.model.number()}"}]
        candidate = {"content": {"parts": parts, "role": "model"}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12}
        self._answer({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.0-flash"})

    # Ways to answer

    def _answer(self, value: Any, status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, parts: list[bytes], question: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for index, part in enumerate(parts):
            if "cut" in question and index == 2:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if "gated" in question and index == len(parts) - 1:
                self.model.wait_at_the_gate()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.flush()
            time.sleep(0.01)
        self.wfile.write(b"0\r\n\r\n")


def _event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"
