"""Update the index from the log: first the list row of each run, then the words of its events.

Each piece of work is one transaction. A process that stops leaves a consistent index that is only out of date, and two
processes never do the same piece twice.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import apsw

from onrecord.core.events import TERMINAL_KINDS
from onrecord.core.hashing import render
from onrecord.core.links import OPERATIONS_RUN
from onrecord.errors import OnrecordError
from onrecord.index.database import IndexOutdated
from onrecord.index.run_texts import index_events
from onrecord.reports.runs import ListPosition
from onrecord.reports.status import Standing, is_held, standing_of
from onrecord.reports.summaries import facts_of, kind_of_run, parent_of
from onrecord.runtime.waits.listed_waits import load_waits
from onrecord.store.contract import RunRow, Store

RUNS_AT_ONCE = 100
EVENTS_AT_ONCE = 400
RECHECKED_RUNS = 50
"""Held and unheld open runs that are rechecked in each round: no store reports that a process died."""
LONGEST_NAME, NAMES_MOST = 1_000, 50
"""Limits of a list row, because recorded names may have any length."""
REMOVALS = ("RunRetired", "ContentErased")

PUT = """INSERT INTO runs(run, kind, created, agent, status, ended, held, about, seqs, waits, events, head, imported,
  parent, texted, version, looked) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,-1,?15,?16)
