"""Installation of the interceptors of runs, which belong to a layer above the one that executes runs.

The package itself sets it (`onrecord/__init__.py`); the process of a recorded program has installed its own.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing `typing` for it would slow every start
if TYPE_CHECKING:
    from collections.abc import Callable


def install_nothing() -> None: ...


install: Callable[[], None] = install_nothing
"""Install the interceptors for the rest of this process. Called at the beginning of each run."""
