"""A coroutine in asyncio's own loop, in a thread of its own, awaited by another kind of loop, such as uvloop's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from typing import Any


async def await_in_own_loop(make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Await the coroutine that `make` makes in a new loop. A cancellation of the caller cancels it there."""
    loop, is_cancelled = asyncio.get_running_loop(), threading.Event()
    came: asyncio.Future[Any] = loop.create_future()
    tasks: list[asyncio.Task[Any]] = []

    async def main() -> Any:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        if is_cancelled.is_set():
            raise asyncio.CancelledError
        return await make()

    def settle(result: Any, error: BaseException | None) -> None:
        if came.done():
            return
        if error is None:
            came.set_result(result)
        elif isinstance(error, asyncio.CancelledError):
            came.cancel()
        else:
            came.set_exception(error)

    def work() -> None:
        result, error = None, None
        try:
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                result = runner.run(main(), context=copy_context())
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the waiting loop was closed
            loop.call_soon_threadsafe(settle, result, error)

    context = copy_context()
    thread = threading.Thread(target=lambda: context.run(work), name="onrecord-loop", daemon=True)
    thread.start()
    try:
        return await asyncio.shield(came)
    except asyncio.CancelledError:
        is_cancelled.set()
        for task in tasks:
            with suppress(RuntimeError):  # its loop was closed: it has ended
                task.get_loop().call_soon_threadsafe(task.cancel)
        await asyncio.wait([came])
        raise
