"""Check that receipts are the whole of a flow, in order. Each names the previous one by hash."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from onrecord.errors import Damaged
from onrecord.proof.receipts.token import ReplayToken


class ChainProblem(NamedTuple):
    at: int
    """The index of the receipt, from 0."""
    code: str
    message: str


class ChainReport(msgspec.Struct, frozen=True):
    tokens: int
    problems: list[ChainProblem]
    last: str | None
    """The hash of the last receipt. With it, a chain that was truncated later is detected."""
    open_ended: bool
    """True if no last hash was given, so receipts missing at the end are not detected."""

    @property
    def whole(self) -> bool:
        """Return True for a non-empty chain without problems."""
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
            raise Damaged(str(self), code=code, hint="Get the whole flow again from its issuer.")


def check_chain(tokens: Sequence[ReplayToken], *, last: str | None = None, follows: str | None = None) -> ChainReport:
    """Check every receipt, and that each follows the previous one.

    `last` is the known hash of the last receipt; without it, receipts removed at the end are not detected. `follows` is
    the hash that the first receipt has to follow, for a part of a flow.
    """
    places: dict[str, int] = {}
    for index, token in enumerate(tokens):
        places.setdefault(token.token_hash, index)
    problems: list[ChainProblem] = []
    before = follows
    for index, token in enumerate(tokens):
        problems += [ChainProblem(index, problem.code, problem.message) for problem in token.problems()]
        if places[token.token_hash] != index:
            message = f"it repeats receipt {places[token.token_hash]}"
            problems.append(ChainProblem(index, "duplicate_receipt", message))
            continue
        if (token.flow, token.namespace) != (tokens[0].flow, tokens[0].namespace):
            problems.append(ChainProblem(index, "other_flow", "it belongs to another flow"))
        elif token.previous != before:
            problems.append(ChainProblem(index, *_describe_misplaced(token, places)))
        before = token.token_hash
    if last is not None and before != last:
        known = last in places
        message = "the last receipt is not at the end" if known else "the last receipt is missing"
        problems.append(ChainProblem(len(tokens), "reordered_receipt" if known else "missing_receipt", message))
    return ChainReport(len(tokens), problems, tokens[-1].token_hash if tokens else None, last is None)


def _describe_misplaced(token: ReplayToken, places: dict[str, int]) -> tuple[str, str]:
    if token.previous is None:
        return "reordered_receipt", "it is the first of its flow, but not the first in the list"
    if token.previous in places:
        return "reordered_receipt", f"it follows receipt {places[token.previous]}, not the one before it"
    return "missing_receipt", "the receipt before it is missing"
