"""Execute a run in this process, and suspend it cleanly.

Ctrl-C, SIGTERM and an interrupt that needs a person's decision suspend the run: the agent's tasks are cancelled (a
synchronous agent is interrupted at its current line), nothing more is written, and the lease is released. A second
signal has its ordinary effect.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from types import FrameType
from typing import TYPE_CHECKING, Any

from onrecord.core.events import TERMINAL_KINDS
from onrecord.errors import OnrecordError
from onrecord.reports.status import Standing, called_run, open_requests, standing_of

if TYPE_CHECKING:
    from onrecord.store.contract import Store

LOOK_SECONDS = 0.25
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class RunSuspended(BaseException):
    """Report why this process released a run: the number of a signal, or the run's status."""

    def __init__(self, number: int = 0, standing: Standing | None = None) -> None:
        super().__init__("suspended")
        self.number = number
        self.standing = standing


class _Stop(SystemExit):
    """Unwind a synchronous agent. The run treats it as the end of the process."""


class Suspender:
    def __init__(self) -> None:
        self.reason: RunSuspended | None = None
        self._suspend: Callable[[], None] | None = None
        self._in_main = threading.current_thread() is threading.main_thread()
        self._main = threading.get_ident()
        self._lock = threading.Lock()
        self._handles = False

    def execute(self, call: Callable[[], Any], *, is_async: bool) -> Any:
        """Return the agent's result, or raise its error. Raise `RunSuspended` when the run was suspended."""
        try:
            with self._signal_handlers():
                return asyncio.run(self._run_in_task(call)) if is_async else call()
        except (KeyboardInterrupt, asyncio.CancelledError, _Stop):
            if self.reason is None:
                raise
            raise self.reason from None

    @contextmanager
    def _signal_handlers(self) -> Iterator[None]:
        if not self._in_main:
            yield
            return
        before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        self._handles = True
        try:
            yield
        finally:
            with suppress(_Stop), self._lock:  # the call has ended: a signal has nothing to suspend
                self._handles = False
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.reason is None:
            self.reason = RunSuspended(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self._suspend is not None:
            self._suspend()
        else:
            raise _Stop(128 + number)

    async def _run_in_task(self, call: Callable[[], Any]) -> Any:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def suspend() -> None:
            # A signal handler calls this: the loop may be asleep, and the current context belongs to other code.
            loop.call_soon_threadsafe(task.cancel, context=Context())

        self._suspend = suspend
        try:
            return await call()
        finally:
            self._suspend = None

    def suspend(self, standing: Standing) -> None:
        """Suspend the run from another thread: it waits for something that this process cannot provide."""
        with self._lock:
            if self._handles and self.reason is None:
                self.reason = RunSuspended(standing=standing)
                signal.pthread_kill(self._main, signal.SIGTERM)


@contextmanager
def watch_status(
    store: Store, namespace: str, run: str, states: tuple[str, ...], on_rest: Callable[[Standing], None]
) -> Iterator[None]:
    """Call `on_rest` once for each time that the run rests in one of these states."""
    done = threading.Event()

    def watch() -> None:
        seen: list[int] = []
        reported: list[int] = []
        while not done.wait(LOOK_SECONDS):
            seqs: list[int] = []
            standing = _resting_status(store, namespace, run, seqs)
            unchanged, seen = seqs == seen, seqs
            if standing is not None and standing.status in states and unchanged and reported != seqs:
                reported = seqs
                on_rest(standing)

    thread = threading.Thread(target=_ignore_errors, args=(watch,), name="onrecord-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _resting_status(store: Store, namespace: str, run: str, seqs: list[int]) -> Standing | None:
    """Return the status of the run or child that blocks it, or None while anything is executing.

    Append the last seq of each of these runs to `seqs`.
    """
    row = store.run_row(namespace, run)
    if row is None or row.last is None or row.last.kind in TERMINAL_KINDS:
        return None
    seqs.append(row.last.seq)
    found = [standing_of(store, namespace, row)]
    for request in open_requests(store, namespace, run):
        if request.kind == "ActionRequested":
            child = called_run(store, namespace, run, request)
            inner = _resting_status(store, namespace, child, seqs) if child is not None else None
            if inner is None:
                return None
            found.append(inner)
    resting = {standing.status: standing for standing in reversed(found) if standing.status in ("blocked", "waiting")}
    return resting.get("blocked") or resting.get("waiting")


def _ignore_errors(watch: Callable[[], None]) -> None:
    with suppress(OnrecordError):  # the executing thread meets the same error and reports it
        watch()
