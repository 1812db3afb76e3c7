"""End a program as Python does, while its run still records.

After its last line Python waits for threads and calls registered exit functions. Both are part of the program and are
recorded like everything before.
"""

from __future__ import annotations

import atexit
import sys
import threading
from time import monotonic
from typing import Any

from onrecord.capture.processes import exits
from onrecord.runtime.engine import stores as open_stores
from onrecord.runtime.engine.context import PLACE
from onrecord.runtime.scheduler.conditions import wait_in_turn
from onrecord.runtime.scheduler.lanes import Lane

_join = threading.Thread.join


def end_program() -> None:
    lane = PLACE.get()
    if type(lane) is not Lane or lane.run.is_stopped:
        return  # nothing more is recorded
    if lane.run.has_threads:
        _stop_executors()
        wait_in_turn(lane.run, _join_threads, None)  # one wait for all: their number is not deterministic
    own_functions = (open_stores.close_all, *exits.registered)  # they belong to the end of the process
    for call in own_functions:
        atexit.unregister(call)
    try:
        atexit._run_exitfuncs()
    finally:
        for call in own_functions:
            atexit.register(call)


def _stop_executors() -> None:
    """Tell the threads of executors that no work will come, as Python does before it joins them."""
    pools: Any = sys.modules.get("concurrent.futures.thread")
    if pools is not None:
        with pools._global_shutdown_lock:
            pools._shutdown = True
        for queue in list(pools._threads_queues.values()):
            queue.put(None)


def _join_threads(seconds: float) -> bool:
    until = monotonic() + seconds
    for thread in _running_threads():
        _join(thread, max(until - monotonic(), 0.0))
    return not _running_threads()


def _running_threads() -> list[threading.Thread]:
    excluded = (threading.main_thread(), threading.current_thread())
    return [thread for thread in threading.enumerate() if not thread.daemon and thread not in excluded]
