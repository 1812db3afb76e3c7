"""Resume runs whose process has died: one sweep, or a worker that sweeps repeatedly."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from contextvars import Context
from typing import Any, NamedTuple

from onrecord.core.events import TERMINAL_KINDS
from onrecord.errors import NotFound, OnrecordError, Refused, StoreError
from onrecord.journal.reader import JournalReader, each_run
from onrecord.runtime.api.agent import Agent, find_agent
from onrecord.runtime.api.origins import choose_agent
from onrecord.runtime.engine.lease_keeper import keeper
from onrecord.runtime.engine.stops import Suspended
from onrecord.runtime.engine.stores import store_of
from onrecord.store.contract import RunRow, Store

SWEEP_SECONDS = 5.0
LOOK_SECONDS = 0.05
AT_ONCE = 64
"""The number of runs that a sweep executes at the same time."""


OTHER_CODE = "other_code"


class SweptRun(NamedTuple):
    run: str
    outcome: str
    """`completed`, `failed`, `cancelled`, `waiting`, `other_code`, or the error code that stopped it."""
    result: Any = None
    """The result or the error; for `other_code` the file or module that recorded the run."""


_ASKED_FOR = (b'"relation":"fork"', b'"relation":"replay"')


def find_unfinished(store: Store, namespace: str = "default") -> Iterator[RunRow]:
    """Yield the runs of this store that have not ended, newest first.

    Forks and live replays are left out: the user who started one resumes it.
    """
    for row in each_run(store, namespace):
        is_open = not row.header.imported and (row.last is None or row.last.kind not in TERMINAL_KINDS)
        if is_open and not any(mark in row.header.header for mark in _ASKED_FOR):
            yield row


def sweep(
    store: Store | str | None = None, namespace: str = "default", *, agents: Sequence[Agent[..., Any]] = ()
) -> list[SweptRun]:
    """Resume, once, every run that no process holds and whose agent is loaded here. Return their outcomes.

    The runs execute concurrently, each in a thread. A run that waits for a resolution from outside is reported as
    `waiting`. It keeps waiting in this process, but the sweep returns without it. A run whose code is in another file
    is left alone and reported as `other_code`. `agents` are preferred to other loaded agents of the same name.
    """
    opened = store_of(store)
    outcomes: list[SweptRun | None] = []
    runs = [row.header.run for row in find_unfinished(opened, namespace)]
    for start in range(0, len(runs), AT_ONCE):
        resumed = [_ResumedRun(opened, namespace, run, agents) for run in runs[start : start + AT_ONCE]]
        outcomes += [one.wait_for_outcome() for one in resumed]
    return [outcome for outcome in outcomes if outcome is not None]


class Sweeper:
    """Repeated sweeps that do not wait for the resumed runs, so that a long run does not delay others."""

    def __init__(self, store: Store, namespace: str = "default", agents: Sequence[Agent[..., Any]] = ()) -> None:
        self._store = store
        self._namespace = namespace
        self._agents = agents
        self._resumed: dict[str, _ResumedRun] = {}
        self._left_alone: set[str] = set()

    def sweep(self) -> None:
        """Begin to resume the runs that no process holds."""
        active = sum(one.is_running and not one.is_waiting for one in self._resumed.values())
        for row in find_unfinished(self._store, self._namespace):
            if active >= AT_ONCE:
                break
            known = self._resumed.get(row.header.run)
            if row.header.run not in self._left_alone and (known is None or not known.is_running):
                self._resumed[row.header.run] = _ResumedRun(self._store, self._namespace, row.header.run, self._agents)
                active += 1

    def take_outcomes(self) -> list[SweptRun]:
        """Return the new outcomes since the last call. A waiting run is reported once."""
        outcomes = []
        for run, one in list(self._resumed.items()):
            if not one.is_running:
                del self._resumed[run]
                outcomes.append(one.wait_for_outcome())
            elif not one.reported_waiting and one.is_waiting:
                one.reported_waiting = True
                outcomes.append(SweptRun(run, "waiting"))
        found = [outcome for outcome in outcomes if outcome is not None]
        self._left_alone.update(one.run for one in found if one.outcome == OTHER_CODE)
        return found


class _ResumedRun:
    """A run that is resumed in a thread of its own."""

    def __init__(self, store: Store, namespace: str, run: str, agents: Sequence[Agent[..., Any]] = ()) -> None:
        self._store = store
        self._namespace = namespace
        self._run = run
        self._agents = agents
        self._outcome: SweptRun | None = None
        self.reported_waiting = False
        self._thread = threading.Thread(target=self._execute, name=f"onrecord-{run}", daemon=True)
        Context().run(self._thread.start)

    def _execute(self) -> None:
        self._outcome = _resume(self._store, self._namespace, self._run, self._agents)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_waiting(self) -> bool:
        """Return True while the run waits for a resolution from outside."""
        live = keeper.find(self._store, self._run, self._namespace)
        return live is not None and live.is_waiting

    def wait_for_outcome(self) -> SweptRun | None:
        """Wait until the run ends, stops or waits. Return None if this process cannot resume it."""
        while self._thread.is_alive():
            self._thread.join(LOOK_SECONDS)
            if self.is_waiting:
                return SweptRun(self._run, "waiting")
        return self._outcome


def _resume(store: Store, namespace: str, run: str, agents: Sequence[Agent[..., Any]] = ()) -> SweptRun | None:
    try:
        facts = JournalReader(store, run, namespace).facts()
        if facts is None or "agent" not in facts:
            return None
        try:
            named = [one for one in agents if one.name == facts["agent"]] or [find_agent(facts["agent"])]
        except NotFound:
            return None  # another worker may have loaded it
        agent = choose_agent(named, facts.get("origin"))
        if agent is None:
            return SweptRun(run, OTHER_CODE, facts["origin"].get("file") or facts["origin"].get("module"))
        result = agent.resume(run, store=store, namespace=namespace)
        result = asyncio.run(result) if agent.is_async else result
    except Refused as refused:
        return None if refused.code == "run_busy" else SweptRun(run, refused.code)
    except OnrecordError as stopped:
        return SweptRun(run, stopped.code)
    except asyncio.CancelledError:
        return SweptRun(run, "cancelled")
    except SystemExit:  # it would end this thread silently
        return SweptRun(run, Suspended.code)
    except Exception as error:
        return SweptRun(run, "failed", error)
    return SweptRun(run, "completed", result)


class Worker:
    """A loop of sweeps that runs until `stop` is called. Resumed runs continue after that."""

    def __init__(
        self, store: Store | str | None = None, namespace: str = "default", *, seconds: float = SWEEP_SECONDS
    ) -> None:
        self._store = store_of(store)
        self._namespace = namespace
        self._seconds = seconds
        self._stop = threading.Event()

    def run(self) -> None:
        sweeper = Sweeper(self._store, self._namespace)
        while not self._stop.is_set():
            with suppress(StoreError):  # the store may answer at the next sweep
                sweeper.sweep()
            sweeper.take_outcomes()
            self._stop.wait(self._seconds)

    def stop(self) -> None:
        self._stop.set()
