"""Measure `onrecord replay --all` of many recorded runs, in one process and in two."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measurement import Row, Workplace, use_own_keys

RUNS = 600
EFFECTS = 400
ROUNDS = 4
PROGRAM = '''
"""An agent that asks a model and acts on its answers, with a growing conversation."""
import sys

import onrecord

WORDS = "and then it said that the order had been sent a week ago to another address, "


@onrecord.step
def ask(messages):
    return {"role": "assistant", "content": f"answer {len(messages)}: {WORDS * 3}"}


@onrecord.tool
def act(number, text):
    return {"number": number, "done": len(text)}


@onrecord.agent
def converse(effects, seed):
    messages = [{"role": "user", "content": f"{seed}: {WORDS}"}]
    for number in range(effects // 2):
        answer = ask(messages[-6:])
        messages.append(answer)
        messages.append({"role": "tool", "content": str(act(number, answer["content"]))})
    return len(messages)


def record(path, runs, effects):
    store = onrecord.open_store(path, durability="relaxed")
    for number in range(runs):
        converse.run(effects, number, run_id=f"run-{number}", store=store)
    store.close()


if __name__ == "__main__":
    record(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
'''


def measure_fleet(workplace: Workplace) -> Iterator[Row]:
    use_own_keys(workplace)
    program, path = workplace.path("fleet_agent.py"), workplace.path("fleet.db")
    program.write_text(PROGRAM)
    runs = workplace.count(RUNS, least=20)
    subprocess.run([sys.executable, str(program), str(path), str(runs), str(EFFECTS)], check=True)
    time_replay(path, program, 2)
    singles, doubles = [], []
    for _ in range(ROUNDS):
        singles.append(time_replay(path, program, 1))
        doubles.append(time_replay(path, program, 2))
    single, double = min(singles), min(doubles)  # other load only makes it slower
    ratio = single / double
    yield Row(
        f"replaying {runs:,} runs of {EFFECTS} effects, two processes",
        f"{ratio:.2f} × one ({double:.1f} s; one {single:.1f} s; {runs / double:,.0f} runs/s)",
        "≥ 1.7 ×",
        ratio >= 1.7,
    )


def time_replay(path: Path, program: Path, jobs: int) -> float:
    """Return the seconds of the whole command, including its start and its report."""
    words = ["replay", "--all", str(program), "--store", str(path), "--jobs", str(jobs), "--json"]
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "onrecord.cli.main", *words], capture_output=True, env=dict(os.environ)
    )
    seconds = time.perf_counter() - start
    found = json.loads(done.stdout)
    if done.returncode or found["verdicts"] != {"same": found["selected"]}:
        raise SystemExit(f"the benchmark's own runs do not replay: {found['verdicts']}")
    return seconds
