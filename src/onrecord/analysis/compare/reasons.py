"""Reasons why two outcomes differ: a stable code, the path, and what the tolerance allows there."""

from __future__ import annotations

from typing import Any, NamedTuple

TOKEN_DRIFT = "replay_token_drift"  # noqa: S105 - a reason code
COST_DRIFT = "replay_cost_drift"
NUMBER_DRIFT = "replay_number_drift"
COUNTER_MISSING = "replay_counter_missing"
CONTENT_DIFF = "replay_content_diff"
STRUCTURE_DIFF = "replay_structure_diff"
TOOL_DIFF = "replay_tool_diff"
ATTESTATION_DIFF = "replay_attestation_diff"
ATTESTATION_FORGED = "replay_attestation_forged"
NOT_REPLAYABLE = "replay_not_replayable"

SHOWN_REASONS = 64


class Reason(NamedTuple):
    """A difference and its judgement. `tolerated` differences are drift; `what` names the kind of difference."""

    code: str
    path: str
    what: str
    expected: Any = None
    actual: Any = None
    allowed: Any = None
    tolerated: bool = False

    def to_data(self) -> dict[str, Any]:
        return self._asdict()


class Reasons:
    """Count all reasons; keep the first `SHOWN_REASONS` broken and tolerated ones."""

    def __init__(self) -> None:
        self.broken = 0
        self.tolerated = 0
        self._broken: list[Reason] = []
        self._tolerated: list[Reason] = []

    def add(self, reason: Reason) -> None:
        kept = self._tolerated if reason.tolerated else self._broken
        if reason.tolerated:
            self.tolerated += 1
        else:
            self.broken += 1
        if len(kept) < SHOWN_REASONS:
            kept.append(reason)

    def kept(self) -> tuple[Reason, ...]:
        """Return the kept reasons, broken ones first."""
        return (*self._broken, *self._tolerated)
