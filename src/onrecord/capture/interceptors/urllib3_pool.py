"""urllib3, and everything that sends through it: one call of a pool's `urlopen` is one effect.

The retries that a pool makes by itself are inside of the effect. A redirect that somebody above follows is another.
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

from reenact.capture.http.bodies import body_bytes
from reenact.capture.http.effects import BlockingBody, HttpCall, exchange_blocking
from reenact.capture.http.exchange import Head, Request, head_of, header_pairs
from reenact.capture.seams.body_files import BodyFile
from reenact.capture.seams.hooks import Replace, lane_here

PART_BYTES = 65536
WHOLE: ContextVar[bool] = ContextVar("reenact_urllib3_whole", default=False)
"""Whoever called reads the whole body at once, although he has not asked for that."""

_IN_BODY = "reenact_in_body_of"
"""On an error: it came when the body was read, after this status. Recorded with the error, like any attribute."""


def put_into(connectionpool: ModuleType, replace: Replace) -> None:
    replace(connectionpool.HTTPConnectionPool, "urlopen", _urlopen)


def _urlopen(original: Callable[..., Any], pool: Any, *args: Any, **kwargs: Any) -> Any:
    lane = lane_here()
    if lane is None:
        return original(pool, *args, **kwargs)
    bound = _signature(original).bind(pool, *args, **kwargs)
    bound.apply_defaults()
    asked = dict(bound.arguments)
    asked.update(asked.pop("response_kw", {}))
    del asked["self"]
    asked["body"] = _body(asked["body"])
    call = HttpCall(_neutral(pool, asked), _failure)
    if asked["preload_content"] or WHOLE.get():
        try:
            answer = exchange_blocking(call, partial(_exchange, original, pool, asked))
        except Exception as error:
            status = error.__dict__.get(_IN_BODY)
            if status is None or asked["preload_content"]:
                raise
            return _response(asked, pool, Head(status, "", "HTTP/1.1", ()), BodyFile(_raising(error), _nothing))
        return _response(asked, pool, head_of(answer), BytesIO(body_bytes(answer["body"])))
    body = BlockingBody(call, lane, partial(_open, original, pool, asked))
    head = next(body)
    return _response(asked, pool, head, BodyFile(body, body.close))


def _failure(message: str) -> Exception:
    from urllib3.exceptions import ProtocolError

    return ProtocolError(message)


def _raising(error: Exception) -> Iterator[bytes]:
    raise error
    yield


def _nothing() -> None:
    """There is no connection to be closed."""


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _body(body: Any) -> bytes | None:
    """Whatever a body may be given as, read once, in the program's own name."""
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


def _neutral(pool: Any, asked: Mapping[str, Any]) -> Request:
    url, headers = asked["url"], asked["headers"]
    if url.startswith("/"):
        host = f"[{pool.host}]" if ":" in pool.host else pool.host
        default = {"http": 80, "https": 443}.get(pool.scheme)
        port = "" if pool.port in (None, default) else f":{pool.port}"
        url = f"{pool.scheme}://{host}{port}{url}"
    pairs = header_pairs((pool.headers if headers is None else headers).items())
    return Request(asked["method"].upper(), url, pairs, asked["body"] or b"")


def _sent(original: Callable[..., Any], pool: Any, asked: Mapping[str, Any], changed: Request | None) -> Any:
    if asked["preload_content"]:  # what fails while it is read is tried again, too
        asked = {**asked, "decode_content": True}
    else:
        asked = {**asked, "decode_content": False, "release_conn": False}
    if changed is not None:
        asked.update(method=changed.method, body=changed.body, headers=dict(changed.headers), body_pos=None)
    return original(pool, **asked)


def _exchange(
    original: Callable[..., Any], pool: Any, asked: Mapping[str, Any], changed: Request | None
) -> tuple[Head, bytes]:
    response = _sent(original, pool, asked, changed)
    try:
        if asked["preload_content"]:
            return _head(response), response.data
        return _head(response), b"".join(response.stream(PART_BYTES, decode_content=True))
    except Exception as error:
        error.__dict__[_IN_BODY] = response.status
        raise
    finally:
        response.close()


def _open(original: Callable[..., Any], pool: Any, asked: Mapping[str, Any], changed: Request | None) -> Iterator[Any]:
    response = _sent(original, pool, asked, changed)
    try:
        yield _head(response)
        if response.chunked and response.supports_chunked_reads():
            yield from response.read_chunked(decode_content=True)
        elif "content-encoding" in response.headers or not hasattr(response, "read1"):
            yield from response.stream(PART_BYTES, decode_content=True)
        else:
            while part := response.read1(PART_BYTES):
                yield part
    finally:
        response.close()


def _head(response: Any) -> Head:
    version = getattr(response, "version_string", None) or f"HTTP/{response.version / 10:.1f}"
    return Head(response.status, response.reason or "", version, header_pairs(response.headers.items()))


class _Original:
    """What requests takes cookies from."""

    def __init__(self, head: Head, file: Any) -> None:
        self.msg = HTTPMessage()
        for name, value in head.headers:
            self.msg[name] = value
        self._file = file

    def isclosed(self) -> bool:
        return bool(self._file.closed)

    def close(self) -> None:
        self._file.close()


def _response(asked: Mapping[str, Any], pool: Any, head: Head, file: Any) -> Any:
    response = _response_class(sys.modules["urllib3.response"])(
        body=file,
        headers=list(head.headers),
        status=head.status,
        version=int(float(head.version.partition("/")[2] or 1.1) * 10),
        version_string=head.version,
        reason=head.reason or None,
        preload_content=False,
        decode_content=asked["decode_content"],
        original_response=_Original(head, file),
        pool=pool,
        retries=asked["retries"] if hasattr(asked["retries"], "history") else None,
        request_method=asked["method"],
        request_url=asked["url"],
    )
    if asked["preload_content"]:
        response._body = response.read()
    return response


@cache
def _response_class(module: ModuleType) -> Any:
    base: Any = module.HTTPResponse

    class RecordedResponse(base):  # type: ignore[misc]
        """Chunks come as they came, although they are not cut out of a connection."""

        def supports_chunked_reads(self) -> bool:
            return isinstance(self._fp, BodyFile)

        def read_chunked(self, amt: int | None = None, decode_content: bool | None = None) -> Iterator[bytes]:
            while part := self._fp.next_part():
                for start in range(0, len(part), amt or len(part)):
                    yield part[start : start + (amt or len(part))]
            self._fp.close()

    RecordedResponse.__name__ = RecordedResponse.__qualname__ = "HTTPResponse"
    return RecordedResponse
