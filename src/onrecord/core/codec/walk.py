"""Going through a nested value without recursion, so that depth is a rule and not an accident of the stack.

A step looks at one value and gives the finished result, or an `Inner`: the parts to go into first, and how
to put the results together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reenact.core.canonical import MAX_DEPTH, path_step
from reenact.errors import ReenactError

SHOWN_STEPS = 24
"""Of a path into a value that is nested too deep."""


class Inner:
    """A value that is being put together from its parts."""

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
        self.names = names  # what a path calls the parts; their index otherwise
        self.levels = levels  # how many levels of the tree lie between this value and its parts
        self.soft = soft  # the part in which something without a value does no harm
        self.done: list[Any] = []
        self.depth = 0


class RefusalError(Exception):
    """A step cannot go on; the walk knows where it stands and says so."""

    def __init__(self, rule: str, code: str) -> None:
        super().__init__(rule)
        self.rule = rule
        self.code = code


class Walk:
    refusal: type[ReenactError] = ReenactError

    def __init__(self) -> None:
        self.stack: list[Inner] = []
        self.active: set[int] = set()  # the values that are being gone through, by identity
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
