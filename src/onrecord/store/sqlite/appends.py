"""Appends as statements.

Everything is validated inside the transaction that writes it:

1. A group is one INSERT, and a transaction by itself: one call into SQLite, during which the interpreter is free for
   others. Only where nodes come along, or very many rows, are there more statements and a COMMIT.
2. Each row asks for its run at the epoch of the append: were that another one, its run number would be NULL, which the
   table refuses.
3. Heads are remembered from one group to the next. What is remembered was committed, and events stay, so it can only
   be behind. Then the next seq is taken, and the unique index refuses.
4. Whatever is refused, the group is done again with care, each append under its own savepoint, where it is found out
   what is the matter and with which.
"""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import cast

import apsw

from reenact.errors import MovedHead, NotFound, Refused, StaleEpoch
from reenact.store.contract import DuplicateIds, EventRow
from reenact.store.sqlite import row_types
from reenact.store.sqlite.group_commit import Request
from reenact.store.sqlite.short_links import kept

EVENT_COLUMNS = "seq, id, kind, lane, lane_seq, link, hash, salt, match, prefix, content"
RUN_NUMBER = "SELECT run_no FROM runs WHERE namespace = ? AND run = ?"
HEAD = (
    "SELECT r.run_no, r.epoch, r.hash, e.seq, e.hash FROM runs r LEFT JOIN events e ON e.run_no = r.run_no"
    " WHERE r.namespace = ? AND r.run = ? ORDER BY e.seq DESC LIMIT 1"
)
INSERT_EVENT = f"INSERT INTO events(run_no, {EVENT_COLUMNS}) VALUES(?,?,?,?,?,?,?,?,?,?,?,?)"
# Many rows in one statement: one hand-over of the interpreter lock instead of one for each row.
INSERTS = tuple((n, INSERT_EVENT + ",(?,?,?,?,?,?,?,?,?,?,?,?)" * (n - 1)) for n in (32, 8, 2, 1))
FENCED_ROW = "((SELECT run_no FROM runs WHERE run_no = ? AND epoch = ?),?,?,?,?,?,?,?,?,?,?,?)"
FENCED_INSERT = f"INSERT INTO events(run_no, {EVENT_COLUMNS}) VALUES{FENCED_ROW}"
MOST_ROWS = 64
"""Of one fenced statement: each number of rows is a statement of its own, prepared once."""
INSERT_NODE = (
    "INSERT INTO nodes(namespace, address, blob) SELECT ?1, ?2, ?3"
    " WHERE NOT EXISTS(SELECT 1 FROM nodes WHERE namespace = ?1 AND address = ?2)"
)
EVENT_BY_ID = f"SELECT {EVENT_COLUMNS} FROM events WHERE run_no = ? AND id = ? AND substr(id, 1, 1) <> '_'"
EVENT_BY_SEQ = f"SELECT {EVENT_COLUMNS} FROM events WHERE run_no = ? AND seq = ?"

VALUES_OF_ROW = 13
KNOWN_RUNS = 4096


@cache
def fenced_insert(rows: int) -> str:
    return FENCED_INSERT + f",{FENCED_ROW}" * (rows - 1)


class KnownRun:
    __slots__ = ("head", "number")

    def __init__(self, number: int, head: tuple[int, bytes]) -> None:
        self.number = number
        self.head = head


