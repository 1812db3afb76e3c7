"""List runs from the index: filtered, with tokens and cost, page by page; and list what has changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from onrecord.errors import InvalidInput
from onrecord.index.index import Index
from onrecord.reports.run_selector import LONGEST_WHOLE_ID, SHORTEST_ID
from onrecord.reports.runs import ListPosition, RunFilter, runs_page
from onrecord.reports.times import iso_time

AGENTS_MOST = 200
CHANGES_MOST = 500

COLUMNS = "run, kind, created, agent, status, about, events, head, imported, parent, tokens, cost, version"
AGENTS = f"""WITH RECURSIVE names(agent) AS (
  SELECT (SELECT min(agent) FROM runs WHERE kind = 'run')
  UNION ALL SELECT (SELECT min(agent) FROM runs WHERE kind = 'run' AND agent > names.agent)
  FROM names WHERE agent IS NOT NULL)
SELECT agent FROM names WHERE agent IS NOT NULL LIMIT {AGENTS_MOST}"""
NEIGHBOURS = """SELECT (SELECT max(run) FROM runs WHERE run < ?1), (SELECT min(run) FROM runs WHERE run > ?1)"""


class ListFilter(NamedTuple):
    """Filter of a list. Without arguments it accepts all runs."""

    runs: RunFilter = RunFilter()
    least_cost: float | None = None
    most_cost: float | None = None

    def wants(self, line: dict[str, Any], created: int) -> bool:
        """Return True if the filter accepts the run. Must agree with `_where`."""
        runs, cost = self.runs, (line["usage"] or {}).get("cost")
        return (
            (runs.every_kind or line["kind"] == "run")
            and (not runs.statuses or line["status"] in runs.statuses)
            and (not runs.agents or line["agent"] in runs.agents)
            and (runs.since is None or created >= runs.since)
            and (runs.until is None or created < runs.until)
            and (self.least_cost is None or (cost is not None and cost >= self.least_cost))
            and (self.most_cost is None or (cost is not None and cost <= self.most_cost))
        )


def list_report(index: Index, wanted: ListFilter, *, cursor: str | None, limit: int) -> dict[str, Any]:
    """Return a page of runs. `place` is the version for `changes_since`; `whole` is false while the index is built."""
    before = ListPosition.of(cursor) if cursor is not None else None
    extent = index.extent()
    if not extent.listed and wanted.least_cost is None and wanted.most_cost is None:
        page = runs_page(index.store, index.namespace, wanted.runs, cursor=cursor, limit=limit)
        lines = [{"kind": "run", **line, "usage": None} for line in page.runs]
        return {"runs": lines, "next": page.next, "agents": [], "place": None, "whole": False}

    def query(connection: apsw.Connection) -> dict[str, Any]:
        where, values = _where(wanted)
        if before is not None:
            where, values = [*where, "(created, run) < (?, ?)"], [*values, before.created, before.run]
        sql = f"SELECT {COLUMNS} FROM runs WHERE {' AND '.join(where)} ORDER BY created DESC, run DESC LIMIT ?"
        rows: Any = connection.execute(sql, (*values, limit + 1)).fetchall()
        lines = [_line(connection, row) for row in rows[:limit]]
        last = rows[limit - 1] if len(rows) > limit else None
        return {
            "runs": lines,
            "next": None if last is None else ListPosition(last[2], last[0]).cursor(),
            "agents": [row[0] for row in connection.execute(AGENTS)],
            "place": _list_version(connection),
            "whole": extent.listed,
        }

    return index.read(query)


def changes_since(index: Index, place: str, wanted: ListFilter) -> dict[str, Any] | None:
    """Return the changed lines, each with whether the filter wants it.

    Return None if too many changed or the index was rebuilt: then the list has to be read again.
    """
    birth, _, text = place.partition(".")
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):
        raise InvalidInput("not a `place` of this list", code="bad_cursor")

    def query(connection: apsw.Connection) -> dict[str, Any] | None:
        now = _list_version(connection)
        if now.partition(".")[0] != birth:
            return None
        sql = f"SELECT {COLUMNS} FROM runs WHERE version > ? ORDER BY version LIMIT ?"
        rows: Any = connection.execute(sql, (int(text), CHANGES_MOST + 1)).fetchall()
        if len(rows) > CHANGES_MOST:
            return None
        found = [(_line(connection, row), row[2]) for row in rows]
        changed = [{**line, "wanted": wanted.wants(line, created)} for line, created in found]
        return {"place": now, "runs": changed}

    return index.read(query)


def place_of(index: Index) -> str:
    return index.read(_list_version)


def _list_version(connection: apsw.Connection) -> str:
    rows: Any = connection.execute("SELECT name, value FROM meta WHERE name IN ('birth', 'version')").fetchall()
    found = dict(rows)
    return f"{found['birth']}.{found['version']}"


def _where(wanted: ListFilter) -> tuple[list[str], list[Any]]:
    runs = wanted.runs
    where = ["true"] if runs.every_kind else ["kind = 'run'"]
    values: list[Any] = []
    for column, chosen in (("status", runs.statuses), ("agent", runs.agents)):
        if chosen:
            where.append(f"{column} IN ({', '.join('?' * len(chosen))})")
            values += sorted(chosen)
    bounds = (
        ("created >= ?", runs.since),
        ("created < ?", runs.until),
        ("cost >= ?", wanted.least_cost),
        ("cost <= ?", wanted.most_cost),
    )
    for condition, value in bounds:
        if value is not None:
            where.append(condition)
            values.append(value)
    return where, values


def _line(connection: apsw.Connection, row: Sequence[Any]) -> dict[str, Any]:
    run, kind, created, agent, status, about, events, head, imported, parent, tokens, cost, _ = row
    return {
        "run": run,
        "status": status,
        "about": json.loads(about),
        "agent": agent,
        "events": events,
        "created": iso_time(created),
        "imported": bool(imported),
        "parent": json.loads(parent),
        "head": head,
        "kind": kind,
        "short": shorten_id(connection, run),
        "usage": None if tokens is None and cost is None else {"tokens": tokens or 0, "cost": cost},
    }


def shorten_id(connection: apsw.Connection, run: str) -> str:
    """Return the shortest unique prefix of the id, of at least 8 characters. Short ids are returned whole."""
    if len(run) <= LONGEST_WHOLE_ID:
        return run
    row = connection.execute(NEIGHBOURS, (run,)).fetchone()
    needed = max((_common_length(run, str(other)) + 1 for other in row or () if other is not None), default=1)
    return run[: max(needed, SHORTEST_ID)]


def _common_length(one: str, other: str) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count
