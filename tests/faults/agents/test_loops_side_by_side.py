"""Runs that one process carries in several threads, each with a loop of its own, do not disturb each other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CODE = """
import sys, time
import onrecord
from onrecord.store.factory import open_store

@onrecord.step
async def work(number):
    time.sleep(0.01)
    return number

@onrecord.agent(store=open_store(sys.argv[1]))
async def agent():
    return [await work(number) for number in range(10)]

handles = [agent.start() for _ in range(8)]
for handle in handles:
    assert handle.result() == list(range(10))
"""


def test_loops_of_several_threads(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", CODE, str(tmp_path / "store.db")], timeout=60, check=True)
