"""How long tests go on: `make test` tries a few seeds of each kind, `make soak` (ONRECORD_SOAK=1) all of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import product
from typing import TypeVar

import pytest

SOAK = bool(os.environ.get("ONRECORD_SOAK"))
S = TypeVar("S")
T = TypeVar("T")


def seeds(quick: int, soak: int) -> range:
    """Return the numbers of a sweep: `quick` of them in `make test`, `soak` of them in `make soak`."""
    return range(soak if SOAK else quick)


def cases(quick: Sequence[T], soak: Sequence[T] = ()) -> list[T]:
    """Return `quick`, and `soak` after it in `make soak`."""
    return [*quick, *(soak if SOAK else ())]


def pairs(rows: Iterable[T], columns: Iterable[S]) -> list[tuple[T, S]]:
    """Return every pair in `make soak`; in `make test` as few as have every row and every column."""
    first, second = list(rows), list(columns)
    if SOAK:
        return list(product(first, second))
    count = max(len(first), len(second))
    return [(first[number % len(first)], second[number % len(second)]) for number in range(count)]


long = pytest.mark.soak
"""Mark a test that only `make soak` runs."""
