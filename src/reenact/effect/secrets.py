"""Taking secrets out of values before anything is hashed or written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from reenact.core.codec import decode, encode
from reenact.core.events import Event

if TYPE_CHECKING:
    from reenact.effect.tickets import EffectSpec

E = TypeVar("E", bound=Event)
_CONTENTS = frozenset({"$bytes", "$bytearray", "$text", "$artifact"})


class Secrets:
    """The secrets of a run, and what stands for each of them in the record."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        """Empty for most runs."""

    def keep(self, secret: str, stand_in: str) -> None:
        self.kept = {**self.kept, secret: stand_in}  # never changed while somebody looks through a value

    def adopt(self, others: Secrets) -> None:
        """What another run keeps secret is secret here, too."""
        self.kept = {**self.kept, **others.kept}

    def spec_without(self, spec: EffectSpec) -> EffectSpec:
        """An effect is known by its name, in keys too: one that holds a secret has another one for the run."""
        name = self.value_without(spec.name)
        return spec if name == spec.name else spec._replace(name=name)

    def value_without(self, value: Any) -> Any:
        return replaced(value, self.kept) if self.kept else value

    def without(self, event: E) -> E:
        """The event as it may be written."""
        if not self.kept:
            return event
        members = {name: getattr(event, name) for name in event.__struct_fields__}
        return type(event)(**{name: replaced(value, self.kept) for name, value in members.items()})


def replaced(value: Any, secrets: Mapping[str, str]) -> Any:
    """The value with every occurrence of a secret in its texts replaced by its stand-in; itself if there is none."""
    if type(value) is str:
        for secret, stand_in in secrets.items():
            if secret in value:
                value = value.replace(secret, stand_in)
        return value
    if type(value) is dict:
        return {replaced(name, secrets): replaced(item, secrets) for name, item in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(replaced(item, secrets) for item in value)
    if type(value) in (bytes, bytearray):
        for secret, stand_in in secrets.items():
            if secret.encode() in value:
                value = value.replace(secret.encode(), stand_in.encode())
        return value
    return value if value is None or type(value) in (bool, int, float) else _object(value, secrets)


def _object(value: Any, secrets: Mapping[str, str]) -> Any:
    """Whatever else there is, looked through as it would be written: an error with its attributes, causes and notes.

    If a secret is in it, it is a copy that is written: the agent has the value itself."""
    encoded = encode(value)
    artifacts = dict(encoded.artifacts)
    tree = _tree(encoded.tree, secrets, artifacts)
    if tree == encoded.tree:
        return value
    return decode(tree, loaded_classes=True, artifact=artifacts.__getitem__)


def _tree(tree: Any, secrets: Mapping[str, str], artifacts: dict[bytes, bytes]) -> Any:
    """What was encoded, with the bytes and odd texts in it, which are not written as they are, looked through too."""
    if type(tree) is list:
        return [_tree(item, secrets, artifacts) for item in tree]
    if type(tree) is not dict:
        return replaced(tree, secrets)
    if len(tree) == 1 and not _CONTENTS.isdisjoint(tree):
        content = decode(tree, artifact=artifacts.__getitem__)
        found = replaced(content, secrets) if type(content) in (str, bytes, bytearray) else content
        if found == content:
            return tree
        encoded = encode(found)
        artifacts.update(encoded.artifacts)
        return encoded.tree
    return {replaced(name, secrets): _tree(item, secrets, artifacts) for name, item in tree.items()}
