"""Findings of the verifier: problems, and the result of one range of events."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

MAX_PROBLEMS = 1000


class Problem(NamedTuple):
    """A finding. `failure`: the event's own bytes are damaged. `mismatch`: the event contradicts others."""

    seq: int
    sort: str
    code: str
    message: str


class AnsweredRequest(NamedTuple):
    seq: int
    parent: int
    kind: str


class RangeResult(msgspec.Struct):
    """The result of one range. It can be sent to another process."""

    start: int
    stop: int
    events: int = 0
    bad: int = 0
    erased: list[int] = []
    problems: list[Problem] = []
    problem_count: int = 0
    last_hash: bytes = b""
    last_kind: str = ""
    first_before: tuple[int, str | None] | None = None
    last_after: str | None = None
    last_state: bytes | None = None
    """Canonical bytes of the state after the last update, if known."""
    state_seen: bool = False
    opened: dict[int, str] = {}
    early_answers: list[AnsweredRequest] = []
    early_snapshots: list[tuple[int, bytes, Any]] = []
    """Snapshot events (seq, salt, state link) before the first state of this range."""
    nodes: int = 0
    artifacts: int = 0
    uncomputed: int = 0

    def add_problem(self, seq: int, sort: str, code: str, message: str) -> None:
        """Count the problem, and keep it if it is among the first MAX_PROBLEMS."""
        self.problem_count += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(seq, sort, code, message))
