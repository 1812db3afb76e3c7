"""Two values judged under a tolerance: every counter by path, then everything that is not a counter.

1. What a rule ignores is taken out of both sides.
2. What was recorded as its type only, or erased, cannot be compared: a reason of its own, never a match.
3. Each counter is compared with the one at its path. One that the other side lacks is reported and never tolerated.
4. The rest is structure and has to be equal, but for text, which the tolerance for content may let pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from reenact.replays.comparing import reasons as codes
from reenact.replays.comparing.counters import Counter, separate
from reenact.replays.comparing.pointers import escaped, steps_of
from reenact.replays.comparing.reasons import Reason, Reasons
from reenact.replays.comparing.tolerance import LABELS, DriftTolerance, Limit, normalised_text
from reenact.replays.comparing.trees import SHOWN, Difference, TreeDiff, differences_of, tree_digest

_DRIFT_CODES = {"tokens": codes.TOKEN_DRIFT, "cost": codes.COST_DRIFT, "number": codes.NUMBER_DRIFT}
_WITHOUT_VALUE = ("$opaque", "$erased")


class CounterPair(NamedTuple):
    """A counter on both sides. `missing`: only the expected side has it; `unexpected`: only the actual one."""

    path: str
    kind: str
    status: Literal["equal", "within", "beyond", "missing", "unexpected"]
    expected: Any
    actual: Any
    limit: Limit

    def to_data(self) -> dict[str, Any]:
        return self._asdict() | {"limit": self.limit.to_data()}


class Judged(NamedTuple):
    counters: tuple[CounterPair, ...]
    differences: TreeDiff
    """Of the structure: without counters and what was ignored."""


def judge(expected: Any, actual: Any, tolerance: DriftTolerance, reasons: Reasons, at: str = "") -> Judged:
    """`at` is where both stand, for the paths of the reasons and for the rules of the tolerance."""
    left, right = separate(expected, tolerance, at), separate(actual, tolerance, at)
    for side, tree in (("expected", left.structure), ("actual", right.structure)):
        for path in places_without_value(tree):
            reasons.add(Reason(codes.NOT_REPLAYABLE, at + path, f"the {side} value was recorded as its type only"))
    pairs = tuple(_paired(left.counters, right.counters, tolerance))
    for pair in pairs:
        _judge_counter(pair, reasons)
    return Judged(pairs, _judge_structure(left.structure, right.structure, tolerance, reasons, at))


def places_without_value(tree: Any) -> Iterator[str]:
    todo: list[tuple[Any, str]] = [(tree, "")]
    while todo:
        value, path = todo.pop()
        if isinstance(value, dict):
            if len(value) == 1 and next(iter(value)) in _WITHOUT_VALUE:
                yield path
            else:
                todo += [(item, f"{path}/{escaped(name)}") for name, item in value.items()]
        elif isinstance(value, list):
            todo += [(item, f"{path}/{index}") for index, item in enumerate(value)]


def _paired(left: dict[str, Counter], right: dict[str, Counter], tolerance: DriftTolerance) -> Iterator[CounterPair]:
    for path in sorted(left.keys() | right.keys()):
        expected, actual = left.get(path), right.get(path)
        if expected is not None and actual is not None:
            limit = expected.limit or tolerance.limit_of(expected.kind)
            moved: Literal["within", "beyond"] = "within" if limit.allows(expected.number, actual.number) else "beyond"
            status = "equal" if expected.number == actual.number else moved
            yield CounterPair(path, expected.kind, status, expected.value, actual.value, limit)
        elif expected is not None:
            limit = expected.limit or tolerance.limit_of(expected.kind)
            yield CounterPair(path, expected.kind, "missing", expected.value, None, limit)
        elif actual is not None:
            limit = actual.limit or tolerance.limit_of(actual.kind)
            yield CounterPair(path, actual.kind, "unexpected", None, actual.value, limit)


def _judge_counter(pair: CounterPair, reasons: Reasons) -> None:
    if pair.status == "equal":
        return
    code, what = _DRIFT_CODES[pair.kind], "moved"
    if pair.status in ("missing", "unexpected"):
        code, what = codes.COUNTER_MISSING, pair.status
    tolerated = pair.status == "within"
    reasons.add(Reason(code, pair.path, what, pair.expected, pair.actual, pair.limit.to_data(), tolerated))


def _judge_structure(expected: Any, actual: Any, tolerance: DriftTolerance, reasons: Reasons, at: str) -> TreeDiff:
    expected_digest, actual_digest = tree_digest(expected), tree_digest(actual)
    shown: list[Difference] = []
    total = 0
    if expected_digest != actual_digest:
        for found in differences_of(expected, actual):
            difference = found._replace(path=at + found.path, actual_path=at + found.actual_path)
            total += 1
            if total <= SHOWN:
                shown.append(difference)
            reasons.add(_judged_difference(difference, tolerance))
    return TreeDiff(expected_digest, actual_digest, tuple(shown), total)


def _judged_difference(difference: Difference, tolerance: DriftTolerance) -> Reason:
    expected, actual = difference.expected, difference.actual
    steps = steps_of(difference.path)
    rule = tolerance.patterns.at(steps)
    code, allowed, tolerated = codes.STRUCTURE_DIFF, "exact", False
    if difference.kind == "changed" and isinstance(expected, str) and isinstance(actual, str):
        code = codes.CONTENT_DIFF
        if rule is not None:
            allowed = rule.rule
            tolerated = rule.rule == "normalised" and normalised_text(expected) == normalised_text(actual)
        elif _is_label(steps):
            code = codes.STRUCTURE_DIFF
        else:
            allowed = tolerance.content if isinstance(tolerance.content, str) else "judged"
            tolerated = tolerance.tolerates_text(expected, actual)
    return Reason(code, difference.path, difference.kind, expected, actual, allowed, tolerated)


def _is_label(steps: list[str]) -> bool:
    return bool(steps) and steps[-1] in LABELS
