"""What the tests of waits share: a clock to turn, stores that count, other processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from reenact.journal.sources import SystemSources
from reenact.store.contract import Store

ROOT = Path(__file__).parents[3]


class TurnedClock(SystemSources):
    """The real sources with a clock that the test turns."""

    def __init__(self, now_us: int = 1_800_000_000_000_000) -> None:
        self.now = now_us

    def now_us(self) -> int:
        return self.now


class CountingStore:
    """Passes everything on and counts the calls."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def counted(*arguments: Any, **options: Any) -> Any:
            self.calls[name] += 1
            return found(*arguments, **options)

        return counted


def python(code: str, *arguments: str, key_file: Path) -> subprocess.Popen[str]:
    """Another process. It says `ready`, and goes on when a line comes."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "REENACT_KEY_FILE": str(key_file)},
    )


def operations(store: Store, namespace: str = "default") -> list[tuple[str, Any]]:
    """What the operations journal says."""
    from reenact.core.links import OPERATIONS_RUN
    from reenact.journal.reader import JournalReader

    if store.run_row(namespace, OPERATIONS_RUN) is None:
        return []
    events = JournalReader(store, OPERATIONS_RUN, namespace).scan()
    return [(one.event.operation, one.event.detail) for one in events if one.kind == "OperationNoted"]
