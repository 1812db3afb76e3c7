"""Policies: which effects an agent may request, and how much it may spend. Checked before a request is recorded.

Rules of a budget:

1. The spending of an effect is read from its result, by the tool's own function (`usage=`) or from the usual members of
   a model's answer. It counts when the result is delivered, also from the record: a resumed run keeps its spending.
2. After a limit is reached, every further effect is denied with `budget_exceeded`, so that catching the error does not
   help. Denials are recorded and replayed.
3. Running effects are not cancelled when a limit is reached: concurrent effects may together exceed it.
4. Time is wall-clock time since the run's beginning, across all processes that executed it.
5. The spending of a called agent counts for its callers, too: it stops at its own limits and at theirs. It is written
   into the caller's record when the called run ends.
"""

from __future__ import annotations

import threading
import time
from asyncio import CancelledError
from collections.abc import Callable, Collection, Iterator, Mapping
from decimal import Decimal
from math import isfinite
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec

from onrecord.core.events import OPENING_KINDS, ActionSucceeded, Event, ProcessAttached
from onrecord.errors import InvalidInput, OnrecordError
from onrecord.runtime.engine.open_effect import EffectSpec
from onrecord.runtime.engine.stops import BudgetExceeded, Denied

if TYPE_CHECKING:
    from onrecord.journal.reader import JournalReader
    from onrecord.runtime.replay.history import History

Check = Callable[[str, str, Any], str | None]
"""A function of (name, kind, payload). It returns the reason of a denial, or None to allow the effect."""
Usage = Callable[[Any], Mapping[str, float] | None]
"""A function that reads the spending from a result: `{"tokens": …, "cost": …}`, or a part of it."""

SPENT = ("tokens", "cost")
DENIALS_KEPT = 20
_USAGE_NAMES = ("usage", "usage_metadata", "token_usage")
_TOKEN_NAMES = (("total_tokens",), ("prompt_tokens", "completion_tokens"), ("input_tokens", "output_tokens"))
_COST_NAMES = ("cost", "total_cost")


class Budget(msgspec.Struct, frozen=True):
    """Limits of a run. After one is reached, every further effect is denied."""

    calls: int | None = None
    """The number of effects of any kind."""
    seconds: float | None = None
    tokens: float | None = None
    cost: float | None = None
    """In the unit that the results use."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            limit = getattr(self, name)
            if limit is not None and not _is_amount(limit):
                raise InvalidInput(
                    f"the limit of {name} must be a finite number that is not negative",
                    hint="Leave the limit out to have none.",
                    code="bad_budget",
                )


class Policy(msgspec.Struct, frozen=True):
    """The rules for an agent's effects, checked before each request. A denial is an event of its own."""

    allow: Collection[str] | None = None
    """Names of allowed effects. None allows all."""
    check: Check | None = None
    budget: Budget | None = None

    def __post_init__(self) -> None:
        if self.allow is not None and (isinstance(self.allow, str) or not isinstance(self.allow, Collection)):
            # `in` finds substrings: `allow="send_mail"` would also allow `send` and `mail`.
            raise InvalidInput(
                "`allow` of a policy must be a set of names",
                hint='A single name: allow={"look_up"}. Without `allow`, every effect is allowed.',
                code="bad_policy",
            )
        if self.budget is not None and not isinstance(self.budget, Budget):
            raise InvalidInput(
                "`budget` of a policy must be a Budget",
                hint="Such as budget=onrecord.Budget(calls=100, cost=2.5).",
                code="bad_policy",
            )

    def make_guard(self, parent: PolicyGuard | None = None) -> PolicyGuard:
        return PolicyGuard(self, parent)


