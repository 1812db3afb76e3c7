"""Agents for the tests of `replay --all`, and many runs of them recorded at once."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, ClassVar

from kit import command_server

AGENTS = """
import ctypes, os, signal, stat, sys, threading
import onrecord

with open("loaded", "a") as loaded:
    loaded.write(f"{os.getpid()}\\n")
kept = []


def asked(what):
    return os.path.exists(what)


def noted(name):
    with open("replayed", "a") as replayed:
        replayed.write(f"{name} {os.getpid()}\\n")


@onrecord.step
def add(left, right):
    return left + right


@onrecord.tool
def mail(to):
    with open("mails", "a") as mails:
        mails.write(to + "\\n")
    return "sent"


@onrecord.agent
def steady(start, times=3):
    noted(start)
    print("printed by the agent")
    for number in range(times):
        start = add(start, number)
    mail("somebody")
    return start


@onrecord.agent
async def greeter(name):
    return f"hello {name} {add(1, 2)}"


@onrecord.agent
def changing(value):
    print("about to differ", file=sys.stderr)
    return add(value, 2 if asked("changed") else 1)


@onrecord.agent
def child(value):
    return add(value, 1) + (1 if asked("changed") else 0)


@onrecord.agent
def caller(value):
    return child(value) + add(1, 1)


@onrecord.agent
def troubled(what):
    add(1, 1)
    print("the last words", flush=True)
    if asked("trouble"):
        if what == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif what == "segfault":
            ctypes.string_at(0)
        elif what == "exits":
            os._exit(3)
        elif what == "closes":
            for number in range(3, 100):  # not the files: SQLite would try to read a closed one for ten seconds
                if os.path.exists(f"/proc/self/fd/{number}") and stat.S_ISSOCK(os.fstat(number).st_mode):
                    os.close(number)
        elif what == "leaves":
            raise SystemExit(9)
        elif what == "hangs":
            while True:
                pass
        elif what == "waits":
            noted("waits")
            while not asked("go on"):
                pass
    return what


@onrecord.agent
def remembering(value):
    kept.append(value)
    return add(value, len(kept))


@onrecord.agent
def effectless(value):
    return value


@onrecord.agent
def failing(message):
    add(1, 2)
    raise ValueError(message)


@onrecord.step
def opened():
    return open("loaded")


@onrecord.agent
def odd():
    return str(type(opened()))


def plain(left, right=2):
    return add(left, right)
"""

RECORDER = """
import contextlib, json, sys
import onrecord
from onrecord.cli.agent_loader import load_agent, parse_target

store, runs, with_origin = json.loads(sys.argv[1])
opened = onrecord.open_store(store)
for run, target, args in runs:
    agent = load_agent(parse_target(target))
    if not with_origin:
        agent.origin = agent.function.__module__ = None  # as of a function that no module holds
    made = None
    with contextlib.suppress(ValueError):
        made = agent.run(*args, run_id=run, store=opened)
        if agent.is_async:
            import asyncio
            asyncio.run(made)
opened.close()
"""


def write_agents(name: str = "agents.py", text: str = AGENTS) -> Path:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(text)
    return Path(name)


def record_runs(
    *runs: tuple[str, str, list[Any]], store: str = ".onrecord/onrecord.db", with_origin: bool = True
) -> None:
    """Records (run id, file.py:function, arguments) in one process, as `onrecord run` would."""
    Path(".onrecord").mkdir(mode=0o700, exist_ok=True)
    words = json.dumps([store, runs, with_origin])
    done = command_server.call([words], code=RECORDER)
    assert done.returncode == 0, done.stderr
    for name in ("loaded", "replayed"):
        Path(name).unlink(missing_ok=True)


class ForkedWorker(command_server.ForkedProcess):
    """A worker of a pool that is forked, not started. It takes the place of `subprocess.Popen` in the pool."""

    prelude: ClassVar[str] = ""
    """Code that runs in each worker before it begins."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        stdin: int,
        stdout: IO[bytes],
        stderr: IO[bytes],
        pass_fds: Sequence[int],
        process_group: int,
    ) -> None:
        _, _, _, code, path, _ = command
        assert (stdin, process_group) == (subprocess.DEVNULL, 0)
        with open(os.devnull) as nothing:
            streams = {0: nothing.fileno(), 1: stdout.fileno(), 2: stderr.fileno(), 3: pass_fds[0]}
            super().__init__([path, "3"], streams, code=f"{self.prelude}\n{code}", leads_group=True)


def steady_runs(count: int, first: int = 0) -> list[tuple[str, str, list[Any]]]:
    return [(f"steady-{number}", "agents.py:steady", [number]) for number in range(first, first + count)]


def verdicts(document: Any) -> dict[str, str]:
    """In the order of the report."""
    return {run["run"]: run["verdict"] for run in document["runs"]}


def codes(document: Any) -> dict[str, str | None]:
    return {run["run"]: run["problem"] and run["problem"]["code"] for run in document["runs"]}


def written(name: str) -> list[list[str]]:
    path = Path(name)
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []
