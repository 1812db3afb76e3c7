"""`multiprocessing` interceptor: children receive their tickets in their start data.

A forked child goes through `os.fork`. A child in a fresh interpreter, or of the fork server, reads its start data
first. Its command imports `children`, which takes the ticket from that data.
"""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any

from onrecord.capture.interceptors.import_hooks import Replace
from onrecord.capture.processes import process_run
from onrecord.capture.processes.command_lines import CommandLine
from onrecord.capture.processes.start_patches import begin_start, note_child_end, starting_lane
from onrecord.runtime.engine.context import inside

KEY, REFUSES = "onrecord", "onrecord_refuses"
_IMPORT_CHILDREN = "try:\n import onrecord.capture.processes.multiprocessing_hook\nexcept ImportError:\n pass\n"
_COMMANDS = ("from multiprocessing.spawn import", "from multiprocessing.forkserver import")


class _Pending(threading.local):
    ticket: str | None = None


_pending = _Pending()


def patch(module: ModuleType, replace: Replace) -> None:
    name = module.__name__.rpartition(".")[2]
    if name == "util":
        replace(module, "spawnv_passfds", _spawnv_passfds)
    elif name == "spawn":
        replace(module, "get_preparation_data", _add_ticket)
    elif name == "connection":
        replace(module, "SocketClient", _connect)
    else:
        if name != "popen_fork":
            replace(module.Popen, "_launch", _launch)
        if "poll" in vars(module.Popen):
            replace(module.Popen, "poll", _poll)


def _launch(original: Any, popen: Any, process: Any) -> None:
    lane = starting_lane()
    if lane is None:
        original(popen, process)
        return
    started = begin_start(lane, "spawn", CommandLine((popen.method,), None))
    _pending.ticket = started.ticket.to_text()
    try:
        with inside():
            original(popen, process)
    finally:
        _pending.ticket = None
    assert process_run.current is not None
    process_run.current.starts.note(popen.pid, started)


def _add_ticket(original: Any, name: str) -> Any:
    data = original(name)
    current = process_run.current
    if _pending.ticket is not None:
        data = {**data, KEY: _pending.ticket}
    return data if current is None or not current.is_replay else {**data, REFUSES: True}


def _spawnv_passfds(original: Any, path: Any, args: Any, passfds: Any) -> Any:
    """Start the process outside any lane. That includes helpers of `multiprocessing`, such as the resource tracker."""
    args = [_IMPORT_CHILDREN + word if isinstance(word, str) and word.startswith(_COMMANDS) else word for word in args]
    with inside():
        return original(path, args, passfds)


def _poll(original: Any, popen: Any, *args: Any, **kwargs: Any) -> Any:
    code = original(popen, *args, **kwargs)
    if code is not None:
        note_child_end(popen.pid, code)
    return code


def _connect(original: Any, address: Any) -> Any:
    """Connect outside any lane if the address is a file: processes of one program talk to each other that way."""
    if not isinstance(address, (str, bytes)):
        return original(address)
    with inside():
        return original(address)
