"""One event in every detail, as far as it can be read: what is stored, what it belongs to, and what the same call asked
for the last time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onrecord.analysis.compare.trees import compare_trees
from onrecord.core.events import ANSWERS, OPENING_KINDS
from onrecord.core.hashing import render
from onrecord.core.links import Link
from onrecord.core.packing import unpack
from onrecord.errors import BadPosition, Damaged, InvalidInput, InvalidValue, NotFound, OnrecordError
from onrecord.journal.reader import JournalReader
from onrecord.reports.comparisons import difference_report
from onrecord.reports.gists import trimmed
from onrecord.reports.timelines import STRETCHES, SeenEvent, find_answer, seen
from onrecord.store.contract import EventRow

STORED_ROOM = 64 * 1024
DIFFERENCES = 40
VALUE_ROOM = 400
ARTIFACTS_MOST = 100


def event_details(reader: JournalReader, seq: int) -> dict[str, Any]:
    """The event as `/events/SEQ` tells it, also when it is damaged, with what is long cut short (`cut`); besides what
    is stored of it, byte for byte."""
    row = _row(reader, seq)
    event = seen(reader, row)
    link = _link(reader, row)
    stored = _stored(row)
    shown = trimmed(event.content)
    return {
        "run": reader.run,
        **event._replace(content=shown.value).to_json(),
        "cut": shown.cut,
        "time_us": event.time,
        "previous": None if link is None else link.prev,
        "commitment": None if link is None else link.content,
        "salt": None if row.salt is None else row.salt.hex(),
        "match": None if row.match is None else render(row.match),
        "prefix": None if row.prefix is None else render(row.prefix),
        "stored": {
            "link": row.link.decode("utf-8", "replace")[:STORED_ROOM],
            "content": None if stored is None else stored.decode("utf-8", "replace")[:STORED_ROOM],
            "content_bytes": None if stored is None else len(stored),
            "kept_bytes": None if row.content is None else len(row.content),
            "cut": stored is not None and len(stored) > STORED_ROOM,
        },
        "artifacts": artifacts_in(event.content),
        "request": event.parent if row.kind in ANSWERS else None,
        "answer": find_answer(reader, seq) if row.kind in OPENING_KINDS else None,
        "before": _same_call_before(reader, row, link),
    }


def artifacts_in(tree: Any) -> list[dict[str, Any]]:
    """Bytes that are kept beside the log, in the order they are met."""
    found: list[dict[str, Any]] = []
    todo = [tree]
    while todo and len(found) < ARTIFACTS_MOST:
        value = todo.pop()
        if isinstance(value, list):
            todo += reversed(value)
        elif isinstance(value, dict):
            named = value.get("$artifact") if len(value) == 1 else None
            if isinstance(named, dict) and isinstance(named.get("digest"), str):
                size = named.get("size")
                found.append({"digest": named["digest"], "bytes": size if isinstance(size, int) else None})
            else:
                todo += reversed(list(value.values()))
    return found


def difference_to_call_before(reader: JournalReader, seq: int, to: int | None = None) -> dict[str, Any]:
    """Where a request differs from that of the call before of the same name; of an answer, from that call's answer."""
    row = _row(reader, seq)
    before = _same_call_before(reader, row, _link(reader, row)) if to is None else to
    if before is None:
        raise NotFound(f"there is no such call before event {seq}", code="no_call_before")
    now, then = seen(reader, row), seen(reader, _row(reader, before))
    for one in (now, then):
        if one.damage is not None:
            raise Damaged(one.damage)
        if one.erased:
            raise InvalidInput(f"event {one.seq} was erased", code="erased")
    try:
        found = compare_trees(_compared(then), _compared(now), limit=DIFFERENCES)
    except InvalidValue:
        raise InvalidInput("these values cannot be compared", code="not_comparable") from None
    return {
        "run": reader.run,
        "seq": seq,
        "before": before,
        "equal": found.equal,
        "total": found.total,
        "differences": [difference_report(one, VALUE_ROOM) for one in found.differences],
    }


def _compared(event: SeenEvent) -> Any:
    """What was asked for or answered. Ids of the pair are new in every call and say nothing."""
    content = event.content
    if not isinstance(content, dict):
        return content
    return {name: value for name, value in content.items() if name not in ("action_id", "wait_id", "meta")}


def _row(reader: JournalReader, seq: int) -> EventRow:
    row = reader.store.event(reader.namespace, reader.run, seq)
    if row is None:
        raise BadPosition(f"run {reader.run} has no event {seq}", hint=f"Its last event is {reader.head().seq}.")
    return row


def _link(reader: JournalReader, row: EventRow) -> Link | None:
    try:
        return reader.link(row)
    except OnrecordError:
        return None


def _stored(row: EventRow) -> bytes | None:
    try:
        return None if row.content is None else unpack(row.content)
    except OnrecordError:
        return None


def _same_call_before(reader: JournalReader, row: EventRow, link: Link | None) -> int | None:
    """The nearest earlier event of the same kind and name, of this lane or, where there is none, of another."""
    if row.kind in ANSWERS:  # the answer to the request that was made before
        request = None if link is None or link.parent is None else _row(reader, link.parent)
        asked = None if request is None else _same_call_before(reader, request, _link(reader, request))
        return None if asked is None else find_answer(reader, asked)
    if row.kind == "StateUpdated":
        return next((one.seq for one in _backwards(reader, row.seq) if one.kind == row.kind), None)
    name = _name_in(link)
    if name is None:
        return None
    elsewhere: int | None = None
    for earlier in _backwards(reader, row.seq):
        if earlier.kind != row.kind or _name_in(_link(reader, earlier)) != name:
            continue
        if earlier.lane == row.lane:
            return earlier.seq
        elsewhere = elsewhere or earlier.seq
    return elsewhere


def _name_in(link: Link | None) -> str | None:
    """A derived key is lane, name and ordinal; one that was given stands for itself and is met once."""
    key = None if link is None else link.key
    parts = key.split("/") if key is not None else []
    return "/".join(parts[1:-1]) if len(parts) >= 3 and parts[-1].isdecimal() else None


def _backwards(reader: JournalReader, seq: int) -> Iterator[EventRow]:
    stop = seq
    for size in STRETCHES:
        start = max(1, seq - size)
        if start < stop:
            yield from reversed(list(reader.store.scan(reader.namespace, reader.run, start, stop, contents=False)))
        stop = start
