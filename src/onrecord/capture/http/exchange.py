"""Request and answer in a form common to all libraries, and their recorded form.

Everything that is recorded of a request passes `recorded_request`. Headers are recorded by allow-list: only those that
describe what is requested. Headers about the sender (credentials, cookies, platform, retry count) are not recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit, urlunsplit

from onrecord.capture.http.addresses import split_url
from onrecord.capture.http.bodies import body_bytes, normalize_boundary, request_body, response_body

RECORDED_HEADERS = frozenset({"accept", "anthropic-beta", "anthropic-version", "content-type", "openai-beta", "range"})
_DEFAULT_PORTS = {"http": 80, "https": 443}
_ENCODING = "content-encoding"
_LENGTH_OF_ENCODING = len(_ENCODING)
_WRONG_AFTER_DECODING = frozenset({_ENCODING, "content-length"})
"""Headers that are wrong after the body was decoded."""
_ANSWER_FIELDS = frozenset({"status", "reason", "version", "headers", "body"})
_FORMS = ({"json"}, {"json", "style"}, {"text"}, {"bytes"})
_CONTENT_TYPES = {"json": "application/json", "text": "text/plain; charset=utf-8"}

Headers = tuple[tuple[str, str], ...]


class RequestParts(NamedTuple):
    method: str
    url: str
    headers: Headers
    body: bytes = b""

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")


class ResponseHead(NamedTuple):
    """Status line and headers of a response."""

    status: int
    reason: str
    version: str
    headers: Headers
    is_decoded: bool = True
    """True if the body is decoded. False if the library leaves decoding to the program."""


def header_pairs(pairs: Iterable[tuple[str | bytes, str | bytes]]) -> Headers:
    return tuple(
        [
            (
                name.decode("latin-1") if isinstance(name, bytes) else name,
                value.decode("latin-1") if isinstance(value, bytes) else value,
            )
            for name, value in pairs
        ]
    )


def recorded_request(request: RequestParts) -> dict[str, Any]:
    """Return the payload of the effect."""
    headers, body = {}, request.body
    for name, value in request.headers:
        name = name.lower()
        if name in RECORDED_HEADERS:
            headers[name] = value
    if "content-type" in headers:
        headers["content-type"], body = normalize_boundary(request.header("content-type"), body)
    payload: dict[str, Any] = {"method": request.method, "url": _without_user(request.url), "headers": headers}
    if body:
        payload["body"] = request_body(body)
    return payload


def _without_user(url: str) -> str:
    """Return the URL without user name and password."""
    if "@" not in url:
        return url
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def effect_name(request: RequestParts) -> str:
    """Return the name of the effect, such as `POST api.example.com/v1/chat/completions`."""
    scheme, netloc, path = split_url(request.url)
    return f"{request.method} {_host(scheme, netloc)}{path or '/'}"


@lru_cache(maxsize=256)
def _host(scheme: str, netloc: str) -> str:
    parts = SplitResult(scheme, netloc, "", "", "")
    host = parts.hostname or ""
    return host if parts.port is None or parts.port == _DEFAULT_PORTS.get(scheme) else f"{host}:{parts.port}"


def describe_upgrade(url: str) -> str:
    """Return the description of a connection that leaves HTTP (WebSocket), whose messages are not recorded."""
    parts = urlsplit(url)
    return f"a connection that leaves HTTP (WebSocket) to {parts.hostname}:{parts.port}{parts.path}"


def is_encoded(headers: Headers) -> bool:
    named = [(name, value) for name, value in headers if len(name) == _LENGTH_OF_ENCODING]
    return any(name.lower() == _ENCODING and value.lower() not in ("", "identity") for name, value in named)


def has_body(method: str, status: int) -> bool:
    """Return True if the response has a body. Otherwise its headers may describe a body that is not sent."""
    return method != "HEAD" and status not in (204, 304)


def recorded_head(head: ResponseHead, method: str, length: int | None = None) -> dict[str, Any]:
    """Return the recorded form of a head. `length` is the body's, if it is already known."""
    headers = head.headers
    if head.is_decoded and is_encoded(headers) and has_body(method, head.status):
        headers = tuple(_decoded_headers(headers, length))
    return {
        "status": head.status,
        "reason": head.reason,
        "version": head.version,
        "headers": [list(pair) for pair in headers],
    }


