"""JSON patches (RFC 6902): the steps that make one tree of another, and carrying them out.

`json_patch(a, b)` applied to `a` gives `b` exactly: 1 stays apart from 1.0; only the order of an object's keys, which
JSON does not know, is not carried over. The patch is made of `add`, `remove` and `replace`; `apply_patch` knows all
six operations. A patch that cannot be applied is refused with the number of the step, and nothing is changed in any
case: the tree that was given is never touched.
"""

from __future__ import annotations

import re
from typing import Any

from reenact.core.canonical import canonical_bytes
from reenact.errors import InvalidInput
from reenact.replays.comparing.alignment import Block, aligned
from reenact.replays.comparing.interning import Interner
from reenact.replays.comparing.pointers import escaped, steps_of
from reenact.replays.comparing.trees import paired, tree_digest

Operation = dict[str, Any]

MANY_ITEMS = 1024
"""A list with more additions and removals than this is replaced: each of them would shift all items behind it."""

_INDEX = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")


def json_patch(expected: Any, actual: Any) -> list[Operation]:
    """The steps from `expected` to `actual`, both plain trees."""
    canonical_bytes(expected)
    canonical_bytes(actual)
    interner = Interner(exact=True)
    interner.add(expected)
    interner.add(actual)
    todo: list[tuple[Any, Any, str] | Operation] = [(expected, actual, "")]
    patch: list[Operation] = []
    while todo:
        found = todo.pop()
        if isinstance(found, dict):
            patch.append(found)
            continue
        left, right, path = found
        if interner.number(left) == interner.number(right):
            continue
        if isinstance(left, dict) and isinstance(right, dict):
            todo += reversed(_member_steps(left, right, path))
        elif isinstance(left, list) and isinstance(right, list):
            todo += reversed(_item_steps(left, right, path, interner))
        else:
            patch.append({"op": "replace", "path": path, "value": right})
    return patch


def _member_steps(left: dict[str, Any], right: dict[str, Any], path: str) -> list[tuple[Any, Any, str] | Operation]:
    steps: list[tuple[Any, Any, str] | Operation] = []
    for name, value in left.items():
        here = f"{path}/{escaped(name)}"
        steps.append((value, right[name], here) if name in right else {"op": "remove", "path": here})
    steps += [
        {"op": "add", "path": f"{path}/{escaped(name)}", "value": value}
        for name, value in right.items()
        if name not in left
    ]
    return steps


def _item_steps(
    left: list[Any], right: list[Any], path: str, interner: Interner
) -> list[tuple[Any, Any, str] | Operation]:
    """From front to back: what stands before an index is finished when a step names it."""
    steps: list[tuple[Any, Any, str] | Operation] = []
    at = other_at = shifts = 0
    blocks = aligned(list(map(interner.number, left)), list(map(interner.number, right)))
    for block in [*blocks, Block(len(left), len(right), 0)]:
        gone, new = list(range(at, block.expected)), list(range(other_at, block.actual))
        index = other_at
        for i, j in paired(left, right, gone, new, interner):
            here = f"{path}/{index}"
            if j is None:
                steps.append({"op": "remove", "path": here})
            elif i is None:
                steps.append({"op": "add", "path": here, "value": right[j]})
            else:
                steps.append((left[i], right[j], here))
            index += j is not None
            shifts += i is None or j is None
        at, other_at = block.expected + block.length, block.actual + block.length
    if shifts > MANY_ITEMS:
        return [{"op": "replace", "path": path, "value": right}]
    return steps


def apply_patch(tree: Any, patch: list[Operation]) -> Any:
    """The tree after all steps. A `test` that fails is refused with `patch_test_failed`, any other step that cannot be
    carried out with `bad_patch`."""
    document = [_copied(tree)]  # in a list, so that the whole tree has a place too
    for number, operation in enumerate(patch):
        try:
            _carry_out(document, operation)
            if not document:
                raise _bad("the whole tree cannot be removed")
        except InvalidInput as refusal:
            raise InvalidInput(f"step {number} of the patch: {refusal.message}", code=refusal.code) from None
    return document[0]


def _carry_out(document: list[Any], operation: Operation) -> None:
    name = operation.get("op") if isinstance(operation, dict) else None
    if name not in ("add", "remove", "replace", "move", "copy", "test"):
        raise _bad("it has no operation that RFC 6902 knows")
    steps = ["0", *steps_of(_text(operation, "path"))]
    if name == "remove":
        _remove(document, steps)
    elif name == "move":
        source = ["0", *steps_of(_text(operation, "from"))]
        if steps[: len(source)] == source and steps != source:
            raise _bad("a value cannot be moved into itself")
        _add(document, steps, _remove(document, source))
    elif name == "copy":
        _add(document, steps, _copied(_at(document, ["0", *steps_of(_text(operation, "from"))])))
    elif "value" not in operation:
        raise _bad("it has no `value`")
    elif name == "test":
        if tree_digest(_at(document, steps)) != tree_digest(operation["value"]):
            raise InvalidInput("the value there is another one", code="patch_test_failed")
    else:
        value = _copied(operation["value"])
        if name == "replace":
            _remove(document, steps)
        _add(document, steps, value)


def _copied(tree: Any) -> Any:
    """A copy of all containers, however deep."""
    copies: list[Any] = [[tree]]
    for container in copies:
        for name, value in list(container.items() if type(container) is dict else enumerate(container)):
            if type(value) is dict or type(value) is list:
                container[name] = value.copy()
                copies.append(container[name])  # the list is read while it grows
    return copies[0][0]


def _text(operation: Operation, name: str) -> str:
    if not isinstance(operation.get(name), str):
        raise _bad(f"its `{name}` is not a text")
    text: str = operation[name]
    return text


def _at(value: Any, steps: list[str]) -> Any:
    for step in steps:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list):
            value = value[_index(step, len(value) - 1)]
        else:
            raise _bad("there is nothing at its path")
    return value


def _remove(document: list[Any], steps: list[str]) -> Any:
    container = _at(document, steps[:-1])
    value = _at(container, steps[-1:])
    if container is document:
        document.clear()  # the whole tree: an `add` puts another in its place
    elif isinstance(container, list):
        del container[int(steps[-1])]
    else:
        del container[steps[-1]]
    return value


def _add(document: list[Any], steps: list[str], value: Any) -> None:
    if len(steps) == 1:
        document[:] = [value]
        return
    container = _at(document, steps[:-1])
    if isinstance(container, dict):
        container[steps[-1]] = value
    elif isinstance(container, list):
        last = len(container)
        container.insert(last if steps[-1] == "-" else _index(steps[-1], last), value)
    else:
        raise _bad("what its path leads to holds no members")


def _index(step: str, last: int) -> int:
    if not _INDEX.match(step) or int(step) > last:
        raise _bad("it names an item that is not there")
    return int(step)


def _bad(message: str) -> InvalidInput:
    return InvalidInput(message, code="bad_patch")
