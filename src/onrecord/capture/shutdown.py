"""End a program as Python does, while its run still records.

After its last line Python waits for threads and calls registered exit functions. Both are part of the program and are
recorded like everything before.
"""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from onrecord.capture.processes import exits
from onrecord.runtime.engine import stores as open_stores
from onrecord.runtime.engine.context import Lane, current_lane, inside
from onrecord.runtime.scheduler.drivers.strands import Strand
from onrecord.runtime.scheduler.drivers.waits import wait_inside


def end_program() -> None:
    lane = current_lane()
    if lane is None or lane.run.is_stopped:
        return  # nothing more is recorded
    _stop_executors()
    with _main_thread_ended():
        while (strand := _find_awaited(lane)) is not None:
            _wait_for(lane, strand)
        _join_others()
        _call_exit_functions()


@contextmanager
def _main_thread_ended() -> Iterator[None]:
    """Let the main thread be seen as ended, as Python does: threads that serve a program end when they see it."""
    main: Any = threading.main_thread()
    main.is_alive = lambda: False
    try:
        yield
    finally:
        del main.is_alive


def _call_exit_functions() -> None:
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
        with inside():  # the locks and queues of a pool are its own
            with pools._global_shutdown_lock:
                pools._shutdown = True
            for queue in list(pools._threads_queues.values()):
                queue.put(None)


def _join_others() -> None:
    """Wait for the threads that are no lanes, such as those of pools."""
    pools: Any = sys.modules.get("concurrent.futures.process")
    with inside():
        if pools is not None:
            pools._global_shutdown = True
            for wakeup in list(pools._threads_wakeups.values()):
                with suppress(OSError):  # it is closed
                    wakeup.wakeup()
        for thread in threading.enumerate():
            if not thread.daemon and thread not in (threading.main_thread(), threading.current_thread()):
                thread.join()


def _find_awaited(lane: Lane) -> Strand | None:
    """Return a thread or a job of the run that Python waits for at its end."""
    with lane.run.lock:
        others = (one for one in lane.run.coordinator.strands if one is not lane.strand and not one.is_daemon)
        return next(others, None)


def _wait_for(lane: Lane, strand: Strand) -> None:
    run = lane.strand.coordinator
    with run.lock:
        run.act(lane.strand)
        if not strand.has_ended:
            wait_inside(run, lane.strand, lane.name, strand.on_end.append, None)
