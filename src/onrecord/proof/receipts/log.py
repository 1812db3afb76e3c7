"""Where receipts are looked up: what a log promises, and one that keeps them in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from reenact.core.hashing import render
from reenact.core.links import check_namespace
from reenact.errors import Damaged, InvalidInput, NotFound, Refused
from reenact.tokens.token import ReplayToken


class ReplayLog(Protocol):
    """The receipts of one namespace. What belongs to another one is not found, like what does not exist."""

    namespace: str

    def append(self, token: ReplayToken) -> None:
        """Adds a receipt to the end of its flow. The same one again changes nothing.

        Refused: one that does not verify (`bad_token`), that does not follow the last of its flow (`out_of_chain`), or
        that belongs to another namespace (`other_namespace`).
        """
        ...

    def get(self, token_hash: str) -> ReplayToken:
        """NotFound (`unknown_token`) when it is not there."""
        ...

    def tokens_for_flow(self, flow: str) -> list[ReplayToken]:
        """In the order in which they were appended, whatever their times. NotFound (`unknown_flow`)."""
        ...

    def query(
        self, tags: Mapping[str, str | None] | None = None, *, since: int | None = None, until: int | None = None
    ) -> list[ReplayToken]:
        """Receipts with all of these tags (None: whatever its value) and since <= time < until, by time."""
        ...

    def artifact(self, address: bytes) -> bytes:
        """Bytes that a receipt names by address and does not carry."""
        ...


class InMemoryReplayLog:
    """Receipts for as long as the process lives."""

    def __init__(self, namespace: str = "default") -> None:
        self.namespace = check_namespace(namespace)
        self._by_hash: dict[str, ReplayToken] = {}
        self._flows: dict[str, list[ReplayToken]] = {}

    def append(self, token: ReplayToken) -> None:
        check_acceptable(token, self.namespace)
        if token.token_hash in self._by_hash:
            return
        flow = self._flows.setdefault(token.flow, [])
        check_follows(token, flow[-1].token_hash if flow else None)
        flow.append(token)
        self._by_hash[token.token_hash] = token

    def get(self, token_hash: str) -> ReplayToken:
        token = self._by_hash.get(token_hash)
        if token is None:
            raise unknown_token(self.namespace)
        return token

    def tokens_for_flow(self, flow: str) -> list[ReplayToken]:
        tokens = self._flows.get(flow)
        if not tokens:
            raise unknown_flow(flow, self.namespace)
        return list(tokens)

    def query(
        self, tags: Mapping[str, str | None] | None = None, *, since: int | None = None, until: int | None = None
    ) -> list[ReplayToken]:
        return selected(self._by_hash.values(), tags, since, until)

    def artifact(self, address: bytes) -> bytes:
        raise Damaged(f"no bytes are kept for {render(address)}", code="missing_artifact")


# What every log has in common


def selected(
    tokens: Iterable[ReplayToken], tags: Mapping[str, str | None] | None, since: int | None, until: int | None
) -> list[ReplayToken]:
    wanted = dict(tags or {})
    found = [
        token
        for token in tokens
        if (since is None or token.time >= since)
        and (until is None or token.time < until)
        and all(name in token.tags and value in (None, token.tags[name]) for name, value in wanted.items())
    ]
    return sorted(found, key=lambda token: token.time)  # stable: equal times stay in order


def check_acceptable(token: ReplayToken, namespace: str) -> None:
    for problem in token.problems():
        raise InvalidInput(f"the receipt does not verify: {problem.message}", code="bad_token")
    if token.namespace != namespace:
        raise Refused(
            "the receipt belongs to another namespace",
            hint="Open the log of that namespace.",
            code="other_namespace",
        )


def check_follows(token: ReplayToken, last: str | None) -> None:
    if token.previous != last:
        raise Refused(
            f"the receipt does not follow the last one of flow {token.flow}",
            hint="Mint it with after(the last receipt of the flow).",
            code="out_of_chain",
        )


def unknown_token(namespace: str) -> NotFound:
    return NotFound(f"no such receipt in namespace {namespace}", code="unknown_token")


def unknown_flow(flow: str, namespace: str) -> NotFound:
    return NotFound(f"no flow {flow[:128]!r} in namespace {namespace}", code="unknown_flow")
