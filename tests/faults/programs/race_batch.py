"""A program that races, recorded and replayed with one seed after the other in one process; tells which differ."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stdout

import httpx  # noqa: F401  (before the first of them: whoever imports it is late for his own time-outs)
import msgspec

from onrecord.capture import draws
from onrecord.capture.program_agent import ProgramAgent
from onrecord.capture.program_task import Program
from onrecord.store.memory import MemoryStore


def main(path: str, url: str, first: int, last: int) -> None:
    differ = []
    draws.modules_are_shared = True  # what a library draws while it is imported is drawn once in a process
    for seed in range(first, last):
        program, store = Program(path=path, args=(url, str(seed)), cwd="."), MemoryStore()
        agent = ProgramAgent(program, store=store)
        said, again = io.StringIO(), io.StringIO()
        with redirect_stdout(said):
            agent.run(msgspec.to_builtins(program), run_id="r")
        with redirect_stdout(again):
            agent.replay("r", store=store)
        if said.getvalue() != again.getvalue() or not said.getvalue():
            differ.append(seed)
    print(f"raced {last - first}, differ: {differ}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
