"""The outside of a simulated run: effects in flight, timers, workers, and a ledger of all lives."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from onrecord.runtime.scheduler.items import Began, EffectCancelled, EffectOutcome, Item, Requested, SettledItem, Token


class Wrong(AssertionError):
    """A property of the scheduler does not hold."""


class Raised(NamedTuple):
    """The outcome of an effect that failed."""

    reason: int


class Ledger:
    """What really happened to the effects of a run, over all its lives."""

    def __init__(self) -> None:
        self.begun: Counter[str] = Counter()
        self.executed: dict[str, Any] = {}
        """The value of each effect that was executed, whether its outcome was recorded or not."""
        self.acknowledged: dict[str, Any] = {}
        """The value of each committed outcome and settlement."""
        self.retries: Counter[str] = Counter()
        """How often an operator allowed an effect to be executed again."""

    def begin(self, token: Token) -> None:
        key = token.key
        if key in self.acknowledged:
            raise Wrong(f"executed again after its outcome: {key}")
        self.begun[key] += 1
        assert token.call is not None
        if token.call.once and self.begun[key] > 1 + self.retries[key]:
            raise Wrong(f"executed twice, though at most once: {key}")

    def was_never_begun(self, token: Token) -> bool:
        """Return True if no life began the effect, though its request may be on record."""
        return not self.begun[token.key]

    def acknowledge(self, key: str, value: Any) -> None:
        if key in self.acknowledged:
            raise Wrong(f"a second outcome: {key}")
        self.acknowledged[key] = value


class ChangedLedger(Ledger):
    """What happened to the effects of a run whose code was changed: a key may ask for something else than before."""

    def __init__(self, items: list[Item]) -> None:
        super().__init__()
        self._digests = {item.key: item.digest for item in items if type(item) is Requested}
        self._answered = {(item.key, self._digests.get(item.key)) for item in items if _is_answer(item)}
        self._begun = Counter((item.key, item.digest) for item in items if type(item) is Requested)
        self._begun.update((item.key, self._digests.get(item.key)) for item in items if type(item) is Began)
        self.retries.update(item.key for item in items if type(item) is SettledItem and item.how == "retry")
        # An effect that is known not to have been begun needs no retry.
        self.retries |= Counter(item.key for item in items if type(item) is Began)

    def begin(self, token: Token) -> None:
        assert token.call is not None
        effect = token.key, token.call.digest
        self._digests[token.key] = token.call.digest
        if effect in self._answered:
            raise Wrong(f"changed code executes an effect again after its outcome: {token.key}")
        self._begun[effect] += 1
        if token.call.once and self._begun[effect] > 1 + self.retries[token.key]:
            raise Wrong(f"changed code executes twice, though at most once: {token.key}")

    def was_never_begun(self, token: Token) -> bool:
        assert token.call is not None
        return not self._begun[token.key, token.call.digest]

    def acknowledge(self, key: str, value: Any) -> None:
        if type(value) is not EffectCancelled:
            self._answered.add((key, self._digests.get(key)))


def _is_answer(item: Item) -> bool:
    if type(item) is SettledItem:
        return item.how != "retry"
    return type(item) is EffectOutcome and type(item.value) is not EffectCancelled


class _Stream:
    __slots__ = ("is_wanted", "left", "sent", "stopped")

    def __init__(self) -> None:
        self.left: int | None = None
        """Chunks to come; None before the stream is begun."""
        self.sent = 0
        self.is_wanted = False
        self.stopped = False


class Outside:
    """Everything that happens in its own time. `arrive` takes what comes of it."""

    def __init__(self, rng: random.Random, ledger: Ledger, substitutes: dict[str, Any]) -> None:
        self.rng = rng
        self.ledger = ledger
        self.now = 0
        self.arrive: Callable[..., None]
        self.write: Callable[[Token, Any], None]
        """Writes the outcome of an effect into the journal."""
        self._substitutes = substitutes
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._flying: dict[str, Token] = {}
        self._streams: dict[Token, _Stream] = {}

    def close(self) -> None:
        """Forget what has not happened."""
        self._events.clear()
        del self.arrive, self.write

    @property
    def is_still(self) -> bool:
        return not self._events

    def after(self, delay: int, event: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + delay, self._count, event))

    def happen(self) -> bool:
        """Let the next thing happen; False if there is none."""
        if not self._events:
            return False
        self.now, _, event = heapq.heappop(self._events)
        event()
        return True

    def upto(self, most: int) -> int:
        return int(self.rng.random() * (most + 1))

    # Effects and timers

    def begin(self, token: Token) -> None:
        if token.call is None:
            kind, delay = token.turn_name[0], token.detail
            if kind in ("timer", "wake"):  # a worker and a strand that was away come by themselves
                self.after(delay, lambda: self.arrive(token))
            return
        key = token.key
        if key.startswith("!"):
            self.after(self.upto(20), lambda: self.arrive(token, "order"))
            return
        self.ledger.begin(token)
        if key in self._substitutes:
            self.after(0, lambda: self.arrive(token, self._substitutes[key]))
        elif token.call.name == "stream":
            stream = self._streams.setdefault(token, _Stream())
            stream.left = self.upto(4)
            self._pump(token, stream)
        else:
            self._flying[key] = token
            self.after(self.upto(3), lambda: self._execute(token))

    def _execute(self, token: Token) -> None:
        assert token.call is not None
        key = token.key
        if key not in self._flying:
            return  # stopped before
        number = int(self.rng.random() * 1_000_000)
        if token.call.name == "own":
            del self._flying[key]
            if not token.gone:
                self.write(token, number)
                self.after(self.upto(2), lambda: self.arrive(token, number, is_written=True))
            return
        value = Raised(number) if token.call.name == "failing" else number
        self.ledger.executed[key] = value
        self.after(self.upto(3), lambda: self._flying.pop(key, None) and self.arrive(token, value))

    def stop(self, token: Token, cancelled: Any) -> None:
        """Tell an effect to end. It may be too late."""
        stream = self._streams.get(token)
        if stream is not None:
            stream.stopped = True
        elif token.key in self._flying and self.rng.random() < 0.9:
            del self._flying[token.key]
            self.after(self.upto(2), lambda: self.arrive(token, cancelled))

    # Streams send a chunk when one is wanted

    def want_chunk(self, token: Token) -> None:
        stream = self._streams.setdefault(token, _Stream())
        stream.is_wanted = True
        self._pump(token, stream)

    def _pump(self, token: Token, stream: _Stream) -> None:
        if stream.is_wanted and stream.left is not None and not stream.stopped:
            stream.is_wanted = False
            self.after(self.upto(2), lambda: self._send(token, stream))

    def _send(self, token: Token, stream: _Stream) -> None:
        if stream.stopped or stream.left is None:
            return
        if stream.left:
            stream.left -= 1
            stream.sent += 1
            self.arrive(token, int(self.rng.random() * 1000), last=False)
        else:
            stream.stopped = True
            self.arrive(token, ("all", stream.sent))
