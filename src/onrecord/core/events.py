"""The typed events: frozen values named for what happened (docs/format.md, section 7).

An event class says of itself whether it is behaviour (counts when two runs are compared), whether it ends the run,
and which earlier kind it answers. Nothing else in Reenact keeps a list of kinds.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from msgspec.structs import asdict

from reenact.errors import Damaged


class Event(msgspec.Struct, frozen=True):
    """Base of all events. Members that are None and have None as default are left out of the content."""

    kind: ClassVar[str] = ""
    behavioural: ClassVar[bool] = True
    terminal: ClassVar[bool] = False
    operations_only: ClassVar[bool] = False
    pair_id: ClassVar[str | None] = None
    """The member that names the pair an opening or answering event belongs to."""
    answers: ClassVar[str | None] = None
    """The kind this one answers: the causal parent is an event of that kind, answered at most once."""
    answers_something: ClassVar[bool] = True
    """False: it may stand without anything that it answers."""

    def content(self) -> dict[str, Any]:
        members = asdict(self)
        for name in _OPTIONAL[type(self)]:
            if members[name] is None:
                del members[name]
        return members


class StateUpdated(Event, frozen=True):
    """The agent's state changed; `before` and `after` are state links, filled in by the journal."""

    kind = "StateUpdated"
    payload: Any
    step_id: str | None = None
    before: str | None = None
    after: str | None = None


class ActionRequested(Event, frozen=True):
    """The agent asks for an effect: on record before the effect begins."""

    kind = "ActionRequested"
    pair_id = "action_id"
    action_id: str
    payload: Any
    name: str | None = None
    effect: str | None = None
    meta: Any = None
    """What a resuming process has to know and what never counts when two runs are compared."""


class ActionSucceeded(Event, frozen=True):
    """What came of an effect. The agent has seen it, or would have."""

    kind = "ActionSucceeded"
    pair_id = "action_id"
    answers = "ActionRequested"
    action_id: str
    output: Any


class ActionFailed(Event, frozen=True):
    """An effect raised; its error comes back as it was: class, message, attributes, cause."""

    kind = "ActionFailed"
    pair_id = "action_id"
    answers = "ActionRequested"
    action_id: str
    error: Any


class ActionDenied(Event, frozen=True):
    """Policy said no: before anything was requested, or as the answer to a request."""

    kind = "ActionDenied"
    pair_id = "action_id"
    answers = "ActionRequested"
    answers_something = False
    action_id: str
    reason: Any
    payload: Any = None


class AttemptRecorded(Event, frozen=True):
    """One attempt at an effect among several, with what was kept of it. The effect still has one outcome."""

    kind = "AttemptRecorded"
    behavioural = False
    action_id: str
    attempt: int
    status: str
    snapshots: Any = None


class ChunkReceived(Event, frozen=True):
    """A part of a stream, as it was handed on."""

    kind = "ChunkReceived"
    behavioural = False
    action_id: str
    index: int
    chunk: Any


class EffectSettled(Event, frozen=True):
    """An operator's word on an effect whose result is unknown."""

    kind = "EffectSettled"
    behavioural = False
    action_id: str
    decision: str
    value: Any = None
    by: str | None = None


class Interrupted(Event, frozen=True):
    """The run blocks until somebody resumes it with a decision; `value` says what is asked."""

    kind = "Interrupted"
    value: Any


class Resumed(Event, frozen=True):
    """The decision that an interrupted run goes on with."""

    kind = "Resumed"
    answers = "Interrupted"
    value: Any


class WaitCreated(Event, frozen=True):
    """The run waits for a word from outside, until `deadline` (microseconds) if there is one."""

    kind = "WaitCreated"
    pair_id = "wait_id"
    wait_id: str
    name: str
    deadline: int | None = None


class WaitResolved(Event, frozen=True):
    """The first word on a wait: a value, an error, a cancellation or a time-out."""

    kind = "WaitResolved"
    pair_id = "wait_id"
    answers = "WaitCreated"
    wait_id: str
    resolution: Any


class SignalReceived(Event, frozen=True):
    """A message from outside that the run had not asked for."""

    kind = "SignalReceived"
    name: str
    payload: Any


class TurnTaken(Event, frozen=True):
    """The order in which timers and jobs were handed to the agent."""

    kind = "TurnTaken"
    behavioural = False
    turns: Any


