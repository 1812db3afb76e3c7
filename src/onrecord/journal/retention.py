"""Retention: ended runs are removed by age or number, and a tombstone in the operations journal remains.

The tombstone holds the header hash, the number of events and the head, so that a receipt or an export still proves that
this run existed and how it ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from onrecord.core.events import TERMINAL_KINDS, RunRetired
from onrecord.core.hashing import render
from onrecord.core.links import OPERATIONS_RUN
from onrecord.errors import InvalidInput, NotFound
from onrecord.journal.lineage import forked_runs
from onrecord.journal.operations import OperationsJournal
from onrecord.journal.reachability import DeadParts, all_runs, contents_of, parts_of
from onrecord.journal.sources import Sources, SystemSources
from onrecord.store.contract import PendingAppend, RunRow, Store


class Retirable(NamedTuple):
    run: str
    created: int
    events: int
    ended: str


def retirable_runs(
    store: Store,
    namespace: str = "default",
    *,
    older_than_us: int | None = None,
    keep_newest: int | None = None,
    sources: Sources | None = None,
) -> list[Retirable]:
    """Return the ended runs that the rule removes, oldest first.

    A run that has forks is never among them: it holds the shared events.
    """
    if older_than_us is None and keep_newest is None:
        raise InvalidInput("retention needs a rule: an age or a number of runs to keep", code="no_rule")
    if (older_than_us is not None and older_than_us < 0) or (keep_newest is not None and keep_newest < 0):
        raise InvalidInput("an age or a number of runs to keep must not be negative", code="bad_rule")
    now = (sources or SystemSources()).now_us()
    chosen = []
    forked = forked_runs(store, namespace)
    for number, row in enumerate(_list_ended(store, namespace)):
        if keep_newest is not None and number < keep_newest:
            continue
        if older_than_us is not None and row.header.created > now - older_than_us:
            continue
        if row.header.run in forked:
            continue
        assert row.last is not None
        chosen.append(Retirable(row.header.run, row.header.created, row.last.seq, row.last.kind))
    return chosen[::-1]


def _list_ended(store: Store, namespace: str) -> Iterator[RunRow]:
    for row in all_runs(store, namespace):
        if row.header.run != OPERATIONS_RUN and row.last is not None and row.last.kind in TERMINAL_KINDS:
            yield row


def retire_run(
    store: Store, run: str, namespace: str = "default", *, reason: str, sources: Sources | None = None
) -> RunRetired:
    """Remove an ended run and the parts that only it used. Return the tombstone."""
    row = store.run_row(namespace, run)
    if row is None or run == OPERATIONS_RUN:
        raise NotFound(f"no run {run[:128]!r} in namespace {namespace[:128]!r}", code="unknown_run")
    if row.last is None or row.last.kind not in TERMINAL_KINDS:
        raise InvalidInput(f"run {run} has not ended", hint="Only ended runs are retired.", code="run_not_ended")
    if run in forked_runs(store, namespace):
        raise InvalidInput(
            f"run {run} shares its events with runs that were forked from it",
            hint="Retire its forks first.",
            code="run_has_forks",
        )
    tombstone = RunRetired(
        run=run, header_hash=render(row.header.hash), events=row.last.seq, head=render(row.last.hash), reason=reason
    )
    candidates = parts_of(store, namespace, contents_of(store, namespace, row), [run])

    def act(record: PendingAppend) -> None:
        dead = DeadParts(store, namespace, lambda removed, _seq: removed == run, {run}, candidates)
        store.delete_run(namespace, run, record, dead.nodes, dead.artifacts)

    OperationsJournal.open_for(store, namespace, sources=sources).append_with(tombstone, act)
    return tombstone
