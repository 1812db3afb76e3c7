"""One request of an MCP session as an effect.

Where the server may have something to say before it answers (progress, log messages, questions to the client), that
comes as the parts of a stream: the program's callbacks are called in the lane that asked, now and in every replay, so
that what they do themselves is on record like everything else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from reenact.core.events import ActionRequested, ActionSucceeded, Event
from reenact.effect.boundary import perform
from reenact.effect.lanes import Lane
from reenact.effect.streams import Stream
from reenact.effect.tickets import Answers, EffectSpec

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
_OF_THE_CLIENT = ("clientInfo", "clientCapabilities", "protocolVersion")
"""Ends of names in `_meta`: what every request says about its sender. It takes no part, like the headers of HTTP."""
PROGRESS, NOTIFICATION, QUESTION = "progress", "notification", "question"
Part = dict[str, list[Any]]
"""`{"progress 2": […]}`. Each has a name of its own: texts of one name would be taken for one text that goes on."""
_log = logging.getLogger("mcp.client")


class Handlers(NamedTuple):
    """What the session does with what comes from the server."""

    on_request: Callable[..., Awaitable[Any]]
    on_notify: Callable[..., Awaitable[None]]
    intercept: Callable[..., bool] | None


class Asked(NamedTuple):
    """In place of the context of a question: all that a session needs of it."""

    request_id: Any


class McpCall:
    def __init__(self, method: str, params: Mapping[str, Any] | None, options: Mapping[str, Any] | None) -> None:
        self.method = method
        self._params, self._options = params, dict(options or {})
        self._on_progress = self._options.get("on_progress")
        tool = params.get("name") if method == TOOL_CALL and params else None
        name = f"mcp {tool if isinstance(tool, str) else method}"
        self.spec = EffectSpec(name, "tool_call", method not in _REPEATABLE)
        self.payload: dict[str, Any] = {"method": method, "params": _recorded(params)}
        self._came: asyncio.Queue[Part | None] = asyncio.Queue()
        self._parts_came = 0
        self._replies: dict[int, asyncio.Future[Any]] = {}
        self.raw: Any = None

    @property
    def has_progress(self) -> bool:
        return self._on_progress is not None

    def make(self, key: str) -> ActionRequested:
        meta = {"once": True} if self.spec.once else None
        return ActionRequested(key, self.payload, self.spec.name, self.spec.kind, meta)

    # As a whole

    async def whole(self, send: Callable[..., Awaitable[Any]]) -> Any:
        """`send` is given method, parameters and options, inside the effect."""

        async def carry_out(method: str, params: Any) -> Any:
            return await send(method, self._sent(params), self._options)

        return await perform(self.spec, self.make, partial(carry_out, **self.payload))

    # Part by part

    async def streamed(self, lane: Lane, send: Callable[..., Awaitable[Any]], handlers: Handlers) -> Any:
        stream = Stream(
            lane, self.spec._replace(answers=_Answers(self)), self.make, partial(self._parts, send, **self.payload)
        )
        async for part in stream:
            await self._deliver(part, handlers)
        return stream.result[-1] if isinstance(stream.result, list) else stream.result

    async def _parts(self, send: Callable[..., Awaitable[Any]], method: str, params: Any) -> AsyncIterator[Part]:
        options = {**self._options, "on_progress": self._progress} if self.has_progress else self._options
        sending = asyncio.ensure_future(send(method, self._sent(params), options))
        sending.add_done_callback(lambda _: self._came.put_nowait(None))
        try:
            while (part := await self._came.get()) is not None:
                yield part
            self.raw = await sending
        finally:
            sending.cancel()
            await asyncio.wait([sending])

    async def _progress(self, progress: float, total: float | None, message: str | None) -> None:
        self._put(PROGRESS, progress, total, message)

    def notified(self, method: str, params: Any) -> None:
        self._put(NOTIFICATION, method, params)

    async def question(self, request_id: Any, method: str, params: Any) -> Any:
        """The server asks while it is asked; the answer comes from the lane."""
        number = len(self._replies)
        reply = self._replies[number] = asyncio.get_running_loop().create_future()
        self._put(QUESTION, method, params, request_id, number)
        return await reply

    def _put(self, kind: str, *given: Any) -> None:
        self._parts_came += 1
        self._came.put_nowait({f"{kind} {self._parts_came}": list(given)})

    async def _deliver(self, part: Part, handlers: Handlers) -> None:
        ((name, given),) = part.items()
        kind = name.partition(" ")[0]
        if kind == PROGRESS:
            await _contained(self._on_progress, given)
        elif kind == NOTIFICATION:
            if handlers.intercept is None or not handlers.intercept(*given):
                await _contained(handlers.on_notify, (Asked(None), *given))
        elif kind == QUESTION:
            method, params, request_id, number = given
            reply = self._replies.get(number)
            try:
                answer = await handlers.on_request(Asked(request_id), method, params)
            except Exception as error:
                if reply is not None and not reply.done():
                    reply.set_exception(error)
            else:
                if reply is not None and not reply.done():
                    reply.set_result(answer)

    def _sent(self, params: Any) -> Any:
        """With what was left out of the record."""
        ours = _meta(self._params, ours=True)
        if not ours:
            return params
        return {**(params or {}), "_meta": {**((params or {}).get("_meta") or {}), **ours}}


class _Answers(Answers):
    def __init__(self, call: McpCall) -> None:
        self._call = call

    def done(self, key: str, value: list[Part]) -> Event:
        """All that came, where there was more than the answer."""
        return ActionSucceeded(key, [*value, self._call.raw] if value else self._call.raw)


async def _contained(callback: Callable[..., Awaitable[None]] | None, given: Any) -> None:
    """An error of a callback is the callback's, as without us."""
    if callback is None:
        return
    try:
        await callback(*given)
    except Exception:
        _log.exception("a callback raised")


def _recorded(params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not params:
        return None
    kept = {name: value for name, value in params.items() if name != "_meta"}
    meta = _meta(params, ours=False)
    return {**kept, "_meta": meta} if meta else kept


def _meta(params: Mapping[str, Any] | None, *, ours: bool) -> dict[str, Any]:
    found = (params or {}).get("_meta")
    if not isinstance(found, Mapping):
        return {}
    return {name: value for name, value in found.items() if name.endswith(_OF_THE_CLIENT) is ours}
