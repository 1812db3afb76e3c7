"""Results of replaying receipts: values with stable reason codes. Only `raise_if_broken` raises.

One source system names the executor of receipts `ReplayExecutor` and its result `ReplayOutcome`; another uses these
names for whole runs. Here they are `replay_token`, `replay_flow`, `TokenReplay` and `FlowReplay`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from onrecord.errors import OnrecordError
from onrecord.proof.receipts.chain import ChainReport
from onrecord.proof.receipts.token import ReplayToken, Status


class Verdict(StrEnum):
    MATCH = "match"
    DIVERGED = "diverged"
    NOT_REPLAYABLE = "not_replayable"
    INVALID_TOKEN = "invalid_token"  # noqa: S105 - a verdict, no secret


class TokenReplay(msgspec.Struct, frozen=True):
    """Result of executing one effect again. `expected` is the recorded side, `actual` the new one."""

    token_hash: str
    effect_name: str
    verdict: Verdict
    reason: str
    """A stable code: same_outcome, output_differs, error_differs, effect_failed, effect_succeeded, …"""
    message: str
    expected_hash: str
    actual_hash: str | None = None
    actual: Any = None
    """The new value or error."""
    expected_status: Status = "succeeded"
    actual_status: Status | None = None
    model: str | None = None
    """The model called instead of the recorded one."""
    new_token: ReplayToken | None = None
    """The new receipt, if another model was called."""

    @property
    def matches(self) -> bool:
        return self.verdict is Verdict.MATCH


class FlowReplay(msgspec.Struct, frozen=True):
    flow: str
    tokens: int
    """The number of receipts in the flow."""
    results: list[TokenReplay]
    chain: ChainReport
    stopped: bool
    """True if the replay stopped at the first divergence."""

    @property
    def divergences(self) -> list[TokenReplay]:
        return [result for result in self.results if result.verdict is Verdict.DIVERGED]

    @property
    def not_replayable(self) -> list[TokenReplay]:
        return [result for result in self.results if result.verdict is Verdict.NOT_REPLAYABLE]

    @property
    def passed(self) -> bool:
        """Return True if every effect was executed again with the same outcome. An empty flow does not pass."""
        matches = sum(result.matches for result in self.results)
        return self.chain.whole and 0 < matches == self.tokens

    @property
    def verdict(self) -> str:
        if not self.tokens:
            return "empty"
        if not self.chain.whole or any(result.verdict is Verdict.INVALID_TOKEN for result in self.results):
            return "invalid"
        if self.divergences:
            return "diverged"
        return "match" if self.passed else "not_replayable"

    @property
    def new_tokens(self) -> list[ReplayToken]:
        return [result.new_token for result in self.results if result.new_token is not None]

    def __str__(self) -> str:
        matches = sum(result.matches for result in self.results)
        return f"Replay of flow {self.flow}: {matches}/{self.tokens} effects match - {self.verdict.upper()}"

    def raise_if_broken(self) -> None:
        if not self.passed:
            error = FlowBroken(str(self), code=f"flow_{self.verdict}")
            error.exit_status = {"not_replayable": 7, "invalid": 4}.get(self.verdict, 1)
            raise error


class FlowBroken(OnrecordError):
    """Raised by `raise_if_broken` for a flow that did not pass."""

    code = "flow_diverged"
    exit_status = 1
