"""A run that goes on in the background, and a handle to wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context
from typing import Any

from reenact.effect.settling import cancel
from reenact.store.contract import Store


class RunHandle:
    """Made by `Agent.start`."""

    def __init__(self, run_id: str, store: Store, namespace: str, work: Callable[[], Any], *, is_async: bool) -> None:
        self.run_id = run_id
        self._store = store
        self._namespace = namespace
        self._future: Future[Any] = Future()
        self._work = work
        self._is_async = is_async
        # A thread that belongs to nobody's lane: the run is its own, whoever started it.
        thread = threading.Thread(target=self._carry, name=f"reenact-{run_id}", daemon=True)
        Context().run(thread.start)

    def _carry(self) -> None:
        try:
            made = self._work()
            self._future.set_result(asyncio.run(_awaited(made)) if self._is_async else made)
        except BaseException as error:
            self._future.set_exception(error)

    def result(self, timeout: float | None = None) -> Any:
        """What the agent returned, or raises what it raised. `TimeoutError` while it is not over."""
        return self._future.result(timeout)

    def done(self) -> bool:
        return self._future.done()

    def cancel(self) -> None:
        """Asks the run to end; it ends when the agent has cleaned up."""
        cancel(self._store, self.run_id, self._namespace)


async def _awaited(made: Any) -> Any:
    return await made
