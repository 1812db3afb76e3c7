"""Request of an MCP session as an effect.

If the server may send messages before its answer (progress, logs, questions to the client), they are recorded as the
parts of a stream. The program's callbacks are called in the lane of the request, while recording and in every replay,
so their own effects are recorded, too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from onrecord.core.events import ActionRequested, ActionSucceeded, Event
from onrecord.runtime.engine.boundary import perform
from onrecord.runtime.engine.context import Lane
from onrecord.runtime.engine.open_effect import Answers, EffectSpec
from onrecord.runtime.engine.streams import Stream

TOOL_CALL = "tools/call"
_REPEATABLE = frozenset(
    {
        "completion/complete",
        "initialize",
        "logging/setLevel",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "subscriptions/listen",
        "tools/list",
    }
)
_CLIENT_META = ("clientInfo", "clientCapabilities", "protocolVersion")
"""Suffixes of names in `_meta` that describe the client. They are not recorded, like the client's HTTP headers."""
PROGRESS, NOTIFICATION, QUESTION = "progress", "notification", "question"
Part = dict[str, list[Any]]
"""Part of a conversation, `{"progress 2": […]}`. Names are numbered: texts with the same name would be joined."""
_log = logging.getLogger("mcp.client")


class Handlers(NamedTuple):
    """Handlers of the session for messages of the server."""

    on_request: Callable[..., Awaitable[Any]]
    on_notify: Callable[..., Awaitable[None]]
    intercept: Callable[..., bool] | None


class SessionContext(NamedTuple):
    """Context of a server's question, with the only field that a session uses."""

    request_id: Any


class McpCall:
    def __init__(self, method: str, params: Mapping[str, Any] | None, options: Mapping[str, Any] | None) -> None:
        self.method = method
        self._params, self._options = params, dict(options or {})
        self._on_progress = self._options.get("on_progress")
        tool = params.get("name") if method == TOOL_CALL and params else None
        name = f"mcp {tool if isinstance(tool, str) else method}"
        self.spec = EffectSpec(name, "tool_call", method not in _REPEATABLE)
        self.payload: dict[str, Any] = {"method": method, "params": _recorded_params(params)}
        self._messages: asyncio.Queue[Part | None] = asyncio.Queue()
        self._message_count = 0
        self._replies: dict[int, asyncio.Future[Any]] = {}
        self.raw: Any = None

    @property
    def has_progress(self) -> bool:
        return self._on_progress is not None

    def make_event(self, key: str) -> ActionRequested:
        meta = {"once": True} if self.spec.once else None
        return ActionRequested(key, self.payload, self.spec.name, self.spec.kind, meta=meta)

    # Whole answers

    async def perform_whole(self, send: Callable[..., Awaitable[Any]]) -> Any:
        """Perform the request. `send` receives the method, the parameters and the options, inside the effect."""

        async def execute(method: str, params: Any) -> Any:
            return await send(method, self._params_to_send(params), self._options)

        return await perform(self.spec, self.make_event, partial(execute, **self.payload))

    # Streams

    async def perform_streamed(self, lane: Lane, send: Callable[..., Awaitable[Any]], handlers: Handlers) -> Any:
        stream = Stream(
            lane,
            self.spec._replace(answers=_Answers(self)),
            self.make_event,
            partial(self._stream_messages, send, **self.payload),
        )
        async for part in stream:
            await self._deliver(part, handlers)
        return stream.result[-1] if isinstance(stream.result, list) else stream.result

    async def _stream_messages(
        self, send: Callable[..., Awaitable[Any]], method: str, params: Any
    ) -> AsyncIterator[Part]:
        options = {**self._options, "on_progress": self._report_progress} if self.has_progress else self._options
        sending = asyncio.ensure_future(send(method, self._params_to_send(params), options))
        sending.add_done_callback(lambda _: self._messages.put_nowait(None))
        try:
            while (part := await self._messages.get()) is not None:
                yield part
            self.raw = await sending
        finally:
            sending.cancel()
            await asyncio.wait([sending])

    async def _report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self._put_message(PROGRESS, progress, total, message)

    def add_notification(self, method: str, params: Any) -> None:
        self._put_message(NOTIFICATION, method, params)

    async def ask_program(self, request_id: Any, method: str, params: Any) -> Any:
        """Pass a question of the server to the lane of this request and return the lane's reply."""
        number = len(self._replies)
        reply = self._replies[number] = asyncio.get_running_loop().create_future()
        self._put_message(QUESTION, method, params, request_id, number)
        return await reply

    def _put_message(self, kind: str, *arguments: Any) -> None:
        self._message_count += 1
        self._messages.put_nowait({f"{kind} {self._message_count}": list(arguments)})

    async def _deliver(self, part: Part, handlers: Handlers) -> None:
        ((name, arguments),) = part.items()
        kind = name.partition(" ")[0]
        if kind == PROGRESS:
            await _call_safely(self._on_progress, arguments)
        elif kind == NOTIFICATION:
            if handlers.intercept is None or not handlers.intercept(*arguments):
                await _call_safely(handlers.on_notify, (SessionContext(None), *arguments))
        elif kind == QUESTION:
            method, params, request_id, number = arguments
            reply = self._replies.get(number)
            try:
                answer = await handlers.on_request(SessionContext(request_id), method, params)
            except Exception as error:
                if reply is not None and not reply.done():
                    reply.set_exception(error)
            else:
                if reply is not None and not reply.done():
                    reply.set_result(answer)

    def _params_to_send(self, params: Any) -> Any:
        """Return the parameters to send: the recorded ones and the client's `_meta`."""
        client_meta = _select_meta(self._params, of_client=True)
        if not client_meta:
            return params
        return {**(params or {}), "_meta": {**((params or {}).get("_meta") or {}), **client_meta}}


class _Answers(Answers):
    def __init__(self, call: McpCall) -> None:
        self._call = call

    def done(self, key: str, value: list[Part]) -> Event:
        """Return the success event: the answer, or a list of all messages and the answer."""
        return ActionSucceeded(key, [*value, self._call.raw] if value else self._call.raw)


async def _call_safely(callback: Callable[..., Awaitable[None]] | None, arguments: Any) -> None:
    """Call a callback and log its error, as the library does."""
    if callback is None:
        return
    try:
        await callback(*arguments)
    except Exception:
        _log.exception("a callback raised")


def _recorded_params(params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not params:
        return None
    recorded = {name: value for name, value in params.items() if name != "_meta"}
    meta = _select_meta(params, of_client=False)
    return {**recorded, "_meta": meta} if meta else recorded


def _select_meta(params: Mapping[str, Any] | None, *, of_client: bool) -> dict[str, Any]:
    found = (params or {}).get("_meta")
    if not isinstance(found, Mapping):
        return {}
    return {name: value for name, value in found.items() if name.endswith(_CLIENT_META) is of_client}
