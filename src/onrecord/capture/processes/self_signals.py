"""A program that ends itself by a signal, in a replay: its verdict is told first, since nobody could tell it later.

What comes from outside, and what the program has a handler for, is not touched.
"""

from __future__ import annotations

import os
import signal
from os import _exit as leave_at_once  # the system's own, whatever the program is made to see
from typing import Any, NoReturn

from reenact.capture.processes import own_run

_ENDS_NOTHING = {0, signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH} | {
    signal.SIGSTOP,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
}
_real: dict[str, Any] = {}


def watch() -> None:
    if not _real:
        _real.update(kill=os.kill, raise_signal=signal.raise_signal, abort=os.abort)
        os.kill, signal.raise_signal, os.abort = _kill, _raise_signal, _abort


def _kill(pid: int, number: int, /) -> None:
    if pid == os.getpid() and _ends_the_process(number):
        _conclude(number)
    _real["kill"](pid, number)


def _raise_signal(number: int, /) -> None:
    if _ends_the_process(number):
        _conclude(number)
    _real["raise_signal"](number)


def _abort() -> NoReturn:
    _conclude(signal.SIGABRT)
    _real["abort"]()
    raise AssertionError


def _ends_the_process(number: Any) -> bool:
    if not isinstance(number, int) or number in _ENDS_NOTHING or number not in signal.valid_signals():
        return False
    is_blocked = number in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return signal.getsignal(number) is signal.SIG_DFL and not is_blocked


def _conclude(number: int) -> None:
    """Never returns while the run of the replay goes on: the status is that of the check then, not the signal's."""
    own = own_run.own
    if own is None or own.pid != os.getpid() or own.is_over or own.conclude is None or not own.is_replay:
        return
    status = own.finish(-number)  # what the program has not flushed is lost, as it is by the signal
    leave_at_once(status)
