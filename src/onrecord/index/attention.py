"""Everything that waits for somebody, over all runs: open waits and effects in doubt, the newest run first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apsw

from reenact.core.events import TERMINAL_KINDS
from reenact.errors import ReenactError
from reenact.index.lists import short_of
from reenact.index.opening import Index
from reenact.index.schema import NEEDS_SOMEBODY
from reenact.reports.leases import is_held
from reenact.reports.needs import doubts, open_waits
from reenact.reports.runs import LOOKED_AT_MOST, LOOKED_AT_ONCE, Place
from reenact.reports.times import iso_time

COLUMNS = "run, created, agent, status"


def attention_report(
    index: Index, *, cursor: str | None, limit: int, signs: Callable[[str], bool] = lambda _: False
) -> dict[str, Any]:
    """At most `limit` runs, each with all that it needs; `count` is how many there are. `signs`: see `open_waits`."""
    before = Place.of(cursor) if cursor is not None else None

    def look(connection: apsw.Connection) -> tuple[list[Any], int]:
        where = NEEDS_SOMEBODY + ("" if before is None else " AND (created, run) < (?, ?)")
        sql = f"SELECT {COLUMNS} FROM runs WHERE {where} ORDER BY created DESC, run DESC LIMIT ?"
        values = () if before is None else (before.created, before.run)
        found: Any = connection.execute(sql, (*values, limit + 1)).fetchall()
        lines = [(*row, short_of(connection, row[0])) for row in found]
        return lines, int(connection.execute(f"SELECT count(*) FROM runs WHERE {NEEDS_SOMEBODY}").get)

    rows, count = index.read(look) if index.extent().listed else _from_the_log(index, before, limit)
    runs = [_needs(index, signs, *row) for row in rows[:limit]]
    last = rows[limit - 1] if len(rows) > limit else None
    return {
        "runs": [one for one in runs if one["waits"] or one["doubts"]],
        "count": count,
        "next": None if last is None else Place(last[1], last[0]).cursor(),
    }


def _needs(
    index: Index, signs: Callable[[str], bool], run: str, created: int, agent: str | None, status: str, short: str
) -> dict[str, Any]:
    store, namespace = index.store, index.namespace
    about = {"run": run, "short": short, "agent": agent, "status": status, "created": iso_time(created)}
    try:
        waits = open_waits(store, namespace, run, signs)
        in_doubt = [] if is_held(store, namespace, run) else doubts(store, namespace, run)
    except ReenactError:
        return {**about, "waits": [], "doubts": []}
    return {**about, "waits": waits, "doubts": in_doubt}


def _from_the_log(index: Index, before: Place | None, limit: int) -> tuple[list[Any], int]:
    """While the index is being built: the runs that have not ended, as far as one page looks."""
    found: list[Any] = []
    looked = 0
    while looked < LOOKED_AT_MOST and len(found) <= limit:
        page = index.store.list_runs(index.namespace, before=before, limit=LOOKED_AT_ONCE)
        for row in page:
            before = Place(row.header.created, row.header.run)
            if not row.header.imported and (row.last is None or row.last.kind not in TERMINAL_KINDS):
                found.append((row.header.run, row.header.created, None, "open", row.header.run))
        looked += len(page)
        if len(page) < LOOKED_AT_ONCE:
            break
    return found[: limit + 1], len(found)
