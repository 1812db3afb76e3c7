"""What an agent may do, and how much of it: asked before anything is recorded as an effect.

Rules of a budget:

1. What an effect spent is read from its result, by the reader that the tool declares (`usage=`) or by one that knows
   the usual shapes. It counts when the agent is handed the result, from the record too: a run that comes back has spent
   what it had spent.
2. Once a limit is reached, every further effect is denied with `budget_exceeded`, whatever it is: catching the error
   leads nowhere. The denials are on record, and are replayed as recorded.
3. What is under way when the limit is reached is not called back: effects that were asked for side by side may spend
   more than the limit together.
4. Time is counted from the run's beginning by the clock, whoever carries it.
5. What an agent spends that another one calls is spent by both: it stops at its own limits and at those of all above.
   What a child has spent is written into its parent's record when it ends.
"""

from __future__ import annotations

import threading
import time
from asyncio import CancelledError
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from math import isfinite
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec

from reenact.core.events import OPENING_KINDS, ActionSucceeded, Event, ProcessAttached
from reenact.effect.stopping import BudgetExceeded, Denied
from reenact.effect.tickets import EffectSpec
from reenact.errors import InvalidInput, ReenactError

if TYPE_CHECKING:
    from reenact.effect.past import Past
    from reenact.journal.reader import JournalReader

Check = Callable[[str, str, Any], str | None]
"""(name, kind, payload) → why not; None: allowed."""
Usage = Callable[[Any], Mapping[str, float] | None]
"""What a result says was spent: `{"tokens": …, "cost": …}`, or some of it."""

SPENT = ("tokens", "cost")
DENIALS_KEPT = 20
_USAGE_NAMES = ("usage", "usage_metadata", "token_usage")
_TOKEN_NAMES = (("total_tokens",), ("prompt_tokens", "completion_tokens"), ("input_tokens", "output_tokens"))
_COST_NAMES = ("cost", "total_cost")


