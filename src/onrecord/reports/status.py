"""How a run stands, by its record and its lease.

completed, failed, cancelled    it has ended
blocked                         an interrupt waits for a decision
waiting                         a wait is open; `about` names it
in_doubt                        nobody holds it, and an effect that may happen at most once has no answer
stopped                         a fork or a live replay stands before an effect that nobody has named
running                         somebody holds it
interrupted                     nobody holds it: `resume` goes on
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from onrecord.core.events import ANSWERS, OPENING_KINDS, TERMINAL_KINDS
from onrecord.errors import Damaged, OnrecordError
from onrecord.journal.reader import JournalReader
from onrecord.journal.sources import holder_is_gone
from onrecord.store.contract import EventRow, RunRow, Store

ANSWERS_LOOKED_FOR_IN = 10_000


class Standing(NamedTuple):
    status: str
    about: tuple[str, ...] = ()
    """Names of what is waited for, or of what is in doubt."""
    seqs: tuple[int, ...] = ()
    """Where that was recorded."""


class Open(NamedTuple):
    """Something without an answer."""

    seq: int
    kind: str
    name: str
    once: bool
    """It may happen at most once, and nobody has settled it."""
    not_begun: bool = False
    """The record says that nobody has begun with it."""
    key: str = ""
    settled: bool = False


def standing_of(store: Store, namespace: str, row: RunRow) -> Standing:
    if row.last is not None and row.last.kind in TERMINAL_KINDS:
        return Standing(row.last.kind.lower())
    run = row.header.run
    held = not row.header.imported and is_held(store, namespace, run)
    found = [] if row.last is None else open_requests(store, namespace, run)
    asked = [one for one in found if one.kind == "Interrupted"]
    if asked:
        return Standing("blocked", (), tuple(one.seq for one in asked))
    stopped = [] if held else [one for one in found if one.not_begun]
    if stopped:
        return Standing("stopped", tuple(one.name for one in stopped), tuple(one.seq for one in stopped))
    doubtful = [] if held else [one for one in found if one.once]
    if doubtful:
        return Standing("in_doubt", tuple(one.name for one in doubtful), tuple(one.seq for one in doubtful))
    waits = [one for one in found if one.kind == "WaitCreated"]
    if waits and (held or not _all_resolved(store, namespace, run)):
        return Standing("waiting", tuple(one.name for one in waits), tuple(one.seq for one in waits))
    return Standing("running" if held else "interrupted")


def open_requests(store: Store, namespace: str, run: str) -> list[Open]:
    """A lane waits for its answer before it does anything else, so what is open stands at the end of a lane."""
    ends = {end.seq: end for end in store.lanes(namespace, run) if end.kind in OPENING_KINDS}
    if not ends:
        return []
    answered, settled = _answered(store, namespace, run, min(ends))
    reader = JournalReader(store, run, namespace)
    found = [
        _opened(reader, end, (end.lane in settled and settled[end.lane] > seq))
        for seq, end in sorted(ends.items())
        if seq not in answered
    ]
    if not found or reader.header.parent is None:
        return found
    left = _not_begun(reader, min(ends))
    return [one._replace(not_begun=not one.settled, once=False) if one.key in left else one for one in found]


def called_run(store: Store, namespace: str, run: str, request: Open) -> str | None:
    """The run that an open request has called; None: it is another kind of effect."""
    from onrecord.runtime.forks.recorded_answers import child_id  # loaded by whoever carries a run, not by listings

    child = child_id(f"{run}/{request.key}")
    return child if request.key and store.run_row(namespace, child) is not None else None


def with_called_runs(store: Store, namespace: str, run: str) -> Iterator[str]:
    """The run, and those that it, and they, have called and wait for."""
    yield run
    for request in open_requests(store, namespace, run):
        child = called_run(store, namespace, run, request)
        if child is not None:
            yield from with_called_runs(store, namespace, child)


def _not_begun(reader: JournalReader, since: int) -> set[str]:
    """Keys of effects before which the run has stopped, and with which nobody has begun since."""
    found: set[str] = set()
    try:
        for row in reader.store.scan(reader.namespace, reader.run, since + 1, since + ANSWERS_LOOKED_FOR_IN):
            if row.kind not in ("ProcessAttached", "AttemptRecorded"):
                continue
            members = reader.content_tree(row, reader.link(row)) or {}
            process = members.get("process")
            if isinstance(process, dict) and isinstance(process.get("not_begun"), str):
                found.add(process["not_begun"])
            found.discard(members.get("action_id", ""))
    except Damaged:
        pass
    return found


def _opened(reader: JournalReader, end: EventRow, settled: bool) -> Open:
    content: Any = None
    try:
        row = reader.store.event(reader.namespace, reader.run, end.seq)
        if row is not None:
            # As it is stored, never decoded: looking at a recording builds no objects.
            content = reader.content_tree(row, reader.link(row))
    except OnrecordError:
        pass  # a listing shows what it can; `verify` is the judge
    members = content if isinstance(content, dict) else {}
    key = members.get("action_id")
    name, meta = members.get("name"), members.get("meta")
    once = end.kind == "ActionRequested" and isinstance(meta, dict) and meta.get("once") is True and not settled
    shown = name if isinstance(name, str) else f"seq {end.seq}"
    return Open(end.seq, end.kind, shown, once, key=key if isinstance(key, str) else "", settled=settled)


def _answered(store: Store, namespace: str, run: str, since: int) -> tuple[set[int], dict[str, int]]:
    """Requests that were answered, and where in each lane something was settled. Looked for in a bounded stretch:

    a listing must not read whole runs.
    """
    answered: set[int] = set()
    settled: dict[str, int] = {}
    try:
        reader = JournalReader(store, run, namespace)
        for row in store.scan(namespace, run, since + 1, since + ANSWERS_LOOKED_FOR_IN, contents=False):
            if row.kind == "EffectSettled":
                settled[row.lane] = row.seq
            elif row.kind in ANSWERS and (parent := reader.link(row).parent) is not None:
                answered.add(parent)
    except Damaged:
        pass
    return answered, settled


def _all_resolved(store: Store, namespace: str, run: str) -> bool:
    """The answer has come and nobody was there to take it."""
    from onrecord.runtime.waits.listed_waits import load_waits

    try:
        found = load_waits(store, run, namespace)
    except OnrecordError:
        return False
    return bool(found) and all(one.state != "open" for one in found)


def is_held(store: Store, namespace: str, run: str) -> bool:
    """Return True while a live process holds the run's lease. Looks without claiming, so it fences no holder off."""
    holder = store.holder(namespace, run)
    return holder is not None and not holder_is_gone(holder)
