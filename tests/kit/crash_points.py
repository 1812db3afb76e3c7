"""Points at which a process can be told to die, counted as they are passed: every call of the store that writes, before
and after it, and whatever else calls `pass_by`.

`die_at=None` counts only, which tells how many there are.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

WRITING = (
    *("create_run", "claim", "append", "append_many", "inbox_put", "put_artifact", "release", "sync"),
    *("put_snapshot", "delete_snapshot"),
)


class Points:
    def __init__(self) -> None:
        self.die_at: int | str | None = None
        """The number of the point to die at, or `name:n`: where that name is passed for the n-th time."""
        self.passed: list[str] = []
        self._lock = threading.Lock()

    def pass_by(self, name: str) -> None:
        with self._lock:
            self.passed.append(name)
            if self.die_at in (len(self.passed), f"{name}:{self.passed.count(name)}"):
                os.kill(os.getpid(), signal.SIGKILL)


points = Points()


class WatchedStore:
    """A store that passes a point before and after everything that it writes."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in WRITING:
            return found

        def watched(*args: Any, **options: Any) -> Any:
            points.pass_by(f"before {name}")
            result = found(*args, **options)
            points.pass_by(f"after {name}")
            return result

        return watched
