"""All seams at once, for code that was imported long before they are put in.

`from time import time` has kept the clock itself, wherever it is, so names in modules that are there are looked
through, too: for clock and chance those of the program's own modules, for MCP those of every module.
"""

from __future__ import annotations

import os
import random
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

from reenact.capture import draws
from reenact.capture.seams import chance, clock, install_http, install_mcp, uninstall_http, uninstall_mcp

_CLOCKS = ("time", "monotonic", "perf_counter", "process_time")
_MCP = ("mcp.client.stdio", "mcp.client.streamable_http", "mcp.client.sse", "mcp.client._memory")


class _Name(NamedTuple):
    """Where something is known by a name, and what it was before a seam was put in."""

    names: dict[str, Any]
    name: str
    before: Any


@contextmanager
def http_seams() -> Iterator[None]:
    install_http()
    try:
        yield
    finally:
        uninstall_http()


@contextmanager
def mcp_seams() -> Iterator[None]:
    found = [vars(sys.modules[name]) for name in _MCP if name in sys.modules]
    known = [_Name(names, name, value) for names in found for name, value in names.items() if callable(value)]
    install_mcp()
    try:
        with _known_elsewhere(known, lambda _: True):
            yield
    finally:
        uninstall_mcp()


@contextmanager
def clock_and_chance() -> Iterator[None]:
    """The generator of `random` is as it was when this ends."""
    state, clocks = random.getstate(), [f"{name}{unit}" for name in _CLOCKS for unit in ("", "_ns")]
    found = [*((time, name) for name in clocks), (os, "urandom"), (random, "seed"), (uuid, "uuid1")]
    known = [_Name(vars(module), name, getattr(module, name)) for module, name in found]
    clock.install()
    chance.install()
    draws.modules_are_shared = True
    try:
        with _known_elsewhere(known, _is_own):
            yield
    finally:
        draws.modules_are_shared = False
        chance.uninstall()
        clock.uninstall()
        random.setstate(state)


@contextmanager
def _known_elsewhere(known: list[_Name], is_meant: Callable[[ModuleType], bool]) -> Iterator[None]:
    """Whoever has kept what was there before is given the seam as well, as long as this goes on."""
    seams = {id(one.before): one for one in known if one.names.get(one.name) is not one.before}
    changed: list[_Name] = []
    for module in list(sys.modules.values()) if seams else ():
        if isinstance(module, ModuleType) and is_meant(module):
            names = vars(module)
            changed += [_Name(names, name, value) for name, value in list(names.items()) if id(value) in seams]
    for one in changed:
        there = seams[id(one.before)]
        one.names[one.name] = there.names[there.name]
    try:
        yield
    finally:
        for one in changed:
            one.names[one.name] = one.before


def _is_own(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and draws.is_own_file(file)
