"""Blocking work off the event loop: so many threads, so many waiting for one, and nobody beyond that."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from onrecord.web.responses import busy

T = TypeVar("T")


class Threads:
    def __init__(self, name: str, threads: int, waiting: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"onrecord-web-{name}")
        self._most = threads + waiting
        self._taken = 0
        self._lock = threading.Lock()

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Whoever stops waiting leaves the work to end by itself; its place is free only then."""
        with self._lock:
            if self._taken >= self._most:
                raise busy("too many requests at once")
            self._taken += 1
        try:
            future = self._pool.submit(work, *arguments)
        except RuntimeError:  # closing
            self._free()
            raise busy("this server is about to end") from None
        future.add_done_callback(self._free)
        return await asyncio.wrap_future(future)

    def _free(self, _: Future[Any] | None = None) -> None:
        with self._lock:
            self._taken -= 1

    def close(self) -> None:
        """Does not wait: what is under way ends when its store is closed."""
        self._pool.shutdown(wait=False, cancel_futures=True)
