"""Runs to compare, written from short scripts, and the slow and obvious way of comparing them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from golden.vectors import FixedSources
from onrecord.core.canonical import canonical_bytes
from onrecord.core.codec import encode
from onrecord.core.events import (
    ActionFailed,
    ActionRequested,
    ActionSucceeded,
    Completed,
    Event,
    ProcessAttached,
    StateUpdated,
)
from onrecord.core.matching import VOLATILE_MEMBERS
from onrecord.journal.journal import Draft, Journal
from onrecord.journal.reader import JournalReader, SequencedEvent
from onrecord.store.contract import Store


class Op(NamedTuple):
    """ask, answer (the oldest open request of the lane, or the newest), fail, state, note (bookkeeping), end."""

    what: str
    value: Any = None
    lane: str = "main"
    tool: str = "search"


def ask(value: Any, lane: str = "main", tool: str = "search") -> Op:
    return Op("ask", value, lane, tool)


def answer(value: Any, lane: str = "main") -> Op:
    return Op("answer", value, lane)


def call(value: Any, lane: str = "main", tool: str = "search", output: Any = "fine") -> list[Op]:
    return [ask(value, lane, tool), answer(output, lane)]


def calls(values: Iterable[Any], lane: str = "main") -> list[Op]:
    return [op for value in values for op in call(value, lane)]


def write(store: Store, run: str, ops: Sequence[Op], namespace: str = "default", **more: Any) -> Journal:
    journal = Journal.create(store, run, namespace, sources=FixedSources(f"{namespace}/{run}"), **more)
    drafts = list(drafts_of(ops))
    for start in range(0, len(drafts), 1000):
        journal.append(drafts[start : start + 1000], sync=False)
    store.release(namespace, run, journal.epoch)
    return journal


def drafts_of(ops: Sequence[Op]) -> Iterable[Draft]:
    waiting: dict[str, list[str]] = {}
    ordinals: dict[str, int] = {}
    for number, op in enumerate(ops):
        key = None
        event: Event
        if op.what == "ask":
            count = ordinals[op.lane] = ordinals.get(op.lane, -1) + 1
            key = f"{op.lane}/{op.tool}/{count}"
            waiting.setdefault(op.lane, []).append(f"a{number}")
            event = ActionRequested(f"a{number}", op.value, name=op.tool, effect="tool_call")
        elif op.what == "answer":
            event = ActionSucceeded(waiting[op.lane].pop(0), op.value)
        elif op.what == "answer-newest":
            event = ActionSucceeded(waiting[op.lane].pop(), op.value)
        elif op.what == "fail":
            event = ActionFailed(waiting[op.lane].pop(0), op.value)
        elif op.what == "state":
            event = StateUpdated(op.value)
        elif op.what == "note":
            event = ProcessAttached({"n": op.value})
        else:
            event = Completed(op.value)
        yield Draft(event, lane=op.lane, key=key)


class Slow(NamedTuple):
    """What comparing everything finds: lane, place and seqs of the first difference, and how many are unknown."""

    first: tuple[str, int, int | None, int | None] | None
    unknown: int


def meaning(event: SequencedEvent) -> bytes | None:
    if event.erased:
        return None
    members = {name: value for name, value in event.event.content().items() if name not in VOLATILE_MEMBERS}
    return canonical_bytes(encode({"kind": event.kind, "content": members}).tree)


def lanes_of(reader: JournalReader) -> dict[str, list[tuple[SequencedEvent, int]]]:
    """Behavioural events by lane, each with its distance to what it answers."""
    found: dict[str, list[tuple[SequencedEvent, int]]] = {}
    places: dict[int, tuple[str, int]] = {}
    for event in reader.scan():
        if event.kind == "ProcessAttached":
            continue
        lane = found.setdefault(event.lane, [])
        asked = places.get(event.parent or 0)
        distance = len(lane) + 1 - asked[1] if asked is not None and asked[0] == event.lane else 0
        lane.append((event, distance))
        places[event.seq] = (event.lane, len(lane))
    return found


def compare_slowly(a: JournalReader, b: JournalReader) -> Slow:
    """Lane by lane under equal names, event by event."""
    lanes_a, lanes_b = lanes_of(a), lanes_of(b)
    found: list[tuple[int, str, int, int | None, int | None]] = []
    unknown = 0
    for lane in sorted(lanes_a.keys() | lanes_b.keys()):
        ours, theirs = lanes_a.get(lane, []), lanes_b.get(lane, [])
        for place in range(max(len(ours), len(theirs))):
            if place >= len(ours) or place >= len(theirs):
                seqs = [one[place][0].seq if place < len(one) else None for one in (ours, theirs)]
                found.append((min(seq for seq in seqs if seq), lane, place + 1, seqs[0], seqs[1]))
                break
            (one, far), (other, also_far) = ours[place], theirs[place]
            known = not one.erased and not other.erased
            if (one.kind, far) != (other.kind, also_far) or (known and meaning(one) != meaning(other)):
                found.append((min(one.seq, other.seq), lane, place + 1, one.seq, other.seq))
                break
            unknown += not known
    return Slow(min(found)[1:] if found else None, unknown)
