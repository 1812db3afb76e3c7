"""What a process under test does in its life. Each function is called in a fresh process (`fork_server`)."""

from __future__ import annotations

import asyncio
import json
import os
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

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


def opened(url: str, *, watched: bool = True) -> Store:
    store = open_store(url)
    return WatchedStore(store) if watched else store  # type: ignore[return-value]


def carry(url: str, agent: str, run: str, book: str, out: str, die_at: int | None = None, **more: Any) -> None:
    """Begins the run, or goes on with it, and tells how far it came."""
    points.die_at = die_at
    store = opened(url)
    found = find_agent(agent)
    begun = store.run_row("default", run) is not None
    tell(out, lambda: complete(found, found.resume(run, store=store) if begun else run_it(found, store, run, book)))


def run_it(agent: Any, store: Store, run: str, book: str) -> Any:
    return agent.run(book, run_id=run, store=store)


def replay(url: str, agent: str, run: str, out: str, **more: Any) -> None:
    found = find_agent(agent)
    tell(out, lambda: complete(found, found.replay(run, store=opened(url, watched=False))))


def complete(agent: Any, made: Any) -> Any:
    async def awaited() -> Any:
        return await made

    return asyncio.run(awaited()) if agent.is_async else made


def tell(out: str, call: Any) -> None:
    told: dict[str, Any]
    try:
        told = {"status": "completed", "result": call()}
    except ReenactError as stopped:
        told = {"status": stopped.code, "message": stopped.message, "seq": getattr(stopped, "seq", None)}
        told["where"] = {name: repr(value) for name, value in getattr(stopped, "where", {}).items()}
    except Exception as error:
        told = {"status": "failed", "message": f"{type(error).__name__}: {error}"}
    told["points"] = points.passed
    fresh = Path(f"{out}.{os.getpid()}")
    fresh.write_text(json.dumps(told))
    fresh.rename(out)


__all__ = ["carry", "crash_programs", "replay"]
