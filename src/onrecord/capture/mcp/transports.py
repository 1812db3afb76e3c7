"""What an MCP session travels by: a server's process, HTTP, a server in this process.

A transport belongs to no lane: whatever it starts (the process, tasks that read and write, requests) is inside the
effect that opened it. A replay opens none. A run that comes back opens one with its first call that is not on record.

Whatever is entered has to be left in the same task, so a task of its own keeps it open.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

from reenact.capture.seams.hooks import lane_here
from reenact.core.events import ActionRequested
from reenact.effect.boundary import perform
from reenact.effect.tickets import EffectSpec

_LINK = "_reenact_transport"
_CONNECT = EffectSpec("mcp connect", "tool_call", once=False)
_CLOSE = EffectSpec("mcp close", "tool_call", once=False)

Manager = AbstractAsyncContextManager[Any]


class Transport:
    """As far as it is open. Used inside of effects alone."""

    def __init__(self, make: Callable[[], Manager]) -> None:
        self._make = make
        self._keeper: asyncio.Task[None] | None = None
        self._entered: asyncio.Future[Any] | None = None
        self._left = asyncio.Event()

    async def streams(self) -> Any:
        """Those of the library, to read from and to write to."""
        if self._entered is None:
            loop = asyncio.get_running_loop()
            self._entered = loop.create_future()
            self._keeper = loop.create_task(self._keep(self._entered))
            self._keeper.add_done_callback(_seen)
        return await asyncio.shield(self._entered)

    async def open(self) -> None:
        await self.streams()

    async def close(self) -> None:
        self.leave()
        if self._keeper is not None:
            await asyncio.shield(self._keeper)

    def leave(self) -> None:
        self._left.set()

    async def _keep(self, entered: asyncio.Future[Any]) -> None:
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


def _seen(task: asyncio.Task[None]) -> None:
    """Its error is for whoever closes it, if anybody does."""
    if not task.cancelled():
        task.exception()


def transport_of(stream: Any) -> Transport | None:
    """The one behind a stream that a program was given; None if it is the program's own."""
    found = getattr(stream, _LINK, None)
    return found if isinstance(found, Transport) else None


class RecordedManager:
    """In place of what a transport's function returns: entered in a lane, it is an effect to connect and to close."""

    def __init__(self, make: Callable[[], Manager], target: Mapping[str, Any]) -> None:
        self._make = make
        self._target = dict(target)
        self._plain: Manager | None = None
        self._transport: Transport | None = None
        self._stand_ins: tuple[Any, ...] = ()

    async def __aenter__(self) -> Any:
        if lane_here() is None:
            self._plain = self._make()
            return await self._plain.__aenter__()
        self._transport = Transport(self._make)
        await perform(_CONNECT, partial(_requested, _CONNECT, self._target), self._transport.open)
        streams = sys.modules["anyio"].create_memory_object_stream
        to_program, to_server = streams(0), streams(0)
        self._stand_ins = (*to_program, *to_server)
        read, write = to_program[1], to_server[0]
        setattr(read, _LINK, self._transport)
        return read, write

    async def __aexit__(self, *reason: Any) -> bool | None:
        if self._plain is not None:
            return await self._plain.__aexit__(*reason)
        assert self._transport is not None
        for stream in self._stand_ins:
            stream.close()
        try:
            await perform(_CLOSE, partial(_requested, _CLOSE, self._target), self._transport.close)
        finally:
            self._transport.leave()
        return None


def _requested(spec: EffectSpec, target: Mapping[str, Any], key: str) -> ActionRequested:
    return ActionRequested(key, dict(target), spec.name, spec.kind)
