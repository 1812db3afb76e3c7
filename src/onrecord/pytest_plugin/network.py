"""Keeping tests from the network, and noticing what leaves one that is recorded.

The interpreter tells of every connection and every look-up of a name (audit events), however it is reached. Whose it is
is told by the place that the code stands in: connections of other threads of the process are nobody's business.
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

from reenact.capture.draws import is_own_file
from reenact.effect.boundary import replays
from reenact.effect.lanes import Lane
from reenact.effect.live_run import LiveRun
from reenact.effect.places import PLACE, Inside
from reenact.errors import ReenactError

_CONNECTS = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_LOOKS_UP = frozenset({"socket.getaddrinfo", "socket.gethostbyname"})
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_lock = threading.Lock()
_installed = False
_watches: dict[int, Watch] = {}
"""Those of the runs that go on, by their identity."""
_around: list[Hosts] = []
"""What every test may reach, where all of them are kept from the network."""
_looking_up = threading.local()


class NetworkBlocked(ReenactError, ConnectionError):
    """A test that is replayed has tried to connect. It has not."""

    code = "network_blocked"
    exit_status = 1
    default_hint = "A local server that it needs is named by the setting reenact_allow_hosts."


class Hosts:
    """Hosts that may be reached."""

    def __init__(self, names: Sequence[str]) -> None:
        self._patterns = [name.lower() for name in names]
        self._loopback = any(name in _LOOPBACK for name in self._patterns)
        self._addresses: set[str] = set()

    def has(self, host: str) -> bool:
        host = host.lower().rstrip(".")
        if self._loopback and _is_loopback(host):
            return True
        return host in self._addresses or any(fnmatchcase(host, pattern) for pattern in self._patterns)

    def looked_up(self, host: str) -> None:
        """What is connected to later is an address, not the name."""
        if getattr(_looking_up, "now", False) or _is_loopback(host):
            return
        _looking_up.now = True
        try:
            self._addresses |= {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
        except OSError:
            pass  # the caller finds out by itself
        finally:
            _looking_up.now = False


class Watch:
    """Over one run. Without a `note` whatever is not allowed is stopped; with it, it is only told."""

    def __init__(self, run: LiveRun, hosts: Hosts, note: Callable[[str], None] | None) -> None:
        self.run = run
        self.hosts = hosts
        self.note = note


@contextmanager
def watched(run: LiveRun, allowed: Sequence[str], note: Callable[[str], None] | None) -> Iterator[None]:
    _install()
    _watches[id(run)] = Watch(run, Hosts(allowed), note)
    try:
        yield
    finally:
        del _watches[id(run)]


@contextmanager
def blocked(allowed: Sequence[str]) -> Iterator[None]:
    """For whatever happens meanwhile, in any thread."""
    _install()
    _around.append(Hosts(allowed))
    try:
        yield
    finally:
        _around.pop()


def _install() -> None:
    """Once in a process: the interpreter forgets no audit function."""
    global _installed
    with _lock:
        if not _installed:
            _installed = True
            sys.addaudithook(_audited)


def _audited(event: str, args: tuple[Any, ...]) -> None:
    if event not in _CONNECTS and event not in _LOOKS_UP:
        return
    if not _watches and not _around:
        return
    host = _host(event, args)
    if host is None:
        return
    watch = _watch_here()
    if watch is not None:
        _of_a_run(watch, event, host)
    elif _around:
        _check(_around[-1], event, host)


def _host(event: str, args: tuple[Any, ...]) -> str | None:
    """None: it does not leave this process by a network."""
    named = args[0] if event in _LOOKS_UP else args[1] if len(args) > 1 else None
    if event in _CONNECTS:
        named = named[0] if isinstance(named, tuple) and named else None
    if isinstance(named, bytes):
        named = named.decode("ascii", "replace")
    if not isinstance(named, str) or not named or (event in _LOOKS_UP and _is_address(named)):
        return None
    return named


def _watch_here() -> Watch | None:
    place = PLACE.get()
    run = place.run if type(place) is Lane or isinstance(place, Inside) else replays.get(threading.get_ident())
    return _watches.get(id(run)) if run is not None and not run.ended else None


def _of_a_run(watch: Watch, event: str, host: str) -> None:
    if watch.note is not None:
        if type(PLACE.get()) is Lane and event in _CONNECTS and not watch.hosts.has(host):
            watch.note(f"a connection to {host} at {_own_line()}")
        return
    try:
        _check(watch.hosts, event, host)
    except NetworkBlocked as reason:
        watch.run.stop(reason)  # whatever the test makes of the error
        raise


def _check(hosts: Hosts, event: str, host: str) -> None:
    if not hosts.has(host):
        what = "looks up" if event in _LOOKS_UP else "connects to"
        raise NetworkBlocked(f"the test {what} {host[:200]!r} at {_own_line()}, and is kept from the network")
    if event in _LOOKS_UP:
        hosts.looked_up(host)


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ip_address(host.partition("%")[0]).is_loopback)


def _own_line() -> str:
    frame: Any = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if is_own_file(file):
            return f"{os.path.relpath(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return "a line of a library"