class Budget(msgspec.Struct, frozen=True):
    """Limits that stop the run: once one is reached, nothing more is allowed."""

    calls: int | None = None
    """Effects of any kind."""
    seconds: float | None = None
    tokens: float | None = None
    cost: float | None = None
    """In whatever unit the tools tell it."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            limit = getattr(self, name)
            if limit is not None and not _is_amount(limit):
                raise InvalidInput(
                    f"the limit of {name} is a finite number that is not negative",
                    hint="Leave a limit out to have none.",
                    code="bad_budget",
                )


class Policy(msgspec.Struct, frozen=True):
    """What an agent may do, asked before anything is requested: a denial is an event of its own."""

    allow: Collection[str] | None = None
    """Names of effects that are allowed; None: all."""
    check: Check | None = None
    budget: Budget | None = None

    def __post_init__(self) -> None:
        if self.allow is not None and (isinstance(self.allow, str) or not isinstance(self.allow, Collection)):
            # Every part of a text is "in" it: `allow="send_mail"` would allow `send`, and `mail`.
            raise InvalidInput(
                "`allow` of a policy is a set of names",
                hint='A single one is written allow={"look_up"}; without `allow` everything is allowed.',
                code="bad_policy",
            )
        if self.budget is not None and not isinstance(self.budget, Budget):
            raise InvalidInput(
                "`budget` of a policy is a Budget",
                hint="Such as budget=reenact.Budget(calls=100, cost=2.5).",
                code="bad_policy",
            )

    def guard(self, above: Guard | None = None) -> Guard:
        return Guard(self, above)


class Guard:
    """A policy at work in one run. Called with the run's lock held; those above belong to runs with other locks."""

    def __init__(self, policy: Policy, above: Guard | None = None) -> None:
        self._policy = policy
        self._limits = _limits_of(policy.budget)
        self._above = above
        self._lock: threading.Lock = threading.Lock() if above is None else above._lock
        """One for a run and everything that it calls."""
        self._calls = 0
        self._spent = dict.fromkeys(SPENT, 0.0)
        self._counted: set[int] = set()
        """Seqs of answers whose usage is counted: an answer may be asked for again."""
        self._elapsed = 0.0
        self._since = monotonic()
        self._denied: list[str] = []
        self._children: set[str] = set()
        """Runs that this one called, whose spending is on record."""
        self._counted_to = 0
        """Up to this seq everything is counted: a checkpoint there has said what was spent."""

    @property
    def counts_usage(self) -> bool:
        return self._policy.budget is not None or self._above is not None

    def carried(self) -> dict[str, Any]:
        """What a checkpoint says of it, for whoever begins there."""
        return {"spent": self.spent(), "denied": self.denials()}

    def came_back(self, past: Past) -> None:
        """The run has a record: what was asked for there counts, and so does the time since it began."""
        self._elapsed = max(0.0, time.time() - past.reader.header_row.created / 1_000_000)
        self._counted_to = max(past.began_at, 0)  # what a fork shares with its parents has been paid for
        carried = (past.carried or {}) if past.began_at > 0 else {}
        for name, amount in carried.get("spent", {}).items():
            self._spend(name, amount)
        for key in carried.get("denied", ()):
            self._deny(key)
        for request in past.by_key.values():
            if request.answer is not None and request.answer.kind == "ActionDenied":
                self._deny(request.key)
            elif request.row.seq > 0:
                self._spend("calls", 1)
        for child, spent in past.spent_by_children.items():
            self._children.add(child)
            for name, amount in spent.items():
                self._spend(name, amount)

    def child_ended(self, child: str, live: Guard | None, reader: Callable[[], JournalReader]) -> Any:
        """What a child has spent, to be written down; None when that is on record. One that this process carried has
        been counted all along; otherwise its own record tells."""
        if child in self._children:
            return None
        self._children.add(child)
        if live is not None:
            return live.spent()
        spent = recorded_spending(reader())
        for name, amount in spent.items():
            self._spend(name, amount)
        return spent

    def _spend(self, name: str, amount: float) -> None:
        """Here and in all runs above."""
        with self._lock:
            guard: Guard | None = self
            while guard is not None:
                if name == "calls":
                    guard._calls += int(amount)
                elif name in guard._spent:
                    guard._spent[name] += float(amount)
                guard = guard._above

    def __call__(self, spec: EffectSpec, event: Event) -> ReenactError | None:
        """Why it may not be done; None: it may."""
        refusal = self._refusal(spec, event) or self._exceeded_above()
        if refusal is None:
            self._spend("calls", 1)
        else:
            self._deny(str(event.content().get(event.pair_id or "", "")))
        return refusal

    def _refusal(self, spec: EffectSpec, event: Event) -> ReenactError | None:
        policy = self._policy
        if policy.allow is not None and spec.name not in policy.allow:
            return Denied(f"{spec.name} is not among what this agent may do", hint="Add it to `allow`.")
        if policy.check is not None:
            try:
                reason = policy.check(spec.name, spec.kind, event.content().get("payload"))
                if reason is not None:
                    return Denied(f"{spec.name} is not allowed: {reason}")
            except (Exception, CancelledError) as error:
                return _check_failed(spec, error)
        return self._exceeded()

    def _exceeded_above(self) -> ReenactError | None:
        guard = self._above
        while guard is not None:
            refusal = guard._exceeded()
            if refusal is not None:
                return refusal
            guard = guard._above
        return None

    def _exceeded(self) -> ReenactError | None:
        if not self._limits:
            return None
        standing = self.standing()
        for name, limit in self._limits:
            spent = standing[name]
            # A limit of nothing lets through what costs nothing, but for calls and seconds, which everything costs.
            if spent >= limit and (spent or name not in SPENT):
                return BudgetExceeded(
                    f"the budget of {limit:g} {name} is spent",
                    hint="Resume the run under a larger budget; nothing more is allowed under this one.",
                )
        return None

    def _deny(self, key: str) -> None:
        self._denied.append(key)
        del self._denied[:-DENIALS_KEPT]

    def counts(self, spec: EffectSpec, seq: int, result: Any) -> None:
        """The agent is handed a result: what it cost is spent."""
        if not self.counts_usage or seq in self._counted or seq <= self._counted_to:
            return
        if spec.kind == "process":
            return  # what it spent was counted where it was spent
        self._counted.add(seq)
        for name, amount in spent_by(spec, result).items():
            self._spend(name, amount)

    def standing(self) -> dict[str, float]:
        """What is spent so far."""
        seconds = round(self._elapsed + monotonic() - self._since, 6)
        return {"calls": self._calls, "seconds": seconds, **self._spent}

    def spent(self) -> dict[str, float]:
        """What is spent of everything that adds up: time does not."""
        return {"calls": self._calls, **self._spent}

    def denials(self) -> list[str]:
        """The replay keys of what was denied last."""
        return list(self._denied)


