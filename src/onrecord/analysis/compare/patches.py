"""Make and apply JSON patches (RFC 6902).

`json_patch(a, b)` applied to `a` gives `b` exactly: 1 and 1.0 are different. Only the order of an object's keys, which
JSON ignores, is not restored. The patch uses `add`, `remove` and `replace`; `apply_patch` accepts all six operations.
A patch that cannot be applied is refused with the number of the step. The given tree is never changed.
"""

from __future__ import annotations

import re
from typing import Any

from onrecord.analysis.compare.pointers import escape, steps_of
from onrecord.analysis.compare.sequence_alignment import MatchingBlock, align
from onrecord.analysis.compare.subtree_ids import Interner
from onrecord.analysis.compare.trees import pair_items, tree_digest
from onrecord.core.canonical import canonical_bytes
from onrecord.errors import InvalidInput

Operation = dict[str, Any]

MANY_ITEMS = 1024
"""A list with more additions and removals than this is replaced: each of them shifts all items after it."""

_INDEX = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")


def json_patch(expected: Any, actual: Any) -> list[Operation]:
    """Return the steps that turn `expected` into `actual`, both plain trees."""
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
        here = f"{path}/{escape(name)}"
        steps.append((value, right[name], here) if name in right else {"op": "remove", "path": here})
    steps += [
        {"op": "add", "path": f"{path}/{escape(name)}", "value": value}
        for name, value in right.items()
        if name not in left
    ]
    return steps


def _item_steps(
    left: list[Any], right: list[Any], path: str, interner: Interner
) -> list[tuple[Any, Any, str] | Operation]:
    """Return the steps from front to back: when a step names an index, all items before it are final."""
    steps: list[tuple[Any, Any, str] | Operation] = []
    at = other_at = shifts = 0
    blocks = align(list(map(interner.number, left)), list(map(interner.number, right)))
    for block in [*blocks, MatchingBlock(len(left), len(right), 0)]:
        gone, new = list(range(at, block.expected)), list(range(other_at, block.actual))
        index = other_at
        for i, j in pair_items(left, right, gone, new, interner):
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
    """Return the tree after all steps.

    Refuse a failed `test` with `patch_test_failed`, and any other step that cannot be applied with `bad_patch`.
    """
    document = [_copy_containers(tree)]  # in a list, so that the whole tree can be replaced
    for number, operation in enumerate(patch):
        try:
            _apply_operation(document, operation)
            if not document:
                raise _bad_patch("the whole tree cannot be removed")
        except InvalidInput as refusal:
            raise InvalidInput(f"step {number} of the patch: {refusal.message}", code=refusal.code) from None
    return document[0]


def _apply_operation(document: list[Any], operation: Operation) -> None:
    name = operation.get("op") if isinstance(operation, dict) else None
    if name not in ("add", "remove", "replace", "move", "copy", "test"):
        raise _bad_patch("its operation is not one of RFC 6902")
    steps = ["0", *steps_of(_text_member(operation, "path"))]
    if name == "remove":
        _remove(document, steps)
    elif name == "move":
        source = ["0", *steps_of(_text_member(operation, "from"))]
        if steps[: len(source)] == source and steps != source:
            raise _bad_patch("a value cannot be moved into itself")
        _add(document, steps, _remove(document, source))
    elif name == "copy":
        _add(document, steps, _copy_containers(_value_at(document, ["0", *steps_of(_text_member(operation, "from"))])))
    elif "value" not in operation:
        raise _bad_patch("it has no `value`")
    elif name == "test":
        if tree_digest(_value_at(document, steps)) != tree_digest(operation["value"]):
            raise InvalidInput("the value at its path is different", code="patch_test_failed")
    else:
        value = _copy_containers(operation["value"])
        if name == "replace":
            _remove(document, steps)
        _add(document, steps, value)


def _copy_containers(tree: Any) -> Any:
    """Return a deep copy without recursion."""
    copies: list[Any] = [[tree]]
    for container in copies:
        for name, value in list(container.items() if type(container) is dict else enumerate(container)):
            if type(value) is dict or type(value) is list:
                container[name] = value.copy()
                copies.append(container[name])  # the loop reads the list while it grows
    return copies[0][0]


def _text_member(operation: Operation, name: str) -> str:
    if not isinstance(operation.get(name), str):
        raise _bad_patch(f"its `{name}` is not a text")
    text: str = operation[name]
    return text


def _value_at(value: Any, steps: list[str]) -> Any:
    for step in steps:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list):
            value = value[_index(step, len(value) - 1)]
        else:
            raise _bad_patch("there is nothing at its path")
    return value


def _remove(document: list[Any], steps: list[str]) -> Any:
    container = _value_at(document, steps[:-1])
    value = _value_at(container, steps[-1:])
    if container is document:
        document.clear()  # the whole tree; a following `add` puts in another
    elif isinstance(container, list):
        del container[int(steps[-1])]
    else:
        del container[steps[-1]]
    return value


def _add(document: list[Any], steps: list[str], value: Any) -> None:
    if len(steps) == 1:
        document[:] = [value]
        return
    container = _value_at(document, steps[:-1])
    if isinstance(container, dict):
        container[steps[-1]] = value
    elif isinstance(container, list):
        last = len(container)
        container.insert(last if steps[-1] == "-" else _index(steps[-1], last), value)
    else:
        raise _bad_patch("its path leads to a value without members")


def _index(step: str, last: int) -> int:
    if not _INDEX.match(step) or int(step) > last:
        raise _bad_patch("its path names an item that does not exist")
    return int(step)


def _bad_patch(message: str) -> InvalidInput:
    return InvalidInput(message, code="bad_patch")
