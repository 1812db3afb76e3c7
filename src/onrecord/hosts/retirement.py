"""Retire the runs of a session or a process, which are found by the prefix of their ids.

A run that has not ended is never removed. With `end_open`, open runs without a holder are ended first; effects in doubt
in them stay in doubt.
"""

from __future__ import annotations

from typing import NamedTuple

from onrecord.core.events import TERMINAL_KINDS, Cancelled
from onrecord.core.links import check_namespace
from onrecord.errors import NotFound, Refused
from onrecord.hosts.scopes import ExecutionScope, owner_prefix
from onrecord.journal.journal import Journal
from onrecord.journal.retention import retire_run
from onrecord.journal.sources import Sources
from onrecord.store.contract import Store

PAGE = 500


class RetirementCounts(NamedTuple):
    retired: int
    events: int
    """Events of the removed runs."""
    still_open: int
    """Runs that have not ended and were left alone."""
    busy: int
    """Runs to be ended that have a holder."""


def retire_session(
    store: Store,
    session: str,
    namespace: str = "default",
    *,
    reason: str = "session retired",
    end_open: bool = False,
    sources: Sources | None = None,
) -> RetirementCounts:
    """Remove the journals of all turns, queue drains and deletions of a session."""
    return _retire(store, namespace, ExecutionScope.session_delete(session), reason, end_open, sources)


def retire_process(
    store: Store,
    process: str,
    namespace: str = "default",
    *,
    reason: str = "process retired",
    end_open: bool = False,
    sources: Sources | None = None,
) -> RetirementCounts:
    return _retire(store, namespace, ExecutionScope.process(process), reason, end_open, sources)


def _retire(
    store: Store, namespace: str, owner: ExecutionScope, reason: str, end_open: bool, sources: Sources | None
) -> RetirementCounts:
    check_namespace(namespace)
    retired = events = still_open = busy = 0
    for run in _runs_of(store, namespace, owner_prefix(namespace, owner.validate())):
        row = store.run_row(namespace, run)
        if row is None or row.header.imported:
            continue
        if row.last is None or row.last.kind not in TERMINAL_KINDS:
            if not end_open:
                still_open += 1
                continue
            if not _ended(store, namespace, run, reason, sources):
                busy += 1
                continue
        try:
            events += retire_run(store, run, namespace, reason=reason, sources=sources).events
            retired += 1
        except NotFound:  # another process has just removed it
            continue
    return RetirementCounts(retired, events, still_open, busy)


def _runs_of(store: Store, namespace: str, prefix: str) -> list[str]:
    limit = PAGE
    while len(found := store.find_runs(namespace, prefix, limit)) == limit:
        limit *= 2
    return found


def _ended(store: Store, namespace: str, run: str, reason: str, sources: Sources | None) -> bool:
    try:
        with Journal.open(store, run, namespace, sources=sources) as journal:
            journal.append(Cancelled(reason))
    except Refused:
        return False
    return True
