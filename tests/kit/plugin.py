"""Tests of tests: a project in a folder of its own, and a model server whose answers are numbered."""

from __future__ import annotations

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kit import pytest_server

TOOL_CALL = {"id": "call_1", "type": "function", "function": {"name": "refund", "arguments": '{"order": "A-17"}'}}


class ModelServer:
    """Answers are numbered: one that was made live is not the one that was recorded."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, bytes]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None: ...

            def _do(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                outer.asked.append((self.command, self.path, body))
                if b'"stream":true' in body.replace(b" ", b""):
                    self._stream(len(outer.asked))
                else:
                    self._whole(len(outer.asked), body)

            def _whole(self, number: int, body: bytes) -> None:
                message = {"role": "assistant", "content": f"answer {number}", "tool_calls": [TOOL_CALL]}
                answer: Any = {"number": number, "path": self.path, "said": body.decode(errors="replace")}
                if "chat" in self.path:
                    answer = {
                        "id": "chatcmpl-1",
                        "object": "chat.completion",
                        "created": 1,
                        "model": "gpt-4o",
                        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
                        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
                    }
                self._send(json.dumps(answer).encode(), "application/json")

            def _stream(self, number: int) -> None:
                deltas: list[Any] = [{"content": f"answer {number}"}]
                deltas += [{"tool_calls": [{"index": 0, "id": "c", "function": {"name": "refund", "arguments": ""}}]}]
                deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in ('{"o', '":1}')]
                chunks = [{"model": "gpt-4o", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
                lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
                self._send("".join([*lines, "data: [DONE]\n\n"]).encode(), "text/event-stream")

            def _send(self, data: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(data)))
                self.send_header("x-request-id", os.urandom(8).hex())
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = _do  # noqa: N815

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()


class Project:
    """A folder with tests in it."""

    def __init__(self, pytester: pytest.Pytester, server: ModelServer) -> None:
        self.pytester = pytester
        self.server = server
        self.folder = pytester.path

    def write(self, text: str, name: str = "test_agent.py") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"import httpx, pytest\nURL = {self.server.url!r}\n{text}")
        return path

    def run(self, *arguments: str, beside: tuple[str, ...] = ()) -> pytest.RunResult:
        """Run the tests in a process of their own, with the plugin and those in `beside`: loading all takes long."""
        plugins = [part for name in ("onrecord.pytest_plugin.plugin", *beside) for part in ("-p", name)]
        status, stdout, stderr = pytest_server.call([*plugins, "-p", "no:cacheprovider", *arguments], self.folder)
        return pytest.RunResult(status, stdout, stderr, 0.0)

    def recordings(self) -> list[str]:
        found = self.folder.rglob("recordings/**/*.jsonl")
        return sorted(str(path.relative_to(self.folder)) for path in found)

    def bytes_of(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()
