"""Number subtrees so that two subtrees have the same number exactly if they are equal.

Comparing two subtrees is then one comparison, however large they are, and a list is a sequence of numbers that can be
aligned. Equality is that of the canonical form: key order does not matter, 1 equals 1.0, and true does not equal 1.
An exact interner also separates 1, 1.0 and -0.0; patches need that to reproduce a tree.
"""

from __future__ import annotations

from typing import Any


class Interner:
    """Numbers of subtrees. The trees must stay alive and unchanged: containers are known by identity."""

    def __init__(self, *, exact: bool = False) -> None:
        self._exact = exact
        self._numbers: dict[Any, int] = {}
        self._containers: dict[int, int] = {}

    def add(self, tree: Any) -> int:
        """Number every subtree, so that `number` works for each of them."""
        containers = [tree] if isinstance(tree, dict | list) else []
        for container in containers:
            inner = container.values() if type(container) is dict else container
            # The loop reads the list while it grows, so parents come before their children.
            containers += [value for value in inner if type(value) is dict or type(value) is list]
        for container in reversed(containers):
            if type(container) is dict:
                members = sorted(container.items(), key=_name)
                key: Any = ("object", tuple((name, self.number(value)) for name, value in members))
            else:
                key = ("list", tuple(map(self.number, container)))
            self._containers[id(container)] = self._numbers.setdefault(key, len(self._numbers))
        return self.number(tree)

    def number(self, value: Any) -> int:
        kind = type(value)
        if kind is dict or kind is list:
            return self._containers[id(value)]
        key: Any = value
        if kind is bool:
            key = ("bool", value)
        elif self._exact and (kind is float or kind is int):
            key = (kind.__name__, repr(value))
        return self._numbers.setdefault(key, len(self._numbers))


def _name(member: tuple[str, Any]) -> str:
    return member[0]
