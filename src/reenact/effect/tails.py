"""How a run treats what its own record does not have: a fork behind what it shares, a live replay from the beginning.

It is part of the run's facts, and of those of the runs that it calls. It may be changed when the run is resumed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from reenact.errors import Damaged, InvalidInput

if TYPE_CHECKING:
    from reenact.effect.tickets import EffectSpec

LIVE, MOCKED, STOPPED = "live", "mocked", "stopped"
FACT = "standing_in"
DONE_AGAIN = frozenset({"model_call", "durable_step"})
INPUTS = frozenset({"sleep", "await_event"})


class Policy(NamedTuple):
    """How a run treats what its own record does not have."""

    run: str
    """Whose record stands in."""
    after: int = 0
    """From behind this event of it on."""
    mode: str = LIVE
    live_tools: frozenset[str] = frozenset()
    is_replay: bool = False

    def to_fact(self) -> dict[str, Any]:
        return {**self._asdict(), "live_tools": sorted(self.live_tools)}

    @classmethod
    def from_fact(cls, fact: Any) -> Policy:
        try:
            found = cls(**{**fact, "live_tools": frozenset(fact["live_tools"])})
            good = [type(value) for value in found] == _TYPES and len(fact) == len(_TYPES)
            if not good or found.mode not in (LIVE, MOCKED, STOPPED) or isinstance(fact["live_tools"], str):
                raise TypeError
        except (TypeError, LookupError) as error:
            raise Damaged("the facts of the run do not say what stands in for the world", code="bad_content") from error
        return found

    def carries_out(self, spec: EffectSpec) -> bool:
        """Whatever the other record has."""
        if self.mode != LIVE:
            return False
        if spec.name in self.live_tools or spec.kind == "process":
            return True  # a run that is called is held to the same
        if spec.kind in INPUTS:
            return not self.is_replay
        return spec.kind in DONE_AGAIN and not spec.writes


_TYPES = [str, int, str, frozenset, bool]


def names_of(tools: Iterable[str]) -> frozenset[str]:
    """Tools by their names. One name is one tool, not a row of letters."""
    named = [tools] if isinstance(tools, str) else list(tools)
    if not all(isinstance(name, str) for name in named):
        raise InvalidInput("tools are given by their names", hint='Such as live_tools=["send_mail"].', code="bad_tool")
    return frozenset(named)


def check_mode(mode: str) -> str:
    if mode not in (LIVE, MOCKED, STOPPED):
        raise InvalidInput(f"a tail is {LIVE}, {MOCKED} or {STOPPED}, not {mode[:40]!r}", code="bad_tail")
    return mode


def carried_out_kinds() -> frozenset[str]:
    """Kinds of effects that are carried out in a live tail although nobody has named them."""
    return DONE_AGAIN | INPUTS | {"process"}
