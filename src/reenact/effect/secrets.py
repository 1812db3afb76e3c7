"""Taking secrets out of values before anything is hashed or written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from reenact.core.codec import decode, encode
from reenact.core.events import Event

E = TypeVar("E", bound=Event)


class Secrets:
    """The secrets of a run, and what stands for each of them in the record."""

    def __init__(self) -> None:
        self._stand_ins: dict[str, str] = {}

    def keep(self, secret: str, stand_in: str) -> None:
        self._stand_ins = {**self._stand_ins, secret: stand_in}  # never changed while somebody looks through a value

    def adopt(self, others: Secrets) -> None:
        """What another run keeps secret is secret here, too."""
        self._stand_ins = {**self._stand_ins, **others._stand_ins}

    def __bool__(self) -> bool:
        return bool(self._stand_ins)

    def value_without(self, value: Any) -> Any:
        return replaced(value, self._stand_ins) if self._stand_ins else value

    def without(self, event: E) -> E:
        """The event as it may be written."""
        if not self._stand_ins:
            return event
        members = {name: getattr(event, name) for name in event.__struct_fields__}
        return type(event)(**{name: replaced(value, self._stand_ins) for name, value in members.items()})


def replaced(value: Any, secrets: Mapping[str, str]) -> Any:
    """The value with every occurrence of a secret in its texts replaced by its stand-in; itself if there is none."""
    if isinstance(value, str):
        for secret, stand_in in secrets.items():
            if secret in value:
                value = value.replace(secret, stand_in)
        return value
    if type(value) is dict:
        return {replaced(name, secrets): replaced(item, secrets) for name, item in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(replaced(item, secrets) for item in value)
    if isinstance(value, BaseException):
        return value if not any(secret in str(value) for secret in secrets) else _error(value, secrets)
    if isinstance(value, (bytes, bytearray)):
        for secret, stand_in in secrets.items():
            if secret.encode() in value:
                value = value.replace(secret.encode(), stand_in.encode())
        return value
    return value if value is None or type(value) in (bool, int, float) else _object(value, secrets)


def _object(value: Any, secrets: Mapping[str, str]) -> Any:
    """Whatever else there is, looked through as it would be written."""
    encoded = encode(value)
    tree = replaced(encoded.tree, secrets)
    if tree == encoded.tree:
        return value
    return decode(tree, loaded_classes=True, artifact=encoded.artifacts.__getitem__)


def _error(error: BaseException, secrets: Mapping[str, str]) -> BaseException:
    """A copy of the error: the agent has the error itself."""
    made = error.__class__.__new__(error.__class__)
    made.args = tuple(replaced(item, secrets) for item in error.args)
    made.__dict__.update({name: replaced(item, secrets) for name, item in error.__dict__.items()})
    return made
