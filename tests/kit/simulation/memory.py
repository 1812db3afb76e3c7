"""The memory of a simulated program."""

from __future__ import annotations

from typing import Any

from kit.simulation.operations import Lock
from kit.simulation.programs import Node


class Memory:
    """What the lanes of a program share. With `is_seen` the inputs of effects show it."""

    def __init__(self, is_seen: bool) -> None:
        self._values: list[Any] = []
        self._is_seen = is_seen
        self.locks = (Lock(), Lock())

    def add(self, value: Any) -> None:
        self._values.append(value)

    def input(self, node: Node) -> tuple[int, tuple[Any, ...]]:
        """Return the input of the node's effect."""
        return node.number, tuple(self._values[-3:]) if self._is_seen else ()

    def __len__(self) -> int:
        return len(self._values)
