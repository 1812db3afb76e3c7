"""A process that carries an agent with transactional steps, and dies where it is told to.

`python transaction_life.py URL AGENT RUN [POINT]`: begins the run or goes on with it, prints what came of it as JSON.
POINT is `name:n`: killed (SIGKILL) when it passes that point for the n-th time.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import reenact
from reenact.store.contract import PendingAppend
from reenact.store.opening import open_store

POINTS = ("before", "begun", "rows", "linked", "committed", "handed")
STEPS = 3
_die_at = ""
_passed: Counter[str] = Counter()


def passed(point: str) -> None:
    _passed[point] += 1
    if f"{point}:{_passed[point]}" == _die_at:
        os.kill(os.getpid(), signal.SIGKILL)


def watch(store: Any) -> None:
    """Tells when a transaction of the store is about to begin, has all it is to commit, and is committed."""
    transact = store.transact

    def watched(work: Callable[[Any], PendingAppend]) -> None:
        def inside(connection: Any) -> PendingAppend:
            pending = work(connection)
            passed("linked")
            return pending

        passed("before")
        transact(inside)
        passed("committed")

    store.transact = watched


def _add(db: Any, what: str) -> int:
    passed("begun")
    db.execute(f"INSERT INTO paid(what) VALUES('{what}')")
    passed("rows")
    return len(db.execute("SELECT what FROM paid").fetchall())


@reenact.step(transactional=True)
def pay(db: Any, what: str) -> int:
    return _add(db, what)


@reenact.step(transactional=True)
async def pay_later(db: Any, what: str) -> int:
    await asyncio.sleep(0)
    return _add(db, what)


@reenact.agent
def blocking_agent() -> list[int]:
    found = []
    for number in range(STEPS):
        found.append(pay(f"item {number}"))
        passed("handed")
    return found


@reenact.agent
async def async_agent() -> list[int]:
    found = [pay("item 0")]
    passed("handed")
    for number in range(1, STEPS):
        found.append(await pay_later(f"item {number}"))
        passed("handed")
    return found


@reenact.agent
async def gathering_agent() -> list[int]:
    async def one(number: int) -> int:
        found: int = await pay_later(f"item {number}")
        passed("handed")
        return found

    return sorted(await asyncio.gather(*(one(number) for number in range(STEPS))))


def carried(url: str, name: str, run: str) -> Any:
    store = open_store(url)
    watch(store)
    agent: Any = globals()[name]
    begun = store.run_row("default", run) is not None
    made = agent.resume(run, store=store) if begun else agent.run(run_id=run, store=store)

    async def awaited() -> Any:
        return await made

    result = asyncio.run(awaited()) if agent.is_async else made
    store.close()
    return result


if __name__ == "__main__":
    warnings.simplefilter("error")
    url, name, run, *point = sys.argv[1:]
    _die_at = point[0] if point else ""
    print(json.dumps(carried(url, name, run)))
