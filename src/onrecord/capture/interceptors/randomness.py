"""Randomness interceptor: system bytes, UUIDs and secrets made of them, and generators seeded by them.

A generator that would be seeded by the system is seeded by a drawn number instead. It yields the same numbers in a
replay, so only the seed is recorded.
"""

from __future__ import annotations

import os
import random
import sys
import uuid
from typing import Any

from onrecord.capture.draws import draw, draw_at, drawing_lane
from onrecord.runtime.engine.context import current_lane

SEED_BYTES = 32
_KEY_AT_IMPORT = os.path.join("multiprocessing", "process.py")
"""This module draws a key at its import, which may happen before the program begins. That draw is not recorded."""
FIRST_SEED = "seed"
"""The site of the seed that each run begins with."""
_real: dict[str, Any] = {}
_process = 0
"""Process id for which `begin` was called."""


def install() -> None:
    if _real:
        return
    _real["urandom"], _real["seed"], _real["uuid1"] = os.urandom, random.Random.seed, uuid.uuid1
    os.urandom = _urandom
    random._urandom = _urandom  # type: ignore[attr-defined]  # used by `secrets` and `SystemRandom`
    random.Random.seed = _seed  # type: ignore[method-assign]
    random.seed = random._inst.seed  # was bound to the original at import
    uuid.uuid1 = _uuid1
    if hasattr(os, "getrandom"):
        _real["getrandom"] = os.getrandom
        os.getrandom = _getrandom


def uninstall() -> None:
    if not _real:
        return
    os.urandom = random._urandom = _real["urandom"]  # type: ignore[attr-defined]
    random.Random.seed = _real["seed"]  # type: ignore[method-assign]
    random.seed = random._inst.seed
    uuid.uuid1 = _real["uuid1"]
    if "getrandom" in _real:
        os.getrandom = _real["getrandom"]
    _real.clear()


def begin() -> None:
    """Seed the generator of `random` again, in the first lane of each process: it was seeded before the run began."""
    global _process
    _process = os.getpid()
    lane = drawing_lane()
    random.seed(_make_seed() if lane is None else draw_at(lane, FIRST_SEED, _make_seed))


def _make_seed() -> int:
    return int.from_bytes(_real["urandom"](SEED_BYTES))


def _urandom(size: int, /) -> bytes:
    if sys._getframe(1).f_code.co_filename.endswith(_KEY_AT_IMPORT):
        key: bytes = _real["urandom"](size)
        return key
    value: bytes = draw(f"urandom {size}", lambda: _real["urandom"](size))
    return value


def _getrandom(size: int, flags: int = 0) -> bytes:
    value: bytes = draw(f"getrandom {size}", lambda: _real["getrandom"](size, flags))
    return value


def _seed(self: random.Random, a: Any = None, version: int = 2) -> None:
    has_begun = os.getpid() == _process  # a fork seeds generators before its run begins
    if a is None and has_begun and not isinstance(self, random.SystemRandom) and current_lane() is not None:
        a = draw("seed", _make_seed)
    _real["seed"](self, a, version)


def _uuid1(node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
    value: uuid.UUID = draw("uuid1", lambda: _real["uuid1"](node, clock_seq))
    return value
