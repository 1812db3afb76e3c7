"""Install interceptors late, for code that is already imported, and remove them afterwards.

A module that did `from time import time` holds the original function. So the names of loaded modules are replaced as
well: for clock and randomness in the program's own modules, for MCP in every module.
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

from onrecord.capture import draws
from onrecord.capture.interceptors import clock, install_http, install_mcp, randomness, uninstall_http, uninstall_mcp

_CLOCKS = ("time", "monotonic", "perf_counter", "process_time")
_MCP = ("mcp.client.stdio", "mcp.client.streamable_http", "mcp.client.sse", "mcp.client._memory")


class _Binding(NamedTuple):
    """A name in a namespace, with its value before the interceptors were installed."""

    namespace: dict[str, Any]
    name: str
    original: Any


@contextmanager
def http_interceptors() -> Iterator[None]:
    install_http()
    try:
        yield
    finally:
        uninstall_http()


@contextmanager
def mcp_interceptors() -> Iterator[None]:
    found = [vars(sys.modules[name]) for name in _MCP if name in sys.modules]
    originals = [_Binding(names, name, value) for names in found for name, value in names.items() if callable(value)]
    install_mcp()
    try:
        with _replace_in_modules(originals, lambda _: True):
            yield
    finally:
        uninstall_mcp()


@contextmanager
def draw_interceptors() -> Iterator[None]:
    """Record clock readings and random draws inside the block. Restore the state of `random` at its end."""
    state, clocks = random.getstate(), [f"{name}{unit}" for name in _CLOCKS for unit in ("", "_ns")]
    found = [*((time, name) for name in clocks), (os, "urandom"), (random, "seed"), (uuid, "uuid1")]
    originals = [_Binding(vars(module), name, getattr(module, name)) for module, name in found]
    clock.install()
    randomness.install()
    draws.modules_are_shared = True
    try:
        with _replace_in_modules(originals, _is_own_module):
            yield
    finally:
        draws.modules_are_shared = False
        randomness.uninstall()
        clock.uninstall()
        random.setstate(state)


@contextmanager
def _replace_in_modules(originals: list[_Binding], is_included: Callable[[ModuleType], bool]) -> Iterator[None]:
    """Replace the originals in every included module that holds one, until the block ends."""
    replaced = {id(one.original): one for one in originals if one.namespace.get(one.name) is not one.original}
    changed: list[_Binding] = []
    for module in list(sys.modules.values()) if replaced else ():
        if isinstance(module, ModuleType) and is_included(module):
            names = vars(module)
            changed += [_Binding(names, name, value) for name, value in list(names.items()) if id(value) in replaced]
    for one in changed:
        source = replaced[id(one.original)]
        one.namespace[one.name] = source.namespace[source.name]
    try:
        yield
    finally:
        for one in changed:
            one.namespace[one.name] = one.original


def _is_own_module(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and draws.is_own_file(file)
