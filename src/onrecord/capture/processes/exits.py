"""How a process ends, and how its run learns of it.

Returning from its last line, `sys.exit` and an exception of the program's come to `atexit`, after everything that the
program itself has registered there; `os._exit` comes to nothing else. What a signal ends leaves an unfinished record.
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

from reenact.capture.processes import own_run
from reenact.effect.stopping import RecordEnded, RunStopped

_OURS = __file__.rpartition("capture")[0]
_real: dict[str, Any] = {}
_uncaught: list[BaseException] = []
ours: list[Callable[[], None]] = []
"""What we have registered for the end of the process ourselves."""


def install() -> None:
    if _real:
        return
    _real.update(_exit=os._exit, excepthook=sys.excepthook)
    os._exit = _exit
    sys.excepthook = _excepthook
    register(at_exit)


def register(call: Callable[[], None]) -> None:
    """For the end of the process, which is behind that of the program."""
    ours.append(call)
    atexit.register(call)


def _exit(status: int) -> NoReturn:
    own = own_run.own
    if own is not None and own.pid == os.getpid():
        status = own.finish(status)
    _real["_exit"](status)
    raise AssertionError


def at_exit() -> None:
    own = own_run.own
    if own is None or own.pid != os.getpid() or own.is_over:
        return
    error = _uncaught[-1] if _uncaught else None
    if error is None and sys.excepthook is not _excepthook:  # the program has put its own in place of ours
        error = getattr(sys, "last_value", None)
    status = own.finish(own.exit_code, error)
    if own.conclude is not None and own.is_replay:  # its status is that of the check
        own_run.flush()
        _real["_exit"](status)


def _excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _uncaught.append(error)
    if isinstance(error, RunStopped):
        say_stopped(error)
    else:
        _real["excepthook"](kind, error, trace)


def say_stopped(stopped: RunStopped) -> None:
    """That a replay has parted is told once, by the process that has the last word."""
    own, reason = own_run.own, stopped.reason
    if isinstance(reason, RecordEnded):
        if own is not None:
            own.end_as_recorded()
    elif own is None or not own.is_replay:
        print(f"error: {reason.message} [{reason.code}]\n{reason.hint}".rstrip(), file=sys.stderr)


def leave(status: int, error: BaseException | None = None) -> NoReturn:
    """Ends a process that was forked, as Python ends: with its threads, and what was registered for the end."""
    own = own_run.own
    if own is not None:
        own.exit_code = status
    if isinstance(error, RunStopped):
        say_stopped(error)
    elif error is not None:
        print_as_python_does(error)
    if error is not None:
        _uncaught.append(error)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    _let_go_of_everything()
    own_run.flush()
    _real.get("_exit", os._exit)(status)
    raise AssertionError


def _let_go_of_everything() -> None:
    """As Python does in the end, so that a file is written that nobody has closed. What was made last goes first: it
    may need the rest."""
    names = sys.modules["__main__"].__dict__
    for name in reversed([*names]):
        if name != "__builtins__":
            names[name] = None
    gc.collect()


def tell_uncaught(error: Exception) -> None:
    """Once, by the program's own hook if it has one."""
    if has_told(error):
        return
    _uncaught.append(error)
    hook = sys.excepthook
    if hook in (_excepthook, sys.__excepthook__):
        print_as_python_does(error)
    else:
        hook(type(error), error, _own_trace(error))


def has_told(error: BaseException) -> bool:
    return any(one is error for one in _uncaught)


def forget_uncaught() -> None:
    """What it holds by its traceback is let go of with the rest of the program."""
    _uncaught.clear()


def print_as_python_does(error: BaseException) -> None:
    traceback.print_exception(type(error), error, _own_trace(error))


def _own_trace(error: BaseException) -> TracebackType | None:
    """It begins with the program's own line."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return trace
