"""Edits of a program after its recording, and the report that each of them must get."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kit.simulation.cases import Case, Edit
from kit.simulation.life import Verdict
from kit.simulation.outside import Wrong
from kit.simulation.programs import Node, Program, change, walk
from onrecord.runtime.scheduler.items import Away, CheckpointTaken, Diverged, Item, Noted, Requested, Turn

EXTRA = 1_000_000
"""Added to the number of a node that an edit changed or inserted."""


def apply_edit(program: Program, edit: Edit) -> Program:
    """Return the edited program."""

    def new(node: Node) -> Program:
        changed = node._replace(number=node.number + EXTRA)
        if edit.how in ("changed", "renamed"):
            return (changed,)
        if edit.how == "added":
            return (changed._replace(kind="note"), node)
        if edit.how == "appended":
            return (node, changed)
        if edit.how == "drawn":
            return (changed._replace(kind="glance"), node)
        if edit.how == "slept":
            return (changed._replace(kind="nap", branches=()), node)
        if edit.how == "looked":
            return (changed._replace(kind="lookup", branches=()), node)
        if edit.how in ("unslept", "known"):
            return (node._replace(kind={"unslept": "awake"}.get(edit.how, edit.how)),)
        if edit.how == "repeatable":
            return (node._replace(kind="again"),)
        return (node._replace(kind={"glance": "unseen", "measure": "unmeasured"}.get(node.kind, "removed")),)

    return change(program, edit.number, new)


def check_edit(case: Case, items: list[Item], verdict: Verdict, tally: Counter[str]) -> None:
    """Check the report of a replay of the edited program."""
    edit = case.edit
    assert edit is not None
    recorded = next((item for item in items if _number(item) == edit.number), None)
    if edit.how in ("drawn", "undrawn", "repeatable") or recorded is None:
        if verdict.how != "done":
            raise Wrong(f"a false divergence for {edit}: {verdict}")
        tally["edits without a difference"] += 1
        return
    is_late = edit.how == "appended" and any(type(item) is Away for item in items)
    if verdict.how == "done" and is_late:
        tally["edits after an away"] += 1  # the new act waited for the turn of the next one, and the run ended
        return
    if verdict.how != "diverged":
        raise Wrong(f"no divergence for {edit}: {verdict}")
    tally["edits reported"] += 1
    report: Diverged = verdict.detail
    is_exact = report.lane == recorded.lane
    if edit.how == "removed":
        is_exact &= report.expected == recorded
    else:
        is_exact &= _number(report.actual) == edit.number + EXTRA
        if edit.how == "changed":
            is_exact &= report.expected == recorded and report.reason == "changed"
    if is_exact:
        tally["edits reported exactly"] += 1
    elif (
        (is_late or edit.how == "removed")
        and case.sees_memory
        and report.expected in items
        and report.reason == "changed"
    ):
        # Without the request the lanes wrote into memory in another order, and another lane really differed first.
        tally["edits reported elsewhere"] += 1
    else:
        raise Wrong(f"{edit} of {recorded} is reported as {report}")


def check_shift(case: Case, verdict: Verdict, tally: Counter[str]) -> None:
    """Check the replay of a program that sleeps, or passes acts without a record, more or less often than recorded."""
    report = verdict.detail
    if verdict.how == "done":
        tally["shifts without a difference"] += 1
    elif verdict.how != "diverged" or (type(report.expected) is Turn and report.expected.kind in ("timer", "back")):
        raise Wrong(f"{case.shift} ends as {verdict}")
    elif report.reason == "ended differently" or type(report.actual) is CheckpointTaken:
        tally["shifts that end differently"] += 1  # it shows its memory
    elif _may_differ(case):
        tally["shifts with a difference"] += 1
    else:
        raise Wrong(f"a false divergence for {case.shift}: {verdict}")


def _may_differ(case: Case) -> bool:
    """Return True if the time at which a lane goes on may decide what the program asks for, or in which order.

    While a lane sleeps more often, another one may take a lock or block the loop. What that one waits for is on record
    after what the first one has to ask for.
    """
    if case.sees_memory or case.is_cancelled:
        return True
    return any(
        node.kind in ("first", "timeout", "cancel", "group", "late", "spin", "stray", "blocking", "lock")
        or (node.kind in ("threads", "jobs") and node.size in (3, 4))
        for node in walk(case.program)
    )


def _number(act: Any) -> int | None:
    """Return the number of the node that made the act."""
    return act.digest[0] if type(act) in (Requested, Noted) else None
