"""Encoded values as they are compared: by what they hold, not by how it is kept.

An object is its fields, so that paths, masks and counters are those of the data whether a client answers with plain
dictionaries or with classes of its own. JSON text that was kept as structure is that structure. Of which class an
object was is looked at apart from that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from reenact.replays.comparing.pointers import escaped


class View(NamedTuple):
    tree: Any
    classes: dict[str, str]
    """By the path of each object."""


def plain_view(tree: Any) -> View:
    """A copy: the tree stays as it is."""
    classes: dict[str, str] = {}
    whole: list[Any] = [None]
    todo: list[tuple[Any, Any, Any, str]] = [(whole, 0, tree, "")]
    while todo:
        container, name, value, path = todo.pop()
        value = _opened(value, path, classes)
        if type(value) is dict:
            container[name] = copy = dict.fromkeys(value)
            todo += [(copy, member, item, f"{path}/{escaped(member)}") for member, item in value.items()]
        elif type(value) is list:
            container[name] = items = [None] * len(value)
            todo += [(items, index, item, f"{path}/{index}") for index, item in enumerate(value)]
        else:
            container[name] = value
    return View(whole[0], classes)


def _opened(value: Any, path: str, classes: dict[str, str]) -> Any:
    """What is inside of an object, or of JSON text; any other value as it is."""
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
