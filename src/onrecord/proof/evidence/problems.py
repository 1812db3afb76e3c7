"""Problems of a bundle, with stable codes."""

from __future__ import annotations

from typing import NamedTuple


class BundleProblem(NamedTuple):
    code: str
    message: str


class FlawError(Exception):
    """Error that ends a check. It never leaves this package."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.problem = BundleProblem(code, message)
