"""Dispatcher of an MCP session, which all its messages pass: in a lane of a run each request is an effect.

The library's own dispatcher starts when the first request is executed, and never in a replay. If an earlier process did
the handshake with the server, a resumed run repeats it with the new connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from onrecord.capture.mcp.calls import Handlers, McpCall
from onrecord.capture.mcp.transports import find_transport
from onrecord.capture.unrecorded import guard
from onrecord.runtime.engine.context import current_lane, inside
from onrecord.runtime.replay.divergence import source_line

_INITIALIZE, _INITIALIZED, _LISTEN = "initialize", "notifications/initialized", "subscriptions/listen"
_APPLIED_BY_LIBRARY = frozenset({"notifications/cancelled", "notifications/progress"})
Message = tuple[str, Any, Any]


class RecordedDispatcher:
    def __init__(self, real: Any, has_callbacks: Callable[[], bool]) -> None:
        self._real = real
        self._line = source_line()
        self._transport = find_transport(getattr(real, "_read_stream", None))
        self._has_callbacks = has_callbacks
        self._handlers: Handlers | None = None
        """Handlers of the session; None if the session began outside any run."""
        self._worker: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._has_handshake = False
        self._handshake: list[Message] = []
        self._outbox: list[Message] = []
        self._post_task: asyncio.Task[None] | None = None
        self._open_calls: list[McpCall] = []
        self._early_notifications: list[tuple[str, Any]] = []
        """Notifications received between requests. The next request delivers them."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    # Called by the session

    async def run(
        self, on_request: Any, on_notify: Any, on_notify_intercept: Any = None, *, task_status: Any = None
    ) -> None:
        if current_lane() is None:
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
        self, method: str, params: Mapping[str, Any] | None, opts: Mapping[str, Any] | None = None, **extra: Any
    ) -> Any:
        lane = current_lane()
        if lane is None or extra:
            return await self._send(method, params, opts, **extra)
        if method == _INITIALIZE:
            self._handshake = [(method, params, opts)]
        call = McpCall(method, params, opts)
        if self._handlers is None or not (call.has_progress or method == _LISTEN or self._has_callbacks()):
            return await call.perform_whole(self._send)
        early, self._early_notifications = self._early_notifications, []
        for one in early:
            call.add_notification(*one)
        self._open_calls.append(call)
        try:
            return await call.perform_streamed(lane, self._send, self._handlers)
        finally:
            self._open_calls.remove(call)

    async def notify(self, method: str, params: Any, opts: Any = None) -> None:
        lane = current_lane()
        if lane is None or self._handlers is None:
            await self._real.notify(method, params, opts)
            return
        if method == _INITIALIZED:
            self._handshake.append((method, params, opts))
            if not self._has_handshake:
                return  # an earlier process has sent it
        if lane.run.journal is not None and lane.run.is_live:
            self._outbox.append((method, params, opts))
            if self._worker is not None:
                with inside():
                    self._post_task = asyncio.get_running_loop().create_task(self._post_in_background())

    # To the server, inside effects

    async def _send(self, method: str, params: Any, opts: Any, **extra: Any) -> Any:
        if self._handlers is not None:
            await self._ensure_started(is_handshake=method == _INITIALIZE)
        return await self._real.send_raw_request(method, params, opts, **extra)

    async def _ensure_started(self, *, is_handshake: bool) -> None:
        async with self._starting:
            if self._worker is None:
                if self._transport is not None:
                    self._real._read_stream, self._real._write_stream = await self._transport.streams()
                started = _StartSignal()
                self._worker = asyncio.get_running_loop().create_task(self._run_real(started))
                await started.wait_for(self._worker)
            if not self._has_handshake:
                self._has_handshake = True
                if self._handshake and not is_handshake:
                    request, *after = self._handshake
                    await self._real.send_raw_request(*request)
                    for message in after:
                        await self._real.notify(*message)
            await self._post_outbox()

    async def _run_real(self, started: _StartSignal) -> None:
        await self._real.run(self._on_question, self._ignore_notification, self._take_notification, task_status=started)

    async def _post_in_background(self) -> None:
        async with self._starting:
            await self._post_outbox()

    async def _post_outbox(self) -> None:
        while self._outbox:
            await self._real.notify(*self._outbox.pop(0))

    # From the server

    async def _on_question(self, context: Any, method: str, params: Any) -> Any:
        if self._open_calls and method != "ping":
            return await self._open_calls[0].ask_program(context.request_id, method, params)
        assert self._handlers is not None
        if method != "ping":
            guard.note(f"a question of an MCP server ({method})", self._line)
        return await self._handlers.on_request(context, method, params)

    def _take_notification(self, method: str, params: Any) -> bool:
        """Take a notification in the order of arrival. Return True if the library must not handle it, too."""
        if method in _APPLIED_BY_LIBRARY or not (self._has_callbacks() or self._open_calls):
            return False
        params = dict(params) if isinstance(params, Mapping) else params
        if self._open_calls:
            self._open_calls[0].add_notification(method, params)
        else:
            self._early_notifications.append((method, params))
        return True

    async def _ignore_notification(self, context: Any, method: str, params: Any) -> None:
        """Ignore a notification that the library has applied or that no callback handles."""


class _StartSignal:
    """`task_status` of the real dispatcher: reports when it has started."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def started(self, value: Any = None) -> None:
        self._event.set()

    async def wait_for(self, task: asyncio.Task[None]) -> None:
        begun = asyncio.ensure_future(self._event.wait())
        await asyncio.wait([begun, task], return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
