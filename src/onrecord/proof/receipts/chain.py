"""Whether receipts are all of a flow, in order: each names the one before it by hash."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from reenact.errors import Damaged
from reenact.tokens.token import ReplayToken


class ChainProblem(NamedTuple):
    at: int
    """Which receipt of the list, from 0."""
    code: str
    message: str


class ChainReport(msgspec.Struct, frozen=True):
    tokens: int
    problems: list[ChainProblem]
    last: str | None
    """The own hash of the last receipt: with it, a chain that was cut short later is found out."""
    open_ended: bool
    """Nothing was given to tell whether receipts are missing at the end."""

    @property
    def whole(self) -> bool:
        """Nothing of nothing is no chain."""
        return self.tokens > 0 and not self.problems

    def __str__(self) -> str:
        if not self.tokens:
            return "no receipts"
        if self.problems:
            first = self.problems[0]
            return f"receipt {first.at}: {first.message}"
        return f"{self.tokens} receipts in order" + (", nothing later to compare with" if self.open_ended else "")

    def raise_if_broken(self) -> None:
        if not self.whole:
            code = self.problems[0].code if self.problems else "no_receipts"
            raise Damaged(str(self), code=code, hint="Get the whole flow again from whoever issued it.")


def check_chain(tokens: Sequence[ReplayToken], *, last: str | None = None, follows: str | None = None) -> ChainReport:
    """Checks every receipt by itself, and that each follows the one before it.

    `last` is the own hash of the last receipt as somebody knows it; without it, receipts that were taken away at the
    end are not missed. `follows` is what the first one has to follow, for a part of a flow.
    """
    places: dict[str, int] = {}
    for index, token in enumerate(tokens):
        places.setdefault(token.token_hash, index)
    problems: list[ChainProblem] = []
    before = follows
    for index, token in enumerate(tokens):
        problems += [ChainProblem(index, problem.code, problem.message) for problem in token.problems()]
        if places[token.token_hash] != index:
            message = f"it is receipt {places[token.token_hash]} once more"
            problems.append(ChainProblem(index, "duplicate_receipt", message))
            continue
        if (token.flow, token.namespace) != (tokens[0].flow, tokens[0].namespace):
            problems.append(ChainProblem(index, "other_flow", "it belongs to another flow"))
        elif token.previous != before:
            problems.append(ChainProblem(index, *_misplaced(token, places)))
        before = token.token_hash
    if last is not None and before != last:
        known = last in places
        message = "the last receipt is not at the end" if known else "the last receipt is missing"
        problems.append(ChainProblem(len(tokens), "reordered_receipt" if known else "missing_receipt", message))
    return ChainReport(len(tokens), problems, tokens[-1].token_hash if tokens else None, last is None)


def _misplaced(token: ReplayToken, places: dict[str, int]) -> tuple[str, str]:
    if token.previous is None:
        return "reordered_receipt", "it is the first of its flow and stands further back"
    if token.previous in places:
        return "reordered_receipt", f"it follows receipt {places[token.previous]}, not the one before it"
    return "missing_receipt", "the receipt before it is missing"
