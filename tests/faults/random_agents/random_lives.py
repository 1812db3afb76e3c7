"""Lives of a process that executes a random agent (`kit.life_server`)."""

from __future__ import annotations

import asyncio
import faulthandler
import warnings
from typing import Any

import agent_effects
from agent_shapes import Shape
from tree_agents import async_tree, sync_tree

from kit import crash_ledger
from kit.crash_points import WatchedStore, points
from kit.life_server import report
from kit.runtime import complete
from onrecord.errors import OnrecordError
from onrecord.runtime.scheduler.drivers import coordinator
from onrecord.store.factory import open_store

warnings.simplefilter("error")
HANG_SECONDS = 40


def carry(url: str, run: str, book: str, out: str, shape: Shape, die_at: int | None = None) -> None:
    """Begin or resume the run, and report how far it came."""
    agent = _prepare(url, shape)
    points.die_at = die_at
    agent_effects.resolve_sent(book)
    store: Any = WatchedStore(open_store(url))

    def call() -> Any:
        if store.run_row("default", run) is None:
            return agent.run(book, run, shape, run_id=run, store=store)
        return agent.resume(run, store=store)

    report(out, {**_outcome(agent, call), "points": len(points.passed)})


def replay(url: str, run: str, book: str, out: str, shape: Shape, times: int) -> None:
    """Replay a run that has ended, and report each outcome and what was seen, and executed, in each."""
    agent = _prepare(url, shape)
    store = open_store(url)
    reports = []
    for _ in range(times):
        before = len(crash_ledger.read(book))
        outcome = _outcome(agent, lambda: agent.replay(run, store=store))
        lines = crash_ledger.read(book)[before:]
        reports.append({**outcome, "lines": [[line.what, line.tag, line.value] for line in lines]})
    report(out, reports)


def _prepare(url: str, shape: Shape) -> Any:
    faulthandler.cancel_dump_traceback_later()
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
    agent_effects.store_url = url
    coordinator.GRACE_SECONDS = shape["grace"]
    return async_tree if shape["is_async"] else sync_tree


def _outcome(agent: Any, call: Any) -> dict[str, Any]:
    try:
        return {"status": "completed", "result": complete(agent, call)}
    except asyncio.CancelledError:  # Python 3.11 may let a cancellation leave a time-out after a failed group
        return {"status": "cancelled", "result": None}
    except LookupError as error:
        return {"status": "failed", "result": str(error)}
    except OnrecordError as stopped:
        if stopped.code == "no_result":  # it was killed after its end
            return {"status": "cancelled", "result": None}
        where = {name: repr(value) for name, value in getattr(stopped, "where", {}).items()}
        return {"status": stopped.code, "message": stopped.message, "where": where}
