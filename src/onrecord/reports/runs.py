"""What is known of a run, and the list of runs, page by page."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, NamedTuple

from onrecord.core.events import TERMINAL_KINDS
from onrecord.core.links import is_name
from onrecord.errors import InvalidInput, NotFound
from onrecord.journal.reader import JournalReader
from onrecord.reports.run_selector import short_id
from onrecord.reports.status import standing_of
from onrecord.reports.summaries import facts_of, kind_of_run, summary_of
from onrecord.store.contract import RunRow, Store

STATUSES = ("running", "interrupted", "waiting", "blocked", "in_doubt", "stopped", "completed", "failed", "cancelled")
LOOKED_AT_ONCE = 200
LOOKED_AT_MOST = 2_000
"""Runs that one page looks at: where few of them are wanted, a page is short and says where the next one begins."""

_ENDS = frozenset(kind.lower() for kind in TERMINAL_KINDS)
_CURSOR = re.compile(r"([0-9]{1,17}):(.+)\Z")


def run_report(reader: JournalReader) -> dict[str, Any]:
    """Summary, header and facts."""
    store, namespace = reader.store, reader.namespace
    row = store.run_row(namespace, reader.run)
    if row is None:
        raise NotFound(f"run {reader.run} was removed meanwhile", code="unknown_run")
    parent = reader.header.parent
    return {
        **summary_of(store, namespace, row).to_json(),
        "namespace": namespace,
        "recorded_as": reader.recorded_run,
        "parent": None
        if parent is None
        else {"run": parent.run, "seq": parent.seq, "relation": parent.relation, "head": parent.head},
        "facts": facts_of(store, namespace, reader.run),
        "facts_erased": reader.header_row.content is None,
    }


class RunFilter(NamedTuple):
    """Nothing given means all of them."""

    statuses: frozenset[str] = frozenset()
    agents: frozenset[str] = frozenset()
    since: int | None = None
    """In microseconds; runs that began then or later."""
    until: int | None = None
    """Runs that began before."""
    every_kind: bool = False
    """Also what is kept beside runs in their shape: differences, receipts."""


class RunPage(NamedTuple):
    runs: list[dict[str, Any]]
    next: str | None

    def to_json(self) -> dict[str, Any]:
        return {"runs": self.runs, "more": self.next is not None, "next": self.next}


class ListPosition(NamedTuple):
    """Where a list stands: behind this run."""

    created: int
    run: str

    def cursor(self) -> str:
        return urlsafe_b64encode(f"{self.created}:{self.run}".encode()).decode().rstrip("=")

    @classmethod
    def of(cls, cursor: str) -> ListPosition:
        try:
            text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
        except ValueError:
            text = ""
        match = _CURSOR.match(text)
        if match is None or not is_name(match[2]):
            raise InvalidInput("not a cursor of this list", hint="Take `next` of the page before.", code="bad_cursor")
        return cls(int(match[1]), match[2])


def runs_page(store: Store, namespace: str, wanted: RunFilter, *, cursor: str | None, limit: int) -> RunPage:
    """The newest first. A page may hold fewer than `limit` while there is a next one."""
    before = ListPosition.of(cursor) if cursor is not None else None
    if wanted.until is not None and (before is None or wanted.until < before.created):
        before = ListPosition(wanted.until, "")
    found: list[dict[str, Any]] = []
    looked = 0
    while looked < LOOKED_AT_MOST:
        page = store.list_runs(namespace, before=before, limit=LOOKED_AT_ONCE)
        for row in page:
            if wanted.since is not None and row.header.created < wanted.since:
                return RunPage(found, None)
            if len(found) == limit:
                return RunPage(found, None if before is None else before.cursor())
            looked += 1
            before = ListPosition(row.header.created, row.header.run)
            if _has_status(store, namespace, row, wanted.statuses):
                facts = facts_of(store, namespace, row.header.run)
                if _is_wanted(facts, wanted):
                    found.append(_line(store, namespace, row, facts, wanted))
        if len(page) < LOOKED_AT_ONCE:
            return RunPage(found, None)
    return RunPage(found, None if before is None else before.cursor())


def _has_status(store: Store, namespace: str, row: RunRow, wanted: frozenset[str]) -> bool:
    """Cheap questions first: how an ended run stands is in its row."""
    if not wanted:
        return True
    if row.last is None or row.last.kind not in TERMINAL_KINDS:
        return not wanted <= _ENDS and standing_of(store, namespace, row).status in wanted
    return row.last.kind.lower() in wanted


def _is_wanted(facts: dict[str, Any] | None, wanted: RunFilter) -> bool:
    if not wanted.every_kind and kind_of_run(facts) != "run":
        return False
    return not wanted.agents or (facts or {}).get("agent") in wanted.agents


def _line(store: Store, namespace: str, row: RunRow, facts: dict[str, Any] | None, wanted: RunFilter) -> dict[str, Any]:
    kind = {"kind": kind_of_run(facts)} if wanted.every_kind else {}
    return {**summary_of(store, namespace, row).to_json(), **kind, "short": short_id(store, namespace, row.header.run)}
