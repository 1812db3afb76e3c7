"""Keep tests from the network, and note connections of a recorded test that are not recorded.

The interpreter reports every connection and name look-up by audit events. The lane of the running code, or its effect,
says which test it belongs to. Connections of unrelated threads are ignored.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from ipaddress import ip_address
from typing import Any

from onrecord.capture.draws import is_own_file
from onrecord.errors import OnrecordError
from onrecord.runtime.engine.context import current_effect, current_lane
from onrecord.runtime.engine.run import LiveRun

_CONNECTS = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_LOOK_UPS = frozenset({"socket.getaddrinfo", "socket.gethostbyname"})
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_lock = threading.Lock()
_installed = False
_watches: dict[int, Watch] = {}
"""Watches of running tests, by the identity of the run."""
_allowed_for_all: list[Hosts] = []
"""Allowed hosts while every test is kept from the network."""
_own_look_up = threading.local()


class NetworkBlocked(OnrecordError, ConnectionError):
    """A replayed test tried to connect. The connection was not made."""

    code = "network_blocked"
    exit_status = 1
    default_hint = "To allow a local server, name its host in the setting onrecord_allow_hosts."


class Hosts:
    """Hosts that a test may reach."""

    def __init__(self, names: Sequence[str]) -> None:
        self._patterns = [name.lower() for name in names]
        self._loopback = any(name in _LOOPBACK for name in self._patterns)
        self._addresses: set[str] = set()

    def has(self, host: str) -> bool:
        host = host.lower().rstrip(".")
        if self._loopback and _is_loopback(host):
            return True
        return host in self._addresses or any(fnmatchcase(host, pattern) for pattern in self._patterns)

    def allow_addresses(self, host: str) -> None:
        """Allow the addresses of an allowed host: a later connection names only the address."""
        if getattr(_own_look_up, "now", False) or _is_loopback(host):
            return
        _own_look_up.now = True
        try:
            self._addresses |= {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
        except OSError:
            pass  # the caller's own look-up fails, too
        finally:
            _own_look_up.now = False


class Watch:
    """Watch of one run. Without `note`, a forbidden connection stops the run; with it, the connection is only noted."""

    def __init__(self, run: LiveRun, hosts: Hosts, note: Callable[[str], None] | None) -> None:
        self.run = run
        self.hosts = hosts
        self.note = note


@contextmanager
def watch_network(run: LiveRun, allowed: Sequence[str], note: Callable[[str], None] | None) -> Iterator[None]:
    _install()
    _watches[id(run)] = Watch(run, Hosts(allowed), note)
    try:
        yield
    finally:
        del _watches[id(run)]


@contextmanager
def block_network(allowed: Sequence[str]) -> Iterator[None]:
    """Keep all threads from the network inside the block."""
    _install()
    _allowed_for_all.append(Hosts(allowed))
    try:
        yield
    finally:
        _allowed_for_all.pop()


def _install() -> None:
    """Add the audit hook once: Python cannot remove one."""
    global _installed
    with _lock:
        if not _installed:
            _installed = True
            sys.addaudithook(_audit)


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if event not in _CONNECTS and event not in _LOOK_UPS:
        return
    if not _watches and not _allowed_for_all:
        return
    host = _read_host(event, args)
    if host is None:
        return
    watch = _current_watch()
    if watch is not None:
        _check_run(watch, event, host)
    elif _allowed_for_all:
        _refuse_unless_allowed(_allowed_for_all[-1], event, host)


def _read_host(event: str, args: tuple[Any, ...]) -> str | None:
    """Return the host of an audit event, or None if it does not use a network."""
    host = args[0] if event in _LOOK_UPS else args[1] if len(args) > 1 else None
    if event in _CONNECTS:
        host = host[0] if isinstance(host, tuple) and host else None
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    if not isinstance(host, str) or not host or (event in _LOOK_UPS and _is_address(host)):
        return None
    return host


def _current_watch() -> Watch | None:
    place = current_lane() or current_effect()
    return _watches.get(id(place.run)) if place is not None and not place.run.ended else None


def _check_run(watch: Watch, event: str, host: str) -> None:
    if watch.note is not None:
        if current_lane() is not None and event in _CONNECTS and not watch.hosts.has(host):
            watch.note(f"a connection to {host} at {_find_own_line()}")
        return
    try:
        _refuse_unless_allowed(watch.hosts, event, host)
    except NetworkBlocked as reason:
        watch.run.stop(reason)  # even if the test catches the error
        raise


def _refuse_unless_allowed(hosts: Hosts, event: str, host: str) -> None:
    if not hosts.has(host):
        what = "looks up" if event in _LOOK_UPS else "connects to"
        raise NetworkBlocked(f"the test {what} {host[:200]!r} at {_find_own_line()}, and is kept from the network")
    if event in _LOOK_UPS:
        hosts.allow_addresses(host)


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ip_address(host.partition("%")[0]).is_loopback)


def _find_own_line() -> str:
    frame: Any = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if is_own_file(file):
            return f"{os.path.relpath(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return "a line of a library"
