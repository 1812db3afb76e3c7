"""The receipt log: its contract, and an implementation in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from onrecord.core.hashing import render
from onrecord.core.links import check_namespace
from onrecord.errors import Damaged, InvalidInput, NotFound, Refused
from onrecord.proof.receipts.token import ReplayToken


class ReplayLog(Protocol):
    """Log of the receipts of one namespace. A receipt of another namespace is reported as unknown."""

    namespace: str

    def append(self, token: ReplayToken) -> None:
        """Append a receipt to its flow. Appending the same receipt again changes nothing.

        Refuse one that does not verify (`bad_token`), that does not follow the last of its flow (`out_of_chain`), or
        that belongs to another namespace (`other_namespace`).
        """
        ...

    def get(self, token_hash: str) -> ReplayToken:
        """Return a receipt, or raise NotFound (`unknown_token`)."""
        ...

    def tokens_for_flow(self, flow: str) -> list[ReplayToken]:
        """Return the receipts of a flow in the order of appending, or raise NotFound (`unknown_flow`)."""
        ...

    def query(
        self, tags: Mapping[str, str | None] | None = None, *, since: int | None = None, until: int | None = None
    ) -> list[ReplayToken]:
        """Return the receipts with all of these tags (None matches any value) and since <= time < until, by time."""
        ...

    def artifact(self, address: bytes) -> bytes:
        """Return bytes that a receipt names by address and does not hold."""
        ...


class InMemoryReplayLog:
    """Log of receipts in memory."""

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
        return select_tokens(self._by_hash.values(), tags, since, until)

    def artifact(self, address: bytes) -> bytes:
        raise Damaged(f"no bytes are kept for {render(address)}", code="missing_artifact")


def select_tokens(
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
            "the receipt belongs to another namespace", hint="Open the log of that namespace.", code="other_namespace"
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
