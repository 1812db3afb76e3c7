"""What came of doing effects of receipts again: values, with stable reasons; nothing is raised unless asked for."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from reenact.errors import ReenactError
from reenact.tokens.chain import ChainReport
from reenact.tokens.token import ReplayToken, Status


class Verdict(StrEnum):
    MATCH = "match"
    DIVERGED = "diverged"
    NOT_REPLAYABLE = "not_replayable"
    INVALID_TOKEN = "invalid_token"  # noqa: S105 - a verdict, no secret


class TokenReplay(msgspec.Struct, frozen=True):
    """What came of doing one effect again. `expected` is what was recorded, `actual` what came now."""

    token_hash: str
    effect_name: str
    verdict: Verdict
    reason: str
    """A stable code: same_outcome, output_differs, error_differs, effect_failed, effect_succeeded, …"""
    message: str
    expected_hash: str
    actual_hash: str | None = None
    actual: Any = None
    """The value that came now, or the error."""
    expected_status: Status = "succeeded"
    actual_status: Status | None = None
    model: str | None = None
    """The model that was asked instead of the recorded one."""
    new_token: ReplayToken | None = None
    """The new receipt, where another model was asked."""

    @property
    def matches(self) -> bool:
        return self.verdict is Verdict.MATCH


class FlowReplay(msgspec.Struct, frozen=True):
    flow: str
    tokens: int
    """How many receipts the flow has."""
    results: list[TokenReplay]
    chain: ChainReport
    stopped: bool
    """Nothing was tried after the first divergence."""

    @property
    def divergences(self) -> list[TokenReplay]:
        return [result for result in self.results if result.verdict is Verdict.DIVERGED]

    @property
    def not_replayable(self) -> list[TokenReplay]:
        return [result for result in self.results if result.verdict is Verdict.NOT_REPLAYABLE]

    @property
    def passed(self) -> bool:
        """Every effect was done again and came to the same. 0 of 0 is no pass."""
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


class FlowBroken(ReenactError):
    """A flow did not come to the same again; raised only by `raise_if_broken`."""

    code = "flow_diverged"
    exit_status = 1
