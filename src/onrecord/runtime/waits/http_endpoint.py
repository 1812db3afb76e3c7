"""Resolve a wait over HTTP: `POST /waits/<key>` with a JSON body of exactly one member.

    {"value": …}      resolve
    {"error": …}      resolve as failed
    {"cancel": true}  resolve as cancelled

    200  resolved with this payload, now or before
    409  resolved before with another payload, which is in the response
    404  every refused key: unknown, revoked, tampered with, of another namespace, unreadable.
         One response after one amount of work
    4xx  the request itself is invalid; its key was not read

The key in the path is the whole credential. So nothing is logged or cached, and web pages of other origins are refused:
Host and Origin are checked, and only `application/json` is accepted, which an HTML form cannot send.

`WaitEndpoint` decides without I/O of its own; `WaitsApp` is a plain ASGI application around it, which `onrecord.web`
serves.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Awaitable, Callable, Collection, MutableMapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

from onrecord.core.canonical import stored_bytes
from onrecord.core.codec import encode
from onrecord.core.strict_json import read_strict
from onrecord.core.wait_keys import Resolution
from onrecord.errors import InvalidValue, OnrecordError
from onrecord.runtime.waits.registry import WaitRegistry

BODY_BYTES = 1024 * 1024
BODY_SECONDS = 10.0
MAX_BODY_DEPTH = 64
LOOPBACK_NAMES = frozenset(("localhost", "127.0.0.1", "[::1]"))

_PATH = re.compile(r"/waits/([^/]+)\Z")
_LENGTH = re.compile(r"[0-9]{1,12}\Z")
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?\Z")

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class WaitResponse(NamedTuple):
    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()

    def all_headers(self) -> list[tuple[str, str]]:
        return [
            ("content-type", "application/json"),
            ("content-length", str(len(self.body))),
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
            ("x-content-type-options", "nosniff"),
            *self.headers,
        ]


class WaitRequest(NamedTuple):
    """The head of a request. The header names are in lower case."""

    method: str
    path: str
    headers: Sequence[tuple[str, str]]

    def values(self, name: str) -> list[str]:
        return [value for other, value in self.headers if other == name]


def problem(status: int, code: str, message: str, *headers: tuple[str, str]) -> WaitResponse:
    return WaitResponse(status, stored_bytes({"error": {"code": code, "message": message}}), headers)


NO_SUCH_WAIT = problem(404, "await_event_unknown_or_revoked", "this wait key is not known or was revoked")
TOO_LARGE = problem(413, "too_large", f"a body has at most {BODY_BYTES} bytes")
TOO_SLOW = problem(408, "too_slow", f"the request did not arrive within {BODY_SECONDS:.0f} seconds")
CUT_OFF = problem(400, "cut_off", "the body is shorter than announced")
FAILED = problem(503, "store_unavailable", "nothing is known about the wait; try again with the same body")
_RESOLVED = WaitResponse(200, stored_bytes({"status": "resolved"}))


class WaitEndpoint:
    """The decisions about a request. Only the registry does I/O."""

    def __init__(
        self, registry: WaitRegistry, *, allowed_hosts: Collection[str] = (), allowed_origins: Collection[str] = ()
    ) -> None:
        self.registry = registry
        self._hosts = LOOPBACK_NAMES | {host.lower() for host in allowed_hosts}
        self._origins = frozenset(allowed_origins)

    def refuse(self, request: WaitRequest) -> WaitResponse | None:
        """Return the refusal of a request by its head, or None if its body may be read."""
        return (
            self._refuse_sender(request)
            or _refuse_target(request)
            or _refuse_method(request)
            or _refuse_framing(request)
            or _refuse_type(request)
        )

    def _refuse_sender(self, request: WaitRequest) -> WaitResponse | None:
        hosts = request.values("host")
        if len(hosts) != 1:
            return problem(400, "bad_host", "a request has exactly one Host")
        match = _HOST.match(hosts[0])
        if match is None or match[1].lower() not in self._hosts:
            return problem(403, "bad_host", "this host name is not served here")
        if any(origin not in self._origins for origin in request.values("origin")):
            return problem(403, "bad_origin", "pages of other origins may not resolve waits")
        return None

    def answer(self, request: WaitRequest, body: bytes) -> WaitResponse:
        """Resolve the wait. Only this method reads the key."""
        try:
            resolution = decode_resolution(read_strict(body, max_bytes=BODY_BYTES, max_depth=MAX_BODY_DEPTH))
        except InvalidValue as error:
            return problem(400, error.code, error.message)
        match = _PATH.match(request.path)
        text = unquote(match[1], errors="replace") if match else ""
        try:
            outcome = self.registry.resolve(text, resolution)
        except InvalidValue as error:
            return problem(400, error.code, error.message)
        except OnrecordError:
            return FAILED
        if outcome.status == "unknown_or_revoked":
            return NO_SUCH_WAIT
        if outcome.confirms(resolution) or outcome.terminal is None:
            return _RESOLVED
        first = {"status": outcome.terminal.status, "value": encode(outcome.terminal.value).tree}
        return WaitResponse(409, stored_bytes({"status": "already_resolved", "resolution": first}))


def decode_resolution(tree: Any) -> Resolution:
    if isinstance(tree, dict) and len(tree) == 1:
        ((name, value),) = tree.items()
        if name == "value":
            return Resolution.ok(value)
        if name == "error" and value is not None:
            return Resolution.error(value)
        if name == "cancel" and value is True:
            return Resolution.cancelled()
    raise InvalidValue('a body is {"value": …}, {"error": …} or {"cancel": true}', code="bad_body")


def _refuse_target(request: WaitRequest) -> WaitResponse | None:
    if not request.path.startswith("/") or len(request.path) > 16_384:
        return problem(400, "bad_target", "the target of a request is a path")
    return None if _PATH.match(request.path) else NO_SUCH_WAIT


def _refuse_method(request: WaitRequest) -> WaitResponse | None:
    if request.method == "POST":
        return None
    return problem(405, "bad_method", "waits are resolved by POST", ("allow", "POST"))


def _refuse_framing(request: WaitRequest) -> WaitResponse | None:
    lengths = request.values("content-length")
    if request.values("transfer-encoding"):
        # With both, a proxy may see another end of the body. Alone, the size is unknown until the body has arrived.
        if lengths:
            return problem(400, "bad_length", "a body has one length")
        return problem(411, "no_length", "a body needs a Content-Length")
    if not lengths:
        return problem(411, "no_length", "a body needs a Content-Length")
    if len(lengths) != 1 or not _LENGTH.match(lengths[0]):
        return problem(400, "bad_length", "a body has one length")
    return TOO_LARGE if int(lengths[0]) > BODY_BYTES else None


def _refuse_type(request: WaitRequest) -> WaitResponse | None:
    types = request.values("content-type")
    parts = [part.strip().lower() for part in types[0].split(";")] if len(types) == 1 else [""]
    if parts[0] != "application/json" or parts[1:] not in ([], ["charset=utf-8"]):
        return problem(415, "bad_type", "a body is application/json in UTF-8")
    if [value for value in request.values("content-encoding") if value.lower() != "identity"]:
        return problem(415, "bad_type", "a body is not compressed")
    return None


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class WaitsApp:
    """The endpoint as an ASGI application."""

    def __init__(
        self, registry: WaitRegistry, *, allowed_hosts: Collection[str] = (), allowed_origins: Collection[str] = ()
    ) -> None:
        self.endpoint = WaitEndpoint(registry, allowed_hosts=allowed_hosts, allowed_origins=allowed_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _run_lifespan(receive, send)
        elif scope["type"] == "http":
            await _send(send, await self._respond(scope, receive))
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _respond(self, scope: Scope, receive: Receive) -> WaitResponse:
        headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        # Prefer the raw path: `path` is decoded, so that an escaped slash would look like a real one.
        raw: bytes | None = scope.get("raw_path")
        path = raw.decode("latin-1").partition("?")[0] if raw else scope["path"]
        request = WaitRequest(scope["method"], path, headers)
        refusal = self.endpoint.refuse(request)
        if refusal is not None:
            return refusal
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _read_body(receive, int(request.values("content-length")[0]))
        except TimeoutError:
            return TOO_SLOW
        if isinstance(body, WaitResponse):
            return body
        threads = self.endpoint.registry.lookup_threads()
        return await asyncio.wrap_future(threads.submit(partial(self.endpoint.answer, request, body)))


async def _read_body(receive: Receive, length: int) -> bytes | WaitResponse:
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return CUT_OFF
        part = message.get("body", b"")
        size += len(part)
        if size > length:
            return TOO_LARGE
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts) if size == length else CUT_OFF


async def _send(send: Send, answer: WaitResponse) -> None:
    headers = [(name.encode(), value.encode()) for name, value in answer.all_headers()]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


async def _run_lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
