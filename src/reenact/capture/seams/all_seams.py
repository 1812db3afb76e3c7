"""All seams at once, for code that was imported long before they are put in: `from time import time` has kept the clock
itself, wherever it is, so the names of the program's own modules are looked through, too."""

from __future__ import annotations

import os
import random
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from reenact.capture.draws import is_own_file
from reenact.capture.seams import chance, clock, install_http, uninstall_http

_NAMES: tuple[tuple[ModuleType, str], ...] = (
    *((time, name) for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")),
    *((time, name) for name in ("process_time", "process_time_ns")),
    (os, "urandom"),
    (random, "seed"),
    (uuid, "uuid1"),
)


@contextmanager
def http_seams() -> Iterator[None]:
    install_http()
    try:
        yield
    finally:
        uninstall_http()


@contextmanager
def clock_and_chance() -> Iterator[None]:
    """The generator of `random` is as it was when this ends."""
    state, real = random.getstate(), [getattr(module, name) for module, name in _NAMES]
    clock.install()
    chance.install()
    seams = {id(one): getattr(module, name) for one, (module, name) in zip(real, _NAMES, strict=True)}
    changed = list(_replaced(real, seams))
    try:
        yield
    finally:
        for module, name, one in changed:
            module[name] = one
        chance.uninstall()
        clock.uninstall()
        random.setstate(state)


def _replaced(
    real: list[Callable[..., Any]], seams: dict[int, Any]
) -> Iterator[tuple[dict[str, Any], str, Callable[..., Any]]]:
    kept = {id(one): one for one in real}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not is_own_file(file):
            continue
        names = vars(module)
        for name, value in list(names.items()):
            if id(value) in kept and seams[id(value)] is not value:
                names[name] = seams[id(value)]
                yield names, name, value
