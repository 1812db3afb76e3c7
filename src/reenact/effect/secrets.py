"""Taking secrets out of values before anything is hashed or written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
    return value


def _error(error: BaseException, secrets: Mapping[str, str]) -> BaseException:
    """A copy of the error: the agent has the error itself."""
    made = error.__class__.__new__(error.__class__)
    made.args = tuple(replaced(item, secrets) for item in error.args)
    made.__dict__.update({name: replaced(item, secrets) for name, item in error.__dict__.items()})
    return made
