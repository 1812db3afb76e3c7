"""Carrying a run in this process, and letting go of it cleanly.

Ctrl-C and SIGTERM suspend: the agent's tasks are cancelled (an agent without a loop is interrupted where it stands),
nothing more is written, the lease is released. So does coming to an interrupt that only a person can answer. A second
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

from reenact.core.events import TERMINAL_KINDS
from reenact.errors import ReenactError
from reenact.reports.standing import Standing, called_run, open_requests, standing_of

if TYPE_CHECKING:
    from reenact.store.contract import Store

LOOK_SECONDS = 0.25
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class SuspendedHere(BaseException):
    """Why this process let go of a run: a signal's number, or how the run stands."""

    def __init__(self, number: int = 0, standing: Standing | None = None) -> None:
        super().__init__("suspended")
        self.number = number
        self.standing = standing


class _Stop(SystemExit):
    """Travels through a synchronous agent; the run takes it for the end of the process."""


class Suspender:
    def __init__(self) -> None:
        self.reason: SuspendedHere | None = None
        self._suspend: Callable[[], None] | None = None
        self._in_main = threading.current_thread() is threading.main_thread()
        self._main = threading.get_ident()
        self._lock = threading.Lock()
        self._handles = False

    def carry(self, call: Callable[[], Any], *, is_async: bool) -> Any:
        """What the agent returns, or raises. `SuspendedHere` when this process had to let go."""
        try:
            with self._handling():
                return asyncio.run(self._in_a_task(call)) if is_async else call()
        except (KeyboardInterrupt, asyncio.CancelledError, _Stop):
            if self.reason is None:
                raise
            raise self.reason from None

    @contextmanager
    def _handling(self) -> Iterator[None]:
        if not self._in_main:
            yield
            return
        before = {number: signal.signal(number, self._heard) for number in SIGNALS}
        self._handles = True
        try:
            yield
        finally:
            with suppress(_Stop), self._lock:  # a signal now comes too late to suspend anything
                self._handles = False
            for number, handler in before.items():
                signal.signal(number, handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self.reason is None:
            self.reason = SuspendedHere(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self._suspend is not None:
            self._suspend()
        else:
            raise _Stop(128 + number)

    async def _in_a_task(self, call: Callable[[], Any]) -> Any:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def suspend() -> (
            None
        ):  # from a signal handler: the loop may be asleep, and whoever ran has nothing to do with it
            loop.call_soon_threadsafe(task.cancel, context=Context())

        self._suspend = suspend
        try:
            return await call()
        finally:
            self._suspend = None

    def suspend(self, standing: Standing) -> None:
        """From another thread: the run stands where this process can do nothing for it."""
        with self._lock:
            if self._handles and self.reason is None:
                self.reason = SuspendedHere(standing=standing)
                signal.pthread_kill(self._main, signal.SIGTERM)


@contextmanager
def watching(
    store: Store, namespace: str, run: str, states: tuple[str, ...], found: Callable[[Standing], None]
) -> Iterator[None]:
    """Tells once for each time the run has come to rest in one of these states."""
    done = threading.Event()

    def watch() -> None:
        seen: list[int] = []
        told: list[int] = []
        while not done.wait(LOOK_SECONDS):
            seqs: list[int] = []
            standing = _at_rest(store, namespace, run, seqs)
            rested, seen = seqs == seen, seqs
            if standing is not None and standing.status in states and rested and told != seqs:
                told = seqs
                found(standing)

    thread = threading.Thread(target=_quietly, args=(watch,), name="reenact-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _at_rest(store: Store, namespace: str, run: str, seqs: list[int]) -> Standing | None:
    """What the run waits for, or one that it has called. None: beside that something is under way. `seqs` get the last
    event of each of them."""
    row = store.run_row(namespace, run)
    if row is None or row.last is None or row.last.kind in TERMINAL_KINDS:
        return None
    seqs.append(row.last.seq)
    found = [standing_of(store, namespace, row)]
    for request in open_requests(store, namespace, run):
        if request.kind == "ActionRequested":
            child = called_run(store, namespace, run, request)
            inner = _at_rest(store, namespace, child, seqs) if child is not None else None
            if inner is None:
                return None
            found.append(inner)
    resting = {standing.status: standing for standing in reversed(found) if standing.status in ("blocked", "waiting")}
    return resting.get("blocked") or resting.get("waiting")


def _quietly(watch: Callable[[], None]) -> None:
    with suppress(ReenactError):  # whoever carries the run meets the same trouble, and tells
        watch()
