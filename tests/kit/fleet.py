"""Agents for the tests of `replay --all`, and many runs of them recorded at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

AGENTS = """
import ctypes, os, signal, sys, threading
import reenact

with open("loaded", "a") as loaded:
    loaded.write(f"{os.getpid()}\\n")
kept = []


def asked(what):
    return os.path.exists(what)


def noted(name):
    with open("replayed", "a") as replayed:
        replayed.write(f"{name} {os.getpid()}\\n")


@reenact.step
def add(left, right):
    return left + right


@reenact.tool
def mail(to):
    with open("mails", "a") as mails:
        mails.write(to + "\\n")
    return "sent"


@reenact.agent
def steady(start, times=3):
    noted(start)
    print("printed by the agent")
    for number in range(times):
        start = add(start, number)
    mail("somebody")
    return start


@reenact.agent
async def greeter(name):
    return f"hello {name} {add(1, 2)}"


@reenact.agent
def changing(value):
    print("about to differ", file=sys.stderr)
    return add(value, 2 if asked("changed") else 1)


@reenact.agent
def child(value):
    return add(value, 1) + (1 if asked("changed") else 0)


@reenact.agent
def caller(value):
    return child(value) + add(1, 1)


@reenact.agent
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
            os.closerange(3, 100)
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


@reenact.agent
def remembering(value):
    kept.append(value)
    return add(value, len(kept))


@reenact.agent
def effectless(value):
    return value


@reenact.agent
def failing(message):
    add(1, 2)
    raise ValueError(message)


@reenact.step
def opened():
    return open("loaded")


@reenact.agent
def odd():
    return str(type(opened()))


def plain(left, right=2):
    return add(left, right)
"""

RECORDER = """
import contextlib, json, sys
import reenact
from reenact.cli.loading import load_agent, parse_target

store, runs, with_origin = json.loads(sys.argv[1])
opened = reenact.open_store(store)
for run, target, args in runs:
    agent = load_agent(parse_target(target))
    if not with_origin:
        agent.origin = None
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
    *runs: tuple[str, str, list[Any]], store: str = ".reenact/reenact.db", with_origin: bool = True
) -> None:
    """Records (run id, file.py:function, arguments) in one process, as `reenact run` would."""
    Path(".reenact").mkdir(mode=0o700, exist_ok=True)
    words = json.dumps([store, runs, with_origin])
    subprocess.run([sys.executable, "-c", RECORDER, words], check=True, timeout=90, stdout=subprocess.DEVNULL)
    for name in ("loaded", "replayed"):
        Path(name).unlink(missing_ok=True)


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
