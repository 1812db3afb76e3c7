"""Typed events: frozen values named for what happened (docs/format.md, section 7).

Each event class declares whether it is behaviour (counts when two runs are compared), whether it ends the run, and
which earlier kind it answers. No other module keeps a list of kinds.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from msgspec.structs import asdict

from onrecord.core.member_checks import CHECKED_KINDS, find_member_problem
from onrecord.errors import Damaged


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all events. Members whose value and default are None are left out of the content."""

    meta: dict[str, Any] | None = None
    """Data that never counts when two runs are compared; left out of the content when empty."""

    kind: ClassVar[str] = ""
    behavioural: ClassVar[bool] = True
    terminal: ClassVar[bool] = False
    operations_only: ClassVar[bool] = False
    pair_id: ClassVar[str | None] = None
    """The member with the id that an opening event and its answer share."""
    answers: ClassVar[str | None] = None
    """The kind this one answers. The causal parent is an event of that kind; it is answered at most once."""
    answers_something: ClassVar[bool] = True
    """False: the event may occur without a request."""

    def content(self) -> dict[str, Any]:
        members = asdict(self)
        if not members["meta"]:
            members["meta"] = None
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
    """The agent requests an effect. Committed before the effect begins."""

    kind = "ActionRequested"
    pair_id = "action_id"
    action_id: str
    payload: Any
    name: str | None = None
    effect: str | None = None


class ActionSucceeded(Event, frozen=True):
    """The outcome of an effect that returned. The agent has seen it, or would have."""

    kind = "ActionSucceeded"
    pair_id = "action_id"
    answers = "ActionRequested"
    action_id: str
    output: Any


class ActionFailed(Event, frozen=True):
    """An effect raised. On replay the error has the same class, message, attributes and cause."""

    kind = "ActionFailed"
    pair_id = "action_id"
    answers = "ActionRequested"
    action_id: str
    error: Any


class ActionDenied(Event, frozen=True):
    """Policy denied an effect: before it was requested, or in answer to the request."""

    kind = "ActionDenied"
    pair_id = "action_id"
    answers = "ActionRequested"
    answers_something = False
    action_id: str
    reason: Any
    payload: Any = None


class AttemptRecorded(Event, frozen=True):
    """An attempt at an effect, one of several, with its snapshots. The effect still has one outcome."""

    kind = "AttemptRecorded"
    behavioural = False
    action_id: str
    attempt: int
    status: str
    snapshots: Any = None
    latency_us: int | None = None
    """The time from the start of the attempt to its end."""


class ChunkReceived(Event, frozen=True):
    """A part of a stream, as delivered."""

    kind = "ChunkReceived"
    behavioural = False
    action_id: str
    index: int
    chunk: Any


class EffectSettled(Event, frozen=True):
    """An operator's decision on an effect in doubt."""

    kind = "EffectSettled"
    behavioural = False
    action_id: str
    decision: str
    value: Any = None
    by: str | None = None
    why: str | None = None


class Interrupted(Event, frozen=True):
    """The run blocks until it is resumed with a decision; `value` holds the question."""

    kind = "Interrupted"
    value: Any


class Resumed(Event, frozen=True):
    """The decision with which an interrupted run continues."""

    kind = "Resumed"
    answers = "Interrupted"
    value: Any
    by: str | None = None
    """The person or service that decided."""
    why: str | None = None


class WaitCreated(Event, frozen=True):
    """The run waits for a resolution from outside, until `deadline` (microseconds) if given."""

    kind = "WaitCreated"
    pair_id = "wait_id"
    wait_id: str
    name: str
    deadline: int | None = None
    question: Any = None
    """The question to a person, mostly text."""
    schema: dict[str, Any] | None = None
    """The JSON schema of the value that the wait expects."""
    context: Any = None
    """The data that a person needs in order to answer."""


class WaitResolved(Event, frozen=True):
    """The first resolution of a wait: a value, an error, a cancellation or a time-out."""

    kind = "WaitResolved"
    pair_id = "wait_id"
    answers = "WaitCreated"
    wait_id: str
    resolution: Any
    by: str | None = None
    """The person or service that resolved the wait."""
    why: str | None = None


class SignalReceived(Event, frozen=True):
    """A message from outside that the run did not request."""

    kind = "SignalReceived"
    name: str
    payload: Any


class TurnTaken(Event, frozen=True):
    """The order in which timers and jobs were delivered to the agent."""

    kind = "TurnTaken"
    behavioural = False
    turns: Any


class ProcessAttached(Event, frozen=True):
    """The run of a child process or of a called agent belongs to this run."""

    kind = "ProcessAttached"
    behavioural = False
    process: Any


class ValuesDrawn(Event, frozen=True):
    """The draws (clock, randomness and the like) that the agent read since the last commit."""

    kind = "ValuesDrawn"
    behavioural = False
    draws: Any


class InputSent(Event, frozen=True):
    """The program sent input or a signal to a command. The command's outcome sums both up."""

    kind = "InputSent"
    behavioural = False
    action_id: str
    size: int | None = None
    digest: str | None = None
    data: Any = None
    signal: int | None = None


