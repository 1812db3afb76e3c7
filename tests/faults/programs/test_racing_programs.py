"""Races and time-outs of programs with no line changed: each seed is replayed with its recorded winners."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kit.numbered_server import Server
from kit.soak import SOAK

PROGRAM = """
import asyncio, random, sys, time
import httpx

url, seed = sys.argv[1], int(sys.argv[2])
choice, log = random.Random(seed), []


async def ask(client, name):
    number = (await client.get(f"{url}/lazy?seconds={choice.choice((0, 0.002, 0.004, 0.008))}")).json()["number"]
    log.append((name, number))
    return name, number


async def race(client, name):
    tasks = [asyncio.create_task(ask(client, f"{name}{index}")) for index in range(3)]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    return sorted(task.result() for task in done)


async def limited(client, name):
    try:
        async with asyncio.timeout(choice.choice((0.001, 0.004, 0.006, 0.02))):
            return await ask(client, name)
    except TimeoutError:
        log.append((name, "late"))
        return name, "late"


async def main():
    async with httpx.AsyncClient() as client:
        works = [choice.choice((race, limited, ask))(client, chr(97 + index)) for index in range(4)]
        print(await asyncio.gather(*works))
    print(log, time.time(), random.random())


asyncio.run(main())
"""


RACES = 50 if SOAK else 12


@pytest.mark.parametrize("first", range(0, 200 if SOAK else RACES, RACES))
def test_winners_and_time_outs_come_back(first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))
    (tmp_path / "program.py").write_text(PROGRAM)
    server, batch = Server(), str(Path(__file__).with_name("race_batch.py"))
    command = [sys.executable, batch, str(tmp_path / "program.py"), server.url, str(first), str(first + RACES)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=tmp_path)
    finally:
        server.stop()
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == f"raced {RACES}, differ: []\n", done.stderr[-3000:]
