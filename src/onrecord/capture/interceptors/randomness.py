"""Chance as a program draws it: bytes of the system, UUIDs and secrets made of them, and generators seeded by them.

A generator that the system seeds is seeded by a drawn number instead: from there on it gives the same numbers in a
replay, and nothing more has to be recorded.
"""

from __future__ import annotations

import os
import random
import sys
import uuid
from typing import Any

from reenact.capture.draws import drawn, is_our_call
from reenact.effect.lanes import Lane
from reenact.effect.places import PLACE

SEED_BYTES = 32
_OWN_KEYS = os.path.join("multiprocessing", "process.py")
"""Draws a key of its own when it is imported, which a replay has done before the program begins."""
_real: dict[str, Any] = {}
_process = 0
"""The one whose lanes draw here."""


def install() -> None:
    if _real:
        return
    _real["urandom"], _real["seed"], _real["uuid1"] = os.urandom, random.Random.seed, uuid.uuid1
    os.urandom = _urandom
    random._urandom = _urandom  # type: ignore[attr-defined]  # what `secrets` and `SystemRandom` use
    random.Random.seed = _seed  # type: ignore[method-assign]
    random.seed = random._inst.seed  # bound to the old one when it was imported
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
    """The module's own generator, which was seeded before the run began, is seeded anew. Called in the first lane of
    each process."""
    global _process
    _process = os.getpid()
    random.seed(_new_seed())


def _urandom(size: int, /) -> bytes:
    if sys._getframe(1).f_code.co_filename.endswith(_OWN_KEYS) or is_our_call(2):
        key: bytes = _real["urandom"](size)
        return key
    value: bytes = drawn("urandom", lambda: _real["urandom"](size))
    return value


def _getrandom(size: int, flags: int = 0) -> bytes:
    value: bytes = drawn("getrandom", lambda: _real["getrandom"](size, flags))
    return value


def _seed(self: random.Random, a: Any = None, version: int = 2) -> None:
    is_here = os.getpid() == _process  # what has just been forked seeds it before it has a run of its own
    is_drawn = is_here and type(PLACE.get()) is Lane and not isinstance(self, random.SystemRandom)
    if a is None and is_drawn and not is_our_call(2):
        a = _new_seed()
    _real["seed"](self, a, version)


def _new_seed() -> int:
    number: int = drawn("seed", lambda: int.from_bytes(_real["urandom"](SEED_BYTES)))
    return number


def _uuid1(node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
    value: uuid.UUID = drawn("uuid1", lambda: _real["uuid1"](node, clock_seq))
    return value
