"""A share of the runs, for one of several machines.

A run's share follows from its id alone: whatever other runs there are, it stays where it is. All shares together are
all the runs, and no run is in two.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from reenact.errors import InvalidInput

MOST_SHARDS = 10_000
_WRITTEN = re.compile(r"([1-9][0-9]{0,4})/([1-9][0-9]{0,4})\Z", re.ASCII)
_TAG = b"reenact.shard/1\0"


class Shard(NamedTuple):
    """The share `number` of `total`, counted from 1."""

    number: int
    total: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        match = _WRITTEN.match(text)
        number, total = (int(match[1]), int(match[2])) if match else (0, 0)
        if not 1 <= number <= total <= MOST_SHARDS:
            raise InvalidInput(
                f"not a shard: {text[:40]!r}",
                hint=f"Write NUMBER/TOTAL, counted from 1, as in 2/4; at most {MOST_SHARDS:,} of them.",
                code="bad_shard",
            )
        return cls(number, total)

    def holds(self, run: str) -> bool:
        return shard_number(run, self.total) == self.number

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"


def shard_number(run: str, total: int) -> int:
    """Which of `total` shares a run is in, from 1 on."""
    digest = hashlib.sha256(_TAG + run.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") % total + 1
