"""Effects and sights of an agent, written to the ledger (`crash_ledger`) as they happen."""

from __future__ import annotations

import random
import time
import uuid
from typing import Any

import onrecord
from kit import crash_ledger
from kit.crash_points import points
from onrecord.runtime.engine.context import current_effect, current_lane

pace_seconds = 0.0
"""How long an effect takes, at most, before and after it has happened."""


def did(book: str, tag: str, given: Any = None) -> str:
    """Execute the effect of that tag: write a line, and return its value."""
    place = current_effect()
    assert place is not None
    epoch = place.run.journal.epoch if place.run.journal is not None else None
    points.pass_by(f"before {tag}")
    time.sleep(random.uniform(0, pace_seconds))
    value = uuid.uuid4().hex[:8]
    crash_ledger.write(book, "did", tag, value, [given, onrecord.idempotency_key()], epoch)
    time.sleep(random.uniform(0, pace_seconds))
    points.pass_by(f"after {tag}")
    return value


def saw(book: str, tag: str, value: Any) -> Any:
    """Acknowledge the outcome of the effect of that tag, and return it."""
    place = current_lane()
    journal = place.run.journal if place is not None else None
    points.pass_by(f"handed {tag}")
    crash_ledger.write(book, "saw", tag, value, None, journal.epoch if journal is not None else None)
    points.pass_by(f"seen {tag}")
    return value
