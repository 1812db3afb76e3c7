"""The effects of a run as a live replay sees them: what was asked for, under which key, and what came of it.

A run is read once without its contents; those are opened one by one when they are judged, and checked against their
links then. Whatever a match rule of the run declares volatile is left out. A fork is read with what it shares with the
runs it comes from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from reenact.core.events import ANSWERS, OPENING_KINDS, TERMINAL_KINDS
from reenact.errors import Damaged
from reenact.journal.reader import JournalReader
from reenact.replays.divergence.contents import Contents
from reenact.replays.divergence.lane_events import called_name
from reenact.replays.divergence.run_lanes import RunLanes
from reenact.replays.divergence.whole_line import ForkReader, whole_line
from reenact.store.contract import EventRow

Status = Literal["succeeded", "failed", "denied", "completed", "cancelled"]

STANDING_IN, CHANGE = "standing_in", "change"
"""Facts of a run that replays another: what stands in for the world, and what is changed on purpose."""
END = "(end)"
"""The name under which the end of a run is judged, like a step."""

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


class StoodIn(NamedTuple):
    """An effect that was not carried out: its answer is that of the request `seq` of another run."""

    run: str
    seq: int


@dataclasses.dataclass(frozen=True, slots=True)
class EffectPlace:
    """Where an effect stands. Nothing of its content is open."""

    position: int
    """Among the events of the run, and of those that it shares."""
    seq: int
    """Where it is kept: for anything but a fork, the same."""
    kept_in: str
    shared_from: str | None
    """The same, where that is another run than the one that is read."""
    kind: str
    lane: str
    key: str
    label: str
    """The name in a derived key; an explicit key stands for itself."""
    is_derived: bool
    match: bytes | None
    answer: int | None
    """Position of its answer; None: there is none on record."""


@dataclasses.dataclass(frozen=True, slots=True)
class EffectView:
    """One effect, opened. Trees are encoded values; a `gap` says in a word why there is none."""

    name: str
    kind: str
    input: Any
    input_gap: str | None
    status: Status | None
    output: Any
    output_gap: str | None


class RunEffects:
    """A run's effects in the order in which they were asked for, and its end."""

    def __init__(self, reader: JournalReader) -> None:
        self.reader = whole_line(reader.store, reader.run, reader.namespace)
        self.lanes = RunLanes(self.reader)
        self._contents = Contents(self.lanes)
        self.effects: list[EffectPlace] = []
        self.end: EventRow | None = None
        self.stood_in: dict[str, StoodIn] = {}
        """By replay key."""
        self.not_begun: set[str] = set()
        """Keys of what the run stopped before."""
        facts = reader.facts() or {}
        self._standing_in: Any = facts.get(STANDING_IN)
        change = facts.get(CHANGE)
        self.model: str | None = change.get("model") if isinstance(change, dict) else None
        """The model that it asked instead of the recorded one, where it replays another run."""
        self._read()

    @property
    def live_tools(self) -> tuple[str, ...]:
        """The tools that it was allowed to call, where it replays another run."""
        named = self._standing_in.get("live_tools") if isinstance(self._standing_in, dict) else None
        return tuple(str(name) for name in named) if isinstance(named, list) else ()

    def rows(self) -> Iterator[EventRow]:
        """All of its events, without contents."""
        reader = self.reader
        if isinstance(reader, ForkReader):
            return iter(reader.line.rows)
        return reader.store.scan(reader.namespace, reader.run, contents=False)

    def tree(self, position: int) -> Any:
        """The whole content of an event; None once erased."""
        row = self._contents.row(position)
        return None if row is None else self.reader.content_tree(row, self.reader.link(row))

    def view(self, effect: EffectPlace) -> EffectView:
        asked_row = self._contents.row(effect.position)
        answer_row = self._contents.row(effect.answer)
        assert asked_row is not None
        asked = self._contents.of(asked_row)
        name, kind, given = _request(effect, asked)
        status, output, gap = self._answered(answer_row)
        return EffectView(name, kind, given, "erased" if asked is None else None, status, output, gap)

    def action_id(self, effect: EffectPlace) -> str | None:
        """By which the records of its attempts name it."""
        tree = self.tree(effect.position)
        action = tree.get("action_id") if isinstance(tree, dict) else None
        return action if isinstance(action, str) else effect.key

    def end_view(self) -> EffectView | None:
        if self.end is None:
            return None
        status, output, gap = self._answered(self.end)
        return EffectView(END, "end", None, None, status, output, gap)

    def _answered(self, row: EventRow | None) -> tuple[Status | None, Any, str | None]:
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
        asked: list[tuple[EventRow, str | None]] = []
        for row in self.rows():
            link = self.reader.link(row)
            if row.kind in OPENING_KINDS or (row.kind == "ActionDenied" and link.parent is None):
                asked.append((row, link.key))
                if row.kind == "ActionDenied":
                    answers[row.seq] = row.seq
            elif row.kind in ANSWERS and link.parent is not None:
                answers[link.parent] = row.seq
            elif row.kind in TERMINAL_KINDS:
                self.end = row
            elif row.kind == "ProcessAttached":
                self._take_note(row.seq)
        self.effects = list(self._places(asked, answers))

    def _take_note(self, position: int) -> None:
        tree = self.tree(position)
        note = tree.get("process") if isinstance(tree, dict) else None
        if not isinstance(note, dict):
            return
        if STANDING_IN in note:
            self._standing_in = note[STANDING_IN]
        if "not_begun" in note:
            self.not_begun.add(str(note["not_begun"]))
        if "stood_in" in note:
            said = note["stood_in"]
            try:
                self.stood_in[str(said["action"])] = StoodIn(str(said["run"]), int(said["seq"]))
            except (TypeError, ValueError, KeyError):
                where = f"event {position} of run {self.reader.run}"
                raise Damaged(f"{where} is not well formed", code="bad_content") from None

    def _places(self, asked: list[tuple[EventRow, str | None]], answers: dict[int, int]) -> Iterator[EffectPlace]:
        ordinals: dict[tuple[str, str], int] = {}
        for row, given in asked:
            key = given
            if key is None:  # written by hand, without keys: counted as an agent would
                number = ordinals[row.lane, row.kind] = ordinals.get((row.lane, row.kind), 0) + 1
                key = f"{row.lane}/{row.kind}/{number}"
            label = called_name(row.lane, key)
            kept_in, seq = self.lanes.origin(row)
            answer = answers.get(row.seq)
            shared = kept_in if kept_in != self.reader.run else None
            yield EffectPlace(
                row.seq, seq, kept_in, shared, row.kind, row.lane, key, label, label != key, row.match, answer
            )


def _request(effect: EffectPlace, content: Any) -> tuple[str, str, Any]:
    """Name, kind and input of what was asked for."""
    if effect.kind == "WaitCreated":
        name = content.get("name") if isinstance(content, dict) else None
        return str(name or effect.label), "await_event", {"name": name}
    if effect.kind == "Interrupted":
        return "interrupt", "await_event", content.get("value") if isinstance(content, dict) else None
    members = content if isinstance(content, dict) else {}
    named = members.get("reason") if effect.kind == "ActionDenied" else members
    named = named if isinstance(named, dict) else {}
    return str(named.get("name") or effect.label), str(named.get("effect") or ""), members.get("payload")
