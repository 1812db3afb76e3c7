"""What an effect used, as its answer tells: the model, tokens, what they cost.

Answers that came over HTTP are read by whoever knows their forms, which is a layer above this one: surfaces hand in
`capture.usage.usage_of`. An answer that a model tool returned in the same form is read in the same way; of whatever
else a tool returns, what budgets would count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

PLAIN_DEPTH = 64
"""Deeper than that nobody says anything about usage or conversations."""


class AnswerUsage(Protocol):
    """What `capture.usage.usage_of` tells of an answer."""

    @property
    def model(self) -> str: ...
    @property
    def input_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def cached_tokens(self) -> int: ...
    @property
    def cost(self) -> float | None: ...


ReadAnswer = Callable[[Any], AnswerUsage | None]


class Used(NamedTuple):
    model: str | None = None
    tokens: int = 0
    """All of them."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    """Of the input, read from a cache. None where only the sum is told."""
    cost: float | None = None
    """In US dollars; None where nobody knows."""

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


def used_by(output: Any, read: ReadAnswer) -> Used | None:
    """What an encoded answer says that it used; None where it says nothing."""
    from onrecord.runtime.api.policy import find_usage  # loaded with the first answer that may say something

    answer = plain(output)
    if not isinstance(answer, Mapping):
        return None
    told = _read(read, answer if isinstance(answer.get("body"), Mapping) else {"body": {"json": answer}})
    counted = find_usage(answer)
    if told is None and not counted:
        return None
    cost = counted.get("cost")  # what the answer itself says of its cost goes before what a list of prices does
    if told is None or not told.input_tokens + told.output_tokens:
        model = answer.get("model")
        return Used(model if isinstance(model, str) else None, int(counted.get("tokens", 0)), cost=cost)
    return Used(
        told.model or None,
        told.input_tokens + told.output_tokens,
        told.input_tokens,
        told.output_tokens,
        told.cached_tokens,
        cost if cost is not None else told.cost,
    )


def _read(read: ReadAnswer, answer: Any) -> AnswerUsage | None:
    try:
        return read(answer)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None  # a stranger may have recorded anything under these names


def plain(tree: Any, depth: int = PLAIN_DEPTH) -> Any:
    """An encoded value as JSON would say it: what an object holds, without what it was. To read, never to write."""
    if isinstance(tree, list):
        return tree if depth <= 0 else [plain(item, depth - 1) for item in tree]
    if not isinstance(tree, dict) or depth <= 0:
        return tree
    if len(tree) == 1:
        ((tag, inner),) = tree.items()
        if tag == "$object" and isinstance(inner, dict) and isinstance(inner.get("fields"), dict):
            return plain(inner["fields"], depth - 1)
        if tag in ("$tuple", "$set", "$frozenset") and isinstance(inner, list):
            return plain(inner, depth - 1)
        if tag == "$enum" and isinstance(inner, dict):
            return plain(inner.get("value"), depth - 1)
        if tag == "$dict" and isinstance(inner, list) and all(isinstance(one, list) and len(one) == 2 for one in inner):
            return {str(plain(name, depth - 1)): plain(value, depth - 1) for name, value in inner}
        if tag == "$decimal" and isinstance(inner, str):
            return _number(inner)
    return {name: plain(value, depth - 1) for name, value in tree.items()}


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text
