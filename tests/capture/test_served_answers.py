"""Answers that a program is handed although no server sent them so: without their secrets, changed, given by hand."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kit.programs import onrecord
from kit.soak import pairs

pytestmark = pytest.mark.usefixtures("folder")

CLIENTS = {
    "requests": "requests.get(url).text",
    "requests, in parts": "b''.join(requests.get(url, stream=True).iter_content(10)).decode()",
    "httpx": "httpx.get(url).text",
    "urllib": "urllib.request.urlopen(url).read().decode()",
    "urllib, by its length": "by_length(url)",
    "urllib3": "urllib3.PoolManager().request('GET', url).data.decode()",
    "http.client": "by_connection(url)",
    "aiohttp": "asyncio.run(in_a_task(url))",
}
PROGRAM = """
import asyncio, http.client, sys, urllib.request, urllib.parse
IMPORTS

async def in_a_task(url):
    import aiohttp
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return await answer.text()

def by_length(url):
    answer = urllib.request.urlopen(url)
    return answer.read(int(answer.headers["content-length"])).decode()

def by_connection(url):
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc)
    connection.request("GET", f"{parts.path}?{parts.query}")
    return connection.getresponse().read().decode()

url = sys.argv[1]
text = TEXT
print(len(text), text.endswith('"end"}'))
"""


def program_of(client: str) -> str:
    """Return a program that reads one answer; it imports what it needs alone."""
    name = client.partition(",")[0]
    imports = f"import {name}" if name in ("httpx", "requests", "urllib3") else ""
    return PROGRAM.replace("IMPORTS", imports).replace("TEXT", CLIENTS[client])


KILLED = """
import os, signal, sys
import CLIENT

def sent():
    PARTS

try:
    for part in sent():
        print(part, flush=True)
        if not os.path.exists("killed"):
            open("killed", "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
except CLIENT.ERROR as error:
    print("handled", error)
print("end")
"""
READERS = {
    "requests": (
        "RequestException",
        "yield from requests.post(sys.argv[1] + '/parts', stream=True).iter_content(None)",
    ),
    "httpx": (
        "TransportError",
        "with httpx.stream('POST', sys.argv[1] + '/parts') as answer:\n        yield from answer.iter_bytes()",
    ),
}


class Sender(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked = 0
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Sender

    def do_GET(self) -> None:
        self.server.asked += 1
        token = "tokQ9f8e7d6c5b4a".ljust(int(self.path.partition("=")[2]), "z")
        body = json.dumps({"access_token": token, "data": "end"}).encode()
        self._head([("content-length", str(len(body)))])
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.server.asked += 1
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self._head([("transfer-encoding", "chunked")])
        for part in (b"one ", b"two ", b"three "):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.flush()
        self.server.gate.wait(20) if hasattr(self.server, "gate") else None
        self.wfile.write(b"0\r\n\r\n")

    def _head(self, headers: list[tuple[str, str]]) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        for pair in headers:
            self.send_header(*pair)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def sender() -> Iterator[Sender]:
    made = Sender()
    yield made
    made.shutdown()
    made.server_close()


@pytest.mark.parametrize(("client", "length"), pairs(CLIENTS, [17, 60]))
def test_without_its_secret_an_answer_is_whole_elsewhere(
    client: str, length: int, sender: Sender, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A placeholder is longer or shorter than what it stands for."""
    Path("program.py").write_text(program_of(client))
    done = onrecord("run", "--run-id", "one", "program.py", f"{sender.url}/?n={length}")
    assert done.stdout.endswith(" True\n"), done.stderr
    here = onrecord("replay", "one")
    assert (here.returncode, here.stdout) == (0, done.stdout), here.stderr
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(folder / "elsewhere.json"))
    elsewhere = onrecord("replay", "one")
    assert elsewhere.returncode == 0, elsewhere.stderr
    assert elsewhere.stdout.endswith(" True\n"), elsewhere.stdout
    assert elsewhere.stdout != done.stdout, "it does not have the secret"
    assert sender.asked == 1


@pytest.mark.parametrize(("client", "value"), pairs(CLIENTS, ["e", "e" * 99]))
def test_a_patched_answer_is_whole(client: str, value: str, sender: Sender) -> None:
    Path("program.py").write_text(program_of(client).replace("print(len", "print(text, len"))
    assert onrecord("run", "--run-id", "one", "program.py", f"{sender.url}/?n=20").returncode == 0
    events = json.loads(onrecord("show", "one", "--json").stdout)["timeline"]
    answer = next(str(event["seq"]) for event in events if event["kind"] == "ActionSucceeded")
    patch = json.dumps([{"op": "replace", "path": "/body/json/data", "value": value}])
    forked = onrecord("fork", "one", "--event", answer, "--patch", patch)
    assert forked.returncode == 0, forked.stderr
    assert f'"{value}"}}' in forked.stdout


@pytest.mark.parametrize(
    ("client", "answer"),
    pairs(
        READERS,
        [
            ('"four "', "b'four '\n"),
            ('"one two three four "', "b'two three four '\n"),
            ('{"status": 200, "body": "four "}', "b'four '\n"),
            ('{"four": 4}', "b'{\"four\":4}'\n"),
            ("[4]", "b'[4]'\n"),
            ("null", ""),
        ],
    ),
)
def test_a_stream_that_was_cut_off_goes_on_with_what_an_operator_says(
    client: str, answer: tuple[str, str], sender: Sender
) -> None:
    said, rest = answer
    had = killed_in_mid_stream(client, sender)
    settled = onrecord("settle", "one", "--done", said)
    assert settled.returncode == 0, settled.stderr
    resumed = onrecord("resume", "one")
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout.startswith(had)
    assert resumed.stdout.endswith(f"{rest}end\n")
    replayed = onrecord("replay", "one")
    assert (replayed.returncode, replayed.stdout) == (0, resumed.stdout), replayed.stderr
    assert sender.asked == 1


@pytest.mark.parametrize("client", READERS)
def test_what_an_operator_says_has_failed_is_an_error_of_the_client(client: str, sender: Sender) -> None:
    killed_in_mid_stream(client, sender)
    assert onrecord("settle", "one", "--fail", "the bank refused").returncode == 0
    resumed = onrecord("resume", "one")
    assert resumed.returncode == 0, resumed.stderr
    assert "handled" in resumed.stdout
    assert "the bank refused" in resumed.stdout
    replayed = onrecord("replay", "one")
    assert (replayed.returncode, replayed.stdout) == (0, resumed.stdout), replayed.stderr


def killed_in_mid_stream(client: str, sender: Sender) -> str:
    """What the program had said when it died."""
    error, parts = READERS[client]
    text = KILLED.replace("CLIENT", client).replace("ERROR", error).replace("PARTS", parts)
    Path("program.py").write_text(text)
    done = onrecord("run", "--run-id", "one", "program.py", sender.url)
    assert done.returncode == -9, done.stderr
    return done.stdout
