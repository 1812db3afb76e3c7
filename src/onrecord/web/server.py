"""Serving: an address is bound before anything is said, and signals end it cleanly."""

from __future__ import annotations

import asyncio
import errno
import secrets
import socket
from collections.abc import Callable, Collection
from types import FrameType
from typing import NamedTuple

import uvicorn

from onrecord.errors import InvalidInput, OnrecordError
from onrecord.runtime.waits.http_endpoint import is_loopback
from onrecord.web.access import Access
from onrecord.web.app import Guarded, make_app
from onrecord.web.protocol import HEAD_BYTES, BoundedProtocol
from onrecord.web.stores import Stores

BACKLOG = 128
KEEP_ALIVE_SECONDS = 5
ENDING_SECONDS = 3
QUIET = 100
"""A level of logging that nothing reaches: requests name runs and may hold keys."""


class AddressUnavailable(OnrecordError):
    code = "address_unavailable"
    exit_status = 5
    default_hint = "Choose another one with --port; 0 takes any that is free."


class Address(NamedTuple):
    """What whoever started the server has to know."""

    url: str
    login_url: str
    """For a browser, once."""
    token: str | None
    """For programs."""


class OnrecordServer(uvicorn.Server):
    def __init__(self, stores: Stores, app: Guarded, bound: socket.socket, address: Address) -> None:
        config = uvicorn.Config(
            app,
            http=BoundedProtocol,
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            log_level=QUIET,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=HEAD_BYTES,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=ENDING_SECONDS,
        )
        super().__init__(config)
        self.address = address
        self.stores = stores
        self._bound = bound
        self._app = app

    def serve_until_stopped(self, when_ready: Callable[[Address], None] | None = None) -> None:
        """Returns when a signal came or `should_exit` was set."""
        if when_ready is not None:
            when_ready(self.address)
        self.run(sockets=[self._bound])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.stop()
        connections = list(self.server_state.connections)
        await super().shutdown(sockets)
        for connection in connections:  # whoever does not read what is left for him is not waited for
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.abort()
        await asyncio.sleep(0)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn would raise the signal once more at the end, and the process would seem to have been killed.
        self.force_exit = self.should_exit
        self.should_exit = True


def make_server(
    stores: Stores,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    auth: bool = True,
    token: str | None = None,
    allowed_hosts: Collection[str] = (),
) -> OnrecordServer:
    """A server that is bound and not yet serving. Port 0 takes a free one."""
    check_address(host, auth=auth, allowed_hosts=allowed_hosts)
    bound = _bind(host, port)
    number: int = bound.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    names = {*allowed_hosts, shown} if is_loopback(host) else set(allowed_hosts)
    known = (token or secrets.token_urlsafe(32)) if auth else None
    access = Access(cookie_name=f"onrecord-{number}", allowed_hosts=names, token=known)
    url = f"http://{shown}:{number}"
    address = Address(url + "/", url + access.login_target, known)
    return OnrecordServer(stores, make_app(stores, access, allowed_hosts=names), bound, address)


def check_address(host: str, *, auth: bool, allowed_hosts: Collection[str]) -> None:
    if is_loopback(host):
        return
    if not auth:
        raise InvalidInput(
            "without a token only this machine is served",
            hint="Leave --no-auth out, or serve on 127.0.0.1.",
            code="not_loopback",
        )
    if not allowed_hosts:
        raise InvalidInput(
            f"serving on {host} needs the names that it is reached by",
            hint="Name them with --allow-host, with TLS by a proxy in front: the token goes with every request.",
            code="no_allowed_hosts",
        )


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named by its number: asyncio sends at once on sockets that are known to be TCP, and waits 40 ms on others.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(BACKLOG)  # whoever reads the address may connect at once
    except (OSError, OverflowError) as error:
        bound.close()
        number = error.errno if isinstance(error, OSError) else None
        if number == errno.EADDRINUSE:
            raise AddressUnavailable(f"port {port} of {host} is in use", code="port_in_use") from None
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise AddressUnavailable(f"cannot listen on {host} port {port}: {reason}") from None
    return bound