class PolicyGuard:
    """The policy of one run, with its spending. Called with the run's lock held. Parent guards have other run locks."""

    def __init__(self, policy: Policy, parent: PolicyGuard | None = None) -> None:
        self._policy = policy
        self._limits = _list_limits(policy.budget)
        self._parent = parent
        self._lock: threading.Lock = threading.Lock() if parent is None else parent._lock
        """One lock for a run and all its child runs."""
        self._calls = 0
        self._spent = dict.fromkeys(SPENT, 0.0)
        self._counted: set[int] = set()
        """Outcomes (seq) that are counted: an outcome may be delivered again."""
        self._elapsed = 0.0
        self._since = monotonic()
        self._denied: list[str] = []
        self._children: set[str] = set()
        """Child runs whose spending is counted and recorded."""
        self._counted_to = 0
        """The seq up to which everything is counted: a checkpoint there holds the spending."""

    @property
    def counts_usage(self) -> bool:
        return self._policy.budget is not None or self._parent is not None

    def to_checkpoint(self) -> dict[str, Any]:
        """Return the members that a checkpoint stores, for `adopt_history`."""
        return {"spent": self.spent(), "denied": self.denials()}

    def adopt_history(self, past: History) -> None:
        """Count the recorded requests, denials and spending of a resumed run, and the time since its beginning."""
        self._elapsed = max(0.0, time.time() - past.reader.header_row.created / 1_000_000)
        self._counted_to = max(past.began_at, 0)  # events that a fork shares were paid by its parent
        saved = (past.carried or {}) if past.began_at > 0 else {}
        for name, amount in saved.get("spent", {}).items():
            self._spend(name, amount)
        for key in saved.get("denied", ()):
            self._deny(key)
        for key in past.denied:
            self._deny(key)
        self._spend("calls", past.requested)
        for child, spent in past.spent_by_children.items():
            self._children.add(child)
            for name, amount in spent.items():
                self._spend(name, amount)

    def count_child(self, child: str, live: PolicyGuard | None, reader: Callable[[], JournalReader]) -> Any:
        """Return the spending of an ended child run, to be recorded, or None if it is recorded already.

        A child that this process executed (`live`) has counted its effects here; otherwise its record is read.
        """
        if child in self._children:
            return None
        self._children.add(child)
        if live is not None:
            return live.spent()
        spent = read_spending(reader())
        for name, amount in spent.items():
            self._spend(name, amount)
        return spent

    def _spend(self, name: str, amount: float) -> None:
        """Add to the spending of this run and of all its callers."""
        with self._lock:
            for guard in self._with_callers():
                if name == "calls":
                    guard._calls += int(amount)
                elif name in guard._spent:
                    guard._spent[name] += float(amount)

    def _with_callers(self) -> Iterator[PolicyGuard]:
        guard: PolicyGuard | None = self
        while guard is not None:
            yield guard
            guard = guard._parent

    def __call__(self, spec: EffectSpec, event: Event) -> OnrecordError | None:
        """Return the reason of a denial, or None if the effect is allowed. Count the call or the denial."""
        refusal = self._find_refusal(spec, event)
        if refusal is None:
            self._spend("calls", 1)
        else:
            self._deny(str(event.content().get(event.pair_id or "", "")))
        return refusal

    def _find_refusal(self, spec: EffectSpec, event: Event) -> OnrecordError | None:
        policy = self._policy
        if policy.allow is not None and spec.name not in policy.allow:
            return Denied(f"{spec.name} is not in the `allow` list of this agent's policy", hint="Add it to `allow`.")
        if policy.check is not None:
            try:
                reason = policy.check(spec.name, spec.kind, event.content().get("payload"))
                if reason is not None:
                    return Denied(f"{spec.name} is not allowed: {reason}")
            except (Exception, CancelledError) as error:
                return _deny_failed_check(spec, error)
        for guard in self._with_callers():
            if (refusal := guard._check_budget()) is not None:
                return refusal
        return None

    def _check_budget(self) -> OnrecordError | None:
        if not self._limits:
            return None
        totals = self.totals()
        for name, limit in self._limits:
            spent = totals[name]
            # A limit of 0 tokens or cost allows effects without usage. Every effect costs a call and some time.
            if spent >= limit and (spent or name not in SPENT):
                return BudgetExceeded(
                    f"the budget of {limit:g} {name} is spent", hint="Resume the run with a larger budget."
                )
        return None

    def _deny(self, key: str) -> None:
        self._denied.append(key)
        del self._denied[:-DENIALS_KEPT]

    def count_usage(self, spec: EffectSpec, seq: int, result: Any) -> None:
        """Count the spending of a delivered result, once."""
        if not self.counts_usage or seq in self._counted or seq <= self._counted_to:
            return
        if spec.kind == "process":
            return  # the child run counts its own effects
        self._counted.add(seq)
        for name, amount in read_usage(spec, result).items():
            self._spend(name, amount)

    def totals(self) -> dict[str, float]:
        """Return the spending so far, with the elapsed seconds."""
        seconds = round(self._elapsed + monotonic() - self._since, 6)
        return {"calls": self._calls, "seconds": seconds, **self._spent}

    def spent(self) -> dict[str, float]:
        """Return the spending without time, which does not add up across runs."""
        return {"calls": self._calls, **self._spent}

    def denials(self) -> list[str]:
        """Return the keys of the last denied requests."""
        return list(self._denied)


