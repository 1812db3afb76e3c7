"""The events of a run as rows of a timeline: little enough of each that thousands can be looked at.

A row is an event. A request says where its answer is and how long it took, an answer what it cost; the rest is a line
of text. Everything here is bounded by what is asked for, never by the length of the run: large contents are not put
together, but for the answers of models, which say what they used.
"""

from __future__ import annotations

from typing import Any

from onrecord.core.events import ANSWERS, OPENING_KINDS
from onrecord.core.hashing import render
from onrecord.core.links import Link
from onrecord.errors import NotFound, OnrecordError
from onrecord.journal.reader import JournalReader
from onrecord.reports.effects import MODEL_CALL, OUTCOMES, ReportedEffect, effects_of, outline, requested
from onrecord.reports.gists import gist_of
from onrecord.reports.summaries import summary_of
from onrecord.reports.usages import ReadAnswer, used_by
from onrecord.store.contract import EventRow

LOOKED_AHEAD = 500
"""Events behind a page in which the answers to its requests are looked for."""
NAME_ROOM = 200


def spans_page(reader: JournalReader, read: ReadAnswer, start: int, limit: int) -> dict[str, Any]:
    """Rows from event `start` on, with how the run stands."""
    reader.check_start(start)
    page = _Page(reader, read)
    for row in reader.store.scan(reader.namespace, reader.run, start, start + limit):
        page.add(row)
    page.look_ahead(start + limit)
    standing = standing_report(reader)
    rows = list(page.rows.values())
    more = bool(rows) and rows[-1]["seq"] < standing["events"]
    return {**standing, "rows": rows, "next": rows[-1]["seq"] + 1 if more else None}


def standing_report(reader: JournalReader) -> dict[str, Any]:
    """How the run stands now, as far as that is known without reading it."""
    row = reader.store.run_row(reader.namespace, reader.run)
    if row is None:
        raise NotFound(f"run {reader.run} was removed meanwhile", code="unknown_run")
    summary = summary_of(reader.store, reader.namespace, row).to_json()
    first = _time_at(reader, 1) if summary["events"] else None
    last = _time_at(reader, summary["events"]) if summary["events"] else None
    return {**summary, "first_us": first, "last_us": last}


class _Page:
    def __init__(self, reader: JournalReader, read: ReadAnswer) -> None:
        self._reader = reader
        self._read = read
        self._open: dict[int, ReportedEffect] = {}
        self.rows: dict[int, dict[str, Any]] = {}

    def add(self, row: EventRow) -> None:
        shown: dict[str, Any] = {"seq": row.seq, "kind": row.kind, "lane": row.lane, "time": None}
        self.rows[row.seq] = shown
        content, link = None, None
        try:
            link = self._reader.link(row)
            shown |= {"time": link.time, "parent": link.parent}
            content = outline(row, link.content)
        except OnrecordError as damage:
            shown["damage"] = damage.message
        if link is None:
            return  # nothing that it says of itself can be trusted
        if content is None and "damage" not in shown:
            shown["erased"] = True
        name = content.get("name") if isinstance(content, dict) else None
        if isinstance(name, str):
            shown["name"] = name[:NAME_ROOM]
        if gist := gist_of(row.kind, content):
            shown["gist"] = gist
        if row.kind in OPENING_KINDS:
            asked = requested(self._reader, row)
            self._open[row.seq] = asked
            shown |= {"effect": asked.kind, "model": asked.model}
        elif row.kind in ANSWERS:
            self._answered(row, link, shown)

    def _answered(self, row: EventRow, link: Link, shown: dict[str, Any] | None) -> None:
        """Told in the row of the answer, and in that of the request if it is here."""
        asked = self._open.pop(link.parent or 0, None) or self._asked_before(link.parent)
        if asked is None:
            return
        told: dict[str, Any] = {"outcome": OUTCOMES.get(row.kind, "succeeded")}
        if asked.time is not None:
            told["took_us"] = max(0, link.time - asked.time)
        if asked.kind == MODEL_CALL:
            told |= self._used(row, link)
        if shown is not None:
            shown |= {"name": asked.name and asked.name[:NAME_ROOM], "effect": asked.kind, **told}
        if (request := self.rows.get(asked.seq)) is not None:
            request |= {"answer": row.seq, **told}

    def _used(self, row: EventRow, link: Link) -> dict[str, Any]:
        try:
            content = self._reader.content_tree(row, link)
        except OnrecordError:
            return {}
        used = used_by(content.get("output"), self._read) if isinstance(content, dict) else None
        return {} if used is None else {"tokens": used.tokens, "cost": used.cost, "model": used.model}

    def _asked_before(self, seq: int | None) -> ReportedEffect | None:
        row = None if seq is None else self._reader.store.event(self._reader.namespace, self._reader.run, seq)
        return None if row is None else requested(self._reader, row)

    def look_ahead(self, start: int) -> None:
        reader = self._reader
        if not self._open:
            return
        for row in reader.store.scan(reader.namespace, reader.run, start, start + LOOKED_AHEAD, contents=False):
            if row.kind not in ANSWERS:
                continue
            try:
                link = reader.link(row)
            except OnrecordError:
                continue
            if link.parent in self._open:
                whole = reader.store.event(reader.namespace, reader.run, row.seq)
                self._answered(whole or row, link, None)
            if not self._open:
                return


def overview_report(reader: JournalReader, buckets: int) -> dict[str, Any]:
    """The run in so many stretches of equally many events: where each begins, and when. One look-up for each."""
    events = reader.head().seq
    count = min(buckets, events)
    seqs = [1 + events * number // count for number in range(count)] if count else []
    if events and seqs[-1] != events:
        seqs.append(events)
    return {"run": reader.run, "events": events, "samples": [{"seq": n, "time": _time_at(reader, n)} for n in seqs]}


def _time_at(reader: JournalReader, seq: int) -> int | None:
    row = reader.store.event(reader.namespace, reader.run, seq)
    try:
        return None if row is None else reader.link(row).time
    except OnrecordError:
        return None


def usage_page(reader: JournalReader, read: ReadAnswer, after: int, limit: int) -> dict[str, Any]:
    """What the effects used whose answers are among the `limit` events behind `after`. Whoever wants all adds up."""
    reader.check_start(after + 1)
    head = reader.head()
    stop = min(after + limit, head.seq)
    calls = failed = tokens = priced = 0
    cost = 0.0
    for effect in effects_of(reader, read, after + 1, stop + 1, open_too=False):
        calls += 1
        failed += effect.outcome == "failed"
        if effect.used is not None:
            tokens += effect.used.tokens
            if effect.used.cost is not None:
                priced += 1
                cost += effect.used.cost
    return {
        "run": reader.run,
        "after": after,
        "to": stop,
        "events": head.seq,
        "head": f"{head.seq}:{render(head.hash)}",
        "effects": calls,
        "failed": failed,
        "tokens": tokens,
        "cost": cost if priced else None,
        "next": stop if stop < head.seq else None,
    }
