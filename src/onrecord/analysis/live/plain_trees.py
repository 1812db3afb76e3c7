"""Turn encoded values into plain trees for comparison.

An object becomes its fields, so that paths, masks and counters are the same whether a client answers with dictionaries
or with classes of its own. JSON text that was stored as structure becomes that structure. Classes are compared
separately.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from onrecord.analysis.compare.pointers import escape


class View(NamedTuple):
    tree: Any
    classes: dict[str, str]
    """The class of each object, by path."""


def plain_view(tree: Any) -> View:
    """Return a plain copy of an encoded tree, and the classes in it."""
    classes: dict[str, str] = {}
    whole: list[Any] = [None]
    todo: list[tuple[Any, Any, Any, str]] = [(whole, 0, tree, "")]
    while todo:
        container, name, value, path = todo.pop()
        value = _unwrap(value, path, classes)
        if type(value) is dict:
            container[name] = copy = dict.fromkeys(value)
            todo += [(copy, member, item, f"{path}/{escape(member)}") for member, item in value.items()]
        elif type(value) is list:
            container[name] = items = [None] * len(value)
            todo += [(items, index, item, f"{path}/{index}") for index, item in enumerate(value)]
        else:
            container[name] = value
    return View(whole[0], classes)


def _unwrap(value: Any, path: str, classes: dict[str, str]) -> Any:
    """Return the fields of an object or the value of JSON text; return other values unchanged."""
    while type(value) is dict and len(value) == 1:
        (tag,) = value
        held = value[tag]
        if tag == "$object" and type(held) is dict and type(held.get("fields")) is dict:
            classes[path] = str(held.get("type"))
            extra = held.get("extra")
            return {**held["fields"], **extra} if type(extra) is dict else held["fields"]
        if tag != "$json" or type(held) is not dict or "value" not in held:
            break
        value = held["value"]
    return value
