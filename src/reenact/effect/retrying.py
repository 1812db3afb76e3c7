"""When a failed attempt is followed by another: by kind of error, with growing pauses, the same for the same effect."""

from __future__ import annotations

import hashlib

import msgspec

from reenact.errors import InvalidInput


class Retry(msgspec.Struct, frozen=True):
    """At most `attempts` in all. A pause begins at `delay_seconds` and grows by `factor` up to `max_delay_seconds`;
    `jitter` takes off up to that share, by an amount that follows from the effect and the attempt, not from chance."""

    attempts: int = 3
    delay_seconds: float = 0.5
    factor: float = 2.0
    max_delay_seconds: float = 60.0
    jitter: float = 0.25
    on: tuple[type[BaseException], ...] = (Exception,)
    """Kinds of errors that are worth another attempt."""
    never_on: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.delay_seconds < 0 or self.factor < 1 or not 0 <= self.jitter <= 1:
            raise InvalidInput(
                "a retry has at least one attempt, no negative delay, a factor of at least 1, a jitter of 0 to 1",
                code="bad_retry",
            )

    def delay_after(self, attempt: int, error: BaseException, effect: str) -> float | None:
        """Seconds until the next attempt; None when this was the last."""
        if attempt >= self.attempts or isinstance(error, self.never_on) or not isinstance(error, self.on):
            return None
        pause = min(self.delay_seconds * self.factor ** (attempt - 1), self.max_delay_seconds)
        return pause * (1 - self.jitter * _share(effect, attempt))


def _share(effect: str, attempt: int) -> float:
    digest = hashlib.sha256(f"reenact.jitter/1\0{attempt}\0{effect}".encode()).digest()
    return int.from_bytes(digest[:7], "big") / (1 << 56)
