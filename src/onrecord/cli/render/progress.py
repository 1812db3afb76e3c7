"""A bar on stderr for whatever takes more than a second, when somebody is watching: how far it is, how long it takes.

Whoever knows how much there is tells it by `step`. What reads a run without telling is watched through its store.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the store's modules are loaded only when one is opened
    from onrecord.store.contract import EventRow

FIRST_AFTER_SECONDS = 1.0
REDRAWN_EVERY_SECONDS = 0.2
BAR_CELLS = 24
NARROWEST_WITH_BAR = 60
_CLEAR = "\r\x1b[2K"


class Progress:
    """A context manager. `step` is told how far things are; without a total the elapsed time alone is shown."""

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
        from onrecord.cli.render.output import terminal_width, writable

        began = time.monotonic()
        drawn = False
        wait = FIRST_AFTER_SECONDS
        while not self._stopped.wait(wait):
            line = progress_line(self._label, *self._done, time.monotonic() - began, terminal_width())
            self._write(_CLEAR + writable(line, sys.stderr))
            drawn, wait = True, REDRAWN_EVERY_SECONDS
        if drawn:
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            self._stopped.set()  # nobody watches any more; the work goes on


def progress_line(label: str, done: int, total: int, seconds: float, width: int) -> str:
    """As much of it as fits without wrapping: a wrapped line could not be drawn over."""
    from onrecord.cli.render.text import duration_text, fit

    took = f"{seconds:.0f} s"
    if not total:
        return fit(f"{label}{f' {done:,}' if done else ''}, {took}", width - 1)
    share = min(1.0, done / total)
    parts = [f"{label} {100 * share:.0f} %"]
    if width >= NARROWEST_WITH_BAR:
        full = int(share * BAR_CELLS)
        parts.append("━" * full + "─" * (BAR_CELLS - full))
    parts.append(took)
    if 0 < share < 1:
        parts.append(f"about {duration_text(round(seconds * (1 - share) / share) * 1_000_000)} left")
    return fit("  ".join(parts), width - 1)


class Watched:
    """A store that tells how many events were read of it; in all other things it is the store itself."""

    def __init__(self, store: Any, progress: Progress, total: int) -> None:
        self._store = store
        self._progress = progress
        self._total = total
        self._read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def scan(self, *place: Any, **options: Any) -> Iterator[EventRow]:
        for row in self._store.scan(*place, **options):
            self._read += 1
            self._progress.step(min(self._read, self._total), self._total)
            yield row