def _list_limits(budget: Budget | None) -> list[tuple[str, float]]:
    """Return the limits that are set, in the order in which they are checked."""
    limits = [] if budget is None else [(name, getattr(budget, name)) for name in budget.__struct_fields__]
    return [(name, limit) for name, limit in limits if limit is not None]


def _deny_failed_check(spec: EffectSpec, error: BaseException) -> Denied:
    """Return the denial for a policy check that raised. It is recorded, so a replay denies the effect too."""
    try:
        message = str(error)
    except Exception:
        message = ""
    return Denied(
        f"{spec.name} is not allowed: the check of the policy failed with {type(error).__name__}"
        + (f": {message}" if message else ""),
        hint="Repair the check; the effect stays denied in this run.",
        code="policy_check_failed",
    )


def read_spending(reader: JournalReader) -> dict[str, float]:
    """Return the spending of a run from its record. The `usage=` functions of its tools are not known here."""
    spent = {"calls": 0.0, **dict.fromkeys(SPENT, 0.0)}
    for one in reader.scan():
        found: Mapping[str, float] = {}
        if one.event.pair_id is not None and one.kind in OPENING_KINDS:
            found = {"calls": 1}
        elif isinstance(one.event, ActionSucceeded):
            found = find_usage(one.event.output)
        elif isinstance(one.event, ProcessAttached) and isinstance(one.event.process, dict):
            found = one.event.process.get("spent") or {}
        for name, amount in found.items():
            spent[name] += amount
    return spent


def read_usage(spec: EffectSpec, result: Any) -> dict[str, float]:
    """Return the spending of an effect. Raise `InvalidInput` if the tool's `usage=` function returns anything else."""
    if spec.usage is None:
        return find_usage(result)
    try:
        usage = spec.usage(result) or {}
        is_valid = all(name in SPENT and _is_amount(amount) for name, amount in usage.items())
    except Exception as error:
        raise _bad_usage(spec, f"failed with {type(error).__name__}") from error
    if not is_valid:
        raise _bad_usage(spec, "did not return amounts of tokens and cost, finite and not negative")
    return {name: float(amount) for name, amount in usage.items()}


def _bad_usage(spec: EffectSpec, problem: str) -> InvalidInput:
    return InvalidInput(
        f"the usage function of {spec.name} {problem}",
        hint='Return {"tokens": number, "cost": number}, or one of them, and resume the run.',
        code="bad_usage",
    )


def find_usage(result: Any) -> dict[str, float]:
    """Return the usage in a model's answer, from its usual members or attributes; empty if there is none."""
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
    except Exception:  # a property of a foreign class may fail
        return None


def _is_amount(value: Any) -> bool:
    if not isinstance(value, (int, float, Decimal)) or isinstance(value, bool):
        return False
    try:
        return isfinite(float(value)) and value >= 0
    except (OverflowError, ValueError):  # too large for a float, or a signalling NaN
        return False
