"""Steps that the tests of transactions share, and looking at what they left."""

from __future__ import annotations

import asyncio
from typing import Any

import onrecord


class TooMuch(Exception):
    pass


@onrecord.step(transactional=True)
def create(db: Any) -> None:
    db.execute("CREATE TABLE paid(what TEXT UNIQUE)")


@onrecord.agent
def creating() -> None:
    create()


@onrecord.step(transactional=True)
def pay(db: Any, what: str, /, *, times: int = 1) -> int:
    db.execute(f"INSERT INTO paid VALUES('{what}')")
    return len(db.execute("SELECT what FROM paid").fetchall()) * times


@onrecord.step(transactional=True)
async def pay_later(db: Any, what: str) -> str:
    await asyncio.sleep(0)
    db.execute(f"INSERT INTO paid VALUES('{what}')")
    return what


@onrecord.step
async def think(what: str) -> str:
    await asyncio.sleep(0)
    return what


@onrecord.step(transactional=True)
def look(db: Any) -> list[str]:
    return [row[0] for row in db.execute("SELECT what FROM paid ORDER BY what").fetchall()]


@onrecord.agent
def looking() -> list[str]:
    found: list[str] = look()
    return found


def paid(store: Any) -> list[str]:
    found: list[str] = looking.run(store=store)
    return found


def events(store: Any, run: str) -> list[Any]:
    return [one.event for one in onrecord.JournalReader(store, run).scan()]


def kinds(store: Any, run: str) -> list[str]:
    return [event.kind for event in events(store, run)]


def awaited(made: Any) -> Any:
    async def wait() -> Any:
        return await made

    return asyncio.run(wait())
