"""The tolerance: how far a new value may be from the recorded one.

**Numbers.** A counter may move by `relative × |expected|` or by `absolute`, whichever is more; the limit itself is
allowed. Relative refers to the recorded value. Numbers are compared as decimals: 100 → 101 is within 1 %, and
1.00 → 1.01 too.

**Zero base.** 0 → 0 is equal. 0 → x is beyond every relative tolerance; only an absolute one allows it.

**Tools.** `exact`: the same calls in the same order. `same_calls`: the same calls in any order. `same_tools`: the
same tools equally often, with any input and result. `ignore`: tools are not compared.

**Content** is text, except under a name that makes it a label (`LABELS`: roles, types, names, stop reasons). Labels
are structure and must always be equal. `exact`: equal to the character. `normalised`: equal after `normalised_text`.
A function of (expected, actual) returns True, False or a distance of at most `content_limit`.

**Path rules** come first. A rule applies at its path and below; the nearest path wins, then the first rule declared.
Ignored paths are removed from both sides before anything is compared.
"""

from __future__ import annotations

import dataclasses
import math
import re
import unicodedata
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from onrecord.analysis.compare.pointers import Patterns
from onrecord.errors import InvalidInput

ToolRule = Literal["exact", "same_calls", "same_tools", "ignore"]
TOOL_RULES: tuple[ToolRule, ...] = ("exact", "same_calls", "same_tools", "ignore")

ContentJudge = Callable[[str, str], bool | float]

LABELS = frozenset(
    {
        "code",
        "currency",
        "finish_reason",
        "finishReason",
        "id",
        "kind",
        "language",
        "media_type",
        "mime_type",
        "mimeType",
        "model",
        "modelVersion",
        "name",
        "object",
        "role",
        "service_tier",
        "status",
        "stop_reason",
        "stop_sequence",
        "type",
    }
)
"""Names under which text is structure, not prose: another role or stop reason is another behaviour."""


class Limit(NamedTuple):
    relative: float = 0.0
    absolute: float = 0.0

    def allows(self, expected: Fraction, actual: Fraction) -> bool:
        distance = abs(actual - expected)
        return distance <= as_written(self.relative) * abs(expected) or distance <= as_written(self.absolute)

    def to_data(self) -> dict[str, Any]:
        return {"relative": self.relative, "absolute": self.absolute}


def as_written(number: float) -> Fraction:
    """Return the exact decimal value of the number's shortest form, so that 0.01 means one hundredth."""
    return Fraction(repr(number))


class PathRule(NamedTuple):
    """Rule for a path and everything below it, made by `exact`, `ignore`, `numeric` or `normalised`."""

    pattern: str
    rule: Literal["exact", "ignore", "numeric", "normalised"]
    limit: Limit = Limit()

    @classmethod
    def exact(cls, pattern: str) -> PathRule:
        return cls(pattern, "exact")

    @classmethod
    def ignore(cls, pattern: str) -> PathRule:
        return cls(pattern, "ignore")

    @classmethod
    def normalised(cls, pattern: str) -> PathRule:
        return cls(pattern, "normalised")

    @classmethod
    def numeric(cls, pattern: str, *, relative: float = 0.0, absolute: float = 0.0) -> PathRule:
        return cls(pattern, "numeric", Limit(relative, absolute))

    def to_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"pattern": self.pattern, "rule": self.rule}
        return data | {"limit": self.limit.to_data()} if self.rule == "numeric" else data