ON CONFLICT(run) DO UPDATE SET kind = ?2, agent = ?4, status = ?5, ended = ?6, held = ?7, about = ?8, seqs = ?9,
  waits = ?10, events = ?11, head = ?12, version = ?15, looked = ?16"""


class ListRow(NamedTuple):
    """Row of the index for one run in lists."""

    run: str
    kind: str
    created: int
    agent: str | None
    status: str
    ended: bool
    held: bool
    about: str
    seqs: str
    waits: int
    events: int
    head: str
    imported: bool
    parent: str


class IndexSync:
    """Update of the index within one transaction."""

    def __init__(self, connection: apsw.Connection, store: Store, namespace: str) -> None:
        self.connection = connection
        self._store = store
        self._namespace = namespace

    def meta(self, name: str) -> str | None:
        found = self.connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).get
        return None if found is None else str(found)

    def set_meta(self, name: str, value: str) -> None:
        self.connection.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (name, value))

    def check_store(self) -> None:
        """Raise IndexOutdated if another store has replaced this one: compare its first and last indexed runs."""
        ends = "SELECT run, created FROM runs ORDER BY run_no {} LIMIT 1"
        for run, created in [*self._rows(ends.format("ASC")), *self._rows(ends.format("DESC"))]:
            row = self._store.run_row(self._namespace, run)
            if row is None or row.header.created != created:
                raise IndexOutdated

    def follow(self) -> bool:
        """Apply one batch of changes to the list rows. Return True if there may be more."""
        if self.meta("listed") != "all":
            return self._list_next_page()
        cursor, changed = self._store.runs_since(self._namespace, self.meta("cursor"))
        if changed is None:
            raise IndexOutdated
        for run in changed:
            self._update_run(run)
        inbox_cursor, arrivals = self._store.inbox_since(self.meta("inbox"))
        for run in dict.fromkeys(one.run for one in arrivals if one.namespace == self._namespace):
            if run != OPERATIONS_RUN and run not in changed:
                self._update_run(run)
        if cursor != self.meta("cursor"):
            self.set_meta("cursor", cursor)
        if inbox_cursor != self.meta("inbox"):
            self.set_meta("inbox", inbox_cursor)
        return bool(changed or arrivals)

    def _list_next_page(self) -> bool:
        """List the next page of runs for the first time. Changes made during this are in the feed after the cursor."""
        listed_to = self.meta("listed")
        if listed_to is None:
            cursor, _ = self._store.runs_since(self._namespace, None)
            self.set_meta("cursor", cursor)
            self.set_meta("inbox", self._store.inbox_since(None)[0])
            last = self._store.last_event(self._namespace, OPERATIONS_RUN)
            self.set_meta("operations", str(last.seq if last is not None else 0))
        before = ListPosition.of(listed_to) if listed_to else None
        page = self._store.list_runs(self._namespace, before=before, limit=RUNS_AT_ONCE)
        for row in page:
            self._write_row(make_list_row(self._store, self._namespace, row))
        whole = len(page) < RUNS_AT_ONCE
        self.set_meta("listed", "all" if whole else ListPosition(page[-1].header.created, page[-1].header.run).cursor())
        return True

    def _update_run(self, run: str) -> None:
        if run == OPERATIONS_RUN:
            self._check_removals()
            return
        row = self._store.run_row(self._namespace, run)
        if row is None:
            raise IndexOutdated  # removed; the record of the removal may follow later
        self._write_row(make_list_row(self._store, self._namespace, row))

    def _check_removals(self) -> None:
        known = seq = int(self.meta("operations") or 0)
        for row in self._store.scan(self._namespace, OPERATIONS_RUN, known + 1, contents=False):
            if row.kind in REMOVALS:
                raise IndexOutdated
            seq = row.seq
        self.set_meta("operations", str(seq))

    def _write_row(self, row: ListRow) -> None:
        self.connection.execute(PUT, (*row, self._next_version(), time.time_ns() // 1000))

    def _next_version(self) -> int:
        version = int(self.meta("version") or 0) + 1
        self.set_meta("version", str(version))
        return version

    def recheck_open_runs(self) -> None:
        """Update the open runs whose lease was taken or has expired."""
        open_runs = "SELECT run, held FROM runs WHERE ended = 0 AND imported = 0 AND held = {} ORDER BY looked LIMIT {}"
        for wanted in (1, 0):
            for run, held in self._rows(open_runs.format(wanted, RECHECKED_RUNS)):
                if is_held(self._store, self._namespace, run) != bool(held):
                    self._update_run(run)
                else:
                    now = time.time_ns() // 1000
                    self.connection.execute("UPDATE runs SET looked = ? WHERE run = ?", (now, run))

    def _rows(self, sql: str) -> list[Any]:
        found: Any = self.connection.execute(sql).fetchall()
        return list(found)

    def read_words(self, until: Callable[[], bool]) -> bool:
        """Index some events of the runs with unread events, the oldest run first. Return True if there are more."""
        sql = "SELECT run_no, run, texted, events, ended FROM runs WHERE texted < events ORDER BY created LIMIT 20"
        left = EVENTS_AT_ONCE
        while rows := self._rows(sql):
            for run_no, run, texted, events, ended in rows:
                if left <= 0 or until():
                    return True
                left -= index_events(
                    self.connection,
                    self._store,
                    self._namespace,
                    run_no=run_no,
                    run=run,
                    texted=texted,
                    events=events,
                    ended=bool(ended),
                    most=left,
                    version=self._next_version,
                )
        return False


def make_list_row(store: Store, namespace: str, row: RunRow) -> ListRow:
    header, last = row.header, row.last
    run = header.run
    facts = facts_of(store, namespace, run)
    agent = (facts or {}).get("agent")
    ended = last is not None and last.kind in TERMINAL_KINDS
    standing = _read_standing(store, namespace, row)
    is_active = not ended and not header.imported
    return ListRow(
        run,
        kind_of_run(facts),
        header.created,
        agent[:LONGEST_NAME] if isinstance(agent, str) else None,
        standing.status,
        ended,
        is_active and is_held(store, namespace, run),
        json.dumps([name[:LONGEST_NAME] for name in standing.about[:NAMES_MOST]]),
        json.dumps(standing.seqs[:NAMES_MOST]),
        _open_waits(store, namespace, run) if is_active else 0,
        last.seq if last is not None else 0,
        render(last.hash if last is not None else header.hash),
        header.imported,
        json.dumps(parent_of(header)),
    )


def _read_standing(store: Store, namespace: str, row: RunRow) -> Standing:
    try:
        return standing_of(store, namespace, row)
    except OnrecordError:
        return Standing("interrupted")  # `verify` reports the damage


def _open_waits(store: Store, namespace: str, run: str) -> int:
    try:
        return sum(one.state == "open" for one in load_waits(store, run, namespace))
    except OnrecordError:
        return 0
