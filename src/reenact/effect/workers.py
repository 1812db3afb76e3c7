"""Runs that nobody carries any more are picked up by whoever sweeps: again and again, never once and for all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from contextvars import Context
from typing import Any, NamedTuple

from reenact.core.events import TERMINAL_KINDS
from reenact.effect.agents import find_agent
from reenact.effect.keeping import keeper
from reenact.effect.open_stores import store_of
from reenact.effect.stopping import Suspended
from reenact.errors import NotFound, ReenactError, Refused, StoreError
from reenact.journal.reader import JournalReader
from reenact.store.contract import RunRow, Store

SWEEP_SECONDS = 5.0
LOOK_SECONDS = 0.05
AT_ONCE = 64
"""Runs that a sweep begins to carry on at the same time."""
PAGE = 100


class Swept(NamedTuple):
    run: str
    outcome: str
    """`completed`, `failed`, `cancelled`, `waiting`, or why it could not go on (a stable code)."""
    result: Any = None


_QUESTIONS = (b'"relation":"fork"', b'"relation":"replay"')


def unfinished(store: Store, namespace: str = "default") -> Iterator[RunRow]:
    """Runs of this store that have begun and not ended, newest first. Forks and live replays are somebody's question:
    whoever asked it goes on with them."""
    before = None
    while page := store.list_runs(namespace, before=before, limit=PAGE):
        for row in page:
            is_open = not row.header.imported and (row.last is None or row.last.kind not in TERMINAL_KINDS)
            if is_open and not any(mark in row.header.header for mark in _QUESTIONS):
                yield row
        before = (page[-1].header.created, page[-1].header.run)


def sweep(store: Store | str | None = None, namespace: str = "default") -> list[Swept]:
    """Carries on every run whose holder has gone and whose agent is loaded here. One pass.

    The runs are carried side by side, each in a thread. One that has come to wait for a word from outside is reported
    as `waiting` and waits on in this process; the sweep does not wait for it.
    """
    opened = store_of(store)
    swept: list[Swept | None] = []
    runs = [row.header.run for row in unfinished(opened, namespace)]
    for start in range(0, len(runs), AT_ONCE):
        carried = [_Carried(opened, namespace, run) for run in runs[start : start + AT_ONCE]]
        swept += [one.outcome() for one in carried]
    return [found for found in swept if found is not None]


class Sweeper:
    """Sweeps that do not wait for what they have begun: a long run keeps nobody from being picked up."""

    def __init__(self, store: Store, namespace: str = "default") -> None:
        self._store = store
        self._namespace = namespace
        self._carried: dict[str, _Carried] = {}

    def sweep(self) -> None:
        """Begins to carry what nobody holds."""
        at_work = sum(one.is_under_way and not one.is_waiting for one in self._carried.values())
        for row in unfinished(self._store, self._namespace):
            if at_work >= AT_ONCE:
                break
            known = self._carried.get(row.header.run)
            if known is None or not known.is_under_way:
                self._carried[row.header.run] = _Carried(self._store, self._namespace, row.header.run)
                at_work += 1

    def news(self) -> list[Swept]:
        """What has come of runs since the last time; that one waits is told once."""
        told = []
        for run, one in list(self._carried.items()):
            if not one.is_under_way:
                del self._carried[run]
                told.append(one.outcome())
            elif not one.told and one.is_waiting:
                one.told = True
                told.append(Swept(run, "waiting"))
        return [found for found in told if found is not None]


class _Carried:
    """One run, carried on in a thread of its own."""

    def __init__(self, store: Store, namespace: str, run: str) -> None:
        self._store = store
        self._namespace = namespace
        self._run = run
        self._found: Swept | None = None
        self.told = False
        """That it waits has been told."""
        self._thread = threading.Thread(target=self._carry, name=f"reenact-{run}", daemon=True)
        Context().run(self._thread.start)

    def _carry(self) -> None:
        self._found = _carry_on(self._store, self._namespace, self._run)

    @property
    def is_under_way(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_waiting(self) -> bool:
        """For a word from outside."""
        live = keeper.find(self._store, self._run, self._namespace)
        return live is not None and live.is_waiting

    def outcome(self) -> Swept | None:
        while self._thread.is_alive():
            self._thread.join(LOOK_SECONDS)
            if self.is_waiting:
                return Swept(self._run, "waiting")
        return self._found


def _carry_on(store: Store, namespace: str, run: str) -> Swept | None:
    try:
        facts = JournalReader(store, run, namespace).facts()
        if facts is None or "agent" not in facts:
            return None
        try:
            agent = find_agent(facts["agent"])
        except NotFound:
            return None  # another worker may know it
        made = agent.resume(run, store=store, namespace=namespace)
        result = asyncio.run(_awaited(made)) if agent.is_async else made
    except Refused as refused:
        return None if refused.code == "run_busy" else Swept(run, refused.code)
    except ReenactError as stopped:
        return Swept(run, stopped.code)
    except asyncio.CancelledError:
        return Swept(run, "cancelled")
    except SystemExit:  # of this thread, which nobody else would tell of
        return Swept(run, Suspended.code)
    except Exception as error:
        return Swept(run, "failed", error)
    return Swept(run, "completed", result)


async def _awaited(made: Any) -> Any:
    return await made


class Worker:
    """Sweeps until it is told to stop. What it carries goes on meanwhile, also after that."""

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
            with suppress(StoreError):  # it may be back at the next sweep
                sweeper.sweep()
            sweeper.news()
            self._stop.wait(self._seconds)

    def stop(self) -> None:
        self._stop.set()
