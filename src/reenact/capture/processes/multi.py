"""`multiprocessing`: its children are given their tickets with the data that they are started with.

A forked child comes through `os.fork`. One of a fresh interpreter, or of the fork server, is told by its data, which it
reads first of all; what reads it there is put in order by the first words of its command (`children`).
"""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any

from reenact.capture.processes import own_run
from reenact.capture.processes.command_lines import CommandLine
from reenact.capture.processes.seams import begun, nowhere, starter, tell_ended
from reenact.capture.seams.hooks import Replace

KEY, REFUSES = "reenact", "reenact_refuses"
_FIRST = "try:\n import reenact.capture.processes.children\nexcept ImportError:\n pass\n"
_COMMANDS = ("from multiprocessing.spawn import", "from multiprocessing.forkserver import")


class _Pending(threading.local):
    ticket: str | None = None


_pending = _Pending()


def put_into(module: ModuleType, replace: Replace) -> None:
    name = module.__name__.rpartition(".")[2]
    if name == "util":
        replace(module, "spawnv_passfds", _spawnv_passfds)
    elif name == "spawn":
        replace(module, "get_preparation_data", _preparation_data)
    elif name == "connection":
        replace(module, "SocketClient", _connected)
    else:
        if name != "popen_fork":
            replace(module.Popen, "_launch", _launched)
        if "poll" in vars(module.Popen):
            replace(module.Popen, "poll", _polled)


def _launched(original: Any, popen: Any, process: Any) -> None:
    lane = starter()
    if lane is None:
        original(popen, process)
        return
    one = begun(lane, "spawn", CommandLine((popen.method,), None))
    _pending.ticket = one.ticket.to_text()
    try:
        with nowhere():
            original(popen, process)
    finally:
        _pending.ticket = None
    assert own_run.own is not None
    own_run.own.starts.note(popen.pid, one)


def _preparation_data(original: Any, name: str) -> Any:
    data = original(name)
    own = own_run.own
    if _pending.ticket is not None:
        data = {**data, KEY: _pending.ticket}
    return data if own is None or not own.is_replay else {**data, REFUSES: True}


def _spawnv_passfds(original: Any, path: Any, args: Any, passfds: Any) -> Any:
    """Also starts what `multiprocessing` needs for itself, from wherever it is first needed: that is nobody's."""
    args = [_FIRST + word if isinstance(word, str) and word.startswith(_COMMANDS) else word for word in args]
    with nowhere():
        return original(path, args, passfds)


def _polled(original: Any, popen: Any, *args: Any, **kwargs: Any) -> Any:
    code = original(popen, *args, **kwargs)
    if code is not None:
        tell_ended(popen.pid, code)
    return code


def _connected(original: Any, address: Any) -> Any:
    """Processes of the program talk to each other through files: nothing of that leaves it."""
    if not isinstance(address, (str, bytes)):
        return original(address)
    with nowhere():
        return original(address)
