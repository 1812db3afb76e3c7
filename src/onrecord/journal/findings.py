"""What the verifier finds: problems, and the result of one stretch of events."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

MAX_PROBLEMS = 1000


class Problem(NamedTuple):
    """`failure`: the event's own bytes are not what was written. `mismatch`: it does not fit what stands around it."""

    seq: int
    sort: str
    code: str
    message: str


class Answer(NamedTuple):
    seq: int
    parent: int
    kind: str


class RangeResult(msgspec.Struct):
    """What one stretch showed. All of it can cross a process boundary."""

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
    """Canonical bytes of the state after the last update, where it is known."""
    state_seen: bool = False
    opened: dict[int, str] = {}
    early_answers: list[Answer] = []
    early_vouchers: list[tuple[int, bytes, Any]] = []
    """Snapshots' vouchers (seq, salt, state link) before the first state of this stretch."""
    nodes: int = 0
    artifacts: int = 0
    uncomputed: int = 0

    def problem(self, seq: int, sort: str, code: str, message: str) -> None:
        """Counts all, keeps the first ones."""
        self.problem_count += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(seq, sort, code, message))
