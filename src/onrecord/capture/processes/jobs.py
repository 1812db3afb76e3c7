"""Job of a process pool: a run of its own, because the worker that executes it is not deterministic.

The job is sent to the worker with its ticket. A worker has no run: how many workers a pool starts depends on timing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec

from onrecord.capture.processes import process_run
from onrecord.capture.processes.child_start import open_run
from onrecord.capture.processes.process_run import ProcessRun
from onrecord.capture.processes.ticket import Ticket
from onrecord.runtime.engine.stops import RunStopped
from onrecord.runtime.scheduler.drivers.strands import CURRENT


class ProcessJob:
    """Callable that executes the function in the worker, as a run."""

    def __init__(self, ticket: Ticket, function: Callable[..., Any]) -> None:
        self._ticket = ticket
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return run_job(self._ticket, self._function, args, kwargs)


class MapJob:
    """Callable that executes the function for each numbered item of a map, each as a run."""

    def __init__(self, ticket: Ticket, function: Callable[..., Any], *, star: bool) -> None:
        self._ticket = ticket
        self._function = function
        self._star = star

    def __call__(self, *numbered: Any) -> Any:
        number, item = numbered if len(numbered) == 2 else numbered[0]
        ticket = msgspec.structs.replace(self._ticket, place=f"{self._ticket.place}#{number}")
        return run_job(ticket, self._function, tuple(item) if self._star else (item,), {})


class JobStopped(RuntimeError):
    """A job diverged from its record. Raised to the code that waits for the job; the job's report has the details."""


def run_job(ticket: Ticket, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    outer, outer_strand, outer_depth = process_run.current, CURRENT.strand, CURRENT.depth
    CURRENT.strand = None
    current = open_run(ticket, command=[function_name(function)])
    if current is None:
        CURRENT.strand = outer_strand
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
        if current.pid == os.getpid():
            current.finish(code, error)
            process_run.set_current(outer)
            CURRENT.strand, CURRENT.depth = outer_strand, outer_depth
    _raise_if_stopped(current)
    return value


def _raise_if_stopped(current: ProcessRun) -> None:
    """Raise JobStopped if the job diverged: its result must not be used."""
    report = current.session.report(current.live.name) if current.live is not None else None
    if report is not None and report.state == "stopped":
        raise JobStopped(report.message)


def function_name(function: Any) -> str:
    inner = getattr(function, "func", function)  # of a partial; for a map, the function called with each item
    if getattr(inner, "__name__", "") == "_process_chunk":
        return function_name(function.args[0])
    return str(getattr(inner, "__qualname__", type(inner).__qualname__))
