"""Read the effects of a run for a live replay: requests, keys and outcomes.

The run is read once without contents. Contents are opened one by one when they are judged, and checked against their
links. Fields that the run's match rules declare volatile are left out. A fork is read with the events it shares.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from onrecord.analysis.diff.contents import Contents
from onrecord.analysis.diff.lane_events import called_name
from onrecord.analysis.diff.lineage import ForkReader, open_lineage
from onrecord.analysis.diff.run_lanes import RunLanes
from onrecord.core.events import ANSWERS, OPENING_KINDS, TERMINAL_KINDS
from onrecord.errors import Damaged
from onrecord.journal.reader import JournalReader
from onrecord.store.contract import EventRow

Status = Literal["succeeded", "failed", "denied", "completed", "cancelled"]

STANDING_IN, CHANGE = "standing_in", "change"
"""Facts of a run that replays another: which substitutes serve its effects, and what is changed on purpose."""
END = "(end)"
"""The step name of the end of a run."""

_STATUS: dict[str, Status] = {
    "ActionSucceeded": "succeeded",
    "ActionFailed": "failed",
    "ActionDenied": "denied",
    "WaitResolved": "succeeded",
    "Resumed": "succeeded",
    "Completed": "completed",
    "Failed": "failed",
    "Cancelled": "cancelled",
}
_OUTPUT = {
    "ActionSucceeded": "output",
    "ActionFailed": "error",
    "ActionDenied": "reason",
    "WaitResolved": "resolution",
    "Resumed": "value",
    "Completed": "output",
    "Failed": "error",
    "Cancelled": "reason",
}


class AnswerSource(NamedTuple):
    """The request `seq` of another run whose answer served an effect that was not executed."""

    run: str
    seq: int


@dataclasses.dataclass(frozen=True, slots=True)
class EffectPlace:
    """Position of an effect. Its contents are not open."""

    position: int
    """The position among the events of the run, shared ones included."""
    seq: int
    """The seq in the run that stores it; equal to `position` except in a fork."""
    kept_in: str
    shared_from: str | None
    """The run that stores it, if that is another run."""
    kind: str
    lane: str
    key: str
    label: str
    """The name in a derived key, or the explicit key itself."""
    is_derived: bool
    match: bytes | None
    answer: int | None
    """The position of the answer; None if none is recorded."""


@dataclasses.dataclass(frozen=True, slots=True)
class EffectView:
    """Contents of an effect. Trees are encoded values; a `gap` is the code for why there is none."""

    name: str
    kind: str
    input: Any
    input_gap: str | None
    status: Status | None
    output: Any
    output_gap: str | None


class RunEffects:
    """Effects of a run in the order of their requests, and its end."""

    def __init__(self, reader: JournalReader) -> None:
        self.reader = open_lineage(reader.store, reader.run, reader.namespace)
        self.lanes = RunLanes(self.reader)
        self._contents = Contents(self.lanes)
        self.effects: list[EffectPlace] = []
        self.end: EventRow | None = None
        self.served_from: dict[str, AnswerSource] = {}
        """The source of each served answer, by replay key."""
        self.not_begun: set[str] = set()
        """Keys of the effects that the run stopped before."""
        facts = reader.facts() or {}
        self._substitutes: Any = facts.get(STANDING_IN)
        change = facts.get(CHANGE)
        self.model: str | None = change.get("model") if isinstance(change, dict) else None
        """The model that a replay called instead of the recorded one."""
        self._read()

    @property
    def live_tools(self) -> tuple[str, ...]:
        """Return the tools that a replay was allowed to call."""
        names = self._substitutes.get("live_tools") if isinstance(self._substitutes, dict) else None
        return tuple(str(name) for name in names) if isinstance(names, list) else ()

    def rows(self) -> Iterator[EventRow]:
        """Return all events without contents."""
        reader = self.reader
        if isinstance(reader, ForkReader):
            return iter(reader.line.rows)
        return reader.store.scan(reader.namespace, reader.run, contents=False)

    def tree(self, position: int) -> Any:
        """Return the whole content of an event, or None once erased."""
        row = self._contents.row(position)
        return None if row is None else self.reader.content_tree(row, self.reader.link(row))

    def view(self, effect: EffectPlace) -> EffectView:
        request_row = self._contents.row(effect.position)
        answer_row = self._contents.row(effect.answer)
        assert request_row is not None
        request = self._contents.of(request_row)
        name, kind, given = _read_request(effect, request)
        status, output, gap = self._read_answer(answer_row)
        return EffectView(name, kind, given, "erased" if request is None else None, status, output, gap)

    def action_id(self, effect: EffectPlace) -> str | None:
        """Return the id that the records of its attempts use."""
        tree = self.tree(effect.position)
        action = tree.get("action_id") if isinstance(tree, dict) else None
        return action if isinstance(action, str) else effect.key

    def end_view(self) -> EffectView | None:
        if self.end is None:
            return None
        status, output, gap = self._read_answer(self.end)
        return EffectView(END, "end", None, None, status, output, gap)

    def _read_answer(self, row: EventRow | None) -> tuple[Status | None, Any, str | None]:
        if row is None:
            return None, None, "no_answer"
        tree = self._contents.of(row)
        if tree is None:
            return _STATUS[row.kind], None, "erased"
        if not isinstance(tree, dict):
            raise Damaged(f"event {row.seq} of run {self.reader.run} has no members", code="bad_content")
        return _STATUS[row.kind], tree.get(_OUTPUT[row.kind]), None

    def _read(self) -> None:
        answers: dict[int, int] = {}
        requests: list[tuple[EventRow, str | None]] = []
        for row in self.rows():
            link = self.reader.link(row)
            if row.kind in OPENING_KINDS or (row.kind == "ActionDenied" and link.parent is None):
                requests.append((row, link.key))
                if row.kind == "ActionDenied":
                    answers[row.seq] = row.seq
            elif row.kind in ANSWERS and link.parent is not None:
                answers[link.parent] = row.seq
            elif row.kind in TERMINAL_KINDS:
                self.end = row
            elif row.kind == "ProcessAttached":
                self._read_note(row.seq)
        self.effects = list(self._locate_effects(requests, answers))

    def _read_note(self, position: int) -> None:
        tree = self.tree(position)
        note = tree.get("process") if isinstance(tree, dict) else None
        if not isinstance(note, dict):
            return
        if STANDING_IN in note:
            self._substitutes = note[STANDING_IN]
        if "not_begun" in note:
            self.not_begun.add(str(note["not_begun"]))
        if "stood_in" in note:
            source = note["stood_in"]
            try:
                self.served_from[str(source["action"])] = AnswerSource(str(source["run"]), int(source["seq"]))
            except (TypeError, ValueError, KeyError):
                where = f"event {position} of run {self.reader.run}"
                raise Damaged(f"{where} is not well formed", code="bad_content") from None

    def _locate_effects(
        self, requests: list[tuple[EventRow, str | None]], answers: dict[int, int]
    ) -> Iterator[EffectPlace]:
        ordinals: dict[tuple[str, str], int] = {}
        for row, given in requests:
            key = given
            if key is None:  # a journal written without keys: numbered as an agent would
                number = ordinals[row.lane, row.kind] = ordinals.get((row.lane, row.kind), 0) + 1
                key = f"{row.lane}/{row.kind}/{number}"
            label = called_name(row.lane, key)
            kept_in, seq = self.lanes.origin(row)
            answer = answers.get(row.seq)
            shared = kept_in if kept_in != self.reader.run else None
            yield EffectPlace(
                row.seq, seq, kept_in, shared, row.kind, row.lane, key, label, label != key, row.match, answer
            )


def _read_request(effect: EffectPlace, content: Any) -> tuple[str, str, Any]:
    """Return the name, kind and input of a request."""
    if effect.kind == "WaitCreated":
        name = content.get("name") if isinstance(content, dict) else None
        return str(name or effect.label), "await_event", {"name": name}
    if effect.kind == "Interrupted":
        return "interrupt", "await_event", content.get("value") if isinstance(content, dict) else None
    members = content if isinstance(content, dict) else {}
    members_named = members.get("reason") if effect.kind == "ActionDenied" else members
    members_named = members_named if isinstance(members_named, dict) else {}
    return (
        str(members_named.get("name") or effect.label),
        str(members_named.get("effect") or ""),
        members.get("payload"),
    )
