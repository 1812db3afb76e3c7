"""Random choices that can be repeated: `ONRECORD_SEED=n` repeats a failed test."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager

from kit.soak import SOAK

SEED = int(os.environ.get("ONRECORD_SEED") or random.SystemRandom().randrange(1 << 32))


def seeded(*names: object) -> random.Random:
    """Return the generator of this name; each name has its own."""
    return random.Random("/".join(map(str, (SEED, *names))))


@contextmanager
def repeatable(**where: object) -> Iterator[None]:
    """Add to any failure what is needed to repeat it."""
    try:
        yield
    except BaseException as failure:
        failure.add_note(f"ONRECORD_SEED={SEED} repeats this; {where}")
        raise


def examples(soak: int) -> int:
    """Return the number of examples of a property: all of them in `make soak`, a tenth in `make test`."""
    return soak if SOAK else max(20, soak // 10)
