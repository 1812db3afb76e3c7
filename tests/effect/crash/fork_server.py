"""Imports once and forks for every life of a process under test: a life begins within milliseconds, in a process that
has one thread and no open store.

Reads one JSON list a line: ["begin", WORK, OPTIONS, FILE FOR ERRORS] → its pid; ["wait", pid] → its exit status.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import traceback
from typing import Any

HANG_SECONDS = 120


def live(work: str, options: dict[str, Any], errors: str) -> None:
    import crash_lives

    descriptor = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
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


def serve() -> None:
    import crash_lives  # noqa: F401 - what the lives need is loaded before the first begins

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    children: set[int] = set()
    for line in sys.stdin:
        command, *args = json.loads(line)
        if command == "begin":
            pid = os.fork()
            if pid == 0:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                os.close(0)
                live(*args)
            children.add(pid)
            answer = pid
        else:
            answer = os.waitstatus_to_exitcode(os.waitpid(args[0], 0)[1])
            children.discard(args[0])
        print(json.dumps(answer), flush=True)
    for pid in children:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    serve()
