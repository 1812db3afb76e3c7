"""When a failed attempt is followed by another: by kind of error, with growing pauses, the same for the same effect."""

from __future__ import annotations

import hashlib
from math import isfinite

import msgspec

from reenact.errors import InvalidInput

ErrorKind = type[BaseException] | str
"""A class of errors, or its name: a library that may not be installed need not be imported to name its errors."""


class Retry(msgspec.Struct, frozen=True):
    """At most `attempts` in all. A pause begins at `delay_seconds` and grows by `factor` up to `max_delay_seconds`;
    `jitter` takes off up to that share, by an amount that follows from the effect and the attempt, not from chance."""

    attempts: int = 3
    delay_seconds: float = 0.5
    factor: float = 2.0
    max_delay_seconds: float = 60.0
    jitter: float = 0.25
    on: tuple[ErrorKind, ...] = (Exception,)
    """Kinds of errors that are worth another attempt."""
    never_on: tuple[ErrorKind, ...] = ()
    max_seconds: float | None = None
    """For all attempts and pauses together, from the request on, also across a crash: no attempt begins after it, and
    one that is under way by then has failed."""

    def __post_init__(self) -> None:
        for name in ("on", "never_on"):
            if not _are_kinds(getattr(self, name)):
                raise InvalidInput(
                    f"`{name}` of a retry is a tuple of classes of errors, or of their names",
                    hint="Such as on=(ConnectionError, TimeoutError); a single one is written on=(ConnectionError,).",
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
                "a retry has at least one attempt, no negative delay, a factor of at least 1, a jitter of 0 to 1",
                hint="Every number of it is finite; max_seconds is more than 0.",
                code="bad_retry",
            )

    def delay_after(self, attempt: int, error: BaseException, effect: str, elapsed: float = 0.0) -> float | None:
        """Seconds until the next attempt; None when this was the last. `elapsed` seconds have passed in all."""
        if attempt >= self.attempts or _is_one_of(error, self.never_on) or not _is_one_of(error, self.on):
            return None
        pause = self.delay_seconds
        for _ in range(attempt - 1):  # not a power: that overflows long before the pause reaches its limit
            pause = min(pause * self.factor, self.max_delay_seconds)
        pause = min(pause, self.max_delay_seconds) * (1 - self.jitter * _share(effect, attempt))
        if self.max_seconds is not None and elapsed + pause >= self.max_seconds:
            return None
        return pause


def _are_kinds(kinds: object) -> bool:
    """A text would be taken for the names of one letter that it is made of."""
    return isinstance(kinds, (tuple, list)) and all(
        isinstance(kind, str) or (isinstance(kind, type) and issubclass(kind, BaseException)) for kind in kinds
    )


def _is_one_of(error: BaseException, kinds: tuple[ErrorKind, ...]) -> bool:
    names = {cls.__name__ for cls in type(error).__mro__}
    return any(kind in names if isinstance(kind, str) else isinstance(error, kind) for kind in kinds)


def _share(effect: str, attempt: int) -> float:
    digest = hashlib.sha256(f"reenact.jitter/1\0{attempt}\0{effect}".encode()).digest()
    return int.from_bytes(digest[:7], "big") / (1 << 56)
