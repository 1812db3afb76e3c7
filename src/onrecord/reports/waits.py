"""What runs wait for. Keys are never among it: whoever has one can resolve the wait."""

from __future__ import annotations

from typing import Any

from onrecord.core.events import TERMINAL_KINDS
from onrecord.journal.reader import each_run
from onrecord.reports.runs import LOOKED_AT_MOST, ListPosition
from onrecord.runtime.waits.listed_waits import load_waits
from onrecord.store.contract import RunRow, Store


def waits_report(store: Store, namespace: str, run: str, *, everything: bool) -> dict[str, Any]:
    found = [one for one in load_waits(store, run, namespace) if everything or one.state == "open"]
    return {"run": run, "waits": [one._asdict() for one in found]}


def open_waits_page(store: Store, namespace: str, *, cursor: str | None, limit: int) -> dict[str, Any]:
    """Open waits of all runs that have not ended, newest run first; the waits of a run are never torn apart.

    A page may hold fewer than `limit` waits while there is a next one.
    """
    before = ListPosition.of(cursor) if cursor is not None else None
    found: list[dict[str, Any]] = []
    for looked, row in enumerate(each_run(store, namespace, before)):
        if len(found) >= limit or looked == LOOKED_AT_MOST:
            return {"waits": found, "next": None if before is None else before.cursor()}
        before = ListPosition(row.header.created, row.header.run)
        found += _open_waits(store, namespace, row)
    return {"waits": found, "next": None}


def _open_waits(store: Store, namespace: str, row: RunRow) -> list[dict[str, Any]]:
    if row.header.imported or (row.last is not None and row.last.kind in TERMINAL_KINDS):
        return []
    run = row.header.run
    return [{"run": run, **one._asdict()} for one in load_waits(store, run, namespace) if one.state == "open"]
