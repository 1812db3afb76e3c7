"""Bringing the index up to date: first what a list shows of each run, then the words of its events.

Each piece of work is one transaction, so whoever is stopped leaves a whole index that is merely behind; two processes
that are at it do each piece once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import apsw

from reenact.core.events import TERMINAL_KINDS
from reenact.core.hashing import render
from reenact.core.links import OPERATIONS_RUN
from reenact.effect.waits.listing import waits_of
from reenact.errors import ReenactError
from reenact.index.database import StartAnew
from reenact.index.reading import read_on
from reenact.reports.leases import is_held
from reenact.reports.runs import Place
from reenact.reports.standing import Standing, standing_of
from reenact.reports.summaries import facts_of, kind_of_run, parent_of
from reenact.store.contract import RunRow, Store

RUNS_AT_ONCE = 100
EVENTS_AT_ONCE = 400
LOOKED_AT_AGAIN = 50
"""Of the open runs that are held, and of those that are not, in every round: a process may have died, which no store
tells."""
LONGEST_NAME, NAMES_MOST = 1_000, 50
"""Names may be as long as somebody likes; a list is not."""
REMOVALS = ("RunRetired", "ContentErased")

PUT = """INSERT INTO runs(run, kind, created, agent, status, ended, held, about, seqs, waits, events, head, imported,
  parent, texted, version, looked) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,-1,?15,?16)
ON CONFLICT(run) DO UPDATE SET kind = ?2, agent = ?4, status = ?5, ended = ?6, held = ?7, about = ?8, seqs = ?9,
  waits = ?10, events = ?11, head = ?12, version = ?15, looked = ?16"""


class Line(NamedTuple):
    """What the index keeps of a run for lists."""

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


class CatchingUp:
    """Within one transaction of the index."""

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
        """Under the same name there may be another store by now: its oldest and newest run tell."""
        ends = "SELECT run, created FROM runs ORDER BY run_no {} LIMIT 1"
        for run, created in [*self._rows(ends.format("ASC")), *self._rows(ends.format("DESC"))]:
            row = self._store.run_row(self._namespace, run)
            if row is None or row.header.created != created:
                raise StartAnew

    # What lists show

    def follow(self) -> bool:
        """One piece of what has changed. True: there may be more."""
        if self.meta("listed") != "all":
            return self._list_on()
        cursor, changed = self._store.runs_since(self._namespace, self.meta("cursor"))
        if changed is None:
            raise StartAnew
        for run in changed:
            self._take(run)
        arrived, arrivals = self._store.inbox_since(self.meta("inbox"))
        for run in dict.fromkeys(one.run for one in arrivals if one.namespace == self._namespace):
            if run != OPERATIONS_RUN and run not in changed:
                self._take(run)
        if cursor != self.meta("cursor"):
            self.set_meta("cursor", cursor)
        if arrived != self.meta("inbox"):
            self.set_meta("inbox", arrived)
        return bool(changed or arrivals)

    def _list_on(self) -> bool:
        """The first look at everything, page by page. What changes meanwhile is told behind the cursor."""
        place = self.meta("listed")
        if place is None:
            cursor, _ = self._store.runs_since(self._namespace, None)
            self.set_meta("cursor", cursor)
            self.set_meta("inbox", self._store.inbox_since(None)[0])
            last = self._store.last_event(self._namespace, OPERATIONS_RUN)
            self.set_meta("operations", str(last.seq if last is not None else 0))
        before = Place.of(place) if place else None
        page = self._store.list_runs(self._namespace, before=before, limit=RUNS_AT_ONCE)
        for row in page:
            self._put(line_of(self._store, self._namespace, row))
        whole = len(page) < RUNS_AT_ONCE
        self.set_meta("listed", "all" if whole else Place(page[-1].header.created, page[-1].header.run).cursor())
        return True

    def _take(self, run: str) -> None:
        if run == OPERATIONS_RUN:
            self._check_removals()
            return
        row = self._store.run_row(self._namespace, run)
        if row is None:
            raise StartAnew  # removed; its record may come a moment later
        self._put(line_of(self._store, self._namespace, row))

    def _check_removals(self) -> None:
        known = seq = int(self.meta("operations") or 0)
        for row in self._store.scan(self._namespace, OPERATIONS_RUN, known + 1, contents=False):
            if row.kind in REMOVALS:
                raise StartAnew
            seq = row.seq
        self.set_meta("operations", str(seq))

    def _put(self, line: Line) -> None:
        self.connection.execute(PUT, (*line, self._next_version(), time.time_ns() // 1000))

    def _next_version(self) -> int:
        version = int(self.meta("version") or 0) + 1
        self.set_meta("version", str(version))
        return version

    def look_again(self) -> None:
        """Whoever held a run may be gone, and somebody may hold one that was left."""
        open_ones = "SELECT run, held FROM runs WHERE ended = 0 AND imported = 0 AND held = {} ORDER BY looked LIMIT {}"
        for wanted in (1, 0):
            for run, held in self._rows(open_ones.format(wanted, LOOKED_AT_AGAIN)):
                if is_held(self._store, self._namespace, run) != bool(held):
                    self._take(run)
                else:
                    now = time.time_ns() // 1000
                    self.connection.execute("UPDATE runs SET looked = ? WHERE run = ?", (now, run))

    def _rows(self, sql: str) -> list[Any]:
        found: Any = self.connection.execute(sql).fetchall()
        return list(found)

    # Words

    def read_words(self, until: Callable[[], bool]) -> bool:
        """Some events of the runs that are behind, the oldest run first. True: there are more."""
        sql = "SELECT run_no, run, texted, events, ended FROM runs WHERE texted < events ORDER BY created LIMIT 20"
        left = EVENTS_AT_ONCE
        while rows := self._rows(sql):
            for run_no, run, texted, events, ended in rows:
                if left <= 0 or until():
                    return True
                left -= read_on(
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


def line_of(store: Store, namespace: str, row: RunRow) -> Line:
    header, last = row.header, row.last
    run = header.run
    facts = facts_of(store, namespace, run)
    agent = (facts or {}).get("agent")
    ended = last is not None and last.kind in TERMINAL_KINDS
    standing = _standing(store, namespace, row)
    lives = not ended and not header.imported
    return Line(
        run,
        kind_of_run(facts),
        header.created,
        agent[:LONGEST_NAME] if isinstance(agent, str) else None,
        standing.status,
        ended,
        lives and is_held(store, namespace, run),
        json.dumps([name[:LONGEST_NAME] for name in standing.about[:NAMES_MOST]]),
        json.dumps(standing.seqs[:NAMES_MOST]),
        _open_waits(store, namespace, run) if lives else 0,
        last.seq if last is not None else 0,
        render(last.hash if last is not None else header.hash),
        header.imported,
        json.dumps(parent_of(header)),
    )


def _standing(store: Store, namespace: str, row: RunRow) -> Standing:
    try:
        return standing_of(store, namespace, row)
    except ReenactError:
        return Standing("interrupted")  # `verify` says what is the matter with it


def _open_waits(store: Store, namespace: str, run: str) -> int:
    try:
        return sum(one.state == "open" for one in waits_of(store, run, namespace))
    except ReenactError:
        return 0
