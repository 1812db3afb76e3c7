"""Divide runs into shards, one for each of several machines.

A run's shard depends on its id alone, so it never changes. Every run is in exactly one shard.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from onrecord.errors import InvalidInput

MOST_SHARDS = 10_000
_WRITTEN = re.compile(r"([1-9][0-9]{0,4})/([1-9][0-9]{0,4})\Z", re.ASCII)
_TAG = b"onrecord.shard/1\0"


class Shard(NamedTuple):
    """The shard `number` of `total`, counted from 1."""

    number: int
    total: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        match = _WRITTEN.match(text)
        number, total = (int(match[1]), int(match[2])) if match else (0, 0)
        if not 1 <= number <= total <= MOST_SHARDS:
            raise InvalidInput(
                f"not a shard: {text[:40]!r}",
                hint=f"Write NUMBER/TOTAL, counted from 1, as in 2/4; at most {MOST_SHARDS:,} shards.",
                code="bad_shard",
            )
        return cls(number, total)

    def holds(self, run: str) -> bool:
        return shard_number(run, self.total) == self.number

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"


def shard_number(run: str, total: int) -> int:
    """Return the number of a run's shard, from 1 to `total`."""
    digest = hashlib.sha256(_TAG + run.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") % total + 1
