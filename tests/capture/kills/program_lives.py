"""A process that has everything loaded and lives once for each line that it is given, in a fork of its own.

Each line says what the life is to do, and after which event on record it is to end by SIGKILL.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import httpx  # noqa: F401  (loaded here, so that not every life has to)

from reenact.capture import concluding, first_process  # noqa: F401
from reenact.capture.terms import VARIABLE
from reenact.store.sqlite.store import SqliteStore


def _die_after(seq: int) -> None:
    """With the event on record, and before anything else happens."""
    for name in ("append", "append_many"):
        original = getattr(SqliteStore, name)

        def watched(self: Any, *args: Any, original: Any = original, **options: Any) -> Any:
            result = original(self, *args, **options)
            last = self.last_event("default", os.environ["LIFE_RUN"])
            if last is not None and last.seq >= seq:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        setattr(SqliteStore, name, watched)


def _live(told: dict[str, Any]) -> None:
    for descriptor, path in ((1, told["output"]), (2, told["problems"])):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, descriptor)
    os.environ[VARIABLE] = told["task"]
    os.environ["LIFE_RUN"] = told["run"]
    if told["die_after"] is not None:
        _die_after(told["die_after"])
    first_process.main()


def main() -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        told = json.loads(line)
        child = os.fork()
        if child == 0:
            _live(told)
            os._exit(99)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
