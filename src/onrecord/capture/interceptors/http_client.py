"""http.client interceptor, also for urllib.request: a request and its response are one effect.

The effect begins in `request`, which waits for the head of the response. `request` raises errors of the connection, and
`getresponse` raises errors of the response, as without the interceptor.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from io import BytesIO
from types import ModuleType
from typing import Any

from onrecord.capture.http.effects import BlockingBody, HttpCall
from onrecord.capture.http.exchange import RequestParts, ResponseHead, header_pairs
from onrecord.capture.interceptors.body_files import BodyFile
from onrecord.capture.interceptors.import_hooks import Replace
from onrecord.runtime.engine.context import current_lane

PART_BYTES = 65536
_ANSWER = "_onrecord_answer"
"""Attribute of a connection: the response or error for the next `getresponse`."""
_WHILE_SENDING = "onrecord_before_response"
"""Attribute of an error raised while sending, before any response. It is recorded with the error."""


def patch(module: ModuleType, replace: Replace) -> None:
    replace(module.HTTPConnection, "request", _request)
    replace(module.HTTPConnection, "getresponse", _getresponse)


def _request(
    original: Callable[..., Any],
    connection: Any,
    method: str,
    url: str,
    body: Any = None,
    headers: Any = None,
    *,
    encode_chunked: bool = False,
) -> None:
    lane, headers = current_lane(), {} if headers is None else headers
    if lane is None:
        original(connection, method, url, body, headers, encode_chunked=encode_chunked)
        return
    body = _read_body(body)
    request = RequestParts(method.upper(), _full_url(connection, url), header_pairs(headers.items()), body or b"")
    send = partial(original, connection, method, url, body, headers, encode_chunked=encode_chunked)
    parts = BlockingBody(HttpCall(request), lane, partial(_stream_response, connection, send, original))
    try:
        answer: Any = _build_response(connection, method, next(parts), parts)
    except Exception as error:
        if getattr(error, _WHILE_SENDING, False):
            raise
        answer = error
    setattr(connection, _ANSWER, answer)


def _getresponse(original: Callable[..., Any], connection: Any) -> Any:
    answer = connection.__dict__.pop(_ANSWER, None)
    if answer is None:
        return original(connection)
    if isinstance(answer, Exception):
        raise answer
    return answer


def _read_body(body: Any) -> bytes | None:
    if body is None or isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode("latin-1")  # as http.client itself does
    if hasattr(body, "read"):
        return _read_body(body.read())
    if isinstance(body, (bytearray, memoryview)):
        return bytes(body)
    return b"".join(body)


def _full_url(connection: Any, url: str) -> str:
    if "://" in url:
        return url
    secure = isinstance(connection, http.client.HTTPSConnection)
    host, port = connection._tunnel_host or connection.host, connection._tunnel_port or connection.port
    host = f"[{host}]" if ":" in host else host
    port = "" if port in (None, 443 if secure else 80) else f":{port}"
    return f"{'https' if secure else 'http'}://{host}{port}{url}"


def _stream_response(
    connection: Any, send: Callable[[], None], original: Callable[..., Any], changed: RequestParts | None
) -> Iterator[Any]:
    if changed is not None:
        send = partial(original, connection, changed.method, send.args[2], changed.body, dict(changed.headers))  # type: ignore[attr-defined]
    try:
        send()
    except Exception as error:
        error.__dict__[_WHILE_SENDING] = True
        raise
    response = connection.getresponse()
    try:
        version, headers = f"HTTP/{response.version / 10:.1f}", header_pairs(response.getheaders())
        yield ResponseHead(response.status, response.reason, version, headers, is_decoded=False)
        while part := response.read1(PART_BYTES):
            yield part
        if response.length:  # `read1` does not report a body that is too short
            raise http.client.IncompleteRead(b"", response.length)
    finally:
        response.close()


class _Socket:
    """Socket from which a response reads its head."""

    def __init__(self, head: ResponseHead) -> None:
        lines = [f"{head.version} {head.status} {head.reason}", *(f"{name}: {value}" for name, value in head.headers)]
        self._bytes = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def makefile(self, *_: Any, **__: Any) -> BytesIO:
        return BytesIO(self._bytes)


class _ChunkedFile(BodyFile):
    """Chunked body. If it was cut off, a read raises `IncompleteRead` with the bytes received."""

    def read(self, amount: int | None = None) -> bytes:
        try:
            return super().read(amount)
        except http.client.IncompleteRead as error:
            raise http.client.IncompleteRead(self._take(len(self._buffer))) from error


def _ignore_cut(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the parts until the body was cut off. The response itself finds missing bytes by the content length."""
    with suppress(http.client.IncompleteRead):
        yield from parts


def _build_response(connection: Any, method: str, head: ResponseHead, parts: BlockingBody) -> Any:
    response = connection.response_class(_Socket(head), method=method)
    response.begin()
    file = _ChunkedFile(parts, parts.close) if response.chunked else BodyFile(_ignore_cut(parts), parts.close)
    if response.fp is None or response.isclosed():  # it has no body
        file.read()
        return response
    if response.chunked:  # recorded parts have no chunk framing
        response.chunked, response.length = False, None
    response.fp = file
    return response