class ProcessAttached(Event, frozen=True):
    """A run of a process, or of a called agent, that belongs to this one."""

    kind = "ProcessAttached"
    behavioural = False
    process: Any


class ValuesDrawn(Event, frozen=True):
    """What the agent read of clock, randomness and the like since the last commit."""

    kind = "ValuesDrawn"
    behavioural = False
    draws: Any


class SnapshotTaken(Event, frozen=True):
    """A snapshot of the state at `position`, the event right before this one, was kept beside the log."""

    kind = "SnapshotTaken"
    behavioural = False
    position: int
    reducer: str
    state_version: int
    state: str
    """State link under the salt of this event."""


class Completed(Event, frozen=True):
    """The agent returned. Nothing follows."""

    kind = "Completed"
    terminal = True
    output: Any = None


class Failed(Event, frozen=True):
    """The agent raised. Nothing follows; going on from here is a fork."""

    kind = "Failed"
    terminal = True
    error: Any


class Cancelled(Event, frozen=True):
    """The run was cancelled. Nothing follows."""

    kind = "Cancelled"
    terminal = True
    reason: Any = None


class RunRetired(Event, frozen=True):
    """Operations: a run was removed by retention; what remains of it is this."""

    kind = "RunRetired"
    behavioural = False
    operations_only = True
    run: str
    header_hash: str
    events: int
    head: str
    reason: str


class ContentErased(Event, frozen=True):
    """Operations: the contents at these [run, seq, header hash] were erased (seq 0: the facts)."""

    kind = "ContentErased"
    behavioural = False
    operations_only = True
    contents: list[list[Any]]
    reason: str


class OperationNoted(Event, frozen=True):
    """Operations: anything else that concerns a run and may not enter it any more."""

    kind = "OperationNoted"
    behavioural = False
    operations_only = True
    operation: str
    detail: Any = None


class UnknownEvent(Event, frozen=True):
    """An event of a kind this version does not know: readable as it is, never written."""

    behavioural = False
    recorded_kind: str
    members: dict[str, Any]

    def content(self) -> dict[str, Any]:
        return self.members


def _all_kinds() -> dict[str, type[Event]]:
    return {cls.kind: cls for cls in Event.__subclasses__() if cls.kind}


KINDS: dict[str, type[Event]] = _all_kinds()
TERMINAL_KINDS = frozenset(kind for kind, cls in KINDS.items() if cls.terminal)
BEHAVIOURAL_KINDS = frozenset(kind for kind, cls in KINDS.items() if cls.behavioural)
ANSWERS: dict[str, str] = {kind: cls.answers for kind, cls in KINDS.items() if cls.answers}
OPENING_KINDS = frozenset(ANSWERS.values())
MAY_ANSWER_NOTHING = frozenset(kind for kind, cls in KINDS.items() if not cls.answers_something)
OPERATIONS_KINDS = frozenset(kind for kind, cls in KINDS.items() if cls.operations_only)


def _required(cls: type[Event]) -> frozenset[str]:
    """Those without a default, which stand first. msgspec's own answer also evaluates every annotation."""
    names = cls.__struct_fields__
    return frozenset(names[: len(names) - len(cls.__struct_defaults__)])


_REQUIRED: dict[type[Event], frozenset[str]] = {cls: _required(cls) for cls in KINDS.values()}
_OPTIONAL: dict[type[Event], tuple[str, ...]] = {
    cls: tuple(name for name in cls.__struct_fields__ if name not in _REQUIRED[cls]) for cls in KINDS.values()
}


def event_from_content(kind: str, members: Any) -> Event:
    """The typed event of a decoded content. Further members are allowed by the format and stay in the content only."""
    if not isinstance(members, dict):
        raise Damaged(f"the content of a {kind} event is not an object", code="bad_content")
    cls = KINDS.get(kind)
    if cls is None:
        return UnknownEvent(recorded_kind=kind, members=members)
    missing = _REQUIRED[cls] - members.keys()
    if missing:
        raise Damaged(f"the content of a {kind} event lacks `{min(missing)}`", code="bad_content")
    return cls(**{name: members[name] for name in cls.__struct_fields__ if name in members})


def kind_of(event: Event) -> str:
    return event.recorded_kind if isinstance(event, UnknownEvent) else event.kind
