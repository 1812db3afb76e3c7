"""What is wrong with a bundle, by stable code."""

from __future__ import annotations

from typing import NamedTuple


class BundleProblem(NamedTuple):
    code: str
    message: str


class FlawError(Exception):
    """Ends a check; it never leaves this package."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.problem = BundleProblem(code, message)
