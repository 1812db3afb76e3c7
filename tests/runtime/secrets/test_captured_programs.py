"""Programs nobody changed are redacted: nothing of their secrets is in a file, and they replay with a dummy key."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kit import command_server
from kit.kept_bytes import places_of
from kit.programs import hide_optional_packages

PROGRAM = """
import os, sys, httpx

key = os.environ["MODEL_API_KEY"]
with httpx.Client() as client:
    body = {"max_tokens": 5, "messages": [{"role": "user", "content": "it is " + key}], "password": "pw-1"}
    first = client.post(URL + "/chat?key=" + key, headers={"authorization": "Bearer " + key}, json=body)
    token = first.json()["access_token"]
    second = client.get(URL + "/next", params={"t": token}, headers={"x-api-key": token})
    print(second.json()["usage"], len(sys.argv))
"""
KEY = "sk-REALKEY-1234567890abcdef"
SECRETS = ("REALKEY", "SERVERSECRET", "COOKIESECRET", "pw-1", "ARGVKEY")


class _Server(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode(errors="replace")
        answer = {"echo": body, "auth": self.headers.get("authorization"), "access_token": "tok+77/SERVERSECRET"}
        data = json.dumps({**answer, "usage": {"total_tokens": 3}}).encode()
        self.send_response(200)
        self.send_header("set-cookie", "sid=COOKIESECRET; Path=/")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(autouse=True)
def bare_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_optional_packages(monkeypatch)


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def onrecord(folder: Path, key: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return command_server.call(arguments, cwd=folder, env={**os.environ, "MODEL_API_KEY": key})


def test_a_program_is_redacted_and_replays_elsewhere(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("httpx")
    monkeypatch.delenv("ONRECORD_STORE", raising=False)
    (tmp_path / "agent.py").write_text(PROGRAM.replace("URL", repr(url)))
    ran = onrecord(tmp_path, KEY, "run", "agent.py", "--token=sk-ARGVKEY-1234567890abcd")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "{'total_tokens': 3} 2\n"
    assert [(where, one) for one in SECRETS for where in places_of(one, tmp_path / ".onrecord")] == []
    sealing = [one["secret"] for one in json.loads((tmp_path / "keys.json").read_text())["keys"]]
    assert sealing
    assert [where for secret in sealing for where in places_of(secret, tmp_path / ".onrecord")] == []
    assert onrecord(tmp_path, KEY, "scan", "@last").returncode == 0
    here = onrecord(tmp_path, KEY, "replay", "@last")
    assert here.returncode == 0, here.stderr
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "elsewhere.json"))
    elsewhere = onrecord(tmp_path, "dummy-key-1", "replay", "@last")
    assert elsewhere.returncode == 0, elsewhere.stderr


STREAMS = """
import asyncio, httpx

with httpx.stream("GET", URL) as answer:
    print(answer.headers["content-type"], answer.headers["x-trace"], "".join(answer.iter_text()))

async def main():
    async with httpx.AsyncClient() as client, client.stream("GET", URL) as answer:
        print(answer.headers["content-type"], "".join([part async for part in answer.aiter_text()]))

asyncio.run(main())
"""
PARTS = ("one two abcdefghijklmnop", "qrstuvwxyz three ", "https://example.com/abcdefghijklmnopqrstuvwxyz")


class _StreamServer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    parts = PARTS

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("X-Trace", "abcdefghijklmnopqrstuvwxyz-abcdefgh")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in self.parts:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part.encode()))
            self.wfile.flush()
            time.sleep(0.02)
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None: ...


class _TellingServer(_StreamServer):
    parts = (*PARTS, ' {"password": "opens', 'esame-STREAMSECRET"} ', "and on")


@pytest.mark.parametrize("handler", [_StreamServer, _TellingServer])
def test_what_is_only_held_back_of_a_stream_is_no_secret_and_is_not_lost(
    handler: type[_StreamServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONRECORD_STORE", raising=False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "agent.py").write_text(STREAMS.replace("URL", repr(f"http://127.0.0.1:{server.server_port}")))
    ran = onrecord(tmp_path, KEY, "run", "agent.py")
    server.shutdown()
    server.server_close()
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("abcdefghijklmnopqrstuvwxyz") == 5
    assert ("secrets kept out" in ran.stderr) is (handler is _TellingServer), ran.stderr
    here = onrecord(tmp_path, KEY, "replay", "@last")
    assert (here.returncode, here.stdout) == (0, ran.stdout), here.stderr
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "elsewhere.json"))
    elsewhere = onrecord(tmp_path, KEY, "replay", "@last")
    assert elsewhere.returncode == 0, elsewhere.stderr
    assert (elsewhere.stdout == ran.stdout) is (handler is _StreamServer), elsewhere.stdout
    assert "STREAMSECRET" not in elsewhere.stdout
    assert elsewhere.stdout.count("abcdefghijklmnopqrstuvwxyz") == 5


BODIES = """
import gzip, json, os, urllib.request, httpx

secret = os.environ["BODY_WORD"]  # no name of a secret: it has to be found by its place
with httpx.Client() as client:
    client.post(URL, data={"password": secret})
    client.post(URL, content=f"<login><password>{secret}</password></login>")
    client.post(URL, content=f"user: bob\\npassword: {secret}\\n")
    client.post(URL, json=[["password", secret]])
    client.post(URL, json={"query": f'mutation {{ login(password: "{secret}") }}'})
    client.post(URL, content=gzip.compress(json.dumps({"password": secret}).encode(), mtime=0))
    client.post(URL, params={"auth": secret}, json={"pwd": secret})
urllib.request.urlopen(URL, b"client_secret=" + secret.encode()).read()
print("sent")
"""


def test_bodies_of_every_form_are_redacted_and_replay_with_another_word(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONRECORD_STORE", raising=False)
    monkeypatch.setenv("BODY_WORD", "open-CANARY-sesame-77")
    (tmp_path / "agent.py").write_text(BODIES.replace("URL", repr(url)))
    ran = onrecord(tmp_path, KEY, "run", "agent.py")
    assert (ran.returncode, ran.stdout) == (0, "sent\n"), ran.stderr
    assert places_of("CANARY", tmp_path / ".onrecord") == []
    assert onrecord(tmp_path, KEY, "scan", "@last").returncode == 0
    monkeypatch.setenv("BODY_WORD", "dummy-word-1")
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "elsewhere.json"))
    elsewhere = onrecord(tmp_path, KEY, "replay", "@last")
    assert (elsewhere.returncode, elsewhere.stdout) == (0, "sent\n"), elsewhere.stderr
