"""A line on stderr for whatever takes more than a second, when somebody is watching."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

FIRST_AFTER_SECONDS = 1.0
REDRAWN_EVERY_SECONDS = 0.2
_CLEAR = "\r\x1b[2K"


class Progress:
    """A context manager. `step` is told how far things are; without it the elapsed time alone is shown."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._done = (0, 0)
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def step(self, done: int, total: int) -> None:
        self._done = (done, total)

    def __enter__(self) -> Progress:
        if sys.stderr is not None and sys.stderr.isatty():
            self._thread = threading.Thread(target=self._draw, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _draw(self) -> None:
        began = time.monotonic()
        drawn = False
        wait = FIRST_AFTER_SECONDS
        while not self._stopped.wait(wait):
            done, total = self._done
            share = f" {100 * done // total} %" if total else ""
            self._write(f"{_CLEAR}{self._label}{share}, {time.monotonic() - began:.0f} s")
            drawn, wait = True, REDRAWN_EVERY_SECONDS
        if drawn:
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            self._stopped.set()  # nobody watches any more; the work goes on
