"""aiohttp: a middleware of ours is the innermost of every request that a session makes.

So redirects, cookies, the total time-out and `raise_for_status` stay the library's own, and each request that is sent
is one effect. Nobody says beforehand who reads the body, so it is always read part by part.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncGenerator, Callable
from functools import cache, partial
from types import ModuleType, SimpleNamespace
from typing import Any

from reenact.capture.guard import guard
from reenact.capture.http.effects import AsyncBody, HttpCall
from reenact.capture.http.exchange import Head, Request, header_pairs, upgraded
from reenact.capture.seams.hooks import Replace, lane_here
from reenact.effect.lanes import Lane
from reenact.effect.places import nowhere


def put_into(client: ModuleType, replace: Replace) -> None:
    replace(client.ClientSession, "_request", partial(_request, client))
    replace(client.BaseConnector, "close", _close)


def _close(original: Callable[..., Any], connector: Any, *args: Any, **kwargs: Any) -> Any:
    """Connections are those of effects, and so is what ends them: a replay has none, and makes no task for that."""
    with nowhere():
        return original(connector, *args, **kwargs)


def _request(client: ModuleType, original: Callable[..., Any], session: Any, *args: Any, **kwargs: Any) -> Any:
    lane = lane_here()
    if lane is None:
        return original(session, *args, **kwargs)
    given = kwargs.get("middlewares")
    before = session._middlewares if given is None else given
    limit = kwargs.get("read_bufsize") or session._read_bufsize
    kwargs.update(middlewares=(*before, partial(_recorded, client, lane, limit)), auto_decompress=True)
    return original(session, *args, **kwargs)


async def _recorded(client: ModuleType, lane: Lane, limit: int, request: Any, handler: Callable[..., Any]) -> Any:
    if "upgrade" in request.headers:
        guard.met(lane, upgraded(str(request.url)))
        return await handler(request)
    body = await request.body.as_bytes() if hasattr(request.body, "as_bytes") else bytes(request.body or b"")
    neutral = Request(request.method, str(request.url), header_pairs(request.headers.items()), body)
    parts = AsyncBody(HttpCall(neutral, client.ClientConnectionError), lane, partial(_open, request, handler))
    head = await anext(parts)
    return _response(client, request, head, parts, limit)


async def _open(request: Any, handler: Callable[..., Any], changed: Request | None) -> AsyncGenerator[Any, None]:
    if changed is not None:
        request.method, request.url = changed.method, type(request.url)(changed.url)
        await request.update_body(changed.body)
    response = await handler(request)
    try:
        version = response.version
        yield Head(
            response.status,
            response.reason or "",
            f"HTTP/{version.major}.{version.minor}",
            header_pairs(response.raw_headers),
        )
        while not response.content.at_eof():  # bodies that are empty share one reader, which says so only once
            part, _ = await response.content.readchunk()
            if part:
                yield part
    finally:
        response.release()


class _Connection:
    """What a response has instead of one: told when nobody reads on."""

    protocol = None
    connected = True
    transport = None

    def __init__(self, parts: AsyncBody) -> None:
        self._parts = parts
        self._callbacks: list[Callable[[], None]] = []

    def add_callback(self, callback: Callable[[], None]) -> None:
        if callback is not None:
            self._callbacks.append(callback)

    def release(self) -> None:
        self._parts.leave()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    close = release

    def pause_reading(self) -> None:
        """Parts come when they are asked for, anyway."""

    def resume_reading(self, **_: Any) -> None: ...


def _response(client: ModuleType, request: Any, head: Head, parts: AsyncBody, limit: int) -> Any:
    made = request.response_class
    options = {
        "writer": None,
        "continue100": None,
        "timer": request._timer,
        "request_info": request.request_info,
        "traces": request._traces,
        "loop": request.loop,
        "session": request._session,
        "stream_writer": SimpleNamespace(output_size=0),
    }
    known = _parameters(made)
    response = made(
        request.method, request.original_url, **{name: value for name, value in options.items() if name in known}
    )
    multidict = sys.modules["multidict"]
    headers = multidict.CIMultiDict(head.headers)
    connection = _Connection(parts)
    major, _, minor = head.version.partition("/")[2].partition(".")
    response.version = client.http.HttpVersion(int(major or 1), int(minor or 1))
    response.status, response.reason = head.status, head.reason
    response._headers = multidict.CIMultiDictProxy(headers)
    response._raw_headers = tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in head.headers)
    cookies = headers.getall("set-cookie", ())
    if cookies:
        response._raw_cookie_headers = tuple(cookies)
    response._connection, response._closed = connection, False
    response.content = _reader_class(sys.modules["aiohttp.streams"])(
        connection, limit, request, parts, "chunked" in _framing(headers)
    )
    response.content.on_eof(response._response_eof)
    return response


def _framing(headers: Any) -> str:
    return str(headers.get("transfer-encoding", "")).lower()


@cache
def _parameters(made: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(made).parameters)


@cache
def _reader_class(streams: ModuleType) -> Any:
    base: Any = streams.StreamReader

    class RecordedReader(base):  # type: ignore[misc]
        """Asks for the next part when its reader waits for one."""

        def __init__(self, protocol: Any, limit: int, request: Any, parts: AsyncBody, is_chunked: bool) -> None:
            super().__init__(protocol, limit, timer=request._timer, loop=request.loop)
            self._parts = parts
            self._is_chunked = is_chunked

        async def _wait(self, func_name: str) -> None:
            try:
                with self._timer:
                    part = await anext(self._parts)
            except StopAsyncIteration:
                self.feed_eof()
            except Exception as error:
                self.set_exception(error)
                raise
            else:
                if self._is_chunked:
                    self.begin_http_chunk_receiving()
                self.feed_data(part)
                if self._is_chunked:
                    self.end_http_chunk_receiving()

    return RecordedReader