def _decoded_headers(headers: Headers, length: int | None) -> Iterator[tuple[str, str]]:
    for name, value in headers:
        if name.lower() == "content-length" and length is not None:
            yield name, str(length)
        elif name.lower() not in _WRONG_AFTER_DECODING:
            yield name, value


def recorded_response(head: ResponseHead, body: bytes, method: str) -> dict[str, Any]:
    recorded = recorded_head(head, method, len(body))
    recorded["body"] = response_body(body)
    return recorded


def complete_answer(answer: Any) -> dict[str, Any]:
    """Return an answer with every part that a server sends. A settlement or an override may give only the body, or only
    some of the head."""
    if isinstance(answer, dict) and answer.keys() >= _ANSWER_FIELDS:
        return answer
    if not _has_head(answer):
        answer = {"body": answer}
    body, pairs = _body_form(answer.get("body")), _handwritten_headers(answer.get("headers"))
    if body and not any(name.lower() == "content-type" for name, _ in pairs):
        kind = next((kind for form, kind in _CONTENT_TYPES.items() if form in body), "application/octet-stream")
        pairs.append(["content-type", kind])
    status = answer.get("status", 200)
    head = {"status": status, "reason": _reason_phrase(status), "version": "HTTP/1.1"}
    return {**head, **answer, "headers": pairs, "body": body}


def _has_head(answer: Any) -> bool:
    """Return True if the object is an answer with a head, and not a body that has a field named `status`."""
    if not isinstance(answer, dict) or not answer.keys() & {"body", "headers"}:
        return False
    status = answer.get("status")
    return type(status) is int and 100 <= status <= 599 and answer.keys() <= _ANSWER_FIELDS | {"ended"}


def _handwritten_headers(headers: Any) -> list[list[str]]:
    """Return the headers of a hand-written answer as pairs, without those that describe how the body was sent."""
    items = headers.items() if isinstance(headers, dict) else headers if isinstance(headers, list) else ()
    pairs: list[list[str]] = []
    for one in items:
        if isinstance(one, (list, tuple)) and len(one) == 2:
            values = one[1] if isinstance(one[1], list) else [one[1]]
            pairs += [[str(one[0]), str(value)] for value in values]
    return [pair for pair in pairs if pair[0].lower() not in (*_WRONG_AFTER_DECODING, "transfer-encoding")]


def fit_length(answer: dict[str, Any], method: str) -> dict[str, Any]:
    """Return the answer with the right content length. Redaction or a fork may have changed the body."""
    headers = fit_length_header(answer["headers"], method, answer["status"], lambda: len(body_bytes(answer["body"])))
    return answer if headers is answer["headers"] else {**answer, "headers": headers}


def fit_length_header(headers: Any, method: str, status: int, length: Callable[[], int | None]) -> Any:
    """Return headers whose content length is `length()`, or unchanged headers if that is None (unknown)."""
    declared = next((value for name, value in headers if name.lower() == "content-length"), None)
    if declared is None or not has_body(method, status):
        return headers
    actual = length()
    if actual is None or str(actual) == declared:
        return headers
    return [[name, str(actual) if name.lower() == "content-length" else value] for name, value in headers]


def _reason_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _body_form(body: Any) -> dict[str, Any]:
    if isinstance(body, dict) and (not body or any(body.keys() == form for form in _FORMS)):
        return body
    if isinstance(body, str | bytes):
        return response_body(body.encode() if isinstance(body, str) else body)
    return {} if body is None else {"json": body, "style": "compact"}


def read_head(recorded: Mapping[str, Any]) -> ResponseHead:
    """Return the head that the program receives, while recording and in every replay."""
    headers = tuple((name, value) for name, value in recorded["headers"])
    return ResponseHead(recorded["status"], recorded["reason"], recorded["version"], headers)
