"""In place of the dispatcher of an MCP session, through which everything passes that it asks and is told.

In a lane of a run a request is an effect. The library's own dispatcher is set to work when the first of them is carried
out, and never in a replay. A server that was told the handshake by an earlier process is told it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from reenact.capture.guard import guard
from reenact.capture.mcp.calls import Handlers, McpCall
from reenact.capture.mcp.transports import transport_of
from reenact.capture.seams.hooks import lane_here
from reenact.effect.divergences import source_line
from reenact.effect.places import nobody

_INITIALIZE, _INITIALIZED, _LISTEN = "initialize", "notifications/initialized", "subscriptions/listen"
_APPLIED_BELOW = frozenset({"notifications/cancelled", "notifications/progress"})
Message = tuple[str, Any, Any]


class RecordedDispatcher:
    def __init__(self, real: Any, has_callbacks: Callable[[], bool]) -> None:
        self._real = real
        self._line = source_line()
        self._transport = transport_of(getattr(real, "_read_stream", None))
        self._has_callbacks = has_callbacks
        self._handlers: Handlers | None = None
        """The session's; None where it was begun outside of any run."""
        self._worker: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._is_shaken = False
        self._handshake: list[Message] = []
        self._outbox: list[Message] = []
        self._posting: asyncio.Task[None] | None = None
        self._under_way: list[McpCall] = []
        self._unclaimed: list[tuple[str, Any]] = []
        """What the server said while nobody asked: told with the next request."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    # As the session uses it

    async def run(
        self, on_request: Any, on_notify: Any, on_notify_intercept: Any = None, *, task_status: Any = None
    ) -> None:
        if lane_here() is None:
            options = {} if task_status is None else {"task_status": task_status}
            await self._real.run(on_request, on_notify, on_notify_intercept, **options)
            return
        self._handlers = Handlers(on_request, on_notify, on_notify_intercept)
        if task_status is not None:
            task_status.started()
        try:
            await asyncio.Event().wait()
        finally:
            if self._worker is not None:
                self._worker.cancel()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: Mapping[str, Any] | None = None, **further: Any
    ) -> Any:
        lane = lane_here()
        if lane is None or further:
            return await self._send(method, params, opts, **further)
        if method == _INITIALIZE:
            self._handshake = [(method, params, opts)]
        call = McpCall(method, params, opts)
        if self._handlers is None or not (call.has_progress or method == _LISTEN or self._has_callbacks()):
            return await call.whole(self._send)
        unclaimed, self._unclaimed = self._unclaimed, []
        for one in unclaimed:
            call.notified(*one)
        self._under_way.append(call)
        try:
            return await call.streamed(lane, self._send, self._handlers)
        finally:
            self._under_way.remove(call)

    async def notify(self, method: str, params: Any, opts: Any = None) -> None:
        lane = lane_here()
        if lane is None or self._handlers is None:
            await self._real.notify(method, params, opts)
            return
        if method == _INITIALIZED:
            self._handshake.append((method, params, opts))
            if not self._is_shaken:
                return  # an earlier process has told it
        if lane.run.journal is not None and lane.run.is_live:
            self._outbox.append((method, params, opts))
            if self._worker is not None:
                self._posting = asyncio.get_running_loop().create_task(self._post(), context=nobody())

    # To the server, inside of effects

    async def _send(self, method: str, params: Any, opts: Any, **further: Any) -> Any:
        if self._handlers is not None:
            await self._begin(is_handshake=method == _INITIALIZE)
        return await self._real.send_raw_request(method, params, opts, **further)

    async def _begin(self, *, is_handshake: bool) -> None:
        async with self._starting:
            if self._worker is None:
                if self._transport is not None:
                    self._real._read_stream, self._real._write_stream = await self._transport.streams()
                started = _Started()
                self._worker = asyncio.get_running_loop().create_task(self._work(started))
                await started.wait_for(self._worker)
            if not self._is_shaken:
                self._is_shaken = True
                if self._handshake and not is_handshake:
                    request, *after = self._handshake
                    await self._real.send_raw_request(*request)
                    for message in after:
                        await self._real.notify(*message)
            await self._post_all()

    async def _work(self, started: _Started) -> None:
        await self._real.run(self._asked, self._notified, self._claimed, task_status=started)

    async def _post(self) -> None:
        async with self._starting:
            await self._post_all()

    async def _post_all(self) -> None:
        while self._outbox:
            await self._real.notify(*self._outbox.pop(0))

    # From the server

    async def _asked(self, context: Any, method: str, params: Any) -> Any:
        if self._under_way and method != "ping":
            return await self._under_way[0].question(context.request_id, method, params)
        assert self._handlers is not None
        if method != "ping":
            guard.note(f"a question of an MCP server ({method})", self._line)
        return await self._handlers.on_request(context, method, params)

    def _claimed(self, method: str, params: Any) -> bool:
        """In the order in which it came. True: nobody else is to be told."""
        if method in _APPLIED_BELOW or not (self._has_callbacks() or self._under_way):
            return False
        params = dict(params) if isinstance(params, Mapping) else params
        if self._under_way:
            self._under_way[0].notified(method, params)
        else:
            self._unclaimed.append((method, params))
        return True

    async def _notified(self, context: Any, method: str, params: Any) -> None:
        """What is applied below, and what nobody wants to know."""


class _Started:
    """What a task is given that says when it has begun."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def started(self, value: Any = None) -> None:
        self._event.set()

    async def wait_for(self, task: asyncio.Task[None]) -> None:
        begun = asyncio.ensure_future(self._event.wait())
        await asyncio.wait([begun, task], return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
