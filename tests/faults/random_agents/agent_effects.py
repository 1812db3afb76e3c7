"""Effects of random agents. Each takes a random time, and writes to the ledger.

Tags of effects that may run at most once begin with `once`, of transactional steps with `paid`.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import onrecord
from kit import crash_ledger
from kit.crash_effects import did
from kit.crash_points import points
from onrecord.core.wait_keys import Resolution
from onrecord.errors import OnrecordError
from onrecord.runtime.waits import WaitRegistry
from onrecord.store.factory import open_store

RETRY = onrecord.Retry(attempts=6, delay_seconds=0.001, jitter=0.0)
HASTY_RETRY = onrecord.Retry(attempts=2, delay_seconds=0.001, jitter=0.0)
_latency = random.Random()
store_url = ""
"""The store in which the keys of waits are resolved."""


def latency() -> float:
    return _latency.choice((0, 0, 0.0005, 0.001, 0.003))


async def did_async(book: str, tag: str, given: Any = None) -> str:
    await asyncio.sleep(latency())
    value = did(book, tag, given)
    await asyncio.sleep(latency())
    return value


def did_blocking(book: str, tag: str, given: Any = None) -> str:
    time.sleep(latency())
    value = did(book, tag, given)
    time.sleep(latency())
    return value


mail = onrecord.tool(name="mail")(did_async)
mail_blocking = onrecord.tool(name="mail_blocking")(did_blocking)
upsert = onrecord.tool(name="upsert", idempotent=True)(did_async)
compute = onrecord.step(name="compute")(did_async)
compute_blocking = onrecord.step(name="compute_blocking")(did_blocking)
hasty = onrecord.step(name="hasty", retry=HASTY_RETRY, timeout=0.002)(did_async)


@onrecord.tool(name="refused_by_the_world")
async def refused(book: str, tag: str, given: Any = None) -> str:
    raise ValueError(await did_async(book, tag, given))


@onrecord.tool(name="refused_by_the_world")
def refused_blocking(book: str, tag: str, given: Any = None) -> str:
    raise ValueError(did_blocking(book, tag, given))


@onrecord.step(retry=RETRY)
async def flaky(book: str, tag: str, given: Any = None) -> str:
    return _refuse_first(book, tag, await did_async(book, tag, given))


@onrecord.step(retry=RETRY)
def flaky_blocking(book: str, tag: str, given: Any = None) -> str:
    return _refuse_first(book, tag, did_blocking(book, tag, given))


def _refuse_first(book: str, tag: str, value: str) -> str:
    if len(crash_ledger.done(book, tag)) < 2:
        raise ConnectionError("not yet")
    return value


@onrecord.step
async def speak(book: str, tag: str, given: Any = None) -> AsyncIterator[str]:
    value = await did_async(book, tag, given)
    for number in range(3):
        yield f"{value}.{number}"
        await asyncio.sleep(latency())


# Transactional steps: the table is their ledger

CREATE = "CREATE TABLE IF NOT EXISTS paid(run TEXT, tag TEXT, value TEXT)"


@onrecord.step(transactional=True)
def pay(db: Any, run: str, tag: str, given: Any = None) -> str:
    return _pay(db, run, tag)


@onrecord.step(transactional=True)
async def pay_async(db: Any, run: str, tag: str, given: Any = None) -> str:
    await asyncio.sleep(0)
    return _pay(db, run, tag)


def _pay(db: Any, run: str, tag: str) -> str:
    points.pass_by(f"before {tag}")
    value = uuid.uuid4().hex[:8]
    db.execute(f"INSERT INTO paid VALUES('{run}', '{tag}', '{value}')")
    points.pass_by(f"after {tag}")
    return value


# Waits: the keys are beside the ledger


@onrecord.step
async def send_key(book: str, tag: str, key: str) -> str:
    value = await did_async(book, tag)
    _send(book, key)
    return value


@onrecord.step
def send_key_blocking(book: str, tag: str, key: str) -> str:
    value = did_blocking(book, tag)
    _send(book, key)
    return value


def _send(book: str, key: str) -> None:
    with Path(f"{book}.keys").open("a") as file:
        file.write(f"{key}\n")
    resolve_soon([key])


def resolve_soon(keys: list[str]) -> None:
    """Resolve waits from outside of the run, after a moment. The first answer to each wins."""
    threading.Thread(target=_resolve, args=(keys,), daemon=True).start()


def _resolve(keys: list[str]) -> None:
    with closing(open_store(store_url)) as store, suppress(OnrecordError):
        registry = WaitRegistry(store)
        for key in keys:
            time.sleep(latency())
            registry.resolve(key, Resolution.ok(uuid.uuid4().hex[:8]))


def resolve_sent(book: str) -> None:
    """Resolve the waits of an earlier process, which may have died before it did."""
    file = Path(f"{book}.keys")
    if file.exists():
        resolve_soon(file.read_text().split())
