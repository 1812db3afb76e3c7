"""JSON pointers (RFC 6901) and pointer patterns.

In a pattern `*` matches any one member or item and `**` any number of them, including none. `~2` is a literal `*` in a
name, as `~0` and `~1` are `~` and `/`. All patterns form one tree, so a look-up costs the same for one as for many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from onrecord.errors import InvalidInput

Rule = TypeVar("Rule")


def escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1") if "~" in name or "/" in name else name


def steps_of(pointer: str) -> list[str]:
    """Return the names in a pointer; `""` is the whole tree."""
    if pointer == "":
        return []
    if not pointer.startswith("/"):
        raise InvalidInput("a JSON pointer is empty or begins with `/`", code="bad_pointer")
    return [_unescape(step) for step in pointer[1:].split("/")]


def _unescape(step: str) -> str:
    if "~" not in step:
        return step
    plain = step.replace("~0", "").replace("~1", "")
    if "~" in plain:
        raise InvalidInput("in a JSON pointer `~` is followed by 0 or 1", code="bad_pointer")
    return step.replace("~1", "/").replace("~0", "~")


class _Node(Generic[Rule]):
    """A step shared by all patterns with the same beginning. `many` follows a `**`, which may match nothing."""

    __slots__ = ("any_one", "many", "named", "repeats", "rules")

    def __init__(self, *, repeats: bool = False) -> None:
        self.named: dict[str, _Node[Rule]] = {}
        self.any_one: _Node[Rule] | None = None
        self.many: _Node[Rule] | None = None
        self.repeats = repeats
        self.rules: list[tuple[int, Rule]] = []


Places = tuple["_Node[Rule]", ...]
"""Positions of a path in the patterns. Empty: no pattern can match here or below."""


class Patterns(Generic[Rule]):
    """Pointer patterns, each with a rule. If several match, the first declared decides."""

    def __init__(self, rules: Sequence[tuple[str, Rule]] = ()) -> None:
        self._root: _Node[Rule] = _Node()
        for number, (pattern, rule) in enumerate(rules):
            if pattern != "" and not pattern.startswith("/"):
                raise InvalidInput("a pointer pattern is empty or begins with `/`", code="bad_pointer")
            node = self._root
            for step in pattern.split("/")[1:]:
                node = _child(node, step)
            node.rules.append((number, rule))

    def start(self) -> Places[Rule]:
        return _add_empty_matches([self._root])

    def step(self, places: Places[Rule], name: str) -> Places[Rule]:
        if not places:
            return places
        reached: list[_Node[Rule]] = []
        for node in places:
            if node.repeats:
                reached.append(node)
            if (named := node.named.get(name)) is not None:
                reached.append(named)
            if node.any_one is not None:
                reached.append(node.any_one)
        return _add_empty_matches(reached)

    def found(self, places: Places[Rule]) -> Rule | None:
        matching = [each for node in places for each in node.rules]
        return min(matching, key=lambda each: each[0])[1] if matching else None

    def at(self, steps: Iterable[str]) -> Rule | None:
        """Return the rule for a path: the one that matches the path itself, or its nearest ancestor."""
        places = self.start()
        rule = self.found(places)
        for name in steps:
            places = self.step(places, name)
            here = self.found(places)
            rule = rule if here is None else here
        return rule


def _child(node: _Node[Rule], step: str) -> _Node[Rule]:
    if step == "*":
        node.any_one = node.any_one or _Node()
        return node.any_one
    if step == "**":
        node.many = node.many or _Node(repeats=True)
        return node.many
    return node.named.setdefault(_unescape(step.replace("~2", "*")), _Node())


def _add_empty_matches(nodes: list[_Node[Rule]]) -> Places[Rule]:
    places: dict[int, _Node[Rule]] = {}
    for node in nodes:
        here: _Node[Rule] | None = node
        while here is not None and id(here) not in places:
            places[id(here)] = here
            here = here.many
    return tuple(places.values())
