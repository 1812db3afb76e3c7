"""The claim decision: what to do about an effect, given what is observed of it. No I/O, one function.

Rules, in the order in which they are asked:

1. The key is taken by another envelope: conflict. Nothing runs, whatever else is true.
2. The record cannot be told apart or read: corrupt.
3. An outcome is recorded, good or bad: serve it. No lease is needed to read.
4. Strict: what is not recorded is missing. Nothing runs, nothing is claimed.
5. This very controller is carrying it out: join it.
6. Somebody else holds a live lease on the scope: wait, or yield, as the caller said.
7. The lease is to be had (never held, released, expired, not asked for yet): take it over and observe again.
8. The lease is ours, and nothing was requested: run.
9. The lease is ours, and somebody who is gone requested it: the effect is in doubt. An operator's word comes first;
   then it is done again if it may be, and otherwise it stops.

A sleep that is done again keeps its due time: it stands in the request, which is not written anew.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Record(StrEnum):
    """What stands under the replay key."""

    ABSENT = "absent"
    REQUESTED = "requested"
    COMPLETED = "completed"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Lease(StrEnum):
    """Who may write the scope's run."""

    OURS = "ours"
    LIVE = "live"
    """Somebody else's, and not expired."""
    OPEN = "open"
    """To be had, as far as is known: never held, released, expired, or not asked for yet."""


class Settled(StrEnum):
    """What an operator or a probe said about an effect in doubt."""

    NO = "no"
    DONE = "done"
    FAIL = "fail"
    RETRY = "retry"


class Busy(StrEnum):
    """What a rival does while somebody else works."""

    WAIT = "wait"
    YIELD = "yield"


class Observed(NamedTuple):
    record: Record
    same_envelope: bool
    """Means nothing when the record is absent."""
    lease: Lease
    in_flight: bool = False
    """This very controller is carrying it out."""
    may_repeat: bool = False
    """An effect that can be done again without harm, or that is declared to be."""
    settled: Settled = Settled.NO


class DecisionPolicy(NamedTuple):
    strict: bool = False
    busy: Busy = Busy.WAIT


class Decision(StrEnum):
    RUN = "run"
    SERVE = "serve"
    JOIN = "join"
    WAIT = "wait"
    YIELD = "yield"
    TAKE_OVER = "take_over"
    REPEAT = "repeat"
    SETTLE = "settle"
    """Write down what was said of it: that is its outcome."""
    CONFLICT = "conflict"
    MISSING = "missing"
    IN_DOUBT = "in_doubt"
    CORRUPT = "corrupt"


def decide(observed: Observed, policy: DecisionPolicy) -> Decision:
    record = observed.record
    if record is not Record.ABSENT and not observed.same_envelope:
        return Decision.CONFLICT
    if record is Record.UNKNOWN:
        return Decision.CORRUPT
    if record in (Record.COMPLETED, Record.FAILED):
        return Decision.SERVE
    if policy.strict:
        return Decision.MISSING
    if observed.in_flight:
        return Decision.JOIN
    if observed.lease is Lease.LIVE:
        return Decision.WAIT if policy.busy is Busy.WAIT else Decision.YIELD
    if observed.lease is Lease.OPEN:
        return Decision.TAKE_OVER
    if record is Record.ABSENT:
        return Decision.RUN
    return _in_doubt(observed)


def _in_doubt(observed: Observed) -> Decision:
    if observed.settled in (Settled.DONE, Settled.FAIL):
        return Decision.SETTLE
    if observed.settled is Settled.RETRY or observed.may_repeat:
        return Decision.REPEAT
    return Decision.IN_DOUBT
