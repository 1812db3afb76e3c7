"""Execute appends as statements.

Everything is validated inside the transaction that writes it:

1. A group is one INSERT and a transaction by itself: one call into SQLite, during which other threads can run. Only
   with nodes, or with very many rows, are there more statements and a COMMIT.
2. Each row looks up its run at the epoch of the append. With another epoch its run number would be NULL, which the
   table refuses.
3. Heads are remembered from one group to the next. A remembered head was committed, and events stay, so it can only
   be too old. Then the next seq is taken, and the unique index refuses it.
4. After any refusal the group is repeated carefully, each append under its own savepoint, to find out which one fails
   and why.
"""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import cast

import apsw

from onrecord.errors import MovedHead, NotFound, Refused, StaleEpoch
from onrecord.store.contract import DuplicateIds, EventRow
from onrecord.store.sqlite import row_types
from onrecord.store.sqlite.group_commit import CommitRequest
from onrecord.store.sqlite.short_links import shorten_row

EVENT_COLUMNS = "seq, id, kind, lane, lane_seq, link, hash, salt, match, prefix, content"
RUN_NUMBER = "SELECT run_no FROM runs WHERE namespace = ? AND run = ?"
HEAD = (
    "SELECT r.run_no, r.epoch, r.hash, e.seq, e.hash FROM runs r LEFT JOIN events e ON e.run_no = r.run_no"
    " WHERE r.namespace = ? AND r.run = ? ORDER BY e.seq DESC LIMIT 1"
)
INSERT_EVENT = f"INSERT INTO events(run_no, {EVENT_COLUMNS}) VALUES(?,?,?,?,?,?,?,?,?,?,?,?)"
# Many rows in one statement: the interpreter lock is released once instead of once for each row.
INSERTS = tuple((n, INSERT_EVENT + ",(?,?,?,?,?,?,?,?,?,?,?,?)" * (n - 1)) for n in (32, 8, 2, 1))
FENCED_ROW = "((SELECT run_no FROM runs WHERE run_no = ? AND epoch = ?),?,?,?,?,?,?,?,?,?,?,?)"
FENCED_INSERT = f"INSERT INTO events(run_no, {EVENT_COLUMNS}) VALUES{FENCED_ROW}"
MOST_ROWS = 64
"""The limit for one fenced statement: each number of rows is another prepared statement."""
INSERT_NODE = (
    "INSERT INTO nodes(namespace, address, blob) SELECT ?1, ?2, ?3"
    " WHERE NOT EXISTS(SELECT 1 FROM nodes WHERE namespace = ?1 AND address = ?2)"
)
EVENT_BY_ID = f"SELECT {EVENT_COLUMNS} FROM events WHERE run_no = ? AND id = ? AND substr(id, 1, 1) <> '_'"
EVENT_BY_SEQ = f"SELECT {EVENT_COLUMNS} FROM events WHERE run_no = ? AND seq = ?"

VALUES_OF_ROW = 13
KNOWN_RUNS = 4096


@cache
def write_fenced_insert(rows: int) -> str:
    return FENCED_INSERT + f",{FENCED_ROW}" * (rows - 1)


class KnownRun:
    __slots__ = ("head", "number")

    def __init__(self, number: int, head: tuple[int, bytes]) -> None:
        self.number = number
        self.head = head


