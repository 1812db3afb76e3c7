"""The effects of a run: each request with its answer, how long it took and what it used.

Requests are not expanded: a conversation repeats itself in each of them, and name, kind and model stand at the top.
How long an effect took is the time from its request on record to its answer on record, as its run saw it: tries and
waiting for a turn included.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from onrecord.core.canonical import parse_stored
from onrecord.core.events import ANSWERS, OPENING_KINDS
from onrecord.core.hashing import commitment, render
from onrecord.core.lazy_regex import Pattern
from onrecord.core.packing import unpack
from onrecord.errors import Damaged, OnrecordError
from onrecord.journal.reader import JournalReader
from onrecord.reports.timelines import SeenEvent, seen
from onrecord.reports.usages import ReadAnswer, Used, used_by
from onrecord.store.contract import EventRow

OUTCOMES = {"ActionFailed": "failed", "ActionDenied": "denied"}
KINDS = {"WaitCreated": "wait", "Interrupted": "interrupt"}
MODEL_CALL, PROCESS = "model_call", "process"
_IN_PATH = Pattern(r"/models/([^/:?]+):")


class ReportedEffect(NamedTuple):
    seq: int
    kind: str
    """model_call, tool_call, http, step, …; `wait` and `interrupt` for what others answer."""
    name: str | None
    lane: str
    time: int | None
    """When it was requested, in microseconds."""
    model: str | None = None
    """Whom it asked, or who answered."""
    answer: int | None = None
    outcome: str = "open"
    """open, succeeded, failed or denied."""
    took_us: int | None = None
    used: Used | None = None

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "used": None if self.used is None else self.used.to_json()}


def effects_of(
    reader: JournalReader, read: ReadAnswer, start: int = 1, stop: int | None = None, *, open_too: bool = True
) -> Iterator[ReportedEffect]:
    """Effects whose answers stand in that stretch, in the order of these; then those without an answer."""
    walk = EffectWalk(reader, read)
    for row in reader.store.scan(reader.namespace, reader.run, start, stop):
        found = walk.take(row)
        if found is not None:
            yield found
    if open_too:
        yield from walk.open()


class EffectWalk:
    """Row after row, as they come: `take` gives an effect when its answer has come."""

    def __init__(self, reader: JournalReader, read: ReadAnswer) -> None:
        self._reader = reader
        self._read = read
        self._requested: dict[int, ReportedEffect] = {}

    def take(self, row: EventRow, event: SeenEvent | None = None) -> ReportedEffect | None:
        """`event`: the row as it was seen, by whoever needs it besides."""
        if row.kind in OPENING_KINDS:
            self._requested[row.seq] = requested(self._reader, row)
        elif row.kind in ANSWERS:
            return self._answered(event if event is not None else seen(self._reader, row))
        return None

    def open(self) -> Iterator[ReportedEffect]:
        yield from self._requested.values()

    def _answered(self, answer: SeenEvent) -> ReportedEffect | None:
        asked = self._requested.pop(answer.parent or 0, None) or self._before(answer.parent)
        if asked is None:
            return None  # nothing was requested, or nobody can read what
        took = None if asked.time is None or answer.time is None else max(0, answer.time - asked.time)
        content = answer.content if isinstance(answer.content, dict) else {}
        used = used_by(content.get("output"), self._read) if _may_tell(asked, content) else None
        return asked._replace(
            answer=answer.seq,
            outcome=OUTCOMES.get(answer.kind, "succeeded"),
            took_us=took,
            used=used,
            model=(used.model if used is not None else None) or asked.model,
        )

    def _before(self, seq: int | None) -> ReportedEffect | None:
        """A request that stands before the stretch."""
        row = None if seq is None else self._reader.store.event(self._reader.namespace, self._reader.run, seq)
        return None if row is None else requested(self._reader, row)


def _may_tell(asked: ReportedEffect, content: dict[str, Any]) -> bool:
    """Tools that ask a model themselves often pass on what it used. Of a called agent its own effects tell."""
    output = content.get("output")
    passed_on = isinstance(output, dict) and ("usage" in output or "$object" in output)
    return asked.kind == MODEL_CALL or (passed_on and asked.kind != PROCESS)


def requested(reader: JournalReader, row: EventRow) -> ReportedEffect:
    """What a request says of itself; as much as can be read."""
    time, content = None, None
    try:
        link = reader.link(row)
        time, content = link.time, outline(row, link.content)
    except OnrecordError:
        pass  # what is the matter with it is told by whoever shows the event
    members = content if isinstance(content, dict) else {}
    name, kind = members.get("name"), members.get("effect")
    found = ReportedEffect(
        row.seq,
        KINDS.get(row.kind) or (kind if isinstance(kind, str) else "tool_call"),
        name if isinstance(name, str) else None,
        row.lane,
        time,
    )
    return found._replace(model=asked_model(members.get("payload"))) if found.kind == MODEL_CALL else found


def outline(row: EventRow, committed: str) -> Any:
    """The top of a content, with references in place of its large parts; None once it is erased."""
    if row.content is None or row.salt is None or row.match is None:
        return None
    stored = unpack(row.content)
    if render(commitment(row.salt, row.match, stored)) != committed:
        raise Damaged(f"event {row.seq}: the content does not match the link", code="bad_content")
    return parse_stored(stored)


def is_model_call(reader: JournalReader, row: EventRow) -> bool:
    return row.kind == "ActionRequested" and requested(reader, row).kind == MODEL_CALL


def asked_model(payload: Any) -> str | None:
    """The model that a request names: in the body or the path that was sent, or as an argument."""
    if not isinstance(payload, dict):
        return None
    body, url = payload.get("body"), payload.get("url")
    asked = body.get("json") if isinstance(body, dict) else payload
    model = asked.get("model") if isinstance(asked, dict) else None
    if isinstance(model, str):
        return model
    named = _IN_PATH.search(url) if isinstance(url, str) else None
    return named[1] if named is not None else None
