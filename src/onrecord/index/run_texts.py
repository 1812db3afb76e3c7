"""Index the words of a run's events, and the tokens and cost of its effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apsw

from onrecord.capture.usage import usage_of
from onrecord.errors import Damaged, OnrecordError
from onrecord.index.texts import MOST_CHARACTERS, Texts, extract_texts, make_searchable
from onrecord.journal.reader import JournalReader
from onrecord.reports.effects import EffectWalk, outline
from onrecord.store.contract import EventRow, Store

ADDRESS_BYTES = 12
"""A prefix of an address that is unique among the shared values of one run."""
CONTENT_ERRORS = (ArithmeticError, LookupError, RecursionError, TypeError, UnicodeError, ValueError)
"""Errors that a malformed foreign content may cause; such an event is indexed by its kind alone."""


def index_events(
    connection: apsw.Connection,
    store: Store,
    namespace: str,
    *,
    run_no: int,
    run: str,
    texted: int,
    events: int,
    ended: bool,
    most: int,
    version: Callable[[], int],
) -> int:
    """Index at most `most` events and return their number. `texted` is -1 before the header is indexed."""
    stop = min(events, max(texted, 0) + most)
    try:
        reader = JournalReader(store, run, namespace)
    except OnrecordError:
        reader = None  # damaged header: the list shows the run, but it cannot be read
    if reader is not None:
        words = _Words(connection, reader, run_no)
        if texted < 0:
            words.put(0, facts_texts(reader))
        try:
            words.read(max(texted, 0) + 1, stop + 1)
        except Damaged:
            stop = events  # nothing after a damaged row is indexed; `verify` reports the damage
        used = "tokens = coalesce(tokens + ?2, ?2, tokens), cost = coalesce(cost + ?3, ?3, cost), version = ?4"
        if words.tokens is not None or words.cost is not None:
            values = (run_no, words.tokens, words.cost, version())
            connection.execute(f"UPDATE runs SET {used} WHERE run_no = ?1", values)
    connection.execute("UPDATE runs SET texted = ? WHERE run_no = ?", (stop, run_no))
    if ended and stop == events:
        connection.execute("DELETE FROM parts WHERE run_no = ?", (run_no,))
    return 1 + stop - max(texted, 0)


class _Words:
    def __init__(self, connection: apsw.Connection, reader: JournalReader, run_no: int) -> None:
        self.tokens: int | None = None
        self.cost: float | None = None
        self._connection = connection
        self._reader = reader
        self._run_no = run_no
        rows: Any = connection.execute("SELECT address FROM parts WHERE run_no = ?", (run_no,)).fetchall()
        self._known = _Addresses(row[0] for row in rows)
        self._walk = EffectWalk(reader, usage_of)

    def read(self, start: int, stop: int) -> None:
        for row in self._reader.store.scan(self._reader.namespace, self._reader.run, start, stop):
            found = event_texts(self._reader, row, self._known)
            self.put(row.seq, Texts([row.kind, *found.texts], found.cut))
            self._count(row)
        rows = [(self._run_no, address) for address in self._known.added]
        self._connection.executemany("INSERT OR IGNORE INTO parts VALUES(?, ?)", rows)

    def put(self, seq: int, found: Texts) -> None:
        sql = "INSERT INTO docs(run_no, seq, cut) VALUES(?, ?, ?)"
        self._connection.execute(sql, (self._run_no, seq, found.cut))
        text = make_searchable("\n".join(found.texts))
        row = (self._connection.last_insert_rowid(), text)
        self._connection.execute("INSERT INTO words(rowid, text) VALUES(?, ?)", row)

    def _count(self, row: EventRow) -> None:
        try:
            effect = self._walk.take(row)
        except (OnrecordError, *CONTENT_ERRORS):
            return
        if effect is None or effect.used is None:
            return
        self.tokens = (self.tokens or 0) + effect.used.tokens
        if effect.used.cost is not None:
            self.cost = (self.cost or 0.0) + effect.used.cost


class _Addresses(set[bytes]):
    """Set of address prefixes that remembers which were added."""

    def __init__(self, known: Any) -> None:
        super().__init__(known)
        self.added: set[bytes] = set()

    def __contains__(self, address: object) -> bool:
        return isinstance(address, bytes) and super().__contains__(address[:ADDRESS_BYTES])

    def update(self, *others: Any) -> None:
        for other in others:
            short = {address[:ADDRESS_BYTES] for address in other}
            self.added |= short
            super().update(short)


def event_texts(
    reader: JournalReader, row: EventRow, known: set[bytes] | None = None, most: int = MOST_CHARACTERS
) -> Texts:
    """Return the texts of an event, or none if its content cannot be read."""
    try:
        return extract_texts(outline(row, reader.link(row).content), reader.nodes.fetch, known, most)
    except (OnrecordError, *CONTENT_ERRORS):
        return Texts([], False)


def facts_texts(reader: JournalReader, most: int = MOST_CHARACTERS) -> Texts:
    """Return the texts of the run itself: its id and its facts."""
    try:
        found = extract_texts(reader.facts_tree(), reader.nodes.fetch, most=most)
    except (OnrecordError, *CONTENT_ERRORS):
        found = Texts([], False)
    return Texts([reader.run, *found.texts], found.cut)
