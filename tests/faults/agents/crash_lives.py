"""Lives of a process that executes an agent (`kit.life_server`)."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys
import time
import warnings
from contextlib import suppress
from typing import Any

import crash_programs

from kit import crash_effects, crash_ledger
from kit.crash_points import WatchedStore, points
from kit.life_server import report
from onrecord.errors import OnrecordError, RunExists
from onrecord.journal import sources
from onrecord.runtime.api.agent import find_agent
from onrecord.runtime.api.worker import Worker
from onrecord.store.contract import Store
from onrecord.store.factory import open_store

warnings.simplefilter("error")
for kind in crash_programs.KINDS:
    kind.code()  # reads the source once for all lives


def opened(url: str, *, watched: bool = True) -> Store:
    store = open_store(url)
    return WatchedStore(store) if watched else store  # type: ignore[return-value]


def carry(
    url: str, agent: str, run: str, book: str, out: str, die_at: int | None = None, code: str = "", **more: Any
) -> None:
    """Begin or resume the run, and report how far it came. Replay it once it has completed."""
    points.die_at = die_at
    prepare(agent, **more)
    store = opened(url)
    found = crash_programs.edited_agents[code] if code else find_agent(agent)

    def work() -> Any:
        if store.run_row("default", run) is None:
            # A process that was killed may have begun it, and that reaches the store only now.
            with suppress(RunExists):
                return complete(found, found.run(book, run_id=run, store=store))
        return complete(found, found.resume(run, store=store))

    told = outcome(work)
    told["points"], points.die_at = list(points.passed), None
    if told["status"] == "completed":
        before = len(crash_ledger.read(book))
        told["again"] = outcome(lambda: complete(found, found.replay(run, store=store)))
        told["redone"] = [line.tag for line in crash_ledger.read(book)[before:] if line.what == "did"]
    report(out, told)


def prepare(
    agent: str, *, lease_seconds: float = 0, clock_ahead: float = 0, on_term: str = "", pace_seconds: float = 0
) -> None:
    crash_effects.pace_seconds = pace_seconds
    if lease_seconds:
        find_agent(agent).lease_seconds = lease_seconds
    if clock_ahead:
        seconds, nanoseconds = time.time, time.time_ns
        time.time = lambda: seconds() + clock_ahead
        time.time_ns = sources.time_ns = lambda: nanoseconds() + round(clock_ahead * 1e9)
    if on_term == "exit":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def work_for_all(url: str, agents: list[str], claims: str, lease_seconds: float, pace_seconds: float) -> None:
    """A worker, until it is killed."""
    faulthandler.cancel_dump_traceback_later()  # it lives for as long as the test wants
    for agent in agents:
        prepare(agent, lease_seconds=lease_seconds, pace_seconds=pace_seconds)
    Worker(ClaimsTold(open_store(url), claims), seconds=0.02).run()


class ClaimsTold:
    """A store that notes who was granted what."""

    def __init__(self, store: Any, claims: str) -> None:
        self._store, self._claims = store, claims

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def claim(self, namespace: str, run: str, *args: Any, **options: Any) -> Any:
        claim = self._store.claim(namespace, run, *args, **options)
        if claim.granted:
            crash_ledger.write(self._claims, "claim", run, claim.epoch, os.getpid())
        return claim


def complete(agent: Any, made: Any) -> Any:
    async def awaited() -> Any:
        return await made

    return asyncio.run(awaited()) if agent.is_async else made


def outcome(call: Any) -> dict[str, Any]:
    try:
        return {"status": "completed", "result": call()}
    except OnrecordError as stopped:
        where = {name: repr(value) for name, value in getattr(stopped, "where", {}).items()}
        return {"status": stopped.code, "message": stopped.message, "where": where}
    except Exception as error:
        return {"status": "failed", "message": f"{type(error).__name__}: {error}"}
