"""Lives of a process that records, resumes or replays a program, and dies after an event (`kit.life_server`)."""

from __future__ import annotations

import os
import signal
from typing import Any

import httpx

from onrecord.capture import program_main
from onrecord.capture.program_task import VARIABLE
from onrecord.store.sqlite.store import SqliteStore

httpx.Client().close()  # loads what a client loads, once for all lives


def run_program(run: str, task: str, output: str, problems: str, cwd: str, die_after: int | None = None) -> None:
    os.chdir(cwd)
    for descriptor, path in ((1, output), (2, problems)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    os.environ[VARIABLE] = task
    if die_after is not None:
        _die_after(run, die_after)
    program_main.main()


def _die_after(run: str, seq: int) -> None:
    """Die when the event is recorded, before anything else happens."""
    for name in ("append", "append_many"):
        original = getattr(SqliteStore, name)

        def watched(self: Any, *args: Any, original: Any = original, **options: Any) -> Any:
            result = original(self, *args, **options)
            last = self.last_event("default", run)
            if last is not None and last.seq >= seq:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        setattr(SqliteStore, name, watched)
