"""Retry rules: which errors are retried, and after which pauses. The pauses of an effect are deterministic."""

from __future__ import annotations

import hashlib
from math import isfinite

import msgspec

from onrecord.errors import InvalidInput

ErrorKind = type[BaseException] | str
"""An exception class, or its name: so the errors of a library can be named without importing it."""


class Retry(msgspec.Struct, frozen=True):
    """Retry rules of an effect: at most `attempts` attempts in all.

    The pause begins at `delay_seconds` and grows by `factor` up to `max_delay_seconds`. `jitter` shortens it by up to
    that share; the amount is derived from the effect and the attempt, not from randomness.
    """

    attempts: int = 3
    delay_seconds: float = 0.5
    factor: float = 2.0
    max_delay_seconds: float = 60.0
    jitter: float = 0.25
    on: tuple[ErrorKind, ...] = (Exception,)
    """Errors that are retried."""
    never_on: tuple[ErrorKind, ...] = ()
    max_seconds: float | None = None
    """The limit for all attempts and pauses since the request, also across a crash. No attempt begins after it, and a
    running attempt fails when it is reached.
    """

    def __post_init__(self) -> None:
        for name in ("on", "never_on"):
            if not _is_valid(getattr(self, name)):
                raise InvalidInput(
                    f"`{name}` of a retry must be a tuple of exception classes or their names",
                    hint="Such as on=(ConnectionError, TimeoutError); a single one: on=(ConnectionError,).",
                    code="bad_retry",
                )
        numbers = (self.delay_seconds, self.factor, self.max_delay_seconds, self.jitter, self.max_seconds or 1.0)
        if (
            not isinstance(self.attempts, int)
            or self.attempts < 1
            or not all(isinstance(number, (int, float)) and isfinite(number) for number in numbers)
            or min(self.delay_seconds, self.max_delay_seconds) < 0
            or self.factor < 1
            or not 0 <= self.jitter <= 1
            or (self.max_seconds is not None and self.max_seconds <= 0)
        ):
            raise InvalidInput(
                "a retry needs at least one attempt, no negative delay, a factor of at least 1, a jitter of 0 to 1",
                hint="Every number must be finite, and max_seconds more than 0.",
                code="bad_retry",
            )

    def delay_after(self, attempt: int, error: BaseException, effect: str, elapsed: float = 0.0) -> float | None:
        """Return the seconds until the next attempt, or None after the last. `elapsed` counts from the request."""
        if attempt >= self.attempts or _matches(error, self.never_on) or not _matches(error, self.on):
            return None
        pause = self.delay_seconds
        for _ in range(attempt - 1):  # a power would overflow before the pause reaches its limit
            pause = min(pause * self.factor, self.max_delay_seconds)
        pause = min(pause, self.max_delay_seconds) * (1 - self.jitter * _jitter_share(effect, attempt))
        if self.max_seconds is not None and elapsed + pause >= self.max_seconds:
            return None
        return pause


def _is_valid(kinds: object) -> bool:
    """Return True for a tuple or list of kinds. A plain string is refused: it would count as its letters."""
    return isinstance(kinds, (tuple, list)) and all(
        isinstance(kind, str) or (isinstance(kind, type) and issubclass(kind, BaseException)) for kind in kinds
    )


def _matches(error: BaseException, kinds: tuple[ErrorKind, ...]) -> bool:
    names = {cls.__name__ for cls in type(error).__mro__}
    return any(kind in names if isinstance(kind, str) else isinstance(error, kind) for kind in kinds)


def _jitter_share(effect: str, attempt: int) -> float:
    digest = hashlib.sha256(f"onrecord.jitter/1\0{attempt}\0{effect}".encode()).digest()
    return int.from_bytes(digest[:7], "big") / (1 << 56)
