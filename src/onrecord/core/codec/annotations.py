"""Read what a caller's annotation says about the classes inside a value.

An annotation becomes its *candidates*: the alternatives of a union, without `Annotated`, `Optional` and the like. An
annotation that is not understood gives no candidates; the values under it stay plain data.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Any, TypeAlias

from onrecord.core.codec.registry import label_of, loaded_class, unmarked

Candidates: TypeAlias = "tuple[Any, ...]"


class FieldTypes:
    """The annotations of the fields of a class, resolved at first use."""

    __slots__ = ("_found", "_look_up")

    def __init__(self, look_up: Callable[[], dict[str, Any]]) -> None:
        self._look_up = look_up
        self._found: dict[str, Any] | None = None

    def of(self, name: Any) -> Candidates:
        if self._found is None:
            self._found = self._look_up()
        return candidates(self._found.get(name))


def hints_of(cls: Any) -> dict[str, Any]:
    """Return the annotations of a class with names resolved, or an empty dict if one cannot be resolved."""
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except Exception:  # users write annotations; they may name classes that no longer exist
        return {}


def candidates(annotation: Any) -> Candidates:
    if annotation is None or annotation is Any:
        return ()
    origin = typing.get_origin(annotation)
    if origin is typing.Union or origin is types.UnionType:
        return tuple(each for option in typing.get_args(annotation) for each in candidates(option))
    if origin is typing.Annotated or origin in (typing.Required, typing.NotRequired, typing.Final, typing.ClassVar):
        return candidates(typing.get_args(annotation)[0])
    inner = getattr(annotation, "__supertype__", None) or getattr(annotation, "__value__", None)
    if inner is not None and not isinstance(annotation, type):  # NewType, and the `type` statement of 3.12
        return candidates(inner)
    return (annotation,)


def class_among(options: Candidates, label: str) -> type | None:
    """Return the class with that label among the candidates and their subclasses."""
    origins: list[Any] = [typing.get_origin(each) or each for each in options]
    named = [cls for cls in origins if isinstance(cls, type) and cls is not object]
    live, label = loaded_class(label), unmarked(label)
    for cls in named:
        if label_of(cls) == label:
            return cls
    if live is not None and issubclass(live, tuple(named)):
        return live
    # A dataclass with slots leaves the class it was made from, under the same name: take the later one.
    derived = _collect_subclasses(named)
    exact = [cls for cls in derived if label_of(cls) == label]
    moved = [cls for cls in (*derived, *named) if cls.__qualname__ == label.partition(":")[2]]
    return exact[-1] if exact else moved[-1] if moved else None


def _collect_subclasses(named: list[type]) -> list[type]:
    found: dict[type, None] = {}
    todo: list[type] = []
    for cls in named:
        todo.extend(type.__subclasses__(cls))
    for cls in todo:
        if cls not in found:
            found[cls] = None
            todo.extend(type.__subclasses__(cls))
    return list(found)


def item_of(options: Candidates, index: int) -> Candidates:
    """Return the candidates for an item of a list, set, deque or tuple."""
    found: list[Any] = []
    for option in options:
        origin: Any = typing.get_origin(option)
        args = typing.get_args(option)
        if not args:
            continue
        if origin is tuple and not (len(args) == 2 and args[1] is Ellipsis):
            found.extend(candidates(args[index]) if index < len(args) else ())
        elif len(args) == 1 or args[-1] is Ellipsis:
            found.extend(candidates(args[0]))
    return tuple(found)


def value_of(options: Candidates, key: Any) -> Candidates:
    """Return the candidates for the value under a key."""
    found: list[Any] = []
    for option in options:
        args = typing.get_args(option)
        if type(option) is FieldTypes:
            found.extend(option.of(key))
        elif len(args) == 2:
            found.extend(candidates(args[1]))
        elif typing.is_typeddict(option):
            found.extend(candidates(hints_of(option).get(key)))
    return tuple(found)


def key_of(options: Candidates) -> Candidates:
    args = [typing.get_args(option) for option in options]
    return tuple(each for pair in args if len(pair) == 2 for each in candidates(pair[0]))
