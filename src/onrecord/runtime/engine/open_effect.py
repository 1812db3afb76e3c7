"""One effect on its way: requested, carried out, answered, handed over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from onrecord.core.events import ActionFailed, ActionSucceeded, Event
from onrecord.runtime.scheduler.delivery_item import ANSWER, Item

if TYPE_CHECKING:
    from onrecord.runtime.replay.records import RecordedRequest
    from onrecord.runtime.scheduler.lanes import Lane


class Answers:
    """Which events answer a request."""

    def done(self, key: str, value: Any) -> Event:
        return ActionSucceeded(key, value)

    def failed(self, key: str, error: BaseException) -> Event:
        return ActionFailed(key, error)

    def cancelled(self, key: str, error: BaseException) -> Event:
        return self.failed(key, error)


class EffectSpec(NamedTuple):
    """What is known of an effect before it is called."""

    name: str
    kind: str
    once: bool
    """It may have happened and cannot be seen: never done again unasked."""
    annotation: Any = None
    """What its result is declared to be."""
    retry: Any = None
    timeout_seconds: float | None = None
    probe: Callable[..., Any] | None = None
    """Reserved: a function that finds out whether an effect in doubt has happened. It is not called yet."""
    durable: bool = False
    """Its request is on the disk before it begins, although it may be done again."""
    answers: Answers = Answers()
    usage: Callable[[Any], Any] | None = None
    """Reads from its result what it spent (`policy`)."""

    writes: bool = False
    """It changes something outside although it may be done again."""
    handed_as_is: bool = False
    """Its result has no owner but whoever is handed it, who changes nothing of it: no copy is made."""


MakeEvent = Callable[[str], Event]
"""The request as an event, given its key."""


class EffectWaiter(Protocol):
    """Whoever asked, and waits for the answer: a task, or a thread."""

    looped: bool

    def begin(self, ticket: OpenEffect) -> None:
        """Carries the effect out, now that the request is safe. Never called twice, never from within the effect."""
        ...

    def wake(self) -> None:
        """The answer is there, or the run has stopped."""
        ...


class OpenEffect:
    __slots__ = (
        "answer",
        "answer_seq",
        "error",
        "event",
        "item",
        "key",
        "lane",
        "recorded",
        "request_seq",
        "spec",
        "waiter",
    )

    def __init__(self, lane: Lane, spec: EffectSpec, key: str, event: Event, waiter: EffectWaiter) -> None:
        self.lane = lane
        self.spec = spec
        self.key = key
        self.event = event
        self.waiter = waiter
        self.item = Item(ANSWER, lane, 0, waiter.wake, looped=waiter.looped, ticket=self)
        self.recorded: RecordedRequest | None = None
        self.request_seq = 0
        self.answer: Event | None = None
        """What came of it, while recording; when the run comes back the record has it."""
        self.answer_seq = 0
        self.error: BaseException | None = None
        """The error itself, as it was raised here."""

    @property
    def has_answer(self) -> bool:
        """The answer is on record, and it is the agent's turn to have it."""
        if self.recorded is not None and self.recorded.answer is not None:
            return self.recorded.answer.handed
        return self.answer_seq > 0


class NoWaiter:
    """Waits for nothing: what is handed over is not an answer."""

    looped = True

    def begin(self, ticket: OpenEffect) -> None: ...

    def wake(self) -> None: ...
