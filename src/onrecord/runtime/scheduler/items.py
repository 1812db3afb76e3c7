"""The values of the scheduler: journal items, what lanes wait for, and what a driver is to do next.

The journal of a run is one list of items. A commit writes every item since the last commit, in the order in which they
happened, so whatever an item depends on is before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

STEPS_BETWEEN_RESTS = 50
"""Steps of a busy program after which a delivery comes, and another strand runs, without a rest. Part of the format."""
AHEAD = -1
"""`forced` of a delivery that was committed before it was delivered: it comes at rest, or at that number of steps."""
APART = -2
"""`forced` of an outcome that is not delivered where it is written.

The turn `taken` of its lane delivers it, if the effect wrote it into the journal by itself. It is never delivered if
the program gave the effect up.
"""


class Requested(NamedTuple):
    """A lane asks for an effect. `births` counts the lanes that it had started before.

    The digest covers the name too: a history may leave the name out.
    """

    key: str
    lane: str
    name: str
    digest: Any
    once: bool = False
    births: int = 0


class Noted(NamedTuple):
    """A lane does something that needs no answer: sets the state, is denied an effect, passes a mark."""

    lane: str
    digest: Any


class CheckpointTaken(NamedTuple):
    """The root lane takes a checkpoint, and continues under another name. `time` is the run's clock there."""

    lane: str
    digest: Any
    time: int = 0


class Drawn(NamedTuple):
    """A lane reads a clock, a random number or an id. `site` names the calling function and what it reads."""

    lane: str
    site: str
    value: Any


class EffectOutcome(NamedTuple):
    """The result of an effect, or the value of something that is listened to.

    `time` is that of its commit. `forced` is 0 at rest, the number of steps in a busy program, `AHEAD` or `APART`.
    """

    key: str
    value: Any
    time: int = 0
    forced: int = 0


class Chunk(NamedTuple):
    """A part of a stream."""

    key: str
    number: int
    value: Any
    time: int = 0
    forced: int = 0


class Turn(NamedTuple):
    """A delivery without a value: a timer fired, a worker took a job, a thread came back, a wait ended from outside.

    The turn `taken` delivers the outcome that the effect wrote by itself. Its ordinal counts the lane's requests.
    """

    kind: str
    lane: str
    ordinal: int
    time: int = 0
    forced: int = 0


class SettledItem(NamedTuple):
    """An operator's decision on an effect in doubt: done, fail or retry. `done` and `fail` are deliveries."""

    key: str
    how: str
    value: Any = None
    time: int = 0
    forced: int = AHEAD


class Away(NamedTuple):
    """A strand did not reach its next act, and the others continued without it.

    Draws are counted apart, since the last other act: one read more or less does not change the `ordinal` of an act.
    """

    lane: str
    ordinal: int
    draws: int = 0


class Began(NamedTuple):
    """An effect of the record is executed again: a retry is spent, and earlier chunks of a stream are void."""

    key: str


class Dropped(NamedTuple):
    """Changed code did not make these acts again: the items at the positions are skipped from here on."""

    positions: tuple[int, ...]


class Ended(NamedTuple):
    """The agent returned or failed."""

    digest: Any


Act = Requested | Noted | CheckpointTaken
Item = Act | Drawn | EffectOutcome | Chunk | Turn | SettledItem | Away | Began | Dropped | Ended
Delivery = EffectOutcome | Chunk | Turn | SettledItem
TurnName = tuple[str, str, int]
ACTS = (Requested, Noted, CheckpointTaken)
DELIVERIES = (EffectOutcome, Chunk, Turn, SettledItem)


def delivery_name(item: Delivery) -> str | TurnName:
    """Return the name of the token that a delivery belongs to."""
    return (item.kind, item.lane, item.ordinal) if isinstance(item, Turn) else item.key


