"""The memory of a simulated program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kit.simulation.operations import Lock
from kit.simulation.programs import Node


class Memory:
    """What the lanes of a program share. With `is_seen` the inputs of effects show it."""

    def __init__(self, is_seen: bool, values: Iterable[Any] = ()) -> None:
        self._values: list[Any] = list(values)
        self._is_seen = is_seen
        self.locks = (Lock(), Lock())

    def add(self, value: Any) -> None:
        self._values.append(value)

    def input(self, node: Node) -> tuple[int, tuple[Any, ...]]:
        """Return the input of the node's effect."""
        return node.number, tuple(self._values[-3:]) if self._is_seen else ()

    @property
    def values(self) -> tuple[Any, ...]:
        return tuple(self._values)

    def __len__(self) -> int:
        return len(self._values)
