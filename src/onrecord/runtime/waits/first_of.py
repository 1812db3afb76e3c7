"""Decide which of several waits was resolved first.

The winner is written in a row of its own before any process acts on it. So a process that continues after a crash finds
the same winner, and two processes that decide at the same time agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from onrecord.core.wait_keys import Resolution, WaitKey
from onrecord.errors import Damaged, InvalidInput, UnknownOrRevoked
from onrecord.runtime.waits import records
from onrecord.runtime.waits.ledger import WaitEnd, WaitLedger


class FirstOf(NamedTuple):
    """The first resolved wait of several, and the resolutions of the others."""

    winner: WaitKey
    resolution: Resolution
    losers: tuple[tuple[WaitKey, Resolution], ...]


def check_one_run(keys: Sequence[WaitKey]) -> Sequence[WaitKey]:
    """Return the keys. Raise `InvalidInput` unless they are distinct waits of one run: only one inbox has an order."""
    if not keys or len({(key.namespace, key.run) for key in keys}) != 1:
        raise InvalidInput("waits of which the first counts belong to one run", code="bad_wait")
    if len({key.wait_id for key in keys}) != len(keys):
        raise InvalidInput("the same wait was given twice", code="bad_wait")
    return keys


def decide_first(ledger: WaitLedger, keys: Sequence[WaitKey]) -> FirstOf | None:
    """Return the winner and end the other waits as lost. Return None while no wait has won."""
    ends: dict[str, WaitEnd] = {}
    for key in keys:
        wait = ledger.open(key)
        if wait is None:
            raise UnknownOrRevoked
        end = ledger.find_end(wait)
        if end is not None:
            ends[key.wait_id] = end
    # A wait that lost in another group wins here only if every wait of this group has ended.
    candidates = [wait_id for wait_id in ends if ends[wait_id].resolution.status != "lost"]
    if not candidates and len(ends) < len(keys):
        return None
    earliest = min(candidates or ends, key=lambda wait_id: ends[wait_id].number)
    posted = ledger.post(keys[0].run, records.first_of_key(key.wait_id for key in keys), {"winner": earliest})
    first = str(posted.payload.get("winner")) if isinstance(posted.payload, dict) else ""
    winner = next((key for key in keys if key.wait_id == first), None)
    if winner is None:
        raise Damaged("the record of which wait was first cannot be read", code="bad_wait_row")
    losers = [
        (key, (ends.get(key.wait_id) or ledger.end(key, Resolution.lost(first))).resolution)
        for key in keys
        if key is not winner
    ]
    # Another process may have written the decision, and its winner may have ended after the loop above.
    resolution = (ends.get(first) or ledger.end(winner, Resolution.lost(first))).resolution
    return FirstOf(winner, resolution, tuple(losers))
