"""The runs that a run belongs to, as a tree: what it was forked from, forks, live replays, called agents, processes.

A run names its parent; nobody keeps the other direction. So the runs that began since the first of the line are looked
through, newest first and only so many of them: `more` says that there may be others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from onrecord.core.links import ParentRun, parse_header
from onrecord.errors import Damaged
from onrecord.journal.reader import JournalReader, each_run
from onrecord.reports.status import standing_of
from onrecord.reports.summaries import facts_of
from onrecord.reports.times import iso_time
from onrecord.store.contract import RunRow, Store

LOOKED_AT_MOST = 5_000
MEMBERS_MOST = 200
PARENTS_MOST = 100
_PARENT_MARK = b'"parent":{'


class _Member(NamedTuple):
    row: RunRow
    parent: ParentRun | None


def family_report(reader: JournalReader) -> dict[str, Any]:
    """`members` from the first of the line downwards, each before its own; `depth` is how far below that it stands."""
    store, namespace = reader.store, reader.namespace
    line, missing = _line_of(store, namespace, reader.run)
    if not line:
        return {"run": reader.run, "members": [], "missing_parent": None, "more": False}
    children, more = _children(store, namespace, since=line[0].row.header.created)
    members: list[dict[str, Any]] = []
    todo: list[tuple[_Member, int]] = [(line[0], 0)]
    on_the_line = {one.row.header.run for one in line}
    seen: set[str] = set()
    while todo:
        member, depth = todo.pop()
        run = member.row.header.run
        if run in seen:
            continue
        if len(members) == MEMBERS_MOST:
            more = True
            break
        seen.add(run)
        members.append(_told(store, namespace, member, depth))
        below = children.get(run, [])
        below.sort(key=lambda one: (one.row.header.run in on_the_line, -one.row.header.created))
        todo += [(one, depth + 1) for one in below]
    for depth, one in enumerate(line):  # those that are older than what was looked at, or beyond what is shown
        if one.row.header.run not in seen:
            members.append(_told(store, namespace, one, depth))
    return {"run": reader.run, "members": members, "missing_parent": missing, "more": more}


def _line_of(store: Store, namespace: str, run: str) -> tuple[list[_Member], str | None]:
    """The run and those it comes from, the first one first; and the name of one that is not here."""
    line: list[_Member] = []
    names: set[str] = set()
    wanted: str | None = run
    while wanted is not None and wanted not in names and len(line) < PARENTS_MOST:
        row = store.run_row(namespace, wanted)
        if row is None:
            return line[::-1], wanted
        names.add(wanted)
        member = _Member(row, _parent_of(row))
        line.append(member)
        wanted = None if member.parent is None else member.parent.run
    return line[::-1], None


def _children(store: Store, namespace: str, since: int) -> tuple[dict[str, list[_Member]], bool]:
    found: dict[str, list[_Member]] = {}
    for looked, row in enumerate(each_run(store, namespace)):
        if row.header.created < since:
            break
        if looked == LOOKED_AT_MOST:
            return found, True
        parent = _parent_of(row)
        if parent is not None:
            found.setdefault(parent.run, []).append(_Member(row, parent))
    return found, False


def _parent_of(row: RunRow) -> ParentRun | None:
    if _PARENT_MARK not in row.header.header:  # most have none, and are not even looked into
        return None
    try:
        return parse_header(row.header.header).parent
    except Damaged:
        return None


def _told(store: Store, namespace: str, member: _Member, depth: int) -> dict[str, Any]:
    row, parent = member
    facts = facts_of(store, namespace, row.header.run) or {}
    agent = facts.get("agent")
    relation: str | None = None if parent is None else parent.relation
    if relation == "child" and isinstance(facts.get("process"), dict):
        relation = "process"
    return {
        "run": row.header.run,
        "depth": depth,
        "relation": relation,
        "parent": None if parent is None else parent.run,
        "at": None if parent is None else parent.seq,
        "status": standing_of(store, namespace, row).status,
        "agent": agent if isinstance(agent, str) else None,
        "events": 0 if row.last is None else row.last.seq,
        "created": iso_time(row.header.created),
    }
