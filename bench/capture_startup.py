"""Measure what `onrecord run` adds to a program's start, and the disk space of a recorded conversation."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from bench.capture_server import LeanServer
from bench.conversation import disk_bytes
from bench.import_time import FLOOR
from bench.measurement import Row, Workplace, use_own_keys

MUST_START = 2.0
MUST_FIT = 150_000
TURNS = 50
TALKING = """
import json, random, sys
import httpx
from bench.conversation import make_message, make_random_message

make = {"words": make_message, "incompressible": make_random_message}[sys.argv[2]]
source, messages = random.Random(1), []
with httpx.Client() as client:
    for turn in range(int(sys.argv[3])):
        messages.append(make("user", source))
        body = {"model": "gpt-4o-mini", "messages": messages, "user": f"{turn}: " + "fine, go on. " * 7}
        answer = client.post(sys.argv[1] + "/v1/chat/completions", json=body).json()
        messages.append(answer["choices"][0]["message"])
"""


def measure_program_startup(workplace: Workplace) -> Iterator[Row]:
    use_own_keys(workplace)
    empty = workplace.path("empty.py")
    empty.write_text("")
    store = str(workplace.path("starting.db"))
    commands = {
        "floor": [sys.executable, "-c", FLOOR],
        "empty": [sys.executable, str(empty)],
        "run": [os.path.join(os.path.dirname(sys.executable), "onrecord"), "run", "--store", store, str(empty)],
    }
    # The first round compiles the modules for the others, as an installation does.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(workplace.count(25, least=5) + 1):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, env=environment)
            if turn:
                found[name].append(time.perf_counter() - start)
    ratio = statistics.median(ours / floor for ours, floor in zip(found["run"], found["floor"], strict=True))
    floor, bare, ours = (statistics.median(found[name]) * 1000 for name in ("floor", "empty", "run"))
    yield Row(
        "`onrecord run` of an empty script",
        f"{ratio:.2f} × ({ours:.0f} ms; `{FLOOR}` {floor:.0f} ms; the script alone {bare:.0f} ms)",
        f"≤ {MUST_START:.0f} ×",
        ratio <= MUST_START,
    )


def measure_sizes(workplace: Workplace) -> Iterator[Row]:
    use_own_keys(workplace)
    program = workplace.path("talking.py")
    program.write_text(TALKING)
    server = LeanServer()
    for text in ("words", "incompressible"):
        folder = workplace.path(f"talked-{text}")
        folder.mkdir()
        run = [sys.executable, "-m", "onrecord.cli.main", "run", "--store", str(folder / "run.db"), str(program)]
        environment = {**os.environ, "PYTHONPATH": os.getcwd()}
        subprocess.run([*run, server.url, text, str(TURNS)], check=True, capture_output=True, env=environment)
        taken = disk_bytes(folder)
        files = ", ".join(f"{path.name} {path.stat().st_size / 1000:.0f}" for path in sorted(folder.iterdir()))
        yield Row(
            f"{TURNS} turns of 1 KB, 55 KB of unique text ({text}), recorded",
            f"{taken / 1000:.0f} KB on disk ({files})",
            f"≤ {MUST_FIT // 1000} KB",
            taken <= MUST_FIT,
        )
    server.stop()
