"""What runs wait for. Keys are never among it: whoever has one can resolve the wait."""

from __future__ import annotations

from typing import Any

from onrecord.core.events import TERMINAL_KINDS
from onrecord.reports.runs import LOOKED_AT_MOST, LOOKED_AT_ONCE, ListPosition
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
    looked = 0
    while looked < LOOKED_AT_MOST:
        page = store.list_runs(namespace, before=before, limit=LOOKED_AT_ONCE)
        for row in page:
            if len(found) >= limit:
                return {"waits": found, "next": None if before is None else before.cursor()}
            looked += 1
            before = ListPosition(row.header.created, row.header.run)
            found += _open_waits(store, namespace, row)
        if len(page) < LOOKED_AT_ONCE:
            return {"waits": found, "next": None}
    return {"waits": found, "next": None if before is None else before.cursor()}


def _open_waits(store: Store, namespace: str, row: RunRow) -> list[dict[str, Any]]:
    if row.header.imported or (row.last is not None and row.last.kind in TERMINAL_KINDS):
        return []
    run = row.header.run
    return [{"run": run, **one._asdict()} for one in load_waits(store, run, namespace) if one.state == "open"]
