"""Randomness interceptor: system bytes, UUIDs and secrets made of them, and generators seeded by them.

A generator that would be seeded by the system is seeded by a drawn number instead. It yields the same numbers in a
replay, so only the seed is recorded. The functions of `random` share one generator in a process; each run has its own
behind them, seeded at its first use, so runs side by side do not take numbers from each other.
"""

from __future__ import annotations

import os
import random
import sys
import uuid
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from onrecord.capture.draws import draw, draw_at, drawing_lane
from onrecord.capture.interceptors.replacements import Replacement
from onrecord.runtime.engine.context import Lane, current_lane
from onrecord.runtime.engine.run import LiveRun

SEED_BYTES = 32
_KEY_AT_IMPORT = os.path.join("multiprocessing", "process.py")
"""This module draws a key at its import, which may happen before the program begins. That draw is not recorded."""
_SHARED: random.Random = random._inst
"""The generator behind the functions of `random`, outside of runs."""
_FUNCTIONS = tuple(name for name in random.__all__ if hasattr(_SHARED, name))
_REAL: dict[str, Any] = {"urandom": os.urandom, "uuid1": uuid.uuid1, "Random.seed": random.Random.seed}
if hasattr(os, "getrandom"):
    _REAL["getrandom"] = os.getrandom
_generators: WeakKeyDictionary[LiveRun, tuple[str, random.Random]] = WeakKeyDictionary()
"""Generator of each run, with the root lane for which it was seeded: a checkpoint begins a new one."""


def replacements() -> list[Replacement]:
    found = [
        Replacement(os, "urandom", _REAL["urandom"], _urandom),
        Replacement(random, "_urandom", _REAL["urandom"], _urandom),  # used by `secrets` and `SystemRandom`
        Replacement(random.Random, "seed", _REAL["Random.seed"], _seed),
        Replacement(uuid, "uuid1", _REAL["uuid1"], _uuid1),
        *(Replacement(random, name, getattr(_SHARED, name), _wrap_function(name)) for name in _FUNCTIONS),
    ]
    return [*found, Replacement(os, "getrandom", _REAL["getrandom"], _getrandom)] if "getrandom" in _REAL else found


# The functions of `random`


def _wrap_function(name: str) -> Callable[..., Any]:
    real = getattr(_SHARED, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        lane = drawing_lane()
        return real(*args, **kwargs) if lane is None else getattr(_generator_of(lane), name)(*args, **kwargs)

    call.__module__, call.__name__, call.__qualname__, call.__doc__ = "random", name, name, real.__doc__
    return call


def _generator_of(lane: Lane) -> random.Random:
    run, root = lane.run, lane.run.kernel.root
    found = _generators.get(run)
    if found is None or found[0] != root:
        # From the shared generator: a program that seeds it before its runs gets the same numbers every time.
        seed = draw_at(lane, "seed", lambda: _SHARED.getrandbits(8 * SEED_BYTES))
        found = _generators[run] = root, random.Random(seed)  # noqa: S311
    return found[1]


# Sources of randomness


def _urandom(size: int, /) -> bytes:
    if sys._getframe(1).f_code.co_filename.endswith(_KEY_AT_IMPORT):
        key: bytes = _REAL["urandom"](size)
        return key
    value: bytes = draw(f"urandom {size}", lambda: _REAL["urandom"](size))
    return value


def _getrandom(size: int, flags: int = 0) -> bytes:
    value: bytes = draw(f"getrandom {size}", lambda: _REAL["getrandom"](size, flags))
    return value


def _seed(self: random.Random, a: Any = None, version: int = 2) -> None:
    if a is None and not isinstance(self, random.SystemRandom) and self is not _SHARED and current_lane() is not None:
        a = draw("seed", lambda: int.from_bytes(_REAL["urandom"](SEED_BYTES)))
    _REAL["Random.seed"](self, a, version)


def _uuid1(node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
    value: uuid.UUID = draw("uuid1", lambda: _REAL["uuid1"](node, clock_seq))
    return value
