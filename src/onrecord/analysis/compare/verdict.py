"""Judge two values under a tolerance: every counter by path, then the rest.

1. Remove what a rule ignores from both sides.
2. Report values that were recorded as their type only, or erased: they cannot be compared and never match.
3. Compare each counter with the one at the same path. A counter on one side only is reported and never tolerated.
4. The rest is structure and has to be equal, except for text that the content tolerance allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from onrecord.analysis.compare import reasons as codes
from onrecord.analysis.compare.counters import Counter, separate
from onrecord.analysis.compare.pointers import escape, steps_of
from onrecord.analysis.compare.reasons import Reason, Reasons
from onrecord.analysis.compare.tolerance import LABELS, DriftTolerance, Limit, normalised_text
from onrecord.analysis.compare.trees import SHOWN, Difference, TreeDiff, find_differences, tree_digest

_DRIFT_CODES = {"tokens": codes.TOKEN_DRIFT, "cost": codes.COST_DRIFT, "number": codes.NUMBER_DRIFT}
_WITHOUT_VALUE = ("$opaque", "$erased")


class CounterPair(NamedTuple):
    """A counter of both sides. `missing`: only the expected side has it; `unexpected`: only the actual side."""

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
    """Differences of the structure, without counters and ignored paths."""


def judge(expected: Any, actual: Any, tolerance: DriftTolerance, reasons: Reasons, at: str = "") -> Judged:
    """Compare two values and add the reasons. `at` is their path, for reasons and for path rules."""
    left, right = separate(expected, tolerance, at), separate(actual, tolerance, at)
    for side, tree in (("expected", left.structure), ("actual", right.structure)):
        for path in find_missing_values(tree):
            reasons.add(Reason(codes.NOT_REPLAYABLE, at + path, f"the {side} value was recorded as its type only"))
    pairs = tuple(_pair_counters(left.counters, right.counters, tolerance))
    for pair in pairs:
        _judge_counter(pair, reasons)
    return Judged(pairs, _judge_structure(left.structure, right.structure, tolerance, reasons, at))


def find_missing_values(tree: Any) -> Iterator[str]:
    todo: list[tuple[Any, str]] = [(tree, "")]
    while todo:
        value, path = todo.pop()
        if isinstance(value, dict):
            if len(value) == 1 and next(iter(value)) in _WITHOUT_VALUE:
                yield path
            else:
                todo += [(item, f"{path}/{escape(name)}") for name, item in value.items()]
        elif isinstance(value, list):
            todo += [(item, f"{path}/{index}") for index, item in enumerate(value)]


def _pair_counters(
    left: dict[str, Counter], right: dict[str, Counter], tolerance: DriftTolerance
) -> Iterator[CounterPair]:
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
        for found in find_differences(expected, actual):
            difference = found._replace(path=at + found.path, actual_path=at + found.actual_path)
            total += 1
            if total <= SHOWN:
                shown.append(difference)
            reasons.add(_judge_difference(difference, tolerance))
    return TreeDiff(expected_digest, actual_digest, tuple(shown), total)


def _judge_difference(difference: Difference, tolerance: DriftTolerance) -> Reason:
    expected, actual = difference.expected, difference.actual
    steps = steps_of(difference.path)
    rule = tolerance.patterns.at(steps)
    code, allowed, tolerated = codes.STRUCTURE_DIFF, "exact", False
    if difference.kind == "changed" and isinstance(expected, str) and isinstance(actual, str):
        code = codes.CONTENT_DIFF
        if rule is not None:
            allowed = rule.rule
            tolerated = rule.rule == "normalised" and normalised_text(expected) == normalised_text(actual)
        elif steps and steps[-1] in LABELS:
            code = codes.STRUCTURE_DIFF
        else:
            allowed = tolerance.content if isinstance(tolerance.content, str) else "judged"
            tolerated = tolerance.tolerates_text(expected, actual)
    return Reason(code, difference.path, difference.kind, expected, actual, allowed, tolerated)
