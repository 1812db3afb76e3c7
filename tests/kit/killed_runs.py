"""Runs whose process was killed: settle what is in doubt as the ledger says, and check the journals at the end."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from kit import crash_ledger
from onrecord.journal.reader import JournalReader
from onrecord.journal.verify import verify_run
from onrecord.runtime.api.settle import find_in_doubt, settle
from onrecord.store.contract import Store


def settle_by_the_ledger(
    store: Store, run: str, book: str, *, by_hand: bool = False, may_fail: bool = False
) -> list[str]:
    """Settle the doubts of the run and of the runs that it began. Return the decisions.

    An effect that has happened is done. One that has not is tried again, or was done by hand since, or is given up.
    """
    decisions = []
    for one in [run, *children_of(store, run)]:
        for doubt in find_in_doubt(store, one):
            request = JournalReader(store, one).event(doubt.seq).event
            if (request.meta or {}).get("once") and not doubt.settled:
                if by_hand:
                    _do_by_hand(book, f"{one}/{request.action_id}", request.payload)
                decision = _decide(request, crash_ledger.done(book, request.payload["tag"]), may_fail)
                settle(store, one, doubt.seq, **decision)
                decisions.append(decision["decision"])
    return decisions


def _do_by_hand(book: str, key: str, payload: Any) -> None:
    if not crash_ledger.done(book, payload["tag"]):
        crash_ledger.write(book, "did", payload["tag"], "by hand", [payload.get("given"), key])


def _decide(request: Any, found: list[Any], may_fail: bool) -> dict[str, Any]:
    if not found:
        return {"decision": "fail", "message": "given up"} if may_fail else {"decision": "retry"}
    if request.name == "refused_by_the_world":
        return {"decision": "fail", "message": found[-1]}
    return {"decision": "done", "value": found[-1]}


def check_journals(store: Store, run: str, *, may_fail: bool = False, leaves_children: bool = False) -> None:
    """Check the journals of a run that has ended, and of the runs that it began.

    A called run is suspended, and does not end, if the call was cancelled (`leaves_children`).
    """
    ends = ("Completed", "Failed", "Cancelled") if may_fail else ("Completed",)
    for one in [run, *children_of(store, run)]:
        report = verify_run(store, one, deep=True)
        assert report.valid, (report.line, report.problems)
        if leaves_children and one != run and report.terminal is None:
            continue
        events = [f"{event.seq} {event.event}" for event in JournalReader(store, one).scan()]
        assert report.terminal in ends, "\n".join([f"run {one} has not completed:", *events[-12:]])
        assert report.orphans == [] or report.terminal == "Cancelled", report.orphans


def children_of(store: Store, run: str) -> list[str]:
    """Return the runs that were begun by an effect of this one, and those that they began."""
    return list(_children_of(store, run))


def _children_of(store: Store, run: str) -> Iterator[str]:
    if store.run_row("default", run) is None:
        return
    for request in [one.event for one in JournalReader(store, run).scan() if one.kind == "ActionRequested"]:
        child = hashlib.sha256(f"child\0{run}/{request.action_id}".encode()).hexdigest()[:20]
        if request.effect == "process" and store.run_row("default", child) is not None:
            yield child
            yield from _children_of(store, child)
