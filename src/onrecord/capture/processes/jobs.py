"""A job of a process pool is a run of its own, in whichever worker it is done: which one that is, is chance.

The job travels to the worker with its ticket. The worker itself is nobody's: how many a pool has depends on the time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec

from reenact.capture.processes import own_run
from reenact.capture.processes.arriving import opened
from reenact.capture.processes.own_run import OwnRun
from reenact.capture.processes.tickets import Ticket
from reenact.effect.boundary import replays
from reenact.effect.places import HERE, PLACE
from reenact.effect.stopping import RunStopped


class Job:
    """What is called in the worker in place of the function."""

    def __init__(self, ticket: Ticket, function: Callable[..., Any]) -> None:
        self._ticket = ticket
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return done(self._ticket, self._function, args, kwargs)


class Items:
    """The same for each item of many: they come with their numbers."""

    def __init__(self, ticket: Ticket, function: Callable[..., Any], *, star: bool) -> None:
        self._ticket = ticket
        self._function = function
        self._star = star

    def __call__(self, *numbered: Any) -> Any:
        number, item = numbered if len(numbered) == 2 else numbered[0]
        ticket = msgspec.structs.replace(self._ticket, place=f"{self._ticket.place}#{number}")
        return done(ticket, self._function, tuple(item) if self._star else (item,), {})


class JobStopped(RuntimeError):
    """A job has parted from its record. Whoever waits for it is told so; the report of its run has the rest."""


def done(ticket: Ticket, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    around, place, token = own_run.own, PLACE.get(), HERE.token
    before = dict(replays)
    PLACE.set(None)
    own = opened(ticket, command=[name_of(function)])
    if own is None:
        PLACE.set(place)
        return function(*args, **kwargs)
    code, error = 1, None
    try:
        value = function(*args, **kwargs)
        code = 0
    except RunStopped as stopped:
        raise JobStopped(stopped.reason.message) from None
    except BaseException as raised:
        error = raised
        raise
    finally:
        if own.pid == os.getpid():
            own.finish(code, error)
            own_run.set_own(around)
            PLACE.set(place)
            HERE.token = token
            replays.clear()
            replays.update(before)
    _check(own)
    return value


def _check(own: OwnRun) -> None:
    """A job that ended otherwise than it was recorded has done nothing that anybody may use."""
    report = own.session.report(own.live.name) if own.live is not None else None
    if report is not None and report.state == "stopped":
        raise JobStopped(report.message)


def name_of(function: Any) -> str:
    inner = getattr(function, "func", function)  # of a partial; for many items, what is done with each
    if getattr(inner, "__name__", "") == "_process_chunk":
        return name_of(function.args[0])
    return str(getattr(inner, "__qualname__", type(inner).__qualname__))
