"""Lives of a process that executes an agent with transactional steps, and dies at a point (`kit.life_server`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import onrecord
from kit.crash_points import points
from kit.life_server import report
from onrecord.store.contract import PendingAppend
from onrecord.store.factory import open_store

POINTS = ("before", "begun", "rows", "linked", "committed", "handed")
STEPS = 3


def watch(store: Any) -> None:
    """Pass a point when a transaction of the store is about to begin, has all it is to commit, and is committed."""
    transact = store.transact

    def watched(work: Callable[[Any], PendingAppend]) -> None:
        def inside(connection: Any) -> PendingAppend:
            pending = work(connection)
            points.pass_by("linked")
            return pending

        points.pass_by("before")
        transact(inside)
        points.pass_by("committed")

    store.transact = watched


def _add(db: Any, what: str) -> int:
    points.pass_by("begun")
    db.execute(f"INSERT INTO paid(what) VALUES('{what}')")
    points.pass_by("rows")
    return len(db.execute("SELECT what FROM paid").fetchall())


@onrecord.step(transactional=True)
def pay(db: Any, what: str) -> int:
    return _add(db, what)


@onrecord.step(transactional=True)
async def pay_later(db: Any, what: str) -> int:
    await asyncio.sleep(0)
    return _add(db, what)


@onrecord.agent
def blocking_agent() -> list[int]:
    found = []
    for number in range(STEPS):
        found.append(pay(f"item {number}"))
        points.pass_by("handed")
    return found


@onrecord.agent
async def async_agent() -> list[int]:
    found = [pay("item 0")]
    points.pass_by("handed")
    for number in range(1, STEPS):
        found.append(await pay_later(f"item {number}"))
        points.pass_by("handed")
    return found


@onrecord.agent
async def gathering_agent() -> list[int]:
    async def one(number: int) -> int:
        found: int = await pay_later(f"item {number}")
        points.pass_by("handed")
        return found

    return sorted(await asyncio.gather(*(one(number) for number in range(STEPS))))


def carry(url: str, agent: str, run: str, out: str, die_at: str | None = None) -> None:
    """Begin or resume the run, and report its result."""
    points.die_at = die_at
    store = open_store(url)
    watch(store)
    found: Any = globals()[agent]
    is_begun = store.run_row("default", run) is not None
    made = found.resume(run, store=store) if is_begun else found.run(run_id=run, store=store)

    async def awaited() -> Any:
        return await made

    report(out, asyncio.run(awaited()) if found.is_async else made)
    store.close()
