"""A run in the background, and the handle to wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context
from typing import Any

from onrecord.runtime.api.settle import cancel
from onrecord.store.contract import Store


class RunHandle:
    """A run that `Agent.start` started in a thread of its own."""

    def __init__(self, run_id: str, store: Store, namespace: str, work: Callable[[], Any], *, is_async: bool) -> None:
        self.run_id = run_id
        self._store = store
        self._namespace = namespace
        self._future: Future[Any] = Future()
        self._work = work
        self._is_async = is_async
        # An empty context: the run does not belong to the lane that started it.
        thread = threading.Thread(target=self._execute, name=f"onrecord-{run_id}", daemon=True)
        Context().run(thread.start)

    def _execute(self) -> None:
        try:
            result = self._work()
            self._future.set_result(asyncio.run(result) if self._is_async else result)
        except BaseException as error:
            self._future.set_exception(error)

    def result(self, timeout: float | None = None) -> Any:
        """Return the agent's result, or raise its error. Raise `TimeoutError` if the run does not end in time."""
        return self._future.result(timeout)

    def done(self) -> bool:
        return self._future.done()

    def cancel(self) -> None:
        """Request the end of the run. It ends after the agent has cleaned up."""
        cancel(self._store, self.run_id, self._namespace)
