"""Searching all runs: where the words stand, the latest recorded first, with what stands around them."""

from __future__ import annotations

import re
import time
from typing import Any, NamedTuple

import apsw

from reenact.errors import InvalidInput, ReenactError
from reenact.index.lists import short_of
from reenact.index.opening import Extent, Index
from reenact.index.queries import Query, parse_query
from reenact.index.reading import STRANGE, event_texts, facts_texts
from reenact.index.texts import MOST_CHARACTERS, Texts
from reenact.journal.reader import JournalReader
from reenact.reports.effects import outline
from reenact.reports.times import iso_time

SNIPPET_BEFORE, SNIPPET_ROOM = 60, 260
LOOKED_THROUGH = 1024 * 1024
"""Characters of an event that are looked through for something to show."""
MARKED_IN = 512 * 1024
"""Characters of an event in which the words are looked for to be marked."""
SLOWEST_SECONDS, STEPS_BETWEEN = 5.0, 20_000
LARGEST_DOC = (1 << 63) - 1

HITS = """SELECT d.doc, d.seq, d.cut, r.run, r.agent, r.status, r.created FROM words
CROSS JOIN docs d ON d.doc = words.rowid CROSS JOIN runs r ON r.run_no = d.run_no
WHERE words MATCH ?1 AND words.rowid < ?2 AND r.kind IN ('run', 'process') ORDER BY words.rowid DESC LIMIT ?3"""
BIRTH = "SELECT value FROM meta WHERE name = 'birth'"


class _Hit(NamedTuple):
    doc: int
    seq: int
    cut: bool
    run: str
    agent: str | None
    status: str
    created: int
    short: str


class _Found(NamedTuple):
    hits: list[_Hit]
    birth: str


def search_report(index: Index, text: str, *, cursor: str | None = None, limit: int = 20) -> dict[str, Any]:
    """`hits` with a snippet in pieces, each marked or not; `unread` counts runs that are not indexed to their end."""
    query = parse_query(text)
    found = _look(index, query, cursor, limit)
    extent: Extent = index.extent()
    hits = found.hits[:limit]
    readers: dict[str, JournalReader | None] = {}
    return {
        "query": text,
        "hits": [_shown(index, hit, query.pattern, readers) for hit in hits],
        "next": f"{found.birth}.{hits[-1].doc}" if len(found.hits) > limit else None,
        "runs": extent.runs,
        "unread": extent.unread if extent.listed else None,
        "most_characters": MOST_CHARACTERS,
    }


def _look(index: Index, query: Query, cursor: str | None, limit: int) -> _Found:
    def look(connection: apsw.Connection) -> _Found:
        birth = str(connection.execute(BIRTH).get)
        rows = _bounded(connection, HITS, (query.expression, _below(cursor, birth), limit + 1))
        return _Found([_Hit._make((*row, short_of(connection, row[3]))) for row in rows], birth)

    return index.read(look)


def _bounded(connection: apsw.Connection, sql: str, values: tuple[Any, ...]) -> list[Any]:
    """A beginning of one letter may stand for half of all words: nobody is kept waiting for that for ever."""
    deadline = time.monotonic() + SLOWEST_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > deadline, STEPS_BETWEEN)
    try:
        rows: Any = connection.execute(sql, values).fetchall()
        return list(rows)
    except apsw.InterruptError:
        raise InvalidInput(
            "this search takes too long", hint="Search for longer or rarer words.", code="bad_query"
        ) from None
    finally:
        connection.set_progress_handler(None)


def _below(cursor: str | None, birth: str) -> int:
    if cursor is None:
        return LARGEST_DOC
    known, _, doc = cursor.partition(".")
    if not (doc.isascii() and doc.isdecimal() and len(doc) <= 18):
        raise InvalidInput("not a cursor of this search", hint="Take `next` of the page before.", code="bad_cursor")
    if known != birth:
        raise InvalidInput(
            "the index was built again since the page before", hint="Search from the beginning.", code="bad_cursor"
        )
    return int(doc)


def _shown(
    index: Index, hit: _Hit, pattern: re.Pattern[str], readers: dict[str, JournalReader | None]
) -> dict[str, Any]:
    event = _event(index, hit, readers)
    return {
        "run": hit.run,
        "short": hit.short,
        "agent": hit.agent,
        "status": hit.status,
        "created": iso_time(hit.created),
        "seq": hit.seq,
        "kind": event.kind,
        "name": event.name,
        "time": event.time,
        "snippet": snippet(event.texts.texts, pattern),
        "cut": bool(hit.cut),
    }


class _Event(NamedTuple):
    kind: str | None
    name: str | None
    time: str | None
    texts: Texts


_NOTHING = _Event(None, None, None, Texts([], False))


def _event(index: Index, hit: _Hit, readers: dict[str, JournalReader | None]) -> _Event:
    """As it stands in the log now; as much of it as can be read."""
    if hit.run not in readers:
        try:
            readers[hit.run] = JournalReader(index.store, hit.run, index.namespace)
        except ReenactError:
            readers[hit.run] = None
    reader = readers[hit.run]
    if reader is None:
        return _NOTHING
    if hit.seq == 0:
        return _Event(None, None, iso_time(hit.created), facts_texts(reader, LOOKED_THROUGH))
    row = index.store.event(index.namespace, hit.run, hit.seq)
    if row is None:
        return _NOTHING
    name, time = None, None
    try:
        link = reader.link(row)
        time = iso_time(link.time)
        tree = outline(row, link.content)
        name = tree.get("name") if isinstance(tree, dict) else None
    except (ReenactError, *STRANGE):
        pass
    return _Event(
        row.kind, name if isinstance(name, str) else None, time, event_texts(reader, row, None, LOOKED_THROUGH)
    )


def snippet(texts: list[str], pattern: re.Pattern[str]) -> list[dict[str, Any]]:
    """The text with most of the words, the last of such: what is new in a conversation stands at its end."""
    best, most, room = "", 0, MARKED_IN
    for text in reversed(texts):
        if room <= 0:
            break
        text = text[:room]
        room -= len(text)
        found = {match[0].lower() for _, match in zip(range(50), pattern.finditer(text), strict=False)}
        if len(found) > most:
            best, most = text, len(found)
    if not best:
        best = next((text for text in texts if text.strip()), "")
    first = pattern.search(best)
    start = max(0, (first.start() if first is not None else 0) - SNIPPET_BEFORE)
    shown = best[start : start + SNIPPET_ROOM]
    pieces: list[dict[str, Any]] = [{"text": "…", "marked": False}] if start > 0 else []
    at = 0
    for match in pattern.finditer(shown):
        pieces += [{"text": shown[at : match.start()], "marked": False}, {"text": match[0], "marked": True}]
        at = match.end()
    pieces.append({"text": shown[at:] + ("…" if start + SNIPPET_ROOM < len(best) else ""), "marked": False})
    return [piece for piece in pieces if piece["text"]]
