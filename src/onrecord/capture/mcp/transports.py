"""Transports of MCP sessions: a server's process, HTTP, or a server in this process.

A transport belongs to no lane: whatever it starts (the process, tasks that read and write, requests) is inside the
effect that opened it. A replay opens none. A resumed run opens one with its first call that is not recorded.

A library's context manager must be entered and left in the same task, so a task of its own keeps it open.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

from onrecord.core.events import ActionRequested
from onrecord.runtime.engine.boundary import perform
from onrecord.runtime.engine.context import current_lane
from onrecord.runtime.engine.open_effect import EffectSpec

_LINK = "_onrecord_transport"
_CONNECT = EffectSpec("mcp connect", "tool_call", once=False)
_CLOSE = EffectSpec("mcp close", "tool_call", once=False)

Manager = AbstractAsyncContextManager[Any]


class Transport:
    """Library transport that is opened on demand. Used only inside effects."""

    def __init__(self, make: Callable[[], Manager]) -> None:
        self._make = make
        self._holder: asyncio.Task[None] | None = None
        self._entered: asyncio.Future[Any] | None = None
        self._left = asyncio.Event()

    async def streams(self) -> Any:
        """Open the transport if necessary, and return the library's streams to read and to write."""
        if self._entered is None:
            loop = asyncio.get_running_loop()
            self._entered = loop.create_future()
            self._holder = loop.create_task(self._hold_open(self._entered))
            self._holder.add_done_callback(_retrieve_error)
        return await asyncio.shield(self._entered)

    async def open(self) -> None:
        await self.streams()

    async def close(self) -> None:
        self.leave()
        if self._holder is not None:
            await asyncio.shield(self._holder)

    def leave(self) -> None:
        self._left.set()

    async def _hold_open(self, entered: asyncio.Future[Any]) -> None:
        try:
            async with self._make() as streams:
                entered.set_result(streams)
                await self._left.wait()
        except BaseException as error:
            if entered.done():
                raise
            if isinstance(error, Exception):
                entered.set_exception(error)
            else:
                entered.cancel()
                raise


def _retrieve_error(task: asyncio.Task[None]) -> None:
    """Mark the task's error as retrieved: `close` raises it, if it is called."""
    if not task.cancelled():
        task.exception()


def find_transport(stream: Any) -> Transport | None:
    """Return the transport of a stream that `RecordedManager` gave to the program, or None for any other stream."""
    found = getattr(stream, _LINK, None)
    return found if isinstance(found, Transport) else None


class RecordedManager:
    """Context manager of a transport. Entered in a lane, connecting and closing are effects."""

    def __init__(self, make: Callable[[], Manager], target: Mapping[str, Any]) -> None:
        self._make = make
        self._target = dict(target)
        self._unrecorded: Manager | None = None
        self._transport: Transport | None = None
        self._idle_streams: tuple[Any, ...] = ()

    async def __aenter__(self) -> Any:
        if current_lane() is None:
            self._unrecorded = self._make()
            return await self._unrecorded.__aenter__()
        self._transport = Transport(self._make)
        await perform(_CONNECT, partial(_make_event, _CONNECT, self._target), self._transport.open)
        streams = sys.modules["anyio"].create_memory_object_stream
        to_program, to_server = streams(0), streams(0)
        self._idle_streams = (*to_program, *to_server)
        read, write = to_program[1], to_server[0]
        setattr(read, _LINK, self._transport)
        return read, write

    async def __aexit__(self, *reason: Any) -> bool | None:
        if self._unrecorded is not None:
            return await self._unrecorded.__aexit__(*reason)
        assert self._transport is not None
        for stream in self._idle_streams:
            stream.close()
        try:
            await perform(_CLOSE, partial(_make_event, _CLOSE, self._target), self._transport.close)
        finally:
            self._transport.leave()
        return None


def _make_event(spec: EffectSpec, target: Mapping[str, Any], key: str) -> ActionRequested:
    return ActionRequested(key, dict(target), spec.name, spec.kind)
