"""http.client, and so urllib.request: a request and its response are one effect.

It begins with `request`, which waits for the head of the response, so that errors of the connection come where they
come without us; errors of the response are kept for `getresponse`.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from io import BytesIO
from types import ModuleType
from typing import Any

from reenact.capture.http.effects import BlockingBody, HttpCall
from reenact.capture.http.exchange import Head, Request, header_pairs
from reenact.capture.seams.body_files import BodyFile
from reenact.capture.seams.hooks import Replace, lane_here

PART_BYTES = 65536
_ANSWER = "_reenact_answer"
"""Where a connection keeps what it was answered until it is asked for it."""
_BEFORE = "reenact_before_response"
"""On an error: it came before there was a response to wait for. Recorded with the error, like any attribute."""


def put_into(module: ModuleType, replace: Replace) -> None:
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
    lane, headers = lane_here(), {} if headers is None else headers
    if lane is None:
        original(connection, method, url, body, headers, encode_chunked=encode_chunked)
        return
    body = _bytes(body)
    neutral = Request(method.upper(), _url(connection, url), header_pairs(headers.items()), body or b"")
    send = partial(original, connection, method, url, body, headers, encode_chunked=encode_chunked)
    parts = BlockingBody(HttpCall(neutral), lane, partial(_open, connection, send, original))
    try:
        answer: Any = _response(connection, method, next(parts), parts)
    except Exception as error:
        if getattr(error, _BEFORE, False):
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


def _bytes(body: Any) -> bytes | None:
    if body is None or isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode("latin-1")  # as http.client itself does
    if hasattr(body, "read"):
        return _bytes(body.read())
    if isinstance(body, (bytearray, memoryview)):
        return bytes(body)
    return b"".join(body)


def _url(connection: Any, url: str) -> str:
    if "://" in url:
        return url
    secure = isinstance(connection, http.client.HTTPSConnection)
    host, port = connection._tunnel_host or connection.host, connection._tunnel_port or connection.port
    host = f"[{host}]" if ":" in host else host
    port = "" if port in (None, 443 if secure else 80) else f":{port}"
    return f"{'https' if secure else 'http'}://{host}{port}{url}"


def _open(
    connection: Any, send: Callable[[], None], original: Callable[..., Any], changed: Request | None
) -> Iterator[Any]:
    if changed is not None:
        send = partial(original, connection, changed.method, send.args[2], changed.body, dict(changed.headers))  # type: ignore[attr-defined]
    try:
        send()
    except Exception as error:
        error.__dict__[_BEFORE] = True
        raise
    response = connection.getresponse()
    try:
        version, headers = f"HTTP/{response.version / 10:.1f}", header_pairs(response.getheaders())
        yield Head(response.status, response.reason, version, headers, is_decoded=False)
        while part := response.read1(PART_BYTES):
            yield part
        if response.length:  # which `read1` does not mind
            raise http.client.IncompleteRead(b"", response.length)
    finally:
        response.close()


class _Socket:
    """A response reads its head from here."""

    def __init__(self, head: Head) -> None:
        lines = [f"{head.version} {head.status} {head.reason}", *(f"{name}: {value}" for name, value in head.headers)]
        self._bytes = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def makefile(self, *_: Any, **__: Any) -> BytesIO:
        return BytesIO(self._bytes)


class _ChunkedFile(BodyFile):
    """One that was cut off says so, with what had come of it."""

    def read(self, amount: int | None = None) -> bytes:
        try:
            return super().read(amount)
        except http.client.IncompleteRead as error:
            raise http.client.IncompleteRead(self._taken(len(self._buffer))) from error


def _until_cut(parts: Iterator[bytes]) -> Iterator[bytes]:
    """A body whose length is known: what is missing is found by the response itself, where it minds."""
    with suppress(http.client.IncompleteRead):
        yield from parts


def _response(connection: Any, method: str, head: Head, parts: BlockingBody) -> Any:
    response = connection.response_class(_Socket(head), method=method)
    response.begin()
    file = _ChunkedFile(parts, parts.close) if response.chunked else BodyFile(_until_cut(parts), parts.close)
    if response.fp is None or response.isclosed():  # it has no body
        file.read()
        return response
    if response.chunked:  # the parts are no longer framed
        response.chunked, response.length = False, None
    response.fp = file
    return response
