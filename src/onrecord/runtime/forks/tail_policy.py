"""The tail policy: how a fork or a live replay treats effects that its own record does not have.

The policy is one of the run's facts, and of the facts of the runs that it calls. A resume may change it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from onrecord.errors import Damaged, InvalidInput

if TYPE_CHECKING:
    from onrecord.runtime.engine.open_effect import EffectSpec

LIVE, MOCKED, STOPPED = "live", "mocked", "stopped"
FACT = "standing_in"
LIVE_KINDS = frozenset({"model_call", "durable_step"})
"""Kinds of effects that a live tail executes."""
INPUT_KINDS = frozenset({"sleep", "await_event"})
"""Kinds of effects that a live replay takes from the record, as inputs of the run."""


class TailPolicy(NamedTuple):
    run: str
    """The run whose record serves the effects."""
    after: int = 0
    """The seq in that run after which its record is used."""
    mode: str = LIVE
    live_tools: frozenset[str] = frozenset()
    is_replay: bool = False

    def to_fact(self) -> dict[str, Any]:
        return {**self._asdict(), "live_tools": sorted(self.live_tools)}

    @classmethod
    def from_fact(cls, fact: Any) -> TailPolicy:
        try:
            policy = cls(**{**fact, "live_tools": frozenset(fact["live_tools"])})
            is_valid = [type(value) for value in policy] == _TYPES and len(fact) == len(_TYPES)
            if not is_valid or policy.mode not in (LIVE, MOCKED, STOPPED) or isinstance(fact["live_tools"], str):
                raise TypeError
        except (TypeError, LookupError) as error:
            raise Damaged("the tail policy in the facts of the run cannot be read", code="bad_content") from error
        return policy

    def executes(self, spec: EffectSpec) -> bool:
        """Return True if the effect is executed even if the record has an answer to it."""
        if self.mode != LIVE:
            return False
        if spec.name in self.live_tools or spec.kind == "process":
            return True  # a called run has the same policy
        if spec.kind in INPUT_KINDS:
            return not self.is_replay
        return spec.kind in LIVE_KINDS and not spec.writes


_TYPES = [str, int, str, frozenset, bool]


def check_tool_names(tools: Iterable[str]) -> frozenset[str]:
    """Return the names as a set. A single string is one name. Raise `InvalidInput` for anything else."""
    names = [tools] if isinstance(tools, str) else list(tools)
    if not all(isinstance(name, str) for name in names):
        raise InvalidInput("tools are given by their names", hint='Such as live_tools=["send_mail"].', code="bad_tool")
    return frozenset(names)


def check_mode(mode: str) -> str:
    if mode not in (LIVE, MOCKED, STOPPED):
        raise InvalidInput(f"a tail is {LIVE}, {MOCKED} or {STOPPED}, not {mode[:40]!r}", code="bad_tail")
    return mode


def executed_kinds() -> frozenset[str]:
    """Return the kinds of effects that a live tail executes without being named."""
    return LIVE_KINDS | INPUT_KINDS | {"process"}