def _limits_of(budget: Budget | None) -> list[tuple[str, float]]:
    """Those that there are, in the order in which they are asked."""
    found = [] if budget is None else [(name, getattr(budget, name)) for name in budget.__struct_fields__]
    return [(name, limit) for name, limit in found if limit is not None]


def _check_failed(spec: EffectSpec, error: BaseException) -> Denied:
    """Who cannot say whether it is allowed has not allowed it. The denial is on record, so a replay gets it too."""
    try:
        said = str(error)
    except Exception:
        said = ""
    return Denied(
        f"{spec.name} is not allowed: the check of the policy failed with {type(error).__name__}"
        + (f": {said}" if said else ""),
        hint="Mend the check; what was denied stays denied in this run.",
        code="policy_check_failed",
    )


def recorded_spending(reader: JournalReader) -> dict[str, float]:
    """What a run has spent that somebody else carried, as far as its record tells without its readers of usage."""
    spent = {"calls": 0.0, **dict.fromkeys(SPENT, 0.0)}
    for one in reader.scan():
        found: Mapping[str, float] = {}
        if one.event.pair_id is not None and one.kind in OPENING_KINDS:
            found = {"calls": 1}
        elif isinstance(one.event, ActionSucceeded):
            found = usual_usage(one.event.output)
        elif isinstance(one.event, ProcessAttached) and isinstance(one.event.process, dict):
            found = one.event.process.get("spent") or {}
        for name, amount in found.items():
            spent[name] += amount
    return spent


def spent_by(spec: EffectSpec, result: Any) -> dict[str, float]:
    """What an effect spent, as its result tells."""
    if spec.usage is None:
        return usual_usage(result)
    try:
        told = spec.usage(result) or {}
        good = all(name in SPENT and _is_amount(amount) for name, amount in told.items())
    except Exception as error:
        raise _bad_usage(spec, f"failed with {type(error).__name__}") from error
    if not good:
        raise _bad_usage(spec, "told something else than amounts of tokens and cost, finite and not negative")
    return {name: float(amount) for name, amount in told.items()}


def _bad_usage(spec: EffectSpec, what: str) -> InvalidInput:
    return InvalidInput(
        f"the usage reader of {spec.name} {what}",
        hint='Return {"tokens": number, "cost": number}, or some of it, and resume the run.',
        code="bad_usage",
    )


def usual_usage(result: Any) -> dict[str, float]:
    """The usage that a model's answer usually carries, as a mapping or as attributes. Whatever else is no usage."""
    usage = next((found for name in _USAGE_NAMES if (found := _member(result, name)) is not None), None)
    spent = {}
    for names in _TOKEN_NAMES:
        parts = [_member(usage, name) for name in names]
        if any(_is_amount(part) for part in parts):
            spent["tokens"] = sum(float(part) for part in parts if _is_amount(part))
            break
    cost = next((found for name in _COST_NAMES if _is_amount(found := _member(usage, name))), None)
    if cost is not None:
        spent["cost"] = float(cost)
    return spent


def _member(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(name)
    try:
        return getattr(value, name, None)
    except Exception:  # a property of somebody else's that fails tells nothing
        return None


def _is_amount(value: Any) -> bool:
    if not isinstance(value, (int, float, Decimal)) or isinstance(value, bool):
        return False
    try:
        return isfinite(float(value)) and value >= 0
    except (OverflowError, ValueError):  # beyond any float, or a signalling NaN
        return False
