"""Print the verdict of a replay before the program ends itself by a signal: afterwards no code runs.

Signals from outside, and signals that the program handles, are not touched.
"""

from __future__ import annotations

import os
import signal
from os import _exit as exit_now  # the original: the attribute of `os` is replaced later
from typing import Any, NoReturn

from onrecord.capture.processes import process_run

_HARMLESS = {0, signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH} | {
    signal.SIGSTOP,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
}
_real: dict[str, Any] = {}


def install() -> None:
    if not _real:
        _real.update(kill=os.kill, raise_signal=signal.raise_signal, abort=os.abort)
        os.kill, signal.raise_signal, os.abort = _kill, _raise_signal, _abort


def _kill(pid: int, number: int, /) -> None:
    if pid == os.getpid() and _would_end_process(number):
        _finish_replay(number)
    _real["kill"](pid, number)


def _raise_signal(number: int, /) -> None:
    if _would_end_process(number):
        _finish_replay(number)
    _real["raise_signal"](number)


def _abort() -> NoReturn:
    _finish_replay(signal.SIGABRT)
    _real["abort"]()
    raise AssertionError


def _would_end_process(number: Any) -> bool:
    if not isinstance(number, int) or number in _HARMLESS or number not in signal.valid_signals():
        return False
    is_blocked = number in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return signal.getsignal(number) is signal.SIG_DFL and not is_blocked


def _finish_replay(number: int) -> None:
    """Finish a running replay and exit with the status of its verdict instead of the signal's."""
    current = process_run.current
    if (
        current is None
        or current.pid != os.getpid()
        or current.is_over
        or current.conclude is None
        or not current.is_replay
    ):
        return
    status = current.finish(-number)  # unflushed output is lost, as by the signal
    exit_now(status)
