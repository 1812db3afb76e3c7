"""A process that judges runs, one after the other, until nobody asks any more.

It is told once which store and which judge, opens and loads what that needs, and then answers a message for every run.
Its output is a file that its parent reads the end of when something goes wrong. When the parent is gone it ends
itself, whatever it is in the middle of: the thread that reads the messages sees that nobody is left to write any.
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

from reenact.cli.fleet_judges import JUDGES, WRITING, Judge, judged
from reenact.cli.problems import complaint_of

START = "import json,sys;sys.path[:]=json.loads(sys.argv[1]);from reenact.cli.fleet_worker import main;main()"
_OUTPUT = 1


def main() -> None:
    """`python -P -c START SYS_PATH DESCRIPTOR`"""
    descriptor = int(sys.argv[2])
    os.set_inheritable(descriptor, False)  # what the agent's code starts must not keep the line open
    connection = Connection(descriptor)
    _prepare()
    told: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    settings = json.loads(connection.recv_bytes())
    threading.Thread(target=_listen, args=(connection, told), daemon=True).start()
    try:
        judge = _judge(settings)
    except BaseException as error:
        complaint = complaint_of(error)
        failed = {"code": complaint.code, "message": complaint.message, "hint": complaint.hint}
        _send(connection, {"failed": {**failed, "status": complaint.status}})
    else:
        _send(connection, {"ready": True})
        while (task := told.get()) is not None:
            _forget_output()
            _send(connection, {"run": task["run"], "found": msgspec.to_builtins(judged(judge, task["run"]))})
    sys.stdout.flush()
    os._exit(0)  # threads that the agent's code left behind do not keep it


def _prepare() -> None:
    faulthandler.enable()
    with suppress(AttributeError):  # not lost when the process dies
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]


def _listen(connection: Connection, told: queue.SimpleQueue[dict[str, Any] | None]) -> None:
    try:
        while True:
            told.put(json.loads(connection.recv_bytes()))  # null: nothing more to do
    except (EOFError, OSError):
        os._exit(0)


def _judge(settings: dict[str, Any]) -> Judge:
    from reenact.store.opening import open_store

    store = open_store(settings["store"], read_only=settings["judge"] not in WRITING)
    return JUDGES[settings["judge"]](store, settings["namespace"], settings["options"])


def _forget_output() -> None:
    """What earlier runs wrote is not this one's."""
    sys.stdout.flush()
    sys.stderr.flush()
    with suppress(OSError):
        os.ftruncate(_OUTPUT, 0)


def _send(connection: Connection, message: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):  # the parent is gone, and so will we be
        connection.send_bytes(json.dumps(message).encode())
