"""What a line about a run says, taken from its row and facts."""

from __future__ import annotations

from typing import Any, NamedTuple

from reenact.cli.text import iso_time
from reenact.core.events import ANSWERS, TERMINAL_KINDS
from reenact.core.hashing import commitment, render
from reenact.core.packing import unpack
from reenact.core.sharing import expand
from reenact.errors import Damaged, ReenactError
from reenact.journal.reader import JournalReader
from reenact.store.contract import RunRow, Store

ANSWERS_LOOKED_FOR_IN = 10_000
_BLOCKING = ("Interrupted", "WaitCreated")


class Summary(NamedTuple):
    run: str
    status: str
    agent: str | None
    events: int
    created: int
    imported: bool
    head: str

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "created": iso_time(self.created)}


def summary_of(store: Store, namespace: str, row: RunRow) -> Summary:
    header, last = row.header, row.last
    return Summary(
        run=header.run,
        status=status_of(store, namespace, row),
        agent=agent_of(store, namespace, header.run),
        events=last.seq if last is not None else 0,
        created=header.created,
        imported=header.imported,
        head=render(last.hash if last is not None else header.hash),
    )


def status_of(store: Store, namespace: str, row: RunRow) -> str:
    """`blocked`: a lane came to an interrupt or a wait that nobody has answered."""
    if row.last is None:
        return "running"
    if row.last.kind in TERMINAL_KINDS:
        return row.last.kind.lower()
    run = row.header.run
    waiting = {end.seq for end in store.lanes(namespace, run) if end.kind in _BLOCKING}
    return "blocked" if waiting and waiting - _answered(store, namespace, run, min(waiting)) else "running"


def _answered(store: Store, namespace: str, run: str, since: int) -> set[int]:
    """Events answered from another lane. Looked for in a bounded stretch: a listing must not read whole runs."""
    found: set[int] = set()
    try:
        reader = JournalReader(store, run, namespace)
        for row in store.scan(namespace, run, since + 1, since + ANSWERS_LOOKED_FOR_IN, contents=False):
            if ANSWERS.get(row.kind) in _BLOCKING and (parent := reader.link(row).parent) is not None:
                found.add(parent)
    except Damaged:
        pass  # a listing shows what it can; `verify` is the judge
    return found


def agent_of(store: Store, namespace: str, run: str) -> str | None:
    """What the facts call the agent; None when they are erased, damaged or a stranger's."""
    facts = facts_of(store, namespace, run)
    agent = facts.get("agent") if facts else None
    return agent if isinstance(agent, str) else None


def facts_of(store: Store, namespace: str, run: str) -> dict[str, Any] | None:
    """The facts as they are stored, or None. Nothing is decoded: looking at a recording builds no objects."""
    try:
        reader = JournalReader(store, run, namespace)
        row = reader.header_row
        if row.content is None or row.salt is None or row.match is None:
            return None
        stored = unpack(row.content)
        if render(commitment(row.salt, row.match, stored)) != reader.header.content:
            return None
        tree = expand(stored, reader.nodes.fetch)
    except ReenactError:
        return None
    return tree if isinstance(tree, dict) else None
