"""The end of a program as Python itself ends it, while its run still goes on.

Behind its last line its threads are waited for, and what it has registered for the end is called. What happens there is
as much the program's as anything before it, and is on record like it.
"""

from __future__ import annotations

import atexit
import sys
import threading
from time import monotonic
from typing import Any

from reenact.capture.processes import ending
from reenact.effect import open_stores
from reenact.effect.lanes import Lane
from reenact.effect.places import PLACE
from reenact.effect.waking import wait_in_turn

_join = threading.Thread.join


def wind_down() -> None:
    lane = PLACE.get()
    if type(lane) is not Lane or lane.run.is_stopped:
        return  # nothing more of it is on record
    if lane.run.has_threads:
        _tell_pools()
        wait_in_turn(lane.run, _have_ended, None)  # how many there are is chance: one wait, not one for each
    ours = (open_stores.close_all, *ending.ours)  # for the end of the process
    for call in ours:
        atexit.unregister(call)
    try:
        atexit._run_exitfuncs()
    finally:
        for call in ours:
            atexit.register(call)


def _tell_pools() -> None:
    """Their threads wait for work until they are told that none will come. Python does so before it joins them."""
    pools: Any = sys.modules.get("concurrent.futures.thread")
    if pools is not None:
        with pools._global_shutdown_lock:
            pools._shutdown = True
        for queue in list(pools._threads_queues.values()):
            queue.put(None)


def _have_ended(seconds: float) -> bool:
    until = monotonic() + seconds
    for thread in _left():
        _join(thread, max(until - monotonic(), 0.0))
    return not _left()


def _left() -> list[threading.Thread]:
    here = (threading.main_thread(), threading.current_thread())
    return [thread for thread in threading.enumerate() if not thread.daemon and thread not in here]
