"""Edits of a program after its recording, and the report that each of them must get."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kit.simulation.cases import Case, Edit
from kit.simulation.life import Verdict
from kit.simulation.outside import Wrong
from kit.simulation.programs import Node, Program, change
from onrecord.runtime.scheduler.items import Away, Diverged, Item, Noted, Requested

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


def _number(act: Any) -> int | None:
    """Return the number of the node that made the act."""
    return act.digest[0] if type(act) in (Requested, Noted) else None
