"""A process that judges runs one after the other.

Its first message names the store and the judge; then it answers one message for every run. Its output is a file, whose
end the parent shows when something goes wrong. It exits as soon as the parent is gone: a thread reads the messages and
sees the pipe close.
"""

from __future__ import annotations

import faulthandler
import json
import os
import queue
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from onrecord.cli.error_exit import complaint_of
from onrecord.cli.fleet.judges import JUDGES, WRITING_JUDGES, RunJudge, judge_run

START = "import json,sys;sys.path[:]=json.loads(sys.argv[1]);from onrecord.cli.fleet.worker import main;main()"
_OUTPUT = 1


def main() -> None:
    """Run the process that `python -P -c START SYS_PATH DESCRIPTOR` starts."""
    descriptor = int(sys.argv[2])
    os.set_inheritable(descriptor, False)  # processes that the agent's code starts must not keep the pipe open
    connection = Connection(descriptor)
    faulthandler.enable()
    with suppress(AttributeError):  # write through, so that no output is lost when the process dies
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
    messages: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    settings = json.loads(connection.recv_bytes())
    threading.Thread(target=_read_messages, args=(connection, messages), daemon=True).start()
    try:
        judge = _make_judge(settings)
    except BaseException as error:
        complaint = complaint_of(error)
        failed = {"code": complaint.code, "message": complaint.message, "hint": complaint.hint}
        _send(connection, {"failed": {**failed, "status": complaint.status}})
    else:
        _send(connection, {"ready": True})
        while (task := messages.get()) is not None:
            _truncate_output()
            _send(connection, {"run": task["run"], "found": msgspec.to_builtins(judge_run(judge, task["run"]))})
    sys.stdout.flush()
    os._exit(0)  # without waiting for threads of the agent's code


def _read_messages(connection: Connection, messages: queue.SimpleQueue[dict[str, Any] | None]) -> None:
    try:
        while True:
            messages.put(json.loads(connection.recv_bytes()))  # null ends the process
    except (EOFError, OSError):
        os._exit(0)


def _make_judge(settings: dict[str, Any]) -> RunJudge:
    from onrecord.runtime.api.origins import forbid_starts_for_good
    from onrecord.store.factory import open_store

    store = open_store(settings["store"], read_only=settings["judge"] not in WRITING_JUDGES)
    if settings["judge"] not in WRITING_JUDGES:
        forbid_starts_for_good()
    return JUDGES[settings["judge"]](store, settings["namespace"], settings["options"])


def _truncate_output() -> None:
    """Remove the output of earlier runs."""
    sys.stdout.flush()
    sys.stderr.flush()
    with suppress(OSError):
        os.ftruncate(_OUTPUT, 0)


def _send(connection: Connection, message: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):  # the parent is gone
        connection.send_bytes(json.dumps(message).encode())
