"""What an agent may do, and how much of it: asked before anything is recorded as an effect."""

from __future__ import annotations

from collections.abc import Callable, Collection
from time import monotonic
from typing import Any

import msgspec

from reenact.core.events import Event
from reenact.effect.stopping import BudgetExceeded, Denied
from reenact.effect.tickets import EffectSpec
from reenact.errors import ReenactError

Check = Callable[[str, str, Any], str | None]
"""(name, kind, payload) → why not; None: allowed."""


class Budget(msgspec.Struct, frozen=True):
    """Limits that stop the run: once one is reached, nothing more is allowed."""

    calls: int | None = None
    seconds: float | None = None


class Policy(msgspec.Struct, frozen=True):
    allow: Collection[str] | None = None
    """Names of effects that are allowed; None: all."""
    check: Check | None = None
    budget: Budget | None = None

    def guard(self) -> Callable[[EffectSpec, Event], ReenactError | None]:
        return _Guard(self).ask


class _Guard:
    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._calls = 0
        self._began = monotonic()

    def ask(self, spec: EffectSpec, event: Event) -> ReenactError | None:
        policy = self._policy
        if policy.allow is not None and spec.name not in policy.allow:
            return Denied(f"{spec.name} is not among what this agent may do", hint="Add it to `allow`.")
        if policy.check is not None:
            reason = policy.check(spec.name, spec.kind, event.content().get("payload"))
            if reason is not None:
                return Denied(f"{spec.name} is not allowed: {reason}")
        return self._spend(policy.budget)

    def _spend(self, budget: Budget | None) -> ReenactError | None:
        if budget is None:
            return None
        self._calls += 1
        if budget.calls is not None and self._calls > budget.calls:
            return BudgetExceeded(f"the budget of {budget.calls} calls is spent")
        if budget.seconds is not None and monotonic() - self._began > budget.seconds:
            return BudgetExceeded(f"the budget of {budget.seconds} seconds is spent")
        return None
