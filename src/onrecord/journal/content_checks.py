"""Check what a content holds: referenced nodes and artifacts, state links, the match digest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onrecord.core.canonical import canonical_bytes
from onrecord.core.codec import decode, encode
from onrecord.core.events import KINDS, event_from_content, read_event
from onrecord.core.hashing import artifact_address, render, state_link_of
from onrecord.core.matching import MatchRules
from onrecord.core.merkle import Fetch, artifacts_in, expand, fetch_reachable
from onrecord.core.packing import unpack
from onrecord.core.state import Reducer, next_state
from onrecord.errors import Damaged, OnrecordError
from onrecord.journal.findings import RangeResult
from onrecord.store.contract import EventRow

_STATE_KINDS = frozenset({"StateUpdated", "SnapshotTaken"})
_NODES_REMEMBERED = 500_000


class ContentChecks:
    """Checks the events of a range in order, since states are chained, and writes its findings into `result`."""

    def __init__(
        self,
        result: RangeResult,
        *,
        fetch_nodes: Fetch,
        fetch_artifact: Callable[[bytes], bytes | None],
        rules: MatchRules | None = None,
        reducer: Reducer | None = None,
        builtin_state: bool = True,
        foreign: bool = True,
    ) -> None:
        self.result = result
        self._fetch_nodes = fetch_nodes
        self._fetch_artifact = fetch_artifact
        self._rules = rules
        self._reducer = reducer
        self._state = reducer.initial() if reducer else None
        self._builtin_state = builtin_state
        self._foreign = foreign
        self._seen_nodes: set[bytes] = set()
        self._seen_artifacts: set[bytes] = set()
        self.opened_kinds = _STATE_KINDS if rules is None and reducer is None else None
        """The kinds whose contents are opened; None: all kinds."""

    def needs_opening(self, kind: str) -> bool:
        return self.opened_kinds is None or kind in self.opened_kinds

    def check_parts(self, seq: int, stored: bytes) -> None:
        """Check the nodes and artifacts that a content refers to, each of them once."""

        def fetch(addresses: Sequence[bytes]) -> dict[bytes, bytes]:
            wanted = [address for address in addresses if address not in self._seen_nodes]
            found = dict(self._fetch_nodes(wanted)) if wanted else {}
            # A checked node is not opened again: its references were checked with it.
            found.update({address: b"null" for address in addresses if address in self._seen_nodes})
            return found

        def missing(address: bytes) -> None:
            self.result.add_problem(
                seq, "failure", "missing_node", f"a shared value is missing: node {render(address)}"
            )

        try:
            nodes = fetch_reachable([stored], fetch, missing)
        except Damaged as damage:
            self.result.add_problem(seq, "failure", damage.code, damage.message)
            return
        for address, text in [(b"", stored), *nodes.items()]:
            if address and address not in self._seen_nodes:
                self.result.nodes += 1
                if len(self._seen_nodes) >= _NODES_REMEMBERED:
                    self._seen_nodes.clear()
                self._seen_nodes.add(address)
            self._check_artifacts(seq, text)

    def _check_artifacts(self, seq: int, text: bytes) -> None:
        for address in artifacts_in(text):
            if address in self._seen_artifacts:
                continue
            self._seen_artifacts.add(address)
            self.result.artifacts += 1
            data = self._fetch_artifact(address)
            if data is None:
                self.result.add_problem(
                    seq, "failure", "missing_artifact", f"an artifact is missing: {render(address)}"
                )
            elif artifact_address(data) != address:
                self.result.add_problem(seq, "failure", "bad_artifact", f"an artifact is damaged: {render(address)}")

    def _read_artifact(self, address: bytes) -> bytes:
        data = self._fetch_artifact(address)
        if data is None:
            raise Damaged(f"an artifact is missing: {render(address)}", code="missing_artifact")
        return data

    def check_opened(self, row: EventRow) -> None:
        """Check what needs the content opened: state links, and in a deep check the match digest and every tag."""
        if row.content is None or row.salt is None or row.match is None:
            if row.kind == "StateUpdated":
                self._lose_state()
            return
        before = self.result.problem_count
        try:
            tree = expand(unpack(row.content), self._fetch_nodes)
            event_from_content(row.kind, tree)
            if self._rules is not None:
                self._check_deep(row, tree)
            self._check_states(row, tree)
        except OnrecordError as problem:
            if row.kind == "StateUpdated":
                self._lose_state()
            if self.result.problem_count == before and not self._reported(row.seq):
                self.result.add_problem(row.seq, "failure", "bad_content", problem.message)

    def _reported(self, seq: int) -> bool:
        return bool(self.result.problems) and self.result.problems[-1].seq == seq

    def _lose_state(self) -> None:
        self.result.last_after, self.result.state_seen, self.result.last_state = None, True, None

    def _check_deep(self, row: EventRow, tree: Any) -> None:
        assert self._rules is not None
        if row.kind not in KINDS:
            self.result.uncomputed += 1
        elif self._rules.match(row.kind, tree) != row.match:
            self.result.add_problem(row.seq, "mismatch", "bad_match", "the match digest is not that of the content")
        read_event(row.kind, decode(tree, loaded_classes=not self._foreign, artifact=self._read_artifact))

    def _check_states(self, row: EventRow, tree: Any) -> None:
        result = self.result
        if self._reducer is not None:
            event = event_from_content(row.kind, decode(tree, loaded_classes=True, artifact=self._read_artifact))
            self._state = next_state(self._reducer, self._state, event)
        if row.kind == "SnapshotTaken":
            self._check_snapshot_event(row, tree)
        if row.kind != "StateUpdated":
            return
        before, after = tree.get("before"), tree.get("after")
        if not result.state_seen:
            result.first_before = (row.seq, before)
        elif before != result.last_after and result.last_after is not None:
            message = "the state before differs from the state after the previous update"
            result.add_problem(row.seq, "mismatch", "bad_state", message)
        state = encode(self._state).tree if self._reducer is not None else tree.get("payload")
        result.last_after, result.state_seen, result.last_state = after, True, None
        if self._reducer is not None or self._builtin_state:
            result.last_state = canonical_bytes(state)
            if after is not None and not self._is_state(row, result.last_state, after):
                result.add_problem(
                    row.seq, "mismatch", "bad_state", "the recorded state after differs from the computed one"
                )

    def _check_snapshot_event(self, row: EventRow, tree: Any) -> None:
        """Check that a `SnapshotTaken` event commits to a state that the log has."""
        result = self.result
        if tree.get("position") != row.seq - 1:
            message = "the snapshot event names another position than the one before it"
            result.add_problem(row.seq, "mismatch", "bad_snapshot", message)
        if self._reducer is not None:
            state = canonical_bytes(encode(self._state).tree)
        elif self._builtin_state and result.last_state is not None:
            state = result.last_state
        elif self._builtin_state and not result.state_seen:
            assert row.salt is not None
            result.early_snapshots.append((row.seq, row.salt, tree.get("state")))
            return
        else:
            return
        if not self._is_state(row, state, tree.get("state")):
            message = "the snapshot event commits to a state that the log does not have"
            result.add_problem(row.seq, "mismatch", "bad_snapshot", message)

    @staticmethod
    def _is_state(row: EventRow, state: bytes, link: Any) -> bool:
        assert row.salt is not None
        return bool(render(state_link_of(row.salt, state)) == link)
