"""Labels of lanes: the part of a lane's name that the program gives it (`core.lane_names`)."""

from __future__ import annotations

import asyncio
import functools
import re
from contextvars import Context
from typing import Any


def label_of(function: Any, *args: Any) -> str:
    """Return the label of a coroutine, a thread's target or a job: its qualified name, without wrappers.

    Wrappers are `functools.partial`, decorators, `Context.run` and `asyncio.run`, in any order and depth.
    """
    while True:
        if isinstance(function, functools.partial):
            function, args = function.func, (*function.args, *args)
        elif args and _calls_its_argument(function):
            function, args = args[0], args[1:]
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            break
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return str(name).replace("<locals>.", "")


def _calls_its_argument(function: Any) -> bool:
    return function is asyncio.run or isinstance(getattr(function, "__self__", None), Context)


_GIVEN_BY_PYTHON = re.compile(r"Thread-\d+(?: \(.*\))?\Z")


def label_of_thread(name: str, target: Any, *args: Any) -> str:
    """Return the label of a thread: the name that the program gave it, else that of its target."""
    return label_of(target, *args) if _GIVEN_BY_PYTHON.match(name) else name