def is_same_act(expected: Act, act: Act) -> bool:
    """Compare an act with the record. Policy (`once`) is no part of it, and a digest compares itself."""
    if type(expected) is not type(act):
        return False
    is_same = type(expected) is not Requested or expected.key == act.key  # type: ignore[union-attr]
    return is_same and bool(expected.digest == act.digest)


# Outcomes that the scheduler itself makes.


class EffectCancelled(NamedTuple):
    """The effect was cancelled. `unknown` if it may have happened in a process that died."""

    unknown: bool = False


class Cut(NamedTuple):
    """The process died in the middle of the stream, and the program had acted on its chunks."""


class EffectFailed(NamedTuple):
    """An operator settled the effect as failed."""

    reason: Any


# What lanes wait for.


class Call(NamedTuple):
    """An effect that a lane asks for. `key` is the program's own key, if it gives one."""

    name: str
    digest: Any
    once: bool = False
    key: str | None = None


class Token(msgspec.Struct, eq=False):
    """Something that one lane waits for and that comes from outside: an outcome, chunks, or a turn."""

    lane: str
    name: str | TurnName
    call: Call | None = None
    """None for a turn."""
    detail: Any = None
    """The driver's own value."""
    ordinal: int = 0
    """How many effects the lane had asked for before."""
    due: int = 0
    """The deadline of a timer, on the run's clock."""
    recorded: Requested | None = None
    """The request of the history."""
    cancelled: bool = False
    gone: bool = False
    """No lane waits for it any more."""
    done: bool = False
    here: bool = False
    """Arrived, and not yet delivered."""
    is_written: bool = False
    """The journal, or the draft of the next commit, has its outcome or its turn."""
    begun: bool = False
    chunks: int = 0
    """Chunks that arrived or were delivered from the history."""

    @property
    def key(self) -> str:
        """The key of an effect."""
        assert isinstance(self.name, str)
        return self.name

    @property
    def turn_name(self) -> TurnName:
        """Kind, lane and ordinal of a turn."""
        assert isinstance(self.name, tuple)
        return self.name

    @property
    def taken_name(self) -> TurnName:
        """The name of the turn that delivers an outcome written by the effect itself."""
        return ("taken", self.lane, self.ordinal)

    def __repr__(self) -> str:
        return f"<{self.name}>"


# What a driver is to do next.


class Run(NamedTuple):
    """Let the strand run until it waits."""

    strand: Any


class Commit(NamedTuple):
    """Append the items in one commit; `sync` waits for the disk."""

    items: list[Item]
    sync: bool


class Begin(NamedTuple):
    """Start the effects and timers of `tokens`; tell those of `stop` to end."""

    tokens: list[Token]
    stop: list[Token]


class Deliver(NamedTuple):
    """Give the value to the lane that waits for the token. `last` is False for a chunk."""

    token: Token
    value: Any
    last: bool = True


class Wait(NamedTuple):
    """Nothing to do before something arrives."""


class Live(NamedTuple):
    """The history is over: from here on effects are executed."""


class EffectsInDoubt(NamedTuple):
    """Effects of the record may have happened and must not be repeated without a decision. Nothing was begun."""

    tokens: list[Token]


class RecordOver(NamedTuple):
    """A replay reached the end of the record of a run that has not ended."""


class Done(NamedTuple):
    """The run has ended and everything is committed."""


class Diverged(NamedTuple):
    """The program does something else than the record says. `position` is that of `expected` in the history."""

    lane: str
    expected: Any
    actual: Any
    reason: str
    position: int | None = None


class Divergent(Exception):
    """Raised into the lane whose act differs from the record."""

    def __init__(self, diverged: Diverged) -> None:
        super().__init__(diverged.reason)
        self.diverged = diverged


Action = Run | Commit | Begin | Deliver | Wait | Live | EffectsInDoubt | RecordOver | Done | Diverged
MakeValue = Callable[[], Any]
Loosen = Callable[[Requested, list[tuple[int, Requested]]], int | None]
"""Chooses, for a request that differs from the record, the position of one that was not made again."""
