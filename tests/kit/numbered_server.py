"""A server whose answers are numbered, so that a replay that goes out is seen, and whose streams wait to be let go."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

BINARY = bytes(range(256)) * 4
GATE_SECONDS = 5.0


class Server:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.connections = 0
        self.numbers: dict[str, int] = {}
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self.gate = threading.Event()
        """Opened by whoever has seen the first part of a gated stream."""
        self.last_sent_at = 0.0
        outer = self

        class Handler(_Handler):
            server_of = outer

        self._http = _Quiet(("127.0.0.1", 0), Handler)
        self.port = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def number(self, path: str) -> int:
        with self.lock:
            self.numbers[path] = self.numbers.get(path, 0) + 1
            return self.numbers[path]

    @property
    def requests(self) -> int:
        return len(self.seen)

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5)


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of: ClassVar[Server]

    def setup(self) -> None:
        with self.server_of.lock:
            self.server_of.connections += 1
        super().setup()

    def log_message(self, *args: Any) -> None:
        pass

    def _do(self) -> None:
        server, length = self.server_of, int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length)
        if self.headers.get("transfer-encoding") == "chunked":
            body = b"".join(self._request_chunks())
        path = self.path.partition("?")[0]
        with server.lock:
            server.seen.append((self.command, self.path, dict(self.headers.items()), body))
        name = path.strip("/").replace("/", "_").replace("-", "_").replace(":", "_").replace(".", "_")
        answer = getattr(self, f"answer_{name}", None)
        if answer is None:
            self._model(path, body) or self.plain(b"not found", status=404)
        else:
            answer(body)

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = do_OPTIONS = _do  # noqa: N815

    def _request_chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    # Ways to answer

    def plain(self, body: bytes, *, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self.send_response(status)
        for name, value in headers or (("Content-Type", "text/plain"),):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def json(self, value: Any, **options: Any) -> None:
        self.plain(json.dumps(value).encode(), headers=(("Content-Type", "application/json"),), **options)

    def stream(
        self,
        parts: list[bytes],
        *,
        kind: str = "text/event-stream",
        gap: float = 0.0,
        gated: bool = False,
        ends: bool = True,
        hangs: float = 0.0,
    ) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for index, part in enumerate(parts):
            if gated and index == len(parts) - 1:
                self.server_of.gate.wait(GATE_SECONDS)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.flush()
            self.server_of.last_sent_at = time.monotonic()
            time.sleep(gap)
        time.sleep(hangs)
        if ends:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    # Pages

    def answer_number(self, _: bytes) -> None:
        self.json({"number": self.server_of.number("number"), "path": self.path})

    def answer_echo(self, body: bytes) -> None:
        self.plain(body or b"nothing", headers=(("X-Number", str(self.server_of.number("echo"))),))

    def answer_slow(self, _: bytes) -> None:
        """Every other one takes longer, so that what was first to ask is not first to be answered."""
        number = self.server_of.number("slow")
        time.sleep(0.03 if number % 2 else 0.002)
        self.json({"number": number})

    def answer_lazy(self, _: bytes) -> None:
        time.sleep(float(self.path.partition("=")[2]))
        self.json({"seconds": self.path.partition("=")[2], "number": self.server_of.number("lazy")})

    def answer_binary(self, _: bytes) -> None:
        self.plain(BINARY, headers=(("Content-Type", "application/octet-stream"),))

    def answer_gzip(self, _: bytes) -> None:
        body = gzip.compress(json.dumps({"number": self.server_of.number("gzip"), "text": "x" * 500}).encode())
        self.plain(body, headers=(("Content-Type", "application/json"), ("Content-Encoding", "gzip")))

    def answer_gzip_stream(self, _: bytes) -> None:
        body = gzip.compress(b"one two three " * 50)
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in (body[:20], body[20:]):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        self.wfile.write(b"0\r\n\r\n")

    def answer_first(self, _: bytes) -> None:
        cookie = f"visit={self.server_of.number('first')}; Path=/"
        self.plain(b"elsewhere", status=302, headers=(("Location", "/second"), ("Set-Cookie", cookie)))

    def answer_second(self, _: bytes) -> None:
        self.json({"cookie": self.headers.get("cookie"), "number": self.server_of.number("second")})

    def answer_odd(self, _: bytes) -> None:
        self.send_response(418, "I am a Teapot")
        for name, value in (("X-One", "1"), ("x-TWO", "2"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2; Path=/")):
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def answer_refused(self, _: bytes) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def answer_never(self, _: bytes) -> None:
        time.sleep(2)
        self.plain(b"late")

    def answer_parts(self, _: bytes) -> None:
        number = self.server_of.number("parts")
        self.stream([f"part {index} of {number};".encode() for index in range(4)], kind="text/plain", gap=0.02)

    def answer_gated(self, _: bytes) -> None:
        self.stream([b"first;", b"second;", b"last;"], kind="text/plain", gated=True)

    def answer_cut(self, _: bytes) -> None:
        self.stream([b"one;", b"two;"], kind="text/plain", gap=0.02, ends=False)

    def answer_hanging(self, _: bytes) -> None:
        self.stream([b"one;", b"two;"], kind="text/plain", hangs=2.0)

    def answer_short(self, _: bytes) -> None:
        """Less than it says."""
        self.send_response(200)
        self.send_header("Content-Length", "100")
        self.end_headers()
        self.wfile.write(b"too short")
        self.close_connection = True

    def answer_no_content(self, _: bytes) -> None:
        self.send_response(204)
        self.end_headers()

    def answer_not_modified(self, _: bytes) -> None:
        self.send_response(304)
        self.send_header("ETag", '"x"')
        self.end_headers()

    def answer_identity(self, _: bytes) -> None:
        self.plain(b"as it is", headers=(("Content-Encoding", "identity"),))

    def answer_cut_characters(self, _: bytes) -> None:
        whole = "äöü".encode()
        self.stream([whole[:3], whole[3:]], kind="text/plain; charset=utf-8", gap=0.02)

    def answer_twice(self, _: bytes) -> None:
        """Fails twice, then answers."""
        number = self.server_of.number("twice")
        self.json({"number": number}, status={1: 429, 2: 500}.get(number % 3, 200))

    def answer_flaky(self, _: bytes) -> None:
        if self.server_of.number("flaky") % 2:
            self.json({"error": {"message": "busy"}}, status=503)
        else:
            self.json({"number": self.server_of.numbers["flaky"]})

    # Models

    def _model(self, path: str, body: bytes) -> bool:
        asked = json.loads(body) if body.startswith(b"{") else {}
        if asked.get("model") == "busy" or "/busy:" in path:
            status = {1: 429, 2: 500}.get(self.server_of.number("busy") % 3)
            if status is not None:
                self.json({"error": {"message": "busy", "code": status}}, status=status)
                return True
        for ending, answer in (
            ("/chat/completions", self._openai),
            ("/responses", self._responses),
            ("/messages", self._anthropic),
            (":generateContent", self._google),
            (":streamGenerateContent", self._google_stream),
        ):
            if path.endswith(ending):
                answer(asked)
                return True
        return False

    def _openai(self, asked: dict[str, Any]) -> None:
        number = self.server_of.number("openai")
        if asked["model"] == "flaky" and number % 2:
            self.json({"error": {"message": "busy"}}, status=503)
            return
        base = {"id": f"c{number}", "created": 1, "model": "gpt-4o-mini"}
        usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
        if not asked.get("stream"):
            message = {"role": "assistant", "content": f"answer {number}"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self.json({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        base["object"] = "chat.completion.chunk"
        deltas = [{"content": word} for word in ("answer ", str(number))]
        events: list[Any] = [{**base, "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
        events.append({**base, "choices": [], "usage": usage})
        self.stream([_event(event) for event in events] + [b"data: [DONE]\n\n"], gap=0.01)

    def _responses(self, asked: dict[str, Any]) -> None:
        number = self.server_of.number("responses")
        text = {"type": "output_text", "text": f"answer {number}", "annotations": []}
        output = [{"type": "message", "id": "m", "status": "completed", "role": "assistant", "content": [text]}]
        answer = {
            "id": f"r{number}",
            "object": "response",
            "created_at": 1,
            "model": "gpt-4o-mini",
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "status": "completed",
            "usage": {
                "input_tokens": 10,
                "output_tokens": 2,
                "total_tokens": 12,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 0},
            },
        }
        if not asked.get("stream"):
            self.json(answer)
            return
        delta = {
            "type": "response.output_text.delta",
            "delta": f"answer {number}",
            "content_index": 0,
            "item_id": "m",
            "output_index": 0,
            "sequence_number": 1,
            "logprobs": [],
        }
        done = {"type": "response.completed", "response": answer, "sequence_number": 2}
        self.stream([b"event: %s\n%s" % (one["type"].encode(), _event(one)) for one in (delta, done)])

    def _anthropic(self, asked: dict[str, Any]) -> None:
        number = self.server_of.number("anthropic")
        message = {
            "id": f"m{number}",
            "type": "message",
            "role": "assistant",
            "model": "claude-haiku-4-5",
            "content": [{"type": "text", "text": f"answer {number}"}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 2},
        }
        if not asked.get("stream"):
            self.json(message)
            return
        start = {**message, "content": [], "stop_reason": None, "usage": {"input_tokens": 10, "output_tokens": 0}}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f"answer {number}"}},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": {"output_tokens": 2},
            },
            {"type": "message_stop"},
        ]
        self.stream([b"event: %s\n%s" % (one["type"].encode(), _event(one)) for one in events], gap=0.005)

    def _google_answer(self, text: str) -> dict[str, Any]:
        candidate = {"content": {"parts": [{"text": text}], "role": "model"}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.0-flash"}

    def _google(self, _: dict[str, Any]) -> None:
        self.json(self._google_answer(f"answer {self.server_of.number('google')}"))

    def _google_stream(self, _: dict[str, Any]) -> None:
        number = self.server_of.number("google")
        self.stream([_event(self._google_answer(text)) for text in ("answer ", str(number))], gap=0.01)


def _event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"
