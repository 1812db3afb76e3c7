"""httpx and httpx2: what a client sends goes through the transport that it picks, and that is where it is recorded.

So redirects, authentication, cookies, event hooks and reading the body stay the library's own, and each request that is
sent is one effect. Whether the caller wants to read the body himself is known to `send` alone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextvars import ContextVar
from functools import cache, partial
from types import ModuleType
from typing import Any

from reenact.capture.guard import guard
from reenact.capture.http.bodies import body_bytes
from reenact.capture.http.effects import AsyncBody, BlockingBody, HttpCall, exchange, exchange_blocking
from reenact.capture.http.exchange import Head, Request, head_of, header_pairs, is_encoded, upgraded
from reenact.capture.seams.hooks import Replace, lane_here
from reenact.effect.lanes import Lane

_INSIDE = frozenset({"ASGITransport", "MockTransport", "WSGITransport"})
_STREAMED: ContextVar[bool] = ContextVar("reenact_httpx_streamed", default=False)


def put_into(httpx: ModuleType, replace: Replace) -> None:
    replace(httpx.Client, "send", _send)
    replace(httpx.AsyncClient, "send", _send_async)
    replace(httpx.Client, "_transport_for_url", partial(_picked, partial(_Transport, httpx)))
    replace(httpx.AsyncClient, "_transport_for_url", partial(_picked, partial(_AsyncTransport, httpx)))


def _send(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if lane_here() is None:
        return original(*args, **kwargs)
    token = _STREAMED.set(bool(kwargs.get("stream")))
    try:
        return original(*args, **kwargs)
    finally:
        _STREAMED.reset(token)


async def _send_async(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if lane_here() is None:
        return await original(*args, **kwargs)
    token = _STREAMED.set(bool(kwargs.get("stream")))
    try:
        return await original(*args, **kwargs)
    finally:
        _STREAMED.reset(token)


def _picked(recording: Callable[..., Any], original: Callable[..., Any], client: Any, url: Any) -> Any:
    transport, lane = original(client, url), lane_here()
    return transport if lane is None or _stays_inside(transport.__class__) else recording(transport, lane)


@cache
def _stays_inside(cls: Any) -> bool:
    """It hands requests to an application in this process, or to a function: that is the program's own code, which runs
    in a replay like any other."""
    return any(
        base.__module__.startswith("starlette.testclient")
        or (base.__name__ in _INSIDE and base.__module__.partition(".")[0] in ("httpx", "httpx2"))
        for base in cls.__mro__
    )


class _Recording:
    """In place of a transport, for one request."""

    def __init__(self, httpx: ModuleType, inner: Any, lane: Lane) -> None:
        self._httpx = httpx
        self._inner = inner
        self._lane = lane
        self._came: tuple[Any, Head, bytes] | None = None
        """The response that came, its head and its body: the program may have it as it is."""

    def _native(self, request: Any, changed: Request | None) -> Any:
        if changed is None:
            return request
        return self._httpx.Request(
            changed.method,
            changed.url,
            headers=list(changed.headers),
            content=changed.body,
            extensions=request.extensions,
        )

    def _response(self, head: Head, stream: Any) -> Any:
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in head.headers]
        return self._httpx.Response(head.status, headers=headers, stream=stream, extensions=_extensions(head))

    def _whole(self, call: HttpCall, answer: dict[str, Any]) -> Any:
        if answer is call.answer and self._came is not None:
            response, head, body = self._came
            response.stream = self._httpx.ByteStream(body)
            response.extensions = _extensions(head)
            return response
        return self._response(head_of(answer), self._httpx.ByteStream(body_bytes(answer["body"])))

    def _is_as_it_came(self, response: Any, head: Head, stream_class: type) -> bool:
        """Nobody has read of it, and its body is what the server sent: what is made of the record would be the same."""
        return (
            type(response) is self._httpx.Response
            and isinstance(response.stream, stream_class)
            and not (response.is_closed or response.is_stream_consumed or "_content" in response.__dict__)
            and not is_encoded(head.headers)
        )


class _Transport(_Recording):
    def handle_request(self, request: Any) -> Any:
        if "upgrade" in request.headers:
            guard.met(self._lane, upgraded(str(request.url)))
            return self._inner.handle_request(request)
        request.read()
        call = HttpCall(_neutral(request), self._httpx.ReadError)
        if not _STREAMED.get():
            return self._whole(call, exchange_blocking(call, partial(self._exchange, request)))
        body = BlockingBody(call, self._lane, partial(self._open, request))
        head = next(body)
        return self._response(head, _stream_class(self._httpx)(body))

    def _exchange(self, request: Any, changed: Request | None) -> tuple[Head, bytes]:
        response = self._inner.handle_request(self._native(request, changed))
        head = _head(response)
        if self._is_as_it_came(response, head, self._httpx.SyncByteStream):
            stream = response.stream
            try:
                body = b"".join(stream)
            finally:
                stream.close()
            self._came = response, head, body
            return head, body
        try:
            return head, response.read()
        finally:
            response.close()

    def _open(self, request: Any, changed: Request | None) -> Iterator[Any]:
        response = self._inner.handle_request(self._native(request, changed))
        try:
            yield _head(response)
            yield from response.iter_bytes()
        finally:
            response.close()


class _AsyncTransport(_Recording):
    async def handle_async_request(self, request: Any) -> Any:
        if "upgrade" in request.headers:
            guard.met(self._lane, upgraded(str(request.url)))
            return await self._inner.handle_async_request(request)
        await request.aread()
        call = HttpCall(_neutral(request), self._httpx.ReadError)
        if not _STREAMED.get():
            return self._whole(call, await exchange(call, partial(self._exchange, request)))
        body = AsyncBody(call, self._lane, partial(self._open, request))
        head = await anext(body)
        return self._response(head, _async_stream_class(self._httpx)(body))

    async def _exchange(self, request: Any, changed: Request | None) -> tuple[Head, bytes]:
        response = await self._inner.handle_async_request(self._native(request, changed))
        head = _head(response)
        if self._is_as_it_came(response, head, self._httpx.AsyncByteStream):
            stream = response.stream
            try:
                body = b"".join([part async for part in stream])
            finally:
                await stream.aclose()
            self._came = response, head, body
            return head, body
        try:
            return head, await response.aread()
        finally:
            await response.aclose()

    async def _open(self, request: Any, changed: Request | None) -> AsyncGenerator[Any, None]:
        response = await self._inner.handle_async_request(self._native(request, changed))
        try:
            yield _head(response)
            async for part in response.aiter_bytes():
                yield part
        finally:
            await response.aclose()


def _neutral(request: Any) -> Request:
    return Request(request.method, str(request.url), header_pairs(request.headers.raw), request.content)


def _head(response: Any) -> Head:
    extensions = response.extensions
    return Head(
        response.status_code,
        extensions.get("reason_phrase", b"").decode("latin-1"),
        extensions.get("http_version", b"HTTP/1.1").decode("latin-1"),
        header_pairs(response.headers.raw),
    )


def _extensions(head: Head) -> dict[str, bytes]:
    extensions = {"http_version": head.version.encode("latin-1")}
    if head.reason:
        extensions["reason_phrase"] = head.reason.encode("latin-1")
    return extensions


@cache
def _stream_class(httpx: ModuleType) -> Any:
    base: Any = httpx.SyncByteStream

    class RecordedStream(base):  # type: ignore[misc]
        def __init__(self, body: BlockingBody) -> None:
            self._body = body

        def __iter__(self) -> Iterator[bytes]:
            return self._body

        def close(self) -> None:
            self._body.close()

    return RecordedStream


@cache
def _async_stream_class(httpx: ModuleType) -> Any:
    base: Any = httpx.AsyncByteStream

    class RecordedStream(base):  # type: ignore[misc]
        def __init__(self, body: AsyncBody) -> None:
            self._body = body

        def __aiter__(self) -> AsyncBody:
            return self._body

        async def aclose(self) -> None:
            await self._body.aclose()

    return RecordedStream
