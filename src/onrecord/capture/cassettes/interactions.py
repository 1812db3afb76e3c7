"""Interactions of a cassette: requests with their answers, in recorded order.

Supported formats: vcrpy (with `body`, with the `parsed_body` of some projects, and as its older versions wrote for
httpx), a list of requests beside a list of responses, and VCR and Betamax (`http_interactions`, `recorded_with`).
Socket messages and samples of remote calls are not HTTP requests. They become effects of their own kinds.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from onrecord.capture.http.exchange import Headers, RequestParts, ResponseHead
from onrecord.errors import BadRecording

MOST_BODY_BYTES = 64 * 1024 * 1024
_WBITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_VERSIONS = frozenset({"HTTP/0.9", "HTTP/1.0", "HTTP/1.1", "HTTP/2", "HTTP/2.0", "HTTP/3"})


class Exchange(NamedTuple):
    """HTTP request and its answer."""

    request: RequestParts
    head: ResponseHead
    body: bytes


class OtherExchange(NamedTuple):
    """Message and its answer over something other than HTTP."""

    name: str
    kind: str
    sent: Any
    received: Any


Interaction = Exchange | OtherExchange


def read_interactions(cassette: Any, name: str) -> list[Interaction]:
    try:
        return list(_iterate_interactions(cassette, name))
    except (TypeError, LookupError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise _bad_cassette(f"{name} is not a cassette: its structure is unknown") from error


def _iterate_interactions(cassette: Any, name: str) -> Iterator[Interaction]:
    listed = _list_entries(cassette, name)
    socket_messages = [one for one in listed if "direction" in one]
    if socket_messages:
        yield from _pair_socket_messages(socket_messages)
    for number, one in enumerate((one for one in listed if "direction" not in one), 1):
        try:
            if "request_sample" in one:
                yield OtherExchange("call", "rpc", one["request_sample"], one["response_sample"])
            else:
                yield _read_exchange(one)
        except (TypeError, LookupError, ValueError, AttributeError, OverflowError):
            raise _bad_cassette(f"{name}: interaction {number} is not a request and its answer") from None


def _list_entries(cassette: Any, name: str) -> Sequence[Mapping[str, Any]]:
    if isinstance(cassette, Mapping) and "requests" in cassette and "responses" in cassette:
        requests, responses = cassette["requests"], cassette["responses"]
        if len(requests) != len(responses):
            raise _bad_cassette(f"{name} has {len(requests)} requests and {len(responses)} responses")
        return [
            {"request": request, "response": response} for request, response in zip(requests, responses, strict=True)
        ]
    if isinstance(cassette, Mapping):
        cassette = cassette["interactions"] if "interactions" in cassette else cassette["http_interactions"]
    if not isinstance(cassette, list) or not all(isinstance(one, Mapping) for one in cassette):
        raise _bad_cassette(f"{name} is not a cassette: it lists no interactions")
    return cassette


def _pair_socket_messages(messages: Sequence[Mapping[str, Any]]) -> Iterator[OtherExchange]:
    """Yield the messages of a socket: everything received until the next sent message answers the last one."""
    sent: Any = None
    received: list[Any] = []
    begun = False
    for message in messages:
        if message["direction"] == "sent":
            if begun:
                yield OtherExchange("socket", "websocket", sent, received)
            sent, received, begun = message.get("data"), [], True
        else:
            received.append(message.get("data"))
            begun = True
    if begun:
        yield OtherExchange("socket", "websocket", sent, received)


def _read_exchange(one: Mapping[str, Any]) -> Exchange:
    request, response = one["request"], one["response"]
    url = request.get("uri") or request["url"]
    if not isinstance(url, str):
        raise TypeError
    request = RequestParts(
        str(request["method"]).upper(), url, _read_headers(request.get("headers")), _read_body(request)
    )
    head, body = _decode_message(_read_head(response), _read_body(response))
    return Exchange(request, head, body)


def _read_head(response: Mapping[str, Any]) -> ResponseHead:
    status = response.get("status", response.get("status_code"))
    message: Any = None
    if isinstance(status, Mapping):
        status, message = status["code"], status.get("message")
    if isinstance(status, bool) or not 100 <= int(status) <= 999:
        raise ValueError
    version = str(response.get("http_version") or response.get("protocol") or "")
    version = version if version in _VERSIONS else "HTTP/1.1"
    return ResponseHead(int(status), _header_text(message), version, _read_headers(response.get("headers")))


def _read_headers(headers: Any) -> Headers:
    """Return the headers as pairs. Values may be lists or single values; old cassettes have pairs."""
    pairs = headers.items() if isinstance(headers, Mapping) else (headers or ())
    listed = ((name, values if isinstance(values, list) else [values]) for name, values in pairs)
    return tuple((_header_text(name), _header_text(value)) for name, values in listed for value in values)


def _header_text(value: Any) -> str:
    """Return the value as text that fits into one header line."""
    text = value.decode("latin-1") if isinstance(value, bytes) else "" if value is None else str(value)
    return text.replace("\r", " ").replace("\n", " ").encode("latin-1", "replace").decode("latin-1")


def _read_body(message: Mapping[str, Any]) -> bytes:
    if "parsed_body" in message:
        parsed = message["parsed_body"]
        return _to_bytes(parsed) if isinstance(parsed, (str, bytes, type(None))) else _to_json(parsed)
    body = message.get("body", message.get("content"))
    if isinstance(body, Mapping) and ("string" in body or "base64_string" in body or not body):
        if "base64_string" in body:
            return b64decode(body["base64_string"], validate=True)
        return _to_bytes(body.get("string"))
    return _to_bytes(body) if isinstance(body, (str, bytes, type(None))) else _to_json(body)


def _to_bytes(value: Any) -> bytes:
    if value is None:
        return b""
    return value if isinstance(value, bytes) else str(value).encode()


def _to_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _decode_message(head: ResponseHead, body: bytes) -> tuple[ResponseHead, bytes]:
    """Return the decoded body, and the head without headers that no longer match the body."""
    encoding = next((value.lower() for name, value in head.headers if name.lower() == "content-encoding"), "")
    plain = _decode_body(body, encoding)
    if plain is None:  # an encoding that only the client can decode
        return head._replace(is_decoded=False), body
    wrong = {"content-length"} if encoding else set()
    length = next((value for name, value in head.headers if name.lower() == "content-length"), None)
    if length is not None and length != str(len(plain)):
        wrong.add("content-length")
    return head._replace(headers=tuple(pair for pair in head.headers if pair[0].lower() not in wrong)), plain


def _decode_body(body: bytes, encoding: str) -> bytes | None:
    """Return the decoded body, or None for an unknown encoding. Many cassettes name an encoding of a decoded body."""
    if not encoding or encoding == "identity" or not body:
        return body
    if encoding not in _WBITS:
        return body if _is_text(body) else None
    for wbits in (_WBITS[encoding], -15) if encoding == "deflate" else (_WBITS[encoding],):
        try:
            unpacker = zlib.decompressobj(wbits=wbits)
            plain = unpacker.decompress(body, MOST_BODY_BYTES + 1)
        except zlib.error:
            continue
        if len(plain) > MOST_BODY_BYTES:
            raise _bad_cassette("a body is too large once it is decompressed", code="cassette_too_large")
        return plain
    return body


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _bad_cassette(message: str, code: str = "bad_cassette") -> BadRecording:
    return BadRecording(message, hint="Use a cassette of vcrpy, VCR or Betamax.", code=code)
