"""httpx and httpx2 interceptor: a transport around the one that the client picks for a request.

Redirects, authentication, cookies, event hooks and reading the body stay in the library. Each request sent is one
effect. Only `send` knows whether the caller streams the body, so it is patched as well.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextvars import ContextVar
from functools import cache, partial
from types import ModuleType
from typing import Any

from onrecord.capture.http.bodies import body_bytes
from onrecord.capture.http.effects import AsyncBody, BlockingBody, HttpCall, exchange, exchange_blocking
from onrecord.capture.http.exchange import (
    RequestParts,
    ResponseHead,
    describe_upgrade,
    header_pairs,
    is_encoded,
    read_head,
)
from onrecord.capture.interceptors.import_hooks import Replace
from onrecord.capture.unrecorded import guard
from onrecord.runtime.engine.context import Lane, current_lane

_IN_PROCESS = frozenset({"ASGITransport", "MockTransport", "WSGITransport"})
_STREAMED: ContextVar[bool] = ContextVar("onrecord_httpx_streamed", default=False)


def patch(httpx: ModuleType, replace: Replace) -> None:
    replace(httpx.Client, "send", _send)
    replace(httpx.AsyncClient, "send", _send_async)
    replace(httpx.Client, "_transport_for_url", partial(_pick_transport, partial(_BlockingTransport, httpx)))
    replace(httpx.AsyncClient, "_transport_for_url", partial(_pick_transport, partial(_AsyncTransport, httpx)))


def _send(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if current_lane() is None:
        return original(*args, **kwargs)
    token = _STREAMED.set(bool(kwargs.get("stream")))
    try:
        return original(*args, **kwargs)
    finally:
        _STREAMED.reset(token)


async def _send_async(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if current_lane() is None:
        return await original(*args, **kwargs)
    token = _STREAMED.set(bool(kwargs.get("stream")))
    try:
        return await original(*args, **kwargs)
    finally:
        _STREAMED.reset(token)


def _pick_transport(recording: Callable[..., Any], original: Callable[..., Any], client: Any, url: Any) -> Any:
    transport, lane = original(client, url), current_lane()
    return transport if lane is None or _is_in_process(transport.__class__) else recording(transport, lane)


@cache
def _is_in_process(cls: Any) -> bool:
    """Return True for transports that call an application or a function in this process. That is the program's own
    code, which also runs in a replay."""
    return any(
        base.__module__.startswith("starlette.testclient")
        or (base.__name__ in _IN_PROCESS and base.__module__.partition(".")[0] in ("httpx", "httpx2"))
        for base in cls.__mro__
    )


class _RecordingTransport:
    """Recording transport for one request."""

    def __init__(self, httpx: ModuleType, inner: Any, lane: Lane) -> None:
        self._httpx = httpx
        self._inner = inner
        self._lane = lane
        self._received: tuple[Any, ResponseHead, bytes] | None = None
        """Response that was received, with its head and body. The program can receive it unchanged."""

    def _build_request(self, request: Any, changed: RequestParts | None) -> Any:
        if changed is None:
            return request
        return self._httpx.Request(
            changed.method,
            changed.url,
            headers=list(changed.headers),
            content=changed.body,
            extensions=request.extensions,
        )

    def _build_response(self, head: ResponseHead, stream: Any) -> Any:
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in head.headers]
        return self._httpx.Response(head.status, headers=headers, stream=stream, extensions=_extensions(head))

    def _whole_response(self, call: HttpCall, answer: dict[str, Any]) -> Any:
        if answer is call.answer and self._received is not None:
            response, head, body = self._received
            response.stream = self._httpx.ByteStream(body)
            response.extensions = _extensions(head)
            return response
        return self._build_response(read_head(answer), self._httpx.ByteStream(body_bytes(answer["body"])))

    def _is_untouched(self, response: Any, head: ResponseHead, stream_class: type) -> bool:
        """Return True if the response is unread and not encoded: one rebuilt from the record would be equal."""
        return (
            type(response) is self._httpx.Response
            and isinstance(response.stream, stream_class)
            and not (response.is_closed or response.is_stream_consumed or "_content" in response.__dict__)
            and not is_encoded(head.headers)
        )


class _BlockingTransport(_RecordingTransport):
    def handle_request(self, request: Any) -> Any:
        if "upgrade" in request.headers:
            guard.refuse_or_count(self._lane, describe_upgrade(str(request.url)))
            return self._inner.handle_request(request)
        request.read()
        call = HttpCall(_request_parts(request), self._httpx.ReadError)
        if not _STREAMED.get():
            return self._whole_response(call, exchange_blocking(call, partial(self._exchange, request)))
        body = BlockingBody(call, self._lane, partial(self._stream_response, request))
        head = next(body)
        return self._build_response(head, _stream_class(self._httpx)(body))

    def _exchange(self, request: Any, changed: RequestParts | None) -> tuple[ResponseHead, bytes]:
        response = self._inner.handle_request(self._build_request(request, changed))
        head = _response_head(response)
        if self._is_untouched(response, head, self._httpx.SyncByteStream):
            stream = response.stream
            try:
                body = b"".join(stream)
            finally:
                stream.close()
            self._received = response, head, body
            return head, body
        try:
            return head, response.read()
        finally:
            response.close()

    def _stream_response(self, request: Any, changed: RequestParts | None) -> Iterator[Any]:
        response = self._inner.handle_request(self._build_request(request, changed))
        try:
            yield _response_head(response)
            yield from response.iter_bytes()
        finally:
            response.close()


class _AsyncTransport(_RecordingTransport):
    async def handle_async_request(self, request: Any) -> Any:
        if "upgrade" in request.headers:
            guard.refuse_or_count(self._lane, describe_upgrade(str(request.url)))
            return await self._inner.handle_async_request(request)
        await request.aread()
        call = HttpCall(_request_parts(request), self._httpx.ReadError)
        if not _STREAMED.get():
            return self._whole_response(call, await exchange(call, partial(self._exchange, request)))
        body = AsyncBody(call, self._lane, partial(self._stream_response, request))
        head = await anext(body)
        return self._build_response(head, _async_stream_class(self._httpx)(body))

    async def _exchange(self, request: Any, changed: RequestParts | None) -> tuple[ResponseHead, bytes]:
        response = await self._inner.handle_async_request(self._build_request(request, changed))
        head = _response_head(response)
        if self._is_untouched(response, head, self._httpx.AsyncByteStream):
            stream = response.stream
            try:
                body = b"".join([part async for part in stream])
            finally:
                await stream.aclose()
            self._received = response, head, body
            return head, body
        try:
            return head, await response.aread()
        finally:
            await response.aclose()

    async def _stream_response(self, request: Any, changed: RequestParts | None) -> AsyncGenerator[Any, None]:
        response = await self._inner.handle_async_request(self._build_request(request, changed))
        try:
            yield _response_head(response)
            async for part in response.aiter_bytes():
                yield part
        finally:
            await response.aclose()


def _request_parts(request: Any) -> RequestParts:
    return RequestParts(request.method, str(request.url), header_pairs(request.headers.raw), request.content)


def _response_head(response: Any) -> ResponseHead:
    extensions = response.extensions
    return ResponseHead(
        response.status_code,
        extensions.get("reason_phrase", b"").decode("latin-1"),
        extensions.get("http_version", b"HTTP/1.1").decode("latin-1"),
        header_pairs(response.headers.raw),
    )


def _extensions(head: ResponseHead) -> dict[str, bytes]:
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

    class RecordedAsyncStream(base):  # type: ignore[misc]
        def __init__(self, body: AsyncBody) -> None:
            self._body = body

        def __aiter__(self) -> AsyncBody:
            return self._body

        async def aclose(self) -> None:
            await self._body.aclose()

    return RecordedAsyncStream
