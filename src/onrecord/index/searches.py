"""Search all runs: the newest indexed hits first, each with a snippet of its text."""

from __future__ import annotations

import re
import time
from typing import Any, NamedTuple

import apsw

from onrecord.errors import InvalidInput, OnrecordError
from onrecord.index.index import Extent, Index
from onrecord.index.lists import shorten_id
from onrecord.index.queries import Query, parse_query
from onrecord.index.run_texts import CONTENT_ERRORS, event_texts, facts_texts
from onrecord.index.texts import MOST_CHARACTERS, Texts
from onrecord.journal.reader import JournalReader
from onrecord.reports.effects import outline
from onrecord.reports.times import iso_time

SNIPPET_BEFORE, SNIPPET_ROOM = 60, 260
LOOKED_THROUGH = 1024 * 1024
"""Most characters of an event that are read for a snippet."""
MARKED_IN = 512 * 1024
"""Most characters of an event that are searched for words to mark."""
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
    """Return `hits`, each with a snippet of marked and unmarked pieces. `unread` counts runs not fully indexed."""
    query = parse_query(text)
    found = _find_hits(index, query, cursor, limit)
    extent: Extent = index.extent()
    hits = found.hits[:limit]
    readers: dict[str, JournalReader | None] = {}
    return {
        "query": text,
        "hits": [_show_hit(index, hit, query.pattern, readers) for hit in hits],
        "next": f"{found.birth}.{hits[-1].doc}" if len(found.hits) > limit else None,
        "runs": extent.runs,
        "unread": extent.unread if extent.listed else None,
        "most_characters": MOST_CHARACTERS,
    }


def _find_hits(index: Index, query: Query, cursor: str | None, limit: int) -> _Found:
    def query_hits(connection: apsw.Connection) -> _Found:
        birth = str(connection.execute(BIRTH).get)
        rows = _execute_bounded(connection, HITS, (query.expression, _cursor_document(cursor, birth), limit + 1))
        return _Found([_Hit._make((*row, shorten_id(connection, row[3]))) for row in rows], birth)

    return index.read(query_hits)


def _execute_bounded(connection: apsw.Connection, sql: str, values: tuple[Any, ...]) -> list[Any]:
    """Execute a query within a time limit: a prefix of one letter may match half of all words."""
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


def _cursor_document(cursor: str | None, birth: str) -> int:
    if cursor is None:
        return LARGEST_DOC
    cursor_birth, _, doc = cursor.partition(".")
    if not (doc.isascii() and doc.isdecimal() and len(doc) <= 18):
        raise InvalidInput("not a cursor of this search", hint="Use `next` of the previous page.", code="bad_cursor")
    if cursor_birth != birth:
        raise InvalidInput(
            "the index was rebuilt since the previous page", hint="Search from the beginning.", code="bad_cursor"
        )
    return int(doc)


def _show_hit(
    index: Index, hit: _Hit, pattern: re.Pattern[str], readers: dict[str, JournalReader | None]
) -> dict[str, Any]:
    event = _read_event(index, hit, readers)
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


def _read_event(index: Index, hit: _Hit, readers: dict[str, JournalReader | None]) -> _Event:
    """Return as much of the event as can be read from the log now."""
    if hit.run not in readers:
        try:
            readers[hit.run] = JournalReader(index.store, hit.run, index.namespace)
        except OnrecordError:
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
    except (OnrecordError, *CONTENT_ERRORS):
        pass
    return _Event(
        row.kind, name if isinstance(name, str) else None, time, event_texts(reader, row, None, LOOKED_THROUGH)
    )


def snippet(texts: list[str], pattern: re.Pattern[str]) -> list[dict[str, Any]]:
    """Return a snippet of the last text with the most words: new messages are at the end of a conversation."""
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
