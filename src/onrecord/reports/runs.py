"""What is known of a run, and the list of runs, page by page."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from typing import Any, NamedTuple

from onrecord.core.events import TERMINAL_KINDS
from onrecord.core.links import is_name
from onrecord.errors import InvalidInput, NotFound
from onrecord.journal.reader import JournalReader, each_run
from onrecord.reports.run_selector import short_id
from onrecord.reports.status import standing_of
from onrecord.reports.summaries import facts_of, kind_of_run, summary_of
from onrecord.store.contract import RunRow, Store

STATUSES = ("running", "interrupted", "waiting", "blocked", "in_doubt", "stopped", "completed", "failed", "cancelled")
LOOKED_AT_MOST = 2_000
"""Runs that one page looks at: where few of them are wanted, a page is short and says where the next one begins."""

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
    """Conditions on runs. The defaults select every run of kind `run`."""

    statuses: frozenset[str] = frozenset()
    agents: frozenset[str] = frozenset()
    since: int | None = None
    until: int | None = None
    """Times of creation in microseconds: `since` is included, `until` is not."""
    every_kind: bool = False
    """Include stored differences and logged receipts."""


class SelectedRun(NamedTuple):
    row: RunRow
    facts: dict[str, Any] | None
    """The stored facts, or None when they are erased or damaged."""
    status: str
    """Empty if it was not looked up."""

    @property
    def agent(self) -> str | None:
        agent = (self.facts or {}).get("agent")
        return agent if isinstance(agent, str) else None

    @property
    def kind(self) -> str:
        return kind_of_run(self.facts)


def select(store: Store, namespace: str, row: RunRow, wanted: RunFilter) -> SelectedRun | None:
    """Return the run if it meets the conditions. Times are left to the caller."""
    status = row.last.kind.lower() if row.last is not None and row.last.kind in TERMINAL_KINDS else ""
    if wanted.statuses and status and status not in wanted.statuses:
        return None
    run = SelectedRun(row, facts_of(store, namespace, row.header.run), status)
    if not wanted.every_kind and run.kind != "run":
        return None
    if wanted.agents and run.agent not in wanted.agents:
        return None
    if wanted.statuses and not status:
        run = run._replace(status=standing_of(store, namespace, row).status)
    return run if not wanted.statuses or run.status in wanted.statuses else None


def select_runs(store: Store, namespace: str, wanted: RunFilter) -> Iterator[SelectedRun]:
    """Yield the runs that meet the conditions, newest first, with their status."""
    for row in each_run(store, namespace, None if wanted.until is None else (wanted.until, "")):
        if wanted.since is not None and row.header.created < wanted.since:
            return
        run = select(store, namespace, row, wanted)
        if run is not None:
            yield run if run.status else run._replace(status=standing_of(store, namespace, row).status)


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
    for looked, row in enumerate(each_run(store, namespace, before)):
        if wanted.since is not None and row.header.created < wanted.since:
            break
        if len(found) == limit or looked == LOOKED_AT_MOST:
            return RunPage(found, None if before is None else before.cursor())
        before = ListPosition(row.header.created, row.header.run)
        run = select(store, namespace, row, wanted)
        if run is not None:
            kind = {"kind": run.kind} if wanted.every_kind else {}
            summary = summary_of(store, namespace, row).to_json()
            found.append({**summary, **kind, "short": short_id(store, namespace, row.header.run)})
    return RunPage(found, None)
