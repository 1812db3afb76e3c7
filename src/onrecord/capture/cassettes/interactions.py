"""What a cassette holds, whoever made it: requests with their answers, in the order in which they were recorded.

Known are vcrpy (with `body`, with the `parsed_body` of some projects, and with what its older versions wrote for
httpx), lists of requests beside lists of responses, and the cassettes of VCR and Betamax (`http_interactions`,
`recorded_with`). Messages of a socket, and samples of a remote call, are no requests of HTTP: they are kept as what
they are.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from reenact.capture.http.exchange import Head, Headers, Request
from reenact.errors import BadRecording

MOST_BODY_BYTES = 64 * 1024 * 1024
_WBITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_VERSIONS = frozenset({"HTTP/0.9", "HTTP/1.0", "HTTP/1.1", "HTTP/2", "HTTP/2.0", "HTTP/3"})


class Exchange(NamedTuple):
    """A request of HTTP and its answer."""

    request: Request
    head: Head
    body: bytes


class Talk(NamedTuple):
    """Something that was said, and what came of it, otherwise than by HTTP."""

    name: str
    kind: str
    said: Any
    heard: Any


Interaction = Exchange | Talk


def interactions_of(cassette: Any, name: str) -> list[Interaction]:
    try:
        return list(_all(cassette, name))
    except (TypeError, LookupError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise _bad(f"{name} is not a cassette: it has not the form of one") from error


def _all(cassette: Any, name: str) -> Iterator[Interaction]:
    listed = _listed(cassette, name)
    talks = [one for one in listed if "direction" in one]
    if talks:
        yield from _conversation(talks)
    for number, one in enumerate((one for one in listed if "direction" not in one), 1):
        try:
            if "request_sample" in one:
                yield Talk("call", "rpc", one["request_sample"], one["response_sample"])
            else:
                yield _exchange(one)
        except (TypeError, LookupError, ValueError, AttributeError, OverflowError):
            raise _bad(f"{name}: interaction {number} has not the form of a request and its answer") from None


def _listed(cassette: Any, name: str) -> Sequence[Mapping[str, Any]]:
    if isinstance(cassette, Mapping) and "requests" in cassette and "responses" in cassette:
        requests, responses = cassette["requests"], cassette["responses"]
        if len(requests) != len(responses):
            raise _bad(f"{name} has {len(requests)} requests and {len(responses)} responses")
        return [{"request": asked, "response": came} for asked, came in zip(requests, responses, strict=True)]
    if isinstance(cassette, Mapping):
        cassette = cassette["interactions"] if "interactions" in cassette else cassette["http_interactions"]
    if not isinstance(cassette, list) or not all(isinstance(one, Mapping) for one in cassette):
        raise _bad(f"{name} is not a cassette: it lists no interactions")
    return cassette


def _conversation(messages: Sequence[Mapping[str, Any]]) -> Iterator[Talk]:
    """Of a socket: whatever came before the next word that was sent is the answer to the last."""
    said: Any = None
    heard: list[Any] = []
    begun = False
    for message in messages:
        if message["direction"] == "sent":
            if begun:
                yield Talk("socket", "websocket", said, heard)
            said, heard, begun = message.get("data"), [], True
        else:
            heard.append(message.get("data"))
            begun = True
    if begun:
        yield Talk("socket", "websocket", said, heard)


def _exchange(one: Mapping[str, Any]) -> Exchange:
    asked, came = one["request"], one["response"]
    url = asked.get("uri") or asked["url"]
    if not isinstance(url, str):
        raise TypeError
    request = Request(str(asked["method"]).upper(), url, _headers(asked.get("headers")), _body(asked))
    head, body = _undone(_head(came), _body(came))
    return Exchange(request, head, body)


def _head(came: Mapping[str, Any]) -> Head:
    status = came.get("status", came.get("status_code"))
    message: Any = None
    if isinstance(status, Mapping):
        status, message = status["code"], status.get("message")
    if isinstance(status, bool) or not 100 <= int(status) <= 999:
        raise ValueError
    version = str(came.get("http_version") or came.get("protocol") or "")
    version = version if version in _VERSIONS else "HTTP/1.1"
    return Head(int(status), _line(message), version, _headers(came.get("headers")))


def _headers(given: Any) -> Headers:
    """Values may be listed, or stand alone; old cassettes have pairs."""
    pairs = given.items() if isinstance(given, Mapping) else (given or ())
    listed = ((name, values if isinstance(values, list) else [values]) for name, values in pairs)
    return tuple((_line(name), _line(value)) for name, values in listed for value in values)


def _line(value: Any) -> str:
    """One line of a head, as a client could have been given it."""
    text = value.decode("latin-1") if isinstance(value, bytes) else "" if value is None else str(value)
    return text.replace("\r", " ").replace("\n", " ").encode("latin-1", "replace").decode("latin-1")


def _body(message: Mapping[str, Any]) -> bytes:
    if "parsed_body" in message:
        parsed = message["parsed_body"]
        return _bytes(parsed) if isinstance(parsed, (str, bytes, type(None))) else _json(parsed)
    body = message.get("body", message.get("content"))
    if isinstance(body, Mapping) and ("string" in body or "base64_string" in body or not body):
        if "base64_string" in body:
            return b64decode(body["base64_string"], validate=True)
        return _bytes(body.get("string"))
    return _bytes(body) if isinstance(body, (str, bytes, type(None))) else _json(body)


def _bytes(value: Any) -> bytes:
    if value is None:
        return b""
    return value if isinstance(value, bytes) else str(value).encode()


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _undone(head: Head, body: bytes) -> tuple[Head, bytes]:
    """The body without its encoding, and the head without what is not true of it any more."""
    encoding = next((value.lower() for name, value in head.headers if name.lower() == "content-encoding"), "")
    plain = _decoded(body, encoding)
    if plain is None:  # in an encoding that the client has to undo: it is handed over as it is
        return head._replace(is_decoded=False), body
    wrong = {"content-length"} if encoding else set()
    length = next((value for name, value in head.headers if name.lower() == "content-length"), None)
    if length is not None and length != str(len(plain)):
        wrong.add("content-length")
    return head._replace(headers=tuple(pair for pair in head.headers if pair[0].lower() not in wrong)), plain


def _decoded(body: bytes, encoding: str) -> bytes | None:
    """None: it is encoded, and we cannot undo that. Many cassettes name an encoding that was undone before."""
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
            raise _bad("a body is too large once it is decompressed", code="cassette_too_large")
        return plain
    return body


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _bad(message: str, code: str = "bad_cassette") -> BadRecording:
    return BadRecording(message, hint="Name a cassette of vcrpy, VCR or Betamax.", code=code)
