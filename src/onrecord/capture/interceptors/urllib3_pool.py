"""urllib3 interceptor, also for libraries that send through urllib3: one call of a pool's `urlopen` is one effect.

Retries that the pool makes are inside the effect. A redirect that the caller follows is another effect.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache, partial
from http.client import HTTPMessage
from io import BytesIO
from types import ModuleType
from typing import Any

from onrecord.capture.http.bodies import body_bytes
from onrecord.capture.http.effects import BlockingBody, HttpCall, exchange_blocking
from onrecord.capture.http.exchange import RequestParts, ResponseHead, header_pairs, read_head
from onrecord.capture.interceptors.body_files import BodyFile
from onrecord.capture.interceptors.import_hooks import Replace
from onrecord.runtime.engine.context import current_lane

PART_BYTES = 65536
WHOLE: ContextVar[bool] = ContextVar("onrecord_urllib3_whole", default=False)
"""True: the caller reads the whole body at once, although it passed `preload_content=False`."""

_IN_BODY = "onrecord_in_body_of"
"""Attribute of an error raised while the body was read: the response's status. It is recorded with the error."""


def patch(connectionpool: ModuleType, replace: Replace) -> None:
    replace(connectionpool.HTTPConnectionPool, "urlopen", _urlopen)


def _urlopen(original: Callable[..., Any], pool: Any, *args: Any, **kwargs: Any) -> Any:
    lane = current_lane()
    if lane is None:
        return original(pool, *args, **kwargs)
    bound = _signature(original).bind(pool, *args, **kwargs)
    bound.apply_defaults()
    arguments = dict(bound.arguments)
    arguments.update(arguments.pop("response_kw", {}))
    del arguments["self"]
    arguments["body"] = _read_body(arguments["body"])
    call = HttpCall(_request_parts(pool, arguments), _make_failure)
    if arguments["preload_content"] or WHOLE.get():
        try:
            answer = exchange_blocking(call, partial(_exchange, original, pool, arguments))
        except Exception as error:
            status = error.__dict__.get(_IN_BODY)
            if status is None or arguments["preload_content"]:
                raise
            return _build_response(
                arguments, pool, ResponseHead(status, "", "HTTP/1.1", ()), BodyFile(_raise_on_read(error), _do_nothing)
            )
        return _build_response(arguments, pool, read_head(answer), BytesIO(body_bytes(answer["body"])))
    body = BlockingBody(call, lane, partial(_stream_response, original, pool, arguments))
    head = next(body)
    return _build_response(arguments, pool, head, BodyFile(body, body.close))


def _make_failure(message: str) -> Exception:
    from urllib3.exceptions import ProtocolError

    return ProtocolError(message)


def _raise_on_read(error: Exception) -> Iterator[bytes]:
    raise error
    yield


def _do_nothing() -> None:
    """Do nothing: there is no connection to close."""


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _read_body(body: Any) -> bytes | None:
    """Return the body as bytes. Read files and iterables here, in the lane: reading runs the program's code."""
    if body is None or isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode("latin-1", "replace") if body.isascii() else body.encode()
    if hasattr(body, "read"):
        body = body.read()
        return body if isinstance(body, bytes) else str(body).encode()
    if isinstance(body, (bytearray, memoryview)):
        return bytes(body)
    return b"".join(part if isinstance(part, bytes) else str(part).encode() for part in body)


def _request_parts(pool: Any, arguments: Mapping[str, Any]) -> RequestParts:
    url, headers = arguments["url"], arguments["headers"]
    if url.startswith("/"):
        host = f"[{pool.host}]" if ":" in pool.host else pool.host
        default = {"http": 80, "https": 443}.get(pool.scheme)
        port = "" if pool.port in (None, default) else f":{pool.port}"
        url = f"{pool.scheme}://{host}{port}{url}"
    pairs = header_pairs((pool.headers if headers is None else headers).items())
    return RequestParts(arguments["method"].upper(), url, pairs, arguments["body"] or b"")


def _send(original: Callable[..., Any], pool: Any, arguments: Mapping[str, Any], changed: RequestParts | None) -> Any:
    if arguments["preload_content"]:  # the pool retries a failed read, too
        arguments = {**arguments, "decode_content": True}
    else:
        arguments = {**arguments, "decode_content": False, "release_conn": False}
    if changed is not None:
        arguments.update(method=changed.method, body=changed.body, headers=dict(changed.headers), body_pos=None)
    return original(pool, **arguments)


def _exchange(
    original: Callable[..., Any], pool: Any, arguments: Mapping[str, Any], changed: RequestParts | None
) -> tuple[ResponseHead, bytes]:
    response = _send(original, pool, arguments, changed)
    try:
        if arguments["preload_content"]:
            return _response_head(response), response.data
        return _response_head(response), b"".join(response.stream(PART_BYTES, decode_content=True))
    except Exception as error:
        error.__dict__[_IN_BODY] = response.status
        raise
    finally:
        response.close()


def _stream_response(
    original: Callable[..., Any], pool: Any, arguments: Mapping[str, Any], changed: RequestParts | None
) -> Iterator[Any]:
    response = _send(original, pool, arguments, changed)
    try:
        yield _response_head(response)
        if response.chunked and response.supports_chunked_reads():
            yield from response.read_chunked(decode_content=True)
        elif "content-encoding" in response.headers or not hasattr(response, "read1"):
            yield from response.stream(PART_BYTES, decode_content=True)
        else:
            while part := response.read1(PART_BYTES):
                yield part
    finally:
        response.close()


def _response_head(response: Any) -> ResponseHead:
    version = getattr(response, "version_string", None) or f"HTTP/{response.version / 10:.1f}"
    return ResponseHead(response.status, response.reason or "", version, header_pairs(response.headers.items()))


class _Original:
    """The `original_response`, from which requests takes cookies."""

    def __init__(self, head: ResponseHead, file: Any) -> None:
        self.msg = HTTPMessage()
        for name, value in head.headers:
            self.msg[name] = value
        self._file = file

    def isclosed(self) -> bool:
        return bool(self._file.closed)

    def close(self) -> None:
        self._file.close()


def _build_response(arguments: Mapping[str, Any], pool: Any, head: ResponseHead, file: Any) -> Any:
    response = _response_class(sys.modules["urllib3.response"])(
        body=file,
        headers=list(head.headers),
        status=head.status,
        version=int(float(head.version.partition("/")[2] or 1.1) * 10),
        version_string=head.version,
        reason=head.reason or None,
        preload_content=False,
        decode_content=arguments["decode_content"],
        original_response=_Original(head, file),
        pool=pool,
        retries=arguments["retries"] if hasattr(arguments["retries"], "history") else None,
        request_method=arguments["method"],
        request_url=arguments["url"],
    )
    if arguments["preload_content"]:
        response._body = response.read()
    return response


@cache
def _response_class(module: ModuleType) -> Any:
    base: Any = module.HTTPResponse

    class RecordedResponse(base):  # type: ignore[misc]
        """Response whose `read_chunked` yields the parts as they were recorded."""

        def supports_chunked_reads(self) -> bool:
            return isinstance(self._fp, BodyFile)

        def read_chunked(self, amt: int | None = None, decode_content: bool | None = None) -> Iterator[bytes]:
            while part := self._fp.next_part():
                for start in range(0, len(part), amt or len(part)):
                    yield part[start : start + (amt or len(part))]
            self._fp.close()

    RecordedResponse.__name__ = RecordedResponse.__qualname__ = "HTTPResponse"
    return RecordedResponse
