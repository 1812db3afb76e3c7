"""Labels of lanes: the part of a lane's name that the program gives it (`core.lane_names`)."""

from __future__ import annotations

import functools
import re
from typing import Any


def label_of(function: Any) -> str:
    """Return the label of a coroutine, a thread's target or a job: its qualified name, without wrappers."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            break
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return str(name).replace("<locals>.", "")


_GIVEN_BY_PYTHON = re.compile(r"Thread-\d+(?: \(.*\))?\Z")


def label_of_thread(name: str, target: Any) -> str:
    """Return the label of a thread: the name that the program gave it, else that of its target."""
    return label_of(target) if _GIVEN_BY_PYTHON.match(name) else name
