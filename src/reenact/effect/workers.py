"""Runs that nobody carries any more are picked up by whoever sweeps: again and again, never once and for all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from reenact.core.events import TERMINAL_KINDS
from reenact.effect.agents import find_agent, store_of
from reenact.errors import NotFound, ReenactError, Refused, StoreError
from reenact.journal.reader import JournalReader
from reenact.store.contract import RunRow, Store

SWEEP_SECONDS = 5.0
PAGE = 100


class Swept(NamedTuple):
    run: str
    outcome: str
    """`completed`, `failed`, `cancelled`, or why it could not go on (a stable code)."""
    result: Any = None


def unfinished(store: Store, namespace: str = "default") -> Iterator[RunRow]:
    """Runs of this store that have begun and not ended, newest first."""
    before = None
    while page := store.list_runs(namespace, before=before, limit=PAGE):
        for row in page:
            if not row.header.imported and (row.last is None or row.last.kind not in TERMINAL_KINDS):
                yield row
        before = (page[-1].header.created, page[-1].header.run)


def sweep(store: Store | str | None = None, namespace: str = "default") -> list[Swept]:
    """Carries on every run whose holder has gone and whose agent is loaded here. One pass."""
    opened = store_of(store)
    swept = []
    for row in list(unfinished(opened, namespace)):
        found = _carry_on(opened, namespace, row.header.run)
        if found is not None:
            swept.append(found)
    return swept


def _carry_on(store: Store, namespace: str, run: str) -> Swept | None:
    facts = JournalReader(store, run, namespace).facts()
    if facts is None or "agent" not in facts:
        return None
    try:
        agent = find_agent(facts["agent"])
    except NotFound:
        return None  # another worker may know it
    try:
        made = agent.resume(run, store=store)
        result = asyncio.run(_awaited(made)) if agent.is_async else made
    except Refused as refused:
        return None if refused.code == "run_busy" else Swept(run, refused.code)
    except ReenactError as stopped:
        return Swept(run, stopped.code)
    except asyncio.CancelledError:
        return Swept(run, "cancelled")
    except Exception as error:
        return Swept(run, "failed", error)
    return Swept(run, "completed", result)


async def _awaited(made: Any) -> Any:
    return await made


class Worker:
    """Sweeps until it is told to stop."""

    def __init__(
        self, store: Store | str | None = None, namespace: str = "default", *, seconds: float = SWEEP_SECONDS
    ) -> None:
        self._store = store_of(store)
        self._namespace = namespace
        self._seconds = seconds
        self._stop = threading.Event()

    def run(self) -> None:
        while not self._stop.is_set():
            with suppress(StoreError):  # it may be back at the next sweep
                sweep(self._store, self._namespace)
            self._stop.wait(self._seconds)

    def stop(self) -> None:
        self._stop.set()
