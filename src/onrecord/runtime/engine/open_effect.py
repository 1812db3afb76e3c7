"""Effects on their way: requested, executed, their outcomes delivered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from onrecord.core.events import ActionFailed, ActionSucceeded, Event

if TYPE_CHECKING:
    from onrecord.runtime.replay.records import RecordedRequest
    from onrecord.runtime.scheduler.items import Token


class Answers:
    """The events that are outcomes of a request."""

    done: Callable[[str, Any], Event] = ActionSucceeded
    failed: Callable[[str, BaseException], Event] = ActionFailed

    def cancelled(self, key: str, error: BaseException) -> Event:
        return self.failed(key, error)


class EffectSpec(NamedTuple):
    """The properties of an effect that are known before it is requested."""

    name: str
    kind: str
    once: bool
    """True: it may have happened after a crash without an outcome, and is not executed again without a decision."""
    annotation: Any = None
    """The declared type of the result."""
    retry: Any = None
    timeout_seconds: float | None = None
    probe: Callable[..., Any] | None = None
    """Reserved: a function that finds out whether an effect in doubt has happened. It is not called yet."""
    durable: bool = False
    """True: the request is on the disk before the effect begins, although it may be executed again."""
    answers: Answers = Answers()
    usage: Callable[[Any], Any] | None = None
    """Reads from the result what the effect spent (`policy`)."""
    writes: bool = False
    """True: it changes something outside although it may be executed again."""
    handed_as_is: bool = False
    """True: only the caller has the result, and does not change it, so no copy is made."""


MakeEvent = Callable[[str], Event]
"""Makes the request, given its key."""


class MadeOutcome(msgspec.Struct, eq=False):
    """An outcome of this process."""

    event: Event
    error: BaseException | None = None
    """The error itself, as it was raised here."""
    seq: int = 0
    """Set by the commit."""


class OpenEffect:
    """A request of this process. Drivers subclass it: they begin it, stop it and deliver its outcome (`Awaited`)."""

    token: Token
    event: Any = None
    """The request, under its key."""
    key = ""
    lane = ""
    request_seq = 0
    outcome: Any = None
    """`MadeOutcome`, `RecordedOutcome` or an outcome of the scheduler (`EffectCancelled`, `Cut`)."""

    def __init__(self, spec: EffectSpec) -> None:
        self.spec = spec

    @property
    def recorded(self) -> RecordedRequest | None:
        """The request of the record."""
        request = self.token.recorded
        return None if request is None else request.digest

    # The driver's side. Each is called with the run's lock held.

    def begin(self, token: Token) -> None:
        """Start the execution."""

    def stop(self, token: Token) -> None:
        """Tell the execution to end."""

    def deliver(self, value: Any, last: bool) -> None:
        """Give the outcome to the lane that waits."""
        self.outcome = value
