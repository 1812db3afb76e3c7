"""aiohttp interceptor: the innermost middleware of every request of a session.

Redirects, cookies, the total time-out and `raise_for_status` stay in the library. Each request sent is one effect.
aiohttp does not say in advance how the body is read, so it is always recorded as a stream.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import suppress
from functools import cache, partial
from types import ModuleType, SimpleNamespace
from typing import Any

from onrecord.capture.http.effects import AsyncBody, HttpCall
from onrecord.capture.http.exchange import RequestParts, ResponseHead, describe_upgrade, header_pairs
from onrecord.capture.interceptors.import_hooks import Replace
from onrecord.capture.unrecorded import guard
from onrecord.runtime.engine.context import Lane, current_lane, inside


def patch(client: ModuleType, replace: Replace) -> None:
    replace(client.ClientSession, "_request", partial(_request, client))
    replace(client.BaseConnector, "close", _close_connector)


def _close_connector(original: Callable[..., Any], connector: Any, *args: Any, **kwargs: Any) -> Any:
    """Close the connections outside any lane: effects opened them, and a replay has none to close and to wait for."""
    with inside():
        closing = original(connector, *args, **kwargs)
    if current_lane() is None:
        return closing
    with suppress(AttributeError):
        closing._awaited = True  # or it warns
    return _Closed()


class _Closed:
    """An awaitable that is done at once: the connections close by themselves."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


def _request(client: ModuleType, original: Callable[..., Any], session: Any, *args: Any, **kwargs: Any) -> Any:
    lane = current_lane()
    if lane is None:
        return original(session, *args, **kwargs)
    passed = kwargs.get("middlewares")
    before = session._middlewares if passed is None else passed
    limit = kwargs.get("read_bufsize") or session._read_bufsize
    kwargs.update(middlewares=(*before, partial(_record_request, client, lane, limit)), auto_decompress=True)
    return original(session, *args, **kwargs)


async def _record_request(client: ModuleType, lane: Lane, limit: int, request: Any, handler: Callable[..., Any]) -> Any:
    if "upgrade" in request.headers:
        guard.refuse_or_count(lane, describe_upgrade(str(request.url)))
        return await handler(request)
    body = await request.body.as_bytes() if hasattr(request.body, "as_bytes") else bytes(request.body or b"")
    request_parts = RequestParts(request.method, str(request.url), header_pairs(request.headers.items()), body)
    parts = AsyncBody(
        HttpCall(request_parts, client.ClientConnectionError), lane, partial(_stream_response, request, handler)
    )
    head = await anext(parts)
    return _build_response(client, request, head, parts, limit)


async def _stream_response(
    request: Any, handler: Callable[..., Any], changed: RequestParts | None
) -> AsyncGenerator[Any, None]:
    if changed is not None:
        request.method, request.url = changed.method, type(request.url)(changed.url)
        await request.update_body(changed.body)
    response = await handler(request)
    try:
        version = response.version
        yield ResponseHead(
            response.status,
            response.reason or "",
            f"HTTP/{version.major}.{version.minor}",
            header_pairs(response.raw_headers),
        )
        while not response.content.at_eof():  # empty bodies share one reader, which reports its end only once
            part, _ = await response.content.readchunk()
            if part:
                yield part
    finally:
        response.release()


class _Connection:
    """Substitute for the connection of a response. Its `release` ends the recorded stream."""

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
        """Do nothing: parts are only read on request."""

    def resume_reading(self, **_: Any) -> None: ...


def _build_response(client: ModuleType, request: Any, head: ResponseHead, parts: AsyncBody, limit: int) -> Any:
    response_class = request.response_class
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
    known = _parameter_names(response_class)
    response = response_class(
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
        connection, limit, request, parts, "chunked" in str(headers.get("transfer-encoding", "")).lower()
    )
    response.content.on_eof(response._response_eof)
    return response


@cache
def _parameter_names(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


@cache
def _reader_class(streams: ModuleType) -> Any:
    base: Any = streams.StreamReader

    class RecordedReader(base):  # type: ignore[misc]
        """Reader that takes the next recorded part when its caller waits for data."""

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
