"""Imports once and forks for every life of a process under test: a life begins within milliseconds, in a process that
has one thread and no open store.

Reads one JSON list a line, and answers each with one:

    ["begin", WORK, OPTIONS, FOLDER]   its pid; its errors and its keys are in that folder
    ["signal", PID, NUMBER]            true; false: it is over already
    ["wait", PID, SECONDS]             its exit status; null: it does not end
    ["end_all"]                        whatever still lives is killed

Only the parent of a process can signal it and be sure whom it meets: until it has been waited for, its pid is nobody
else's. Whatever lives when the input ends is killed, too.
"""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import sys
import traceback
from typing import Any

HANG_SECONDS = 120


def live(work: str, options: dict[str, Any], folder: str) -> None:
    import crash_lives

    os.environ["REENACT_KEY_FILE"] = f"{folder}/keys"
    descriptor = os.open(f"{folder}/errors.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 2)
    os.dup2(descriptor, 1)
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True, file=descriptor)
    status = 1
    try:
        status = getattr(crash_lives, work)(**options) or 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except KeyboardInterrupt:
        status = 130
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


class Server:
    def __init__(self) -> None:
        self._children: set[int] = set()

    def begin(self, *args: Any) -> int:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.close(0)
            live(*args)
        self._children.add(pid)
        return pid

    def signal(self, pid: int, number: int) -> bool:
        assert pid in self._children, f"{pid} is not ours"
        state = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        os.kill(pid, number)
        return state is None

    def wait(self, pid: int, seconds: float) -> int | None:
        assert pid in self._children, f"{pid} is not ours"
        descriptor = os.pidfd_open(pid)
        try:
            if not select.select([descriptor], [], [], seconds)[0]:
                return None
        finally:
            os.close(descriptor)
        self._children.discard(pid)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def end_all(self) -> None:
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
        for pid in self._children:
            os.waitpid(pid, 0)
        self._children.clear()


def serve() -> None:
    import crash_lives  # noqa: F401 - what the lives need is loaded before the first begins

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = Server()
    try:
        for line in sys.stdin:
            command, *args = json.loads(line)
            print(json.dumps(getattr(server, command)(*args)), flush=True)
    finally:
        server.end_all()


if __name__ == "__main__":
    serve()
