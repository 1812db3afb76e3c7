"""Find every usage counter of a tree by path, at every depth and under every usual name.

A counter is a *number* under a name that means tokens or cost: `tokens`, `token_count`, `prompt_tokens`,
`totalTokenCount`, `cost`, `total_cost`, `cost_usd`, `price` and the like. All numbers in a subtree under such a name,
or under `usage`, are counters.

The rest is structure and has to be equal: text or null under such a name; limits of a request (`max_tokens`,
`budget_tokens`, anything under `budget` or `limits`); token ids in a list (`"tokens": [15496, 995]`); true and false.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from onrecord.analysis.compare.pointers import Patterns, Places, escape, steps_of
from onrecord.analysis.compare.tolerance import EXACT, DriftTolerance, Limit, PathRule, as_written

CounterKind = Literal["tokens", "cost", "number"]

_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_LIMITS = frozenset(
    {
        "allowance",
        "allowed",
        "budget",
        "budgets",
        "cap",
        "ceiling",
        "limit",
        "limits",
        "max",
        "maximum",
        "min",
        "minimum",
        "per",
        "quota",
        "rate",
        "remaining",
        "threshold",
    }
)
_COST_WORDS = frozenset({"cost", "costs", "price", "prices", "spend"})
_TOKEN_TAILS = frozenset({"count", "counts", "usage", "used", "spent", "total", "totals", "detail", "details"})
_USAGE_NAMES = frozenset({"usage_metadata", "eval_count", "prompt_eval_count"})


class Counter(NamedTuple):
    path: str
    kind: CounterKind
    value: Any
    """The value in the tree."""
    number: Fraction
    limit: Limit | None = None
    """The limit of a path rule, if one applies."""


class Separated(NamedTuple):
    """A tree split into its counters and its structure.

    The structure leaves out members that are counters, and has null for counters in a list.
    """

    structure: Any
    counters: dict[str, Counter]


@lru_cache(maxsize=4096)
def counter_kind(name: str) -> CounterKind | Literal["limit"] | None:
    """Return the kind of a number under this name, or None if the name implies none."""
    plain = _HUMPS.sub("_", name).lower().replace("-", "_").replace(" ", "_")
    words = plain.split("_")
    if not _LIMITS.isdisjoint(words):
        return "limit"
    if not _COST_WORDS.isdisjoint(words):
        return "cost"
    if plain in _USAGE_NAMES or words[-1] in ("usage", "tokens") or plain == "token":
        return "tokens"
    tail = len(words)
    while tail and words[tail - 1] in _TOKEN_TAILS:
        tail -= 1
    return "tokens" if tail < len(words) and tail and words[tail - 1] in ("token", "tokens") else None


class _CounterNode(NamedTuple):
    source: Any
    copy: Any
    path: str
    kind: CounterKind | Literal["limit"] | None
    """The kind of the nearest name above that implies one."""
    bare: bool
    """True in a list right under a token name: its numbers are token ids, not counts."""
    rule: PathRule | None
    places: Places[PathRule]


def separate(tree: Any, tolerance: DriftTolerance = EXACT, at: str = "") -> Separated:
    """Split a tree into counters and structure, without what a rule ignores. `at` is the path of the tree for rules."""
    patterns: Patterns[PathRule] = tolerance.patterns
    places = patterns.start()
    rule = patterns.found(places)
    for step in steps_of(at):
        places = patterns.step(places, step)
        rule = patterns.found(places) or rule
    whole: list[Any] = [None]
    counters: dict[str, Counter] = {}
    top = _CounterNode([tree], whole, at, None, False, rule, places)
    todo: list[_CounterNode] = []
    _place_value(top, 0, tree, top._replace(bare=False), counters, todo)
    while todo:
        node = todo.pop()
        is_object = type(node.source) is dict
        for name, value in node.source.items() if is_object else enumerate(node.source):
            _place_value(node, name, value, _enter(node, name, is_object, patterns), counters, todo)
    return Separated(whole[0], dict(sorted(counters.items())))


def _enter(node: _CounterNode, name: Any, is_object: bool, patterns: Patterns[PathRule]) -> _CounterNode:
    """Return the kind and rule that apply to a member or item."""
    places, rule, kind = node.places, node.rule, node.kind
    if places:
        places = patterns.step(places, str(name))
        rule = patterns.found(places) or rule
    if is_object and kind != "limit":
        own = counter_kind(name)
        # Within a `usage` that has a `cost`, the nearer name decides.
        kind = own if own is not None else kind
    path = f"{node.path}/{escape(name) if is_object else name}"
    return _CounterNode(None, None, path, kind, not is_object and kind == "tokens", rule, places)


def _place_value(
    node: _CounterNode,
    name: Any,
    value: Any,
    inner: _CounterNode,
    counters: dict[str, Counter],
    todo: list[_CounterNode],
) -> None:
    rule = inner.rule.rule if inner.rule is not None else None
    if rule == "ignore":
        return
    number = number_of(value)
    if number is not None:
        if rule == "numeric" and inner.rule is not None:
            counters[inner.path] = Counter(inner.path, "number", value, number, inner.rule.limit)
            return
        if rule is None and inner.kind is not None and inner.kind != "limit" and not inner.bare:
            counters[inner.path] = Counter(inner.path, inner.kind, value, number)
            return
    if type(value) is dict or type(value) is list:
        copy: Any = {} if type(value) is dict else [None] * len(value)
        node.copy[name] = copy
        todo.append(inner._replace(source=value, copy=copy))
    else:
        node.copy[name] = value


def number_of(value: Any) -> Fraction | None:
    """Return the number that a value is: plain, or the codec's form of a decimal or a large integer."""
    kind = type(value)
    if kind is int:
        return Fraction(value)
    if kind is float:
        return as_written(value) if value - value == 0.0 else None
    if kind is dict and len(value) == 1:
        text = value.get("$decimal", value.get("$int"))
        if type(text) is str and len(text) <= 400 and re.fullmatch(r"-?[0-9]+(\.[0-9]+)?(E[-+]?[0-9]{1,3})?", text):
            return Fraction(text)
    return None