class Appends:
    """The lock is held by whoever calls."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.committing = False
        """The statement under way may commit."""
        self._known: dict[tuple[str, str], KnownRun] = {}
        """(namespace, run) -> run number, and a head that it has or had"""

    def forget(self) -> None:
        self._known.clear()

    def at_once(self, cursor: apsw.Cursor, group: list[Request]) -> bool:
        """All of the group, as one statement unless nodes come along. False: something is not as expected, nothing is
        written."""
        nodes: list[tuple[object, ...]] = []
        values = self._values(cursor, group, nodes)
        if values is None:
            return False
        rows = len(values) // VALUES_OF_ROW
        try:
            if rows <= MOST_ROWS and not nodes:
                self.committing = True
                cursor.execute(fenced_insert(rows), values)
            else:
                cursor.execute("BEGIN IMMEDIATE")
                cursor.executemany(INSERT_NODE, nodes)
                for at in range(0, len(values), VALUES_OF_ROW * MOST_ROWS):
                    part = values[at : at + VALUES_OF_ROW * MOST_ROWS]
                    cursor.execute(fenced_insert(len(part) // VALUES_OF_ROW), part)
                self.committing = True
                cursor.execute("COMMIT")
        except apsw.ConstraintError:
            self.committing = False
            if cursor.connection.in_transaction:
                cursor.execute("ROLLBACK")
            return False
        for request in group:
            if request.events:
                last = request.events[-1]
                request.known.head = (last[0], last[6])
        return True

    def _values(
        self, cursor: apsw.Cursor, group: list[Request], nodes: list[tuple[object, ...]]
    ) -> list[object] | None:
        """What the fenced statement is given, and the nodes that come along; None when the group needs care."""
        values: list[object] = []
        for request in group:
            expected = request.expected
            known = self._known.get((request.namespace, request.run))
            if known is None or known.head != expected:
                known = self._look_up(cursor, request.namespace, request.run)
                if known is None or known.head != expected:
                    return None
            request.known = known
            seq = expected[0]
            for event in request.events:
                seq += 1
                if event[0] != seq:
                    return None  # seqs that leave a gap do not show that the head has moved
                values += (known.number, request.epoch)
                values += kept(request.run, event)
            if request.nodes:
                nodes += [(request.namespace, *node) for node in request.nodes]
        if not values:
            return None
        return values

    def _look_up(self, cursor: apsw.Cursor, namespace: str, run: str) -> KnownRun | None:
        found = self._current(cursor, namespace, run)
        if found is None:
            return None
        if len(self._known) >= KNOWN_RUNS:
            self._known.clear()
        number, _, head = found
        known = self._known[namespace, run] = KnownRun(number, head)
        return known

    def _current(self, cursor: apsw.Cursor, namespace: str, run: str) -> tuple[int, int, tuple[int, bytes]] | None:
        """Number, epoch and head of a run."""
        rows = cursor.execute(HEAD, (namespace, run)).fetchall()
        if not rows:
            return None
        number, epoch, header_hash, seq, last_hash = cast("tuple[int, int, bytes, int | None, bytes]", rows[0])
        return number, epoch, (0, header_hash) if seq is None else (seq, last_hash)

    def _admit(self, cursor: apsw.Cursor, request: Request) -> Exception | None:
        """Inserts the request's events, or says why not."""
        found = self._current(cursor, request.namespace, request.run)
        if found is None:
            return self.no_such_run(request.namespace, request.run)
        number, epoch, head = found
        if epoch != request.epoch or head != request.expected:
            return self._refusal(cursor, number, request, epoch, head[0])
        cursor.executemany(INSERT_NODE, [(request.namespace, *node) for node in request.nodes])
        insert(cursor, [(number, *kept(request.run, event)) for event in request.events])
        return None

    def _refusal(self, cursor: apsw.Cursor, number: int, request: Request, epoch: int, seq: int) -> Exception:
        existing = self._existing(cursor, number, request)
        if existing:
            return DuplicateIds(existing)
        if epoch != request.epoch:
            return StaleEpoch(f"run {request.run!r} is at epoch {epoch}, the append is of epoch {request.epoch}")
        return MovedHead(f"run {request.run!r} ends with seq {seq}, the append expected {request.expected[0]}")

    def _existing(self, cursor: apsw.Cursor, number: int, request: Request) -> list[EventRow]:
        found = []
        for event in request.events:
            seq = seq_of(event.id)
            if seq is None:
                row = cursor.execute(EVENT_BY_ID, (number, event.id)).fetchone()
            else:
                row = cursor.execute(EVENT_BY_SEQ, (number, seq)).fetchone()
            if row is not None and row[1] == event.id:
                found.append(row_types.event(row, request.run))
        return found

    def with_care(self, cursor: apsw.Cursor, request: Request) -> Exception | None:
        """One append inside any transaction, trusting nothing remembered."""
        cursor.execute("SAVEPOINT append")
        try:
            error = self._admit(cursor, request)
        except apsw.ConstraintError:
            cursor.execute("ROLLBACK TO append")
            error = self._conflict(cursor, request)
        cursor.execute("RELEASE append")
        return error

    def _conflict(self, cursor: apsw.Cursor, request: Request) -> Exception:
        number = self.run_number(cursor, request.namespace, request.run)
        existing = self._existing(cursor, number, request)
        if existing:
            return DuplicateIds(existing)
        return Refused(f"seq, id or lane_seq of an event is taken in run {request.run!r}")

    def run_number(self, cursor: apsw.Cursor, namespace: str, run: str) -> int:
        number = cursor.execute(RUN_NUMBER, (namespace, run)).get
        if number is None:
            raise self.no_such_run(namespace, run)
        return int(number)

    def no_such_run(self, namespace: str, run: str) -> NotFound:
        return NotFound(f"no run {run!r} in namespace {namespace!r} of {self.path}")


def seq_of(event_id: str) -> int | None:
    """The seq that an id made by the journal ends with; None for an id that somebody gave."""
    if not event_id.startswith("_"):
        return None
    try:
        seq = int(event_id.rpartition("_")[2], 16)
    except ValueError:
        return 0
    return seq if seq < 1 << 62 else 0


def insert(cursor: apsw.Cursor, rows: list[tuple[object, ...]]) -> None:
    if len(rows) == 1:
        cursor.execute(INSERT_EVENT, rows[0])
        return
    at = 0
    for size, sql in INSERTS:
        while len(rows) - at >= size:
            cursor.execute(sql, tuple(chain.from_iterable(rows[at : at + size])))
            at += size
