"""List everything that needs a decision, over all runs: open waits and effects in doubt, the newest run first."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import apsw

from onrecord.core.events import TERMINAL_KINDS
from onrecord.errors import OnrecordError
from onrecord.index.index import Index
from onrecord.index.lists import shorten_id
from onrecord.index.schema import NEEDS_ATTENTION
from onrecord.journal.reader import each_run
from onrecord.reports.open_questions import doubts, open_waits
from onrecord.reports.runs import LOOKED_AT_MOST, ListPosition
from onrecord.reports.status import is_held
from onrecord.reports.times import iso_time

COLUMNS = "run, created, agent, status"


def attention_report(
    index: Index, *, cursor: str | None, limit: int, signs: Callable[[str], bool] = lambda _: False
) -> dict[str, Any]:
    """Return at most `limit` runs with their waits and doubts, and the `count` of all. `signs`: see `open_waits`."""
    before = ListPosition.of(cursor) if cursor is not None else None

    def query(connection: apsw.Connection) -> tuple[list[Any], int]:
        where = NEEDS_ATTENTION + ("" if before is None else " AND (created, run) < (?, ?)")
        sql = f"SELECT {COLUMNS} FROM runs WHERE {where} ORDER BY created DESC, run DESC LIMIT ?"
        values = () if before is None else (before.created, before.run)
        found: Any = connection.execute(sql, (*values, limit + 1)).fetchall()
        lines = [(*row, shorten_id(connection, row[0])) for row in found]
        return lines, int(connection.execute(f"SELECT count(*) FROM runs WHERE {NEEDS_ATTENTION}").get)

    rows, count = index.read(query) if index.extent().listed else _read_from_log(index, before, limit)
    runs = [_describe_run(index, signs, *row) for row in rows[:limit]]
    last = rows[limit - 1] if len(rows) > limit else None
    return {
        "runs": [one for one in runs if one["waits"] or one["doubts"]],
        "count": count,
        "next": None if last is None else ListPosition(last[1], last[0]).cursor(),
    }


def _describe_run(
    index: Index, signs: Callable[[str], bool], run: str, created: int, agent: str | None, status: str, short: str
) -> dict[str, Any]:
    store, namespace = index.store, index.namespace
    summary = {"run": run, "short": short, "agent": agent, "status": status, "created": iso_time(created)}
    try:
        waits = open_waits(store, namespace, run, signs)
        in_doubt = [] if is_held(store, namespace, run) else doubts(store, namespace, run)
    except OnrecordError:
        return {**summary, "waits": [], "doubts": []}
    return {**summary, "waits": waits, "doubts": in_doubt}


def _read_from_log(index: Index, before: ListPosition | None, limit: int) -> tuple[list[Any], int]:
    """Return the open runs that one page of the log has, while the index is being built."""
    found = [
        (row.header.run, row.header.created, None, "open", row.header.run)
        for row in islice(each_run(index.store, index.namespace, before), LOOKED_AT_MOST)
        if not row.header.imported and (row.last is None or row.last.kind not in TERMINAL_KINDS)
    ]
    return found[: limit + 1], len(found)
