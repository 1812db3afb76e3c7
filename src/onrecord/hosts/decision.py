"""Decide what a controller does with an effect, given its observations. One function, without I/O.

Rules, in the order in which they are checked:

1. Another envelope has the key: conflict. Nothing runs.
2. The record is damaged: corrupt.
3. An outcome is recorded, a value or an error: serve it. Reading needs no lease.
4. Strict: an effect without an outcome is missing. Nothing runs, nothing is claimed.
5. This controller executes the effect: join it.
6. Another instance holds the lease on the scope: wait or yield, by the policy.
7. The lease is free as far as is known (never held, released, expired, not asked for): take it over, observe again.
8. The lease is ours, and there is no request: run.
9. The lease is ours, and a former holder made the request: the effect is in doubt. A settlement decides first. Then
   the effect is repeated if it may be; otherwise it stays in doubt.

A repeated sleep keeps its due time, which is in its request.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Record(StrEnum):
    """The state of the record under the replay key."""

    ABSENT = "absent"
    REQUESTED = "requested"
    COMPLETED = "completed"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Lease(StrEnum):
    """The state of the lease on the scope's run."""

    OURS = "ours"
    LIVE = "live"
    """Held by another instance."""
    OPEN = "open"
    """Free, as far as is known: never held, released, expired, or not asked for yet."""


class Settled(StrEnum):
    """The decision of an operator or a probe on an effect in doubt."""

    NO = "no"
    DONE = "done"
    FAIL = "fail"
    RETRY = "retry"


class Busy(StrEnum):
    """The behaviour of a rival while another instance holds the lease."""

    WAIT = "wait"
    YIELD = "yield"


class Observed(NamedTuple):
    record: Record
    same_envelope: bool
    """Without meaning if the record is absent."""
    lease: Lease
    in_flight: bool = False
    """True: this controller executes the effect."""
    may_repeat: bool = False
    """True: executing the effect again does no harm, or is declared to do none."""
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
    """Record the settlement: it is the outcome."""
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
