"""Hooks for the end of a process, which end its run.

The end of the script, `sys.exit` and an uncaught exception reach our `atexit` function, which runs after those of the
program. `os._exit` skips `atexit`, so it is patched. A process that a signal ends leaves an unfinished record.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

from onrecord.capture.processes import process_run
from onrecord.runtime.engine.stops import RecordEnded, RunStopped
from onrecord.runtime.replay.python_paths import ONRECORD

_real: dict[str, Any] = {}
_uncaught: list[BaseException] = []
registered: list[Callable[[], None]] = []
"""Exit functions that this package has registered."""


def install() -> None:
    if _real:
        return
    _real.update(_exit=os._exit, excepthook=sys.excepthook)
    os._exit = _exit
    sys.excepthook = _excepthook
    register(at_exit)


def register(call: Callable[[], None]) -> None:
    """Register a function of this package for the end of the process."""
    registered.append(call)
    atexit.register(call)


def _exit(status: int) -> NoReturn:
    current = process_run.current
    if current is not None and current.pid == os.getpid():
        status = current.finish(status)
    _real["_exit"](status)
    raise AssertionError


def at_exit() -> None:
    current = process_run.current
    if current is None or current.pid != os.getpid() or current.is_over:
        return
    error = _uncaught[-1] if _uncaught else None
    if error is None and sys.excepthook is not _excepthook:  # the program has replaced our hook
        error = getattr(sys, "last_value", None)
    status = current.finish(current.exit_code, error)
    if current.conclude is not None and current.is_replay:  # the status is the verdict's
        process_run.flush()
        _real["_exit"](status)


def _excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _uncaught.append(error)
    if isinstance(error, RunStopped):
        print_stop(error)
    else:
        _real["excepthook"](kind, error, trace)


def print_stop(stopped: RunStopped) -> None:
    """Print why the run stopped. In a replay, the process that prints the verdict does so instead."""
    current, reason = process_run.current, stopped.reason
    if isinstance(reason, RecordEnded):
        if current is not None:
            current.end_as_recorded()
    elif current is None or not current.is_replay:
        print(f"error: {reason.message} [{reason.code}]\n{reason.hint}".rstrip(), file=sys.stderr)


def exit_forked(status: int, error: BaseException | None = None) -> NoReturn:
    """End a forked process as Python does: wait for threads, run exit functions, flush."""
    current = process_run.current
    if current is not None:
        current.exit_code = status
    if isinstance(error, RunStopped):
        print_stop(error)
    elif error is not None:
        print_exception(error)
    if error is not None:
        _uncaught.append(error)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    _clear_main_module()
    process_run.flush()
    _real.get("_exit", os._exit)(status)
    raise AssertionError


def _clear_main_module() -> None:
    """Clear the main module as Python does at its end, so that open files are written. Clear the newest names first:
    they may need the older ones."""
    names = sys.modules["__main__"].__dict__
    for name in reversed([*names]):
        if name != "__builtins__":
            names[name] = None
    gc.collect()


def print_uncaught(error: Exception) -> None:
    """Print an uncaught exception once, with the program's own hook if it has one."""
    if was_printed(error):
        return
    _uncaught.append(error)
    hook = sys.excepthook
    if hook in (_excepthook, sys.__excepthook__):
        print_exception(error)
    else:
        hook(type(error), error, _program_trace(error))


def was_printed(error: BaseException) -> bool:
    return any(one is error for one in _uncaught)


def forget_uncaught() -> None:
    """Drop uncaught exceptions, whose tracebacks keep the program's objects alive."""
    _uncaught.clear()


def print_exception(error: BaseException) -> None:
    traceback.print_exception(type(error), error, _program_trace(error))


def _program_trace(error: BaseException) -> TracebackType | None:
    """Return the traceback from the program's own first line on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(ONRECORD):
        trace = trace.tb_next
    return trace
