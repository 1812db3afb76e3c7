"""Several waits of which the first counts.

Which one that was is written before anybody acts on it, in a row of its own: a process that dies while it records the
losers is followed by one that finds the same winner, and two that decide at once agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reenact.core.wait_keys import Resolution, WaitKey
from reenact.effect.waits import rows
from reenact.effect.waits.ledger import Ended, WaitLedger
from reenact.errors import Damaged, InvalidInput, UnknownOrRevoked


class FirstOf(NamedTuple):
    """Of several waits, the first that was resolved, and what the others ended with."""

    winner: WaitKey
    resolution: Resolution
    losers: tuple[tuple[WaitKey, Resolution], ...]


def of_one_run(keys: Sequence[WaitKey]) -> Sequence[WaitKey]:
    """Order among several runs is nobody's to tell: each has its own inbox."""
    if not keys or len({(key.namespace, key.run) for key in keys}) != 1:
        raise InvalidInput("the first of several needs waits of one run", code="bad_wait")
    if len({key.wait_id for key in keys}) != len(keys):
        raise InvalidInput("the same wait stands twice among those of which the first counts", code="bad_wait")
    return keys


def decide(ledger: WaitLedger, keys: Sequence[WaitKey]) -> FirstOf | None:
    """The first, when there is one; the others are ended as lost to it."""
    ended: dict[str, Ended] = {}
    for key in keys:
        opened = ledger.open(key)
        if opened is None:
            raise UnknownOrRevoked
        found = ledger.ended(opened)
        if found is not None:
            ended[key.wait_id] = found
    # A wait that lost elsewhere does not win here, unless there is nothing else left to come.
    won = [wait_id for wait_id in ended if ended[wait_id].resolution.status != "lost"]
    if not won and len(ended) < len(keys):
        return None
    earliest = min(won or ended, key=lambda wait_id: ended[wait_id].number)
    posted = ledger.post(keys[0].run, rows.first_of_key(key.wait_id for key in keys), {"winner": earliest})
    first = str(posted.payload.get("winner")) if isinstance(posted.payload, dict) else ""
    winner = next((key for key in keys if key.wait_id == first), None)
    if winner is None:
        raise Damaged("the record of which wait was first cannot be read", code="bad_wait_row")
    losers = [
        (key, (ended.get(key.wait_id) or ledger.end(key, Resolution.lost(first))).resolution)
        for key in keys
        if key is not winner
    ]
    # The winner of a decision that somebody else wrote may have ended after our look.
    resolution = (ended.get(first) or ledger.end(winner, Resolution.lost(first))).resolution
    return FirstOf(winner, resolution, tuple(losers))
