"""A request and its answer, whichever library they belong to, and what is recorded of them.

Everything that is recorded of a request passes `recorded_request`. Headers are recorded by allow-list: those that say
what is asked for. What names the sender (credentials, cookies, platform, retry count) takes no part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit, urlunsplit

from reenact.capture.http.addresses import parts_of
from reenact.capture.http.bodies import body_bytes, request_body, response_body, with_one_boundary

RECORDED_HEADERS = frozenset(
    {
        "accept",
        "anthropic-beta",
        "anthropic-version",
        "content-type",
        "openai-beta",
        "range",
    }
)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_ENCODING = "content-encoding"
_LENGTH_OF_ENCODING = len(_ENCODING)
_UNDONE_WITH_ENCODING = frozenset({_ENCODING, "content-length"})
"""Headers that are not true any more once the encoding of the body is undone."""
_WHOLE = frozenset({"status", "reason", "version", "headers", "body"})
_FORMS = ({"json"}, {"json", "style"}, {"text"}, {"bytes"})
_CONTENT_TYPES = {"json": "application/json", "text": "text/plain; charset=utf-8"}

Headers = tuple[tuple[str, str], ...]


class Request(NamedTuple):
    method: str
    url: str
    headers: Headers
    body: bytes = b""

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")


class Head(NamedTuple):
    """What comes before the body."""

    status: int
    reason: str
    version: str
    headers: Headers
    is_decoded: bool = True
    """The content encoding is undone. False where a library leaves that to the program."""


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


def recorded_request(request: Request) -> dict[str, Any]:
    """The payload of the effect."""
    headers, body = {}, request.body
    for name, value in request.headers:
        name = name.lower()
        if name in RECORDED_HEADERS:
            headers[name] = value
    if "content-type" in headers:
        headers["content-type"], body = with_one_boundary(request.header("content-type"), body)
    payload: dict[str, Any] = {"method": request.method, "url": _without_user(request.url), "headers": headers}
    if body:
        payload["body"] = request_body(body)
    return payload


def _without_user(url: str) -> str:
    """Name and password of a URL are credentials."""
    if "@" not in url:
        return url
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def name_of(request: Request) -> str:
    """`POST api.example.com/v1/chat/completions`: what the effect is called."""
    scheme, netloc, path = parts_of(request.url)
    return f"{request.method} {_host(scheme, netloc)}{path or '/'}"


@lru_cache(maxsize=256)
def _host(scheme: str, netloc: str) -> str:
    parts = SplitResult(scheme, netloc, "", "", "")
    host = parts.hostname or ""
    return host if parts.port is None or parts.port == _DEFAULT_PORTS.get(scheme) else f"{host}:{parts.port}"


def upgraded(url: str) -> str:
    """What to call a connection that leaves HTTP, as for WebSockets: nobody records what is said on it."""
    parts = urlsplit(url)
    return f"a connection that leaves HTTP (WebSocket) to {parts.hostname}:{parts.port}{parts.path}"


def is_encoded(headers: Headers) -> bool:
    named = [(name, value) for name, value in headers if len(name) == _LENGTH_OF_ENCODING]
    return any(name.lower() == _ENCODING and value.lower() not in ("", "identity") for name, value in named)


def has_body(method: str, status: int) -> bool:
    """Otherwise its headers speak of a body that does not come."""
    return method != "HEAD" and status not in (204, 304)


def recorded_head(head: Head, method: str, length: int | None = None) -> dict[str, Any]:
    """`length` is that of the body, where it is known by now."""
    headers = head.headers
    if head.is_decoded and is_encoded(headers) and has_body(method, head.status):
        headers = tuple(_undone(headers, length))
    return {
        "status": head.status,
        "reason": head.reason,
        "version": head.version,
        "headers": [list(pair) for pair in headers],
    }


def _undone(headers: Headers, length: int | None) -> Iterator[tuple[str, str]]:
    for name, value in headers:
        if name.lower() == "content-length" and length is not None:
            yield name, str(length)
        elif name.lower() not in _UNDONE_WITH_ENCODING:
            yield name, value


def recorded_response(head: Head, body: bytes, method: str) -> dict[str, Any]:
    recorded = recorded_head(head, method, len(body))
    recorded["body"] = response_body(body)
    return recorded


def completed(answer: Any) -> dict[str, Any]:
    """An answer as a server would have sent it. Whoever settles an effect, or answers it in a fork, may give no more
    than the body, or of the head no more than what matters."""
    if isinstance(answer, dict) and answer.keys() >= _WHOLE:
        return answer
    if not _has_head(answer):
        answer = {"body": answer}
    body, pairs = _body_form(answer.get("body")), _pairs(answer.get("headers"))
    if body and not any(name.lower() == "content-type" for name, _ in pairs):
        kind = next((kind for form, kind in _CONTENT_TYPES.items() if form in body), "application/octet-stream")
        pairs.append(["content-type", kind])
    status = answer.get("status", 200)
    head = {"status": status, "reason": _reason(status), "version": "HTTP/1.1"}
    return {**head, **answer, "headers": pairs, "body": body}


def _has_head(answer: Any) -> bool:
    """Not every object with a status in it is an answer's head."""
    if not isinstance(answer, dict) or not answer.keys() & {"body", "headers"}:
        return False
    status = answer.get("status")
    return type(status) is int and 100 <= status <= 599 and answer.keys() <= _WHOLE | {"ended"}


def _pairs(headers: Any) -> list[list[str]]:
    """Headers that were written by hand. How the body was sent is not for a body that nobody sent."""
    given = headers.items() if isinstance(headers, dict) else headers if isinstance(headers, list) else ()
    pairs: list[list[str]] = []
    for one in given:
        if isinstance(one, (list, tuple)) and len(one) == 2:
            values = one[1] if isinstance(one[1], list) else [one[1]]
            pairs += [[str(one[0]), str(value)] for value in values]
    return [pair for pair in pairs if pair[0].lower() not in (*_UNDONE_WITH_ENCODING, "transfer-encoding")]


def fitted(answer: dict[str, Any], method: str) -> dict[str, Any]:
    """With the length that its body has: a secret was taken out of it, or a fork has changed it."""
    headers = fitted_headers(answer["headers"], method, answer["status"], lambda: len(body_bytes(answer["body"])))
    return answer if headers is answer["headers"] else {**answer, "headers": headers}


def fitted_headers(headers: Any, method: str, status: int, length: Callable[[], int | None]) -> Any:
    """None as a length: nobody knows."""
    known = next((value for name, value in headers if name.lower() == "content-length"), None)
    if known is None or not has_body(method, status):
        return headers
    actual = length()
    if actual is None or str(actual) == known:
        return headers
    return [[name, str(actual) if name.lower() == "content-length" else value] for name, value in headers]


def _reason(status: int) -> str:
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


def head_of(recorded: Mapping[str, Any]) -> Head:
    """The head as it is handed to the program, now and in every replay."""
    headers = tuple((name, value) for name, value in recorded["headers"])
    return Head(recorded["status"], recorded["reason"], recorded["version"], headers)
