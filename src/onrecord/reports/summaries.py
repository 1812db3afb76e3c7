"""What a line about a run says, taken from its row and facts."""

from __future__ import annotations

from typing import Any, NamedTuple

from onrecord.core.hashing import render
from onrecord.core.links import parse_header
from onrecord.errors import OnrecordError
from onrecord.journal.reader import JournalReader
from onrecord.reports.status import standing_of
from onrecord.reports.times import iso_time
from onrecord.store.contract import HeaderRow, RunRow, Store


class ListedRun(NamedTuple):
    run: str
    status: str
    about: tuple[str, ...]
    """Names of what is waited for, or of what is in doubt."""
    agent: str | None
    events: int
    created: int
    imported: bool
    parent: dict[str, Any] | None
    """The run that it comes from, where, and as what: `fork`, `replay`, `child`, `continuation`."""
    head: str

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "about": list(self.about), "created": iso_time(self.created)}


def summary_of(store: Store, namespace: str, row: RunRow) -> ListedRun:
    header, last = row.header, row.last
    standing = standing_of(store, namespace, row)
    return ListedRun(
        run=header.run,
        status=standing.status,
        about=standing.about,
        agent=agent_of(store, namespace, header.run),
        events=last.seq if last is not None else 0,
        created=header.created,
        imported=header.imported,
        parent=parent_of(header),
        head=render(last.hash if last is not None else header.hash),
    )


def parent_of(header: HeaderRow) -> dict[str, Any] | None:
    """Without a look into the store; None also when the header is damaged."""
    try:
        parent = parse_header(header.header).parent
    except OnrecordError:
        return None
    return None if parent is None else {"run": parent.run, "seq": parent.seq, "relation": parent.relation}


def agent_of(store: Store, namespace: str, run: str) -> str | None:
    """What the facts call the agent; None when they are erased, damaged or a stranger's."""
    facts = facts_of(store, namespace, run)
    agent = facts.get("agent") if facts else None
    return agent if isinstance(agent, str) else None


def kind_of_run(facts: dict[str, Any] | None) -> str:
    """`run`, or what is kept in the shape of one: `difference`, `receipts`; or `process`, which belongs to another."""
    if not facts or "agent" in facts:
        return "process" if facts and isinstance(facts.get("process"), dict) else "run"
    return "difference" if facts.get("kind") == "difference" else "receipts" if "receipts" in facts else "run"


def facts_of(store: Store, namespace: str, run: str) -> dict[str, Any] | None:
    """The facts as they are stored, or None. Nothing is decoded: looking at a recording builds no objects."""
    try:
        tree = JournalReader(store, run, namespace).facts_tree()
    except OnrecordError:
        return None
    return tree if isinstance(tree, dict) else None