@dataclasses.dataclass(frozen=True, slots=True)
class DriftTolerance:
    """Allowed differences; none without arguments. NaN, infinite and negative numbers are refused."""

    tokens: float = 0.0
    cost: float = 0.0
    tokens_absolute: float = 0.0
    cost_absolute: float = 0.0
    tools: ToolRule = "exact"
    content: Literal["exact", "normalised"] | ContentJudge = "exact"
    content_limit: float = 0.0
    rules: tuple[PathRule, ...] = ()
    _patterns: Patterns[PathRule] = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("tokens", "cost", "tokens_absolute", "cost_absolute", "content_limit"):
            _refuse_bad_number(name, getattr(self, name))
        if self.tools not in TOOL_RULES:
            raise InvalidInput(f"tools is one of {', '.join(TOOL_RULES)}", code="bad_tool_rule")
        if self.content not in ("exact", "normalised") and not callable(self.content):
            raise InvalidInput("content is `exact`, `normalised` or a function of two texts", code="bad_content_rule")
        object.__setattr__(self, "rules", _check_rules(self.rules))
        object.__setattr__(self, "_patterns", Patterns([(rule.pattern, rule) for rule in self.rules]))

    @property
    def patterns(self) -> Patterns[PathRule]:
        return self._patterns

    def limit_of(self, kind: str) -> Limit:
        if kind == "cost":
            return Limit(self.cost, self.cost_absolute)
        return Limit(self.tokens, self.tokens_absolute)

    def tolerates_text(self, expected: str, actual: str) -> bool:
        """Return True if the content rule accepts two different texts as equal."""
        if self.content == "exact":
            return False
        if self.content == "normalised":
            return normalised_text(expected) == normalised_text(actual)
        verdict = self.content(expected, actual)
        if isinstance(verdict, bool):
            return verdict
        if not isinstance(verdict, int | float) or math.isnan(verdict) or verdict < 0:
            raise InvalidInput("a content function returns True, False or a distance of 0 or more", code="bad_distance")
        return verdict <= self.content_limit

    def to_data(self) -> dict[str, Any]:
        return {
            "tokens": self.tokens,
            "cost": self.cost,
            "tokens_absolute": self.tokens_absolute,
            "cost_absolute": self.cost_absolute,
            "tools": self.tools,
            "content": self.content if isinstance(self.content, str) else "judged",
            "content_limit": self.content_limit,
            "rules": [rule.to_data() for rule in self.rules],
        }


def _refuse_bad_number(name: str, number: Any) -> None:
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number) or number < 0:
        raise InvalidInput(f"the tolerance `{name}` must be a finite number of 0 or more", code="bad_tolerance")


def _check_rules(rules: Iterable[PathRule]) -> tuple[PathRule, ...]:
    checked = tuple(rules)
    for rule in checked:
        if not isinstance(rule, PathRule) or rule.rule not in ("exact", "ignore", "numeric", "normalised"):
            raise InvalidInput("a path rule is exact, ignore, numeric or normalised", code="bad_path_rule")
        if rule.rule == "ignore" and rule.pattern in ("", "/**"):
            raise InvalidInput("a rule cannot ignore everything: any value would pass", code="bad_path_rule")
        _refuse_bad_number(f"relative of {rule.pattern}", rule.limit.relative)
        _refuse_bad_number(f"absolute of {rule.pattern}", rule.limit.absolute)
    return checked


_GROUPED = re.compile(r"(?<![\w.,])(\d{1,3}(?:,\d{3})+)(?![\w,])")
_FRACTION = re.compile(r"(?<![\w.,])(\d+)\.(\d+)(?![\w,]|\.\d)")


def normalised_text(text: str) -> str:
    """Return the text without differences of writing.

    1. Compose Unicode (NFC) and fold case.
    2. Replace white space by one blank; strip the ends.
    3. In numbers, drop commas between groups of three (`1,000` → `1000`), trailing zeros of a fraction and an empty
       fraction (`2.50` → `2.5`, `3.0` → `3`). `v1.10`, `1.10.2` and `007` are not quantities and stay.
    """
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    ungrouped = _GROUPED.sub(lambda match: match[1].replace(",", ""), " ".join(folded.split()))
    return _FRACTION.sub(lambda match: f"{match[1]}.{match[2]}".rstrip("0").rstrip("."), ungrouped)


EXACT = DriftTolerance()
