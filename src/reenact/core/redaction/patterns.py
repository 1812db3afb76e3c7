"""Rules of the user's own, restricted to patterns that cannot take long on any text.

Python's engine goes back over what it has matched, and some patterns make it do so without end (`(a+)+$`). A rule may
have, beside what is fixed,

1. repetitions with an upper bound, whose bounds multiply to at most 1,024, none of them within another, and
2. one without a bound, if nothing follows it.

No look-around but `\\b`, no back-references. It matches at least four characters. What it matches is the secret; a
group `(?P<secret>…)` says which part of it is. So a text of n characters takes at most some 1,024 · n steps.
"""

from __future__ import annotations

import re
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from reenact.core.lazy_patterns import Pattern
from reenact.errors import InvalidInput

MOST_STEPS = 1024
SHORTEST_MATCH = 4
LONGEST_PATTERN = 1000
MOST_RULES = 100
_KIND = Pattern(r"[a-z][a-z0-9_]{0,39}\Z")
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)
_PLAIN = (codes.LITERAL, codes.NOT_LITERAL, codes.IN, codes.ANY)


class Rule(NamedTuple):
    """Texts that are secrets for this user: `Rule("employee", r"EMP-[0-9]{6}")`."""

    kind: str
    """What its placeholders are called."""
    pattern: str


def compiled(rule: Rule) -> re.Pattern[str]:
    """The pattern, or a refusal that says what is wrong with it."""
    if type(rule.kind) is not str or _KIND.match(rule.kind) is None:
        raise _refused(rule, "its kind is not a short name of small letters, digits and `_`")
    if type(rule.pattern) is not str or len(rule.pattern) > LONGEST_PATTERN:
        raise _refused(rule, f"its pattern is longer than {LONGEST_PATTERN} characters")
    try:
        tree = parser.parse(rule.pattern)
        pattern = re.compile(rule.pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise _refused(rule, f"its pattern cannot be read: {error}") from None
    if tree.getwidth()[0] < SHORTEST_MATCH:
        raise _refused(rule, f"it would match fewer than {SHORTEST_MATCH} characters")
    if _steps(rule, list(tree), last=True, inside=False) > MOST_STEPS:
        raise _refused(rule, f"the bounds of its repetitions multiply to more than {MOST_STEPS:,}")
    if pattern.groups > (1 if "secret" in pattern.groupindex else 0):
        raise _refused(rule, "it has groups other than `(?:…)` and one `(?P<secret>…)`")
    return pattern


def _steps(rule: Rule, items: list[Any], *, last: bool, inside: bool) -> int:
    """In how many ways the items can match at one place, at most."""
    steps = 1
    for index, (code, argument) in enumerate(items):
        is_last = last and index == len(items) - 1
        if code in _PLAIN or (code is codes.AT and argument in (codes.AT_BOUNDARY, codes.AT_NON_BOUNDARY)):
            continue
        if code in _REPEATS:
            steps *= _repeated(rule, argument, is_last, inside)
        elif code is codes.SUBPATTERN:
            steps *= _steps(rule, list(argument[3]), last=is_last, inside=inside)
        elif code is codes.BRANCH:
            steps *= sum(_steps(rule, list(branch), last=is_last, inside=inside) for branch in argument[1])
        else:
            raise _refused(rule, f"it has something that may take long or looks around ({str(code).lower()})")
    return steps


def _repeated(rule: Rule, argument: Any, is_last: bool, inside: bool) -> int:
    least, most, items = argument
    if inside:
        raise _refused(rule, "it has a repetition within another")
    if _steps(rule, list(items), last=False, inside=True) > 1:
        raise _refused(rule, "it repeats a choice")
    if most == codes.MAXREPEAT:
        if not is_last:
            raise _refused(rule, "it has a repetition without a bound before its end")
        return 1
    return 1 if least == most and len(list(items)) == 1 and most <= MOST_STEPS else max(1, int(most))


def _refused(rule: Rule, why: str) -> InvalidInput:
    return InvalidInput(
        f"the redaction rule {str(rule.kind)[:40]!r} is not used: {why}",
        hint="Bound what repeats (`[a-z0-9]{1,32}` for `[a-z0-9]+`), and leave look-arounds out.",
        code="bad_redaction_rule",
    )
