"""Programs nobody changed, forked and replayed live: the prefix is free, the tail is paid for, and is judged."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kit.programs import hide_optional_packages, onrecord
from kit.soak import SOAK

PROGRAM = """
import sys
import httpx

url = sys.argv[1]
number = httpx.get(url + "/number").text
print("number", number)
question = {"model": "small", "messages": [{"role": "user", "content": f"What of {number}?"}]}
print(httpx.post(url + "/v1/chat/completions", json=question).json()["choices"][0]["message"]["content"])
"""
KILLED = """
import os, signal, sys
import httpx

class Kill(httpx.BaseTransport):
    def handle_request(self, request):
        os.kill(os.getpid(), signal.SIGKILL)

with httpx.Client(transport=Kill()) as client:
    print("id", client.post(sys.argv[1] + "/pay", json={"amount": 1}).json()["id"])
"""
READ_IN_PARTS = """
import sys, urllib.request

with urllib.request.urlopen(sys.argv[1] + "/number") as answer:
    print(answer.read().decode())
"""
STARTER = """
import subprocess, sys
import httpx

print(httpx.get(sys.argv[1] + "/number").text)
subprocess.run([sys.executable, "-c", "print(1)"], check=True)
"""


class Model(ThreadingHTTPServer):
    """Numbers for whoever gets, answers for whoever posts; whether they change is the test's word."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []
        self.answers: Iterator[Any] = count(1)
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    server: Model

    def do_GET(self) -> None:
        self._say("text/plain", f"{next(self.server.answers)}")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        said = {"role": "assistant", "content": f"answer {next(self.server.answers)}"}
        choice = {"index": 0, "finish_reason": "stop", "message": said}
        usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
        ident = f"chat-{len(self.server.asked)}"
        self._say("application/json", json.dumps({"id": ident, "model": "small", "choices": [choice], "usage": usage}))

    def _say(self, kind: str, text: str) -> None:
        self.server.asked.append(self.path)
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text)))
        self.send_header("x-request-id", str(len(self.server.asked)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(scope="module", autouse=True)
def bare_installation() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        hide_optional_packages(patch)
        yield


@pytest.fixture(scope="module")
def server() -> Iterator[Model]:
    server = Model()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def model(server: Model) -> Model:
    """A model that was asked nothing."""
    server.asked, server.answers = [], count(1)
    return server


@pytest.fixture(scope="module")
def recording(server: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the program was recorded, once for all tests that only read the recording."""
    folder = tmp_path_factory.mktemp("recording")
    (folder / "program.py").write_text(PROGRAM)
    server.asked, server.answers = [], count(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("ONRECORD_KEY_FILE", str(folder / "keys.json"))
        patch.delenv("ONRECORD_STORE", raising=False)
        assert recorded(server) == "number 1\nanswer 2\n"
    return folder


@pytest.fixture
def base(recording: Path, folder: Path, server: Model) -> Model:
    """The model after the recording of the run `base`, which is in the store."""
    shutil.copytree(recording, folder, dirs_exist_ok=True)
    server.asked, server.answers = ["/number", "/v1/chat/completions"], count(3)
    return server


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))
    monkeypatch.delenv("ONRECORD_STORE", raising=False)
    return tmp_path


def recorded(model: Model) -> str:
    done = onrecord("run", "--run-id", "base", "program.py", model.url)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_prefix_is_free_and_the_tail_is_live(base: Model) -> None:
    forked = onrecord("fork", "base", "--at", "3", "--fork-id", "other")
    assert (forked.returncode, forked.stdout) == (0, "number 1\nanswer 3\n"), forked.stderr
    assert base.asked == ["/number", "/v1/chat/completions", "/v1/chat/completions"]
    assert "executed again: 1 x POST" in forked.stderr
    assert "12 tokens" in forked.stderr, "what may be expected is told before it is spent"
    replayed = onrecord("replay", "other")
    assert (replayed.returncode, replayed.stdout) == (0, forked.stdout), replayed.stderr
    assert onrecord("verify", "other").returncode == 0
    assert "diverge at" in onrecord("diff", "base", "other").stdout
    assert len(base.asked) == 3


def test_another_answer(base: Model) -> None:
    patch = json.dumps([{"op": "replace", "path": "/body/text", "value": "77"}])
    forked = onrecord("fork", "base", "--event", "3", "--patch", patch)
    assert (forked.returncode, forked.stdout) == (0, "number 77\nanswer 3\n"), forked.stderr


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("77", "77"),
        ('"seventy"', "seventy"),
        ('{"n": [1]}', '{"n":[1]}'),
        ('{"status": 404, "body": "none"}', "none"),
        ('{"status": 200, "headers": {"x-a": "b"}, "body": {"text": "t"}}', "t"),
        ("null", ""),
    ],
)
def test_an_answer_may_be_no_more_than_a_body(base: Model, answer: str, number: str) -> None:
    forked = onrecord("fork", "base", "--event", "3", "--answer", answer, "--fork-id", "other")
    assert (forked.returncode, forked.stdout) == (0, f"number {number}\nanswer 3\n"), forked.stderr
    if SOAK or answer.startswith("{"):
        replayed = onrecord("replay", "other")
        assert (replayed.returncode, replayed.stdout) == (0, forked.stdout), replayed.stderr


def test_a_response_that_was_read_part_by_part_is_answered_with_a_body(model: Model) -> None:
    Path("program.py").write_text(READ_IN_PARTS)
    assert recorded(model) == "1\n"
    events = json.loads(onrecord("show", "base", "--json").stdout)["timeline"]
    answer = next(event["seq"] for event in events if event["kind"] == "ActionSucceeded")
    assert "ChunkReceived" in [event["kind"] for event in events]
    forked = onrecord("fork", "base", "--event", str(answer), "--answer", '"other"', "--fork-id", "other")
    assert (forked.returncode, forked.stdout) == (0, "other\n"), forked.stderr
    replayed = onrecord("replay", "other")
    assert (replayed.returncode, replayed.stdout) == (0, "other\n"), replayed.stderr


def test_what_an_operator_says_came_of_a_request_is_its_answer(model: Model) -> None:
    """The program was killed while its request was on the way, and is told what came of it."""
    Path("program.py").write_text(KILLED)
    assert onrecord("run", "--run-id", "base", "program.py", model.url).returncode == -9
    assert "settle base" in onrecord("resume", "base").stderr
    assert onrecord("settle", "base", "--done", '{"id": 7}').returncode == 0
    resumed = onrecord("resume", "base")
    assert (resumed.returncode, resumed.stdout) == (0, "id 7\n"), resumed.stderr
    assert model.asked == []


def test_a_dry_run_begins_nothing(base: Model) -> None:
    assert "12 tokens" in onrecord("fork", "base", "--at", "3", "--dry-run").stderr
    assert len(base.asked) == 2
    assert len(json.loads(onrecord("ls", "--json").stdout)["runs"]) == 1


def test_the_same_model_passes_a_live_replay_and_another_one_does_not(base: Model) -> None:
    base.answers = count(2)
    same = onrecord("replay", "base", "--live")
    assert same.returncode == 0, same.stdout + same.stderr
    assert "1 of 2 effects carried out live" in same.stdout
    other = onrecord("replay", "base", "--live")
    assert other.returncode == 1
    assert '"answer 2" → "answer 3"' in other.stdout
    assert base.asked.count("/number") == 1, "only what was named is done again"


def test_what_has_processes_is_not_forked(model: Model, folder: Path) -> None:
    (folder / "program.py").write_text(STARTER)
    assert onrecord("run", "--run-id", "base", "program.py", model.url).returncode == 0
    for words in (("fork", "base", "--at", "3"), ("replay", "base", "--live")):
        refused = onrecord(*words)
        assert refused.returncode not in (0, 1)
        assert "[has_processes]" in refused.stderr
    assert len(model.asked) == 1


def test_a_program_of_somebody_else_is_not_run(base: Model, folder: Path) -> None:
    assert onrecord("export", "base", "--output", "base.jsonl").returncode == 0
    elsewhere = ("--store", str(folder / "elsewhere.db"))
    assert onrecord("import", *elsewhere, "base.jsonl").returncode == 0
    for words in (("fork", *elsewhere, "base", "--at", "3"), ("replay", *elsewhere, "base", "--live")):
        refused = onrecord(*words)
        assert "[imported_run]" in refused.stderr, refused.stderr
    assert len(base.asked) == 2