class Appends:
    """Executes appends. The caller holds the lock."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.committing = False
        """True if the current statement may commit."""
        self._known: dict[tuple[str, str], KnownRun] = {}
        """(namespace, run) → run number, and a head that the run has or had"""

    def forget(self) -> None:
        self._known.clear()

    def append_group(self, cursor: apsw.Cursor, group: list[CommitRequest]) -> bool:
        """Write the whole group, as one statement unless it has nodes. Return False if a check failed."""
        nodes: list[tuple[object, ...]] = []
        values = self._collect_values(cursor, group, nodes)
        if values is None:
            return False
        rows = len(values) // VALUES_OF_ROW
        try:
            if rows <= MOST_ROWS and not nodes:
                self.committing = True
                cursor.execute(write_fenced_insert(rows), values)
            else:
                cursor.execute("BEGIN IMMEDIATE")
                cursor.executemany(INSERT_NODE, nodes)
                for at in range(0, len(values), VALUES_OF_ROW * MOST_ROWS):
                    part = values[at : at + VALUES_OF_ROW * MOST_ROWS]
                    cursor.execute(write_fenced_insert(len(part) // VALUES_OF_ROW), part)
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

    def _collect_values(
        self, cursor: apsw.Cursor, group: list[CommitRequest], nodes: list[tuple[object, ...]]
    ) -> list[object] | None:
        """Return the values of the fenced statement and collect the nodes. Return None if the group needs care."""
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
                    return None  # with a gap between seqs, the unique index cannot show that the head has moved
                values += (known.number, request.epoch)
                values += shorten_row(request.run, event)
            if request.nodes:
                nodes += [(request.namespace, *node) for node in request.nodes]
        if not values:
            return None
        return values

    def _look_up(self, cursor: apsw.Cursor, namespace: str, run: str) -> KnownRun | None:
        found = self._read_current(cursor, namespace, run)
        if found is None:
            return None
        if len(self._known) >= KNOWN_RUNS:
            self._known.clear()
        number, _, head = found
        known = self._known[namespace, run] = KnownRun(number, head)
        return known

    def _read_current(self, cursor: apsw.Cursor, namespace: str, run: str) -> tuple[int, int, tuple[int, bytes]] | None:
        """Return number, epoch and head of a run."""
        rows = cursor.execute(HEAD, (namespace, run)).fetchall()
        if not rows:
            return None
        number, epoch, header_hash, seq, last_hash = cast("tuple[int, int, bytes, int | None, bytes]", rows[0])
        return number, epoch, (0, header_hash) if seq is None else (seq, last_hash)

    def _insert_checked(self, cursor: apsw.Cursor, request: CommitRequest) -> Exception | None:
        """Insert the request's events, or return why not."""
        found = self._read_current(cursor, request.namespace, request.run)
        if found is None:
            return self.make_not_found(request.namespace, request.run)
        number, epoch, head = found
        if epoch != request.epoch or head != request.expected:
            return self._explain(cursor, number, request, epoch, head[0])
        cursor.executemany(INSERT_NODE, [(request.namespace, *node) for node in request.nodes])
        insert_events(cursor, [(number, *shorten_row(request.run, event)) for event in request.events])
        return None

    def _explain(self, cursor: apsw.Cursor, number: int, request: CommitRequest, epoch: int, seq: int) -> Exception:
        existing = self._find_existing(cursor, number, request)
        if existing:
            return DuplicateIds(existing)
        if epoch != request.epoch:
            return StaleEpoch(f"run {request.run!r} is at epoch {epoch}, the append is of epoch {request.epoch}")
        return MovedHead(f"run {request.run!r} ends with seq {seq}, the append expected {request.expected[0]}")

    def _find_existing(self, cursor: apsw.Cursor, number: int, request: CommitRequest) -> list[EventRow]:
        found = []
        for event in request.events:
            seq = parse_seq(event.id)
            if seq is None:
                row = cursor.execute(EVENT_BY_ID, (number, event.id)).fetchone()
            else:
                row = cursor.execute(EVENT_BY_SEQ, (number, seq)).fetchone()
            if row is not None and row[1] == event.id:
                found.append(row_types.make_event(row, request.run))
        return found

    def append_carefully(self, cursor: apsw.Cursor, request: CommitRequest) -> Exception | None:
        """Execute one append inside an open transaction, without remembered heads."""
        cursor.execute("SAVEPOINT append")
        try:
            error = self._insert_checked(cursor, request)
        except apsw.ConstraintError:
            cursor.execute("ROLLBACK TO append")
            error = self._explain_conflict(cursor, request)
        cursor.execute("RELEASE append")
        return error

    def _explain_conflict(self, cursor: apsw.Cursor, request: CommitRequest) -> Exception:
        number = self.find_run_number(cursor, request.namespace, request.run)
        existing = self._find_existing(cursor, number, request)
        if existing:
            return DuplicateIds(existing)
        return Refused(f"seq, id or lane_seq of an event is taken in run {request.run!r}")

    def find_run_number(self, cursor: apsw.Cursor, namespace: str, run: str) -> int:
        number = cursor.execute(RUN_NUMBER, (namespace, run)).get
        if number is None:
            raise self.make_not_found(namespace, run)
        return int(number)

    def make_not_found(self, namespace: str, run: str) -> NotFound:
        return NotFound(f"no run {run!r} in namespace {namespace!r} of {self.path}")


def parse_seq(event_id: str) -> int | None:
    """Return the seq at the end of an id that the journal made; None for an id that a caller chose."""
    if not event_id.startswith("_"):
        return None
    try:
        seq = int(event_id.rpartition("_")[2], 16)
    except ValueError:
        return 0
    return seq if seq < 1 << 62 else 0


def insert_events(cursor: apsw.Cursor, rows: list[tuple[object, ...]]) -> None:
    if len(rows) == 1:
        cursor.execute(INSERT_EVENT, rows[0])
        return
    at = 0
    for size, sql in INSERTS:
        while len(rows) - at >= size:
            cursor.execute(sql, tuple(chain.from_iterable(rows[at : at + size])))
            at += size
