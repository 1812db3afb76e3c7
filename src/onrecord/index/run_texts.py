"""The words of a run's events, and what its effects used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apsw

from reenact.capture.usage import usage_of
from reenact.errors import Damaged, ReenactError
from reenact.index.texts import MOST_CHARACTERS, Texts, searchable, texts_in
from reenact.journal.reader import JournalReader
from reenact.reports.effects import EffectWalk, outline
from reenact.store.contract import EventRow, Store

ADDRESS_BYTES = 12
"""Enough of an address to tell shared values of one run apart."""
STRANGE = (ArithmeticError, LookupError, RecursionError, TypeError, UnicodeError, ValueError)
"""What a content that a stranger made up may lead to; such an event is found by its kind alone."""


def read_on(
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
    """Indexes at most so many events, and says how many it were. `texted` is -1 before the header was read."""
    stop = min(events, max(texted, 0) + most)
    try:
        reader = JournalReader(store, run, namespace)
    except ReenactError:
        reader = None  # its header is damaged: the list shows it, and nothing else can be read
    if reader is not None:
        words = _Words(connection, reader, run_no)
        if texted < 0:
            words.put(0, facts_texts(reader))
        try:
            words.read(max(texted, 0) + 1, stop + 1)
        except Damaged:
            stop = events  # behind a row that no store reads nothing is found; `verify` says what is the matter
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
        text = searchable("\n".join(found.texts))
        row = (self._connection.last_insert_rowid(), text)
        self._connection.execute("INSERT INTO words(rowid, text) VALUES(?, ?)", row)

    def _count(self, row: EventRow) -> None:
        try:
            effect = self._walk.take(row)
        except (ReenactError, *STRANGE):
            return
        if effect is None or effect.used is None:
            return
        self.tokens = (self.tokens or 0) + effect.used.tokens
        if effect.used.cost is not None:
            self.cost = (self.cost or 0.0) + effect.used.cost


class _Addresses(set[bytes]):
    """Addresses by their beginnings, and which of them are new."""

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
    """As much as can be read of what an event holds."""
    try:
        return texts_in(outline(row, reader.link(row).content), reader.nodes.fetch, known, most)
    except (ReenactError, *STRANGE):
        return Texts([], False)


def facts_texts(reader: JournalReader, most: int = MOST_CHARACTERS) -> Texts:
    """The run itself: its id, and what was known when it began."""
    try:
        found = texts_in(reader.facts_tree(), reader.nodes.fetch, most=most)
    except (ReenactError, *STRANGE):
        found = Texts([], False)
    return Texts([reader.run, *found.texts], found.cut)