class OutputPrinted(Event, frozen=True):
    """The program's output to `stream` from its start to here: its size, its digest, perhaps its newest part."""

    kind = "OutputPrinted"
    behavioural = False
    stream: str
    size: int
    digest: str
    data: Any = None


class FilesObserved(Event, frozen=True):
    """The files that the program looked at since the last commit, as they were."""

    kind = "FilesObserved"
    behavioural = False
    looks: list[Any]


class FilesWritten(Event, frozen=True):
    """The files that the program wrote since the last commit, as it left them."""

    kind = "FilesWritten"
    behavioural = False
    files: list[Any]


class BudgetReserved(Event, frozen=True):
    """An effect reserved a part of the budget before it began; its outcome replaces the reservation."""

    kind = "BudgetReserved"
    behavioural = False
    action_id: str
    amounts: dict[str, Any]


class RunReleased(Event, frozen=True):
    """The holder of `epoch` parked the run. `due` lists the times (microseconds) of its timers."""

    kind = "RunReleased"
    behavioural = False
    epoch: int
    due: list[int] | None = None


class SnapshotTaken(Event, frozen=True):
    """A snapshot of the state at `position`, the event right before this one, was stored beside the log."""

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
    """The agent raised. Nothing follows; to continue from here, fork."""

    kind = "Failed"
    terminal = True
    error: Any


class Cancelled(Event, frozen=True):
    """The run was cancelled. Nothing follows."""

    kind = "Cancelled"
    terminal = True
    reason: Any = None


class RunRetired(Event, frozen=True):
    """Operations: retention removed a run; this event is all that remains of it."""

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
    """Operations: any other fact about a run that may no longer be appended to it."""

    kind = "OperationNoted"
    behavioural = False
    operations_only = True
    operation: str
    detail: Any = None


class KeyRotated(Event, frozen=True):
    """Operations: `key` replaces `previous` for `purpose` from here on. Keys are named by their ids."""

    kind = "KeyRotated"
    behavioural = False
    operations_only = True
    purpose: str
    key: str
    previous: str | None = None
    reason: str | None = None


class CheckpointPublished(Event, frozen=True):
    """Operations: a signed head of the transparency log was published; `note` is its signed text."""

    kind = "CheckpointPublished"
    behavioural = False
    operations_only = True
    origin: str
    size: int
    root: str
    note: str | None = None
    witnesses: list[str] | None = None


class UnknownEvent(Event, frozen=True):
    """An event of a kind that this version does not know. It can be read, never written."""

    behavioural = False
    recorded_kind: str
    members: dict[str, Any]

    def content(self) -> dict[str, Any]:
        return self.members


KINDS: dict[str, type[Event]] = {cls.kind: cls for cls in Event.__subclasses__() if cls.kind}
TERMINAL_KINDS = frozenset(kind for kind, cls in KINDS.items() if cls.terminal)
BEHAVIOURAL_KINDS = frozenset(kind for kind, cls in KINDS.items() if cls.behavioural)
ANSWERS: dict[str, str] = {kind: cls.answers for kind, cls in KINDS.items() if cls.answers}
OPENING_KINDS = frozenset(ANSWERS.values())
MAY_ANSWER_NOTHING = frozenset(kind for kind, cls in KINDS.items() if not cls.answers_something)
OPERATIONS_KINDS = frozenset(kind for kind, cls in KINDS.items() if cls.operations_only)


def _required_fields(cls: type[Event]) -> frozenset[str]:
    """Return the fields without a default, which come first. msgspec's own function also evaluates annotations."""
    names = cls.__struct_fields__
    return frozenset(names[: len(names) - len(cls.__struct_defaults__)])


_REQUIRED: dict[type[Event], frozenset[str]] = {cls: _required_fields(cls) for cls in KINDS.values()}
_OPTIONAL: dict[type[Event], tuple[str, ...]] = {
    cls: tuple(name for name in cls.__struct_fields__ if name not in _REQUIRED[cls]) for cls in KINDS.values()
}


def event_from_content(kind: str, members: Any) -> Event:
    """Return the typed event of a decoded content. The format allows further members; the event leaves them out."""
    if not isinstance(members, dict):
        raise Damaged(f"the content of a {kind} event is not an object", code="bad_content")
    cls = KINDS.get(kind)
    if cls is None:
        return UnknownEvent(recorded_kind=kind, members=members)
    missing = _REQUIRED[cls] - members.keys()
    if missing:
        raise Damaged(f"the content of a {kind} event lacks `{min(missing)}`", code="bad_content")
    return cls(**{name: members[name] for name in cls.__struct_fields__ if name in members})


def read_event(kind: str, members: Any) -> Event:
    """Return the typed event of a decoded content, and check the members that readers rely on."""
    event = event_from_content(kind, members)
    if kind in CHECKED_KINDS or "meta" in members:
        problem = find_member_problem(kind, members)
        if problem is not None:
            raise Damaged(problem, code="bad_content")
    return event


def kind_of(event: Event) -> str:
    return event.recorded_kind if isinstance(event, UnknownEvent) else event.kind
