"""What a process under test does in its life. Each function is called in a fresh process (`fork_server`)."""

from __future__ import annotations

import asyncio
import json
import os
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import crash_ledger
import crash_programs
from crash_points import WatchedStore, points

from reenact.effect.agents import find_agent
from reenact.errors import ReenactError
from reenact.store.contract import Store
from reenact.store.opening import open_store

warnings.simplefilter("error")
_LOADED_LATE = ("sqlite.store", "postgres.store")
for name in _LOADED_LATE:
    import_module(f"reenact.store.{name}")
for kind in crash_programs.KINDS:
    kind.code()  # reads and parses the source once for all lives


def opened(url: str, *, watched: bool = True) -> Store:
    store = open_store(url)
    return WatchedStore(store) if watched else store  # type: ignore[return-value]


def carry(url: str, agent: str, run: str, book: str, out: str, die_at: int | None = None, **more: Any) -> None:
    """Begins the run, or goes on with it, and tells how far it came. Once it has ended it is replayed, too."""
    points.die_at = die_at
    store = opened(url)
    found = find_agent(agent)
    begun = store.run_row("default", run) is not None

    def work() -> Any:
        return complete(found, found.resume(run, store=store) if begun else found.run(book, run_id=run, store=store))

    told = outcome(work)
    told["points"], points.die_at = list(points.passed), None
    if told["status"] == "completed":
        before = len(crash_ledger.read(book))
        told["again"] = outcome(lambda: complete(found, found.replay(run, store=store)))
        told["redone"] = [line.tag for line in crash_ledger.read(book)[before:] if line.what == "did"]
    tell(out, told)


def complete(agent: Any, made: Any) -> Any:
    async def awaited() -> Any:
        return await made

    return asyncio.run(awaited()) if agent.is_async else made


def outcome(call: Any) -> dict[str, Any]:
    try:
        return {"status": "completed", "result": call()}
    except ReenactError as stopped:
        where = {name: repr(value) for name, value in getattr(stopped, "where", {}).items()}
        return {"status": stopped.code, "message": stopped.message, "where": where}
    except Exception as error:
        return {"status": "failed", "message": f"{type(error).__name__}: {error}"}


def tell(out: str, told: dict[str, Any]) -> None:
    fresh = Path(f"{out}.{os.getpid()}")
    fresh.write_text(json.dumps(told))
    fresh.rename(out)
