r"""User-defined rules, restricted to patterns that are fast on every text.

Python's engine backtracks, and some patterns make it do so almost without end (`(a+)+$`). Besides fixed parts, a rule
may have

1. repetitions with an upper bound, not nested, whose bounds multiply to at most 1,024, and
2. one repetition without a bound, at the end.

No look-around but `\b`, and no back-references. A rule matches at least four characters. The match is the secret; a
group `(?P<secret>…)` selects a part of it. So a text of n characters takes at most about 1,024 · n steps.
"""

from __future__ import annotations

import re
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from onrecord.core.lazy_regex import Pattern
from onrecord.errors import InvalidInput

MOST_STEPS = 1024
SHORTEST_MATCH = 4
LONGEST_PATTERN = 1000
MOST_RULES = 100
_KIND = Pattern(r"[a-z][a-z0-9_]{0,39}\Z")
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)
_PLAIN = (codes.LITERAL, codes.NOT_LITERAL, codes.IN, codes.ANY)


class Rule(NamedTuple):
    """A user-defined kind of secret: `Rule("employee", r"EMP-[0-9]{6}")`."""

    kind: str
    """The kind in its placeholders."""
    pattern: str


def compile_rule(rule: Rule) -> re.Pattern[str]:
    """Compile the pattern, or raise an error that says what is wrong with it."""
    if type(rule.kind) is not str or _KIND.match(rule.kind) is None:
        raise _refuse(rule, "its kind is not a short name of small letters, digits and `_`")
    if type(rule.pattern) is not str or len(rule.pattern) > LONGEST_PATTERN:
        raise _refuse(rule, f"its pattern is longer than {LONGEST_PATTERN} characters")
    try:
        tree = parser.parse(rule.pattern)
        pattern = re.compile(rule.pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise _refuse(rule, f"its pattern cannot be read: {error}") from None
    if tree.getwidth()[0] < SHORTEST_MATCH:
        raise _refuse(rule, f"it would match fewer than {SHORTEST_MATCH} characters")
    if _count_steps(rule, list(tree), last=True, inside=False) > MOST_STEPS:
        raise _refuse(rule, f"the bounds of its repetitions multiply to more than {MOST_STEPS:,}")
    if pattern.groups > (1 if "secret" in pattern.groupindex else 0):
        raise _refuse(rule, "it has groups other than `(?:…)` and one `(?P<secret>…)`")
    return pattern


def _count_steps(rule: Rule, items: list[Any], *, last: bool, inside: bool) -> int:
    """Return an upper bound for the ways in which the items can match at one position."""
    steps = 1
    for index, (code, argument) in enumerate(items):
        is_last = last and index == len(items) - 1
        if code in _PLAIN or (code is codes.AT and argument in (codes.AT_BOUNDARY, codes.AT_NON_BOUNDARY)):
            continue
        if code in _REPEATS:
            steps *= _count_repeats(rule, argument, is_last, inside)
        elif code is codes.SUBPATTERN:
            steps *= _count_steps(rule, list(argument[3]), last=is_last, inside=inside)
        elif code is codes.BRANCH:
            steps *= sum(_count_steps(rule, list(branch), last=is_last, inside=inside) for branch in argument[1])
        else:
            raise _refuse(rule, f"it has a look-around or another construct that may be slow ({str(code).lower()})")
    return steps


def _count_repeats(rule: Rule, argument: Any, is_last: bool, inside: bool) -> int:
    least, most, items = argument
    if inside:
        raise _refuse(rule, "it has a repetition within another")
    if _count_steps(rule, list(items), last=False, inside=True) > 1:
        raise _refuse(rule, "it repeats a choice")
    if most == codes.MAXREPEAT:
        if not is_last:
            raise _refuse(rule, "it has a repetition without a bound before its end")
        return 1
    return 1 if least == most and len(list(items)) == 1 and most <= MOST_STEPS else max(1, int(most))


def _refuse(rule: Rule, why: str) -> InvalidInput:
    return InvalidInput(
        f"the redaction rule {str(rule.kind)[:40]!r} is not used: {why}",
        hint="Give each repetition an upper bound (`[a-z0-9]{1,32}` instead of `[a-z0-9]+`), and use no look-around.",
        code="bad_redaction_rule",
    )
