"""Walk a nested value without recursion, so that a rule limits the depth and not the stack.

A step reads one value and returns the finished result, or an `Inner`: the parts to visit first, and a function that
combines their results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onrecord.core.canonical import MAX_DEPTH, path_step
from onrecord.errors import OnrecordError

SHOWN_STEPS = 24
"""The steps shown of the path to a value that is nested too deep."""


class Inner:
    """A value that is being built from its parts."""

    __slots__ = ("depth", "done", "finish", "levels", "names", "parts", "soft", "source")

    def __init__(
        self,
        source: Any,
        parts: list[Any],
        finish: Callable[[list[Any]], Any],
        *,
        names: Sequence[Any] | None = None,
        levels: int = 1,
        soft: int = -1,
    ) -> None:
        self.source = source
        self.parts = parts
        self.finish = finish
        self.names = names  # the names of the parts in a path; None: their indexes
        self.levels = levels  # levels of the tree between this value and its parts
        self.soft = soft  # index of the part whose opaque values keep the whole replayable
        self.done: list[Any] = []
        self.depth = 0


class RefusalError(Exception):
    """A step refuses its value. The walk adds the path."""

    def __init__(self, rule: str, code: str) -> None:
        super().__init__(rule)
        self.rule = rule
        self.code = code


class Walk:
    refusal: type[OnrecordError] = OnrecordError

    def __init__(self) -> None:
        self.stack: list[Inner] = []
        self.active: set[int] = set()  # ids of the values on the stack
        self.deepest = 0

    def step(self, value: Any) -> Any:
        raise NotImplementedError

    def run(self, root: Any) -> Any:
        try:
            return self._run(root)
        except RefusalError as error:
            raise self.refusal(f"{self.path()}: {error.rule}", code=error.code) from None

    def path(self) -> str:
        steps = []
        for inner in self.stack:
            at = len(inner.done)
            steps.append(path_step(inner.names[at] if inner.names and at < len(inner.names) else at))
        if len(steps) > SHOWN_STEPS:
            steps[SHOWN_STEPS - 1 : -1] = ["…"]
        return "$" + "".join(steps)

    def _run(self, root: Any) -> Any:
        step, stack = self.step, self.stack
        result = step(root)
        if type(result) is not Inner:
            return result
        self._enter(result, 0)
        while True:
            inner = stack[-1]
            done = inner.done
            left = inner.parts if not done else inner.parts[len(done) :]
            for part in left:
                result = step(part)
                if type(result) is Inner:
                    self._enter(result, inner.depth)
                    break
                done.append(result)
            else:
                result = inner.finish(done)
                stack.pop()
                self.active.discard(id(inner.source))
                if not stack:
                    return result
                stack[-1].done.append(result)

    def _enter(self, inner: Inner, depth: int) -> None:
        depth += inner.levels
        inner.depth = depth
        if depth > self.deepest:
            self.deepest = depth
            if depth > MAX_DEPTH:
                raise RefusalError(f"nested deeper than {MAX_DEPTH}", "too_deep")
        if inner.source is not None:
            if id(inner.source) in self.active:
                raise RefusalError("the value contains itself", "cycle")
            self.active.add(id(inner.source))
        self.stack.append(inner)
