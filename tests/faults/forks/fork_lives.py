"""Lives of a process that forks a run, dies in the tail of the fork, or resumes it (`kit.life_server`)."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

import onrecord
from kit import crash_ledger
from kit.crash_points import WatchedStore, points
from kit.life_server import report
from onrecord.runtime.api.settle import settle
from onrecord.runtime.forks.fork import AnotherAnswer
from onrecord.store.factory import open_store

PARENT = "parent"
_ledger = ""


def did(name: str, what: str) -> None:
    crash_ledger.write(_ledger, "did", name, what)
    points.pass_by(f"in {name}")


def ledger() -> list[list[str]]:
    return [[line.tag, line.value] for line in crash_ledger.read(_ledger)]


@onrecord.tool(kind="model_call")
async def think(prompt: str) -> str:
    did("think", prompt)
    return prompt.upper()


@onrecord.tool
async def mail(text: str) -> str:
    did("mail", text)
    return f"mailed {text}"


@onrecord.tool
async def lot(kind: str) -> int:
    did("lot", kind)
    return len(ledger())


@onrecord.agent(name="life.child")
async def child(order: str) -> list[Any]:
    return [await think(f"child {order}"), await lot("child")]


@onrecord.agent(name="life.desk")
async def desk(order: str) -> list[Any]:
    word = await think(order)
    lots = [await lot("same"), *await asyncio.gather(lot("same"), lot("same"))]
    mailed = await asyncio.gather(mail(f"1 {word}"), think(f"2 {word}"))
    return [word, lots, mailed, await child(order), await mail(f"end {word}")]


def record(url: str, book: str, out: str) -> None:
    """Record the parent, and report its result."""
    _begin(book)
    with closing(open_store(url)) as store:
        report(out, asyncio.run(_awaited(desk.run("a", run_id=PARENT, store=store))))


def fork(url: str, book: str, out: str, run: str, tail: str, tools: list[str], die_at: int | None = None) -> None:
    """Fork the parent, and report the points that were passed."""
    _begin(book)
    points.die_at = die_at
    store: Any = WatchedStore(open_store(url))
    change = AnotherAnswer(1, "A") if tail == "live" else None
    asyncio.run(_awaited(desk.fork(PARENT, 1, change=change, tail=tail, live_tools=tools, fork_id=run, store=store)))  # type: ignore[arg-type]
    report(out, points.passed)


def resume(url: str, book: str, out: str, run: str) -> None:
    """Resume the fork until it ends, with everything in doubt settled as done, and report what happened."""
    _begin(book)
    found: dict[str, Any] = {"doubts": []}
    with closing(open_store(url)) as store:
        try:
            for _ in range(9):
                try:
                    found["result"] = asyncio.run(_awaited(desk.resume(run, store=store)))
                    found["replayed"] = asyncio.run(_awaited(desk.replay(run, store=store)))
                    break
                except onrecord.InDoubt as doubt:
                    found["doubts"].append(doubt.message)
                    settle(store, doubt.run, doubt.seq, decision="done", value=f"settled {doubt.key}")
        except BaseException as error:
            found["error"] = f"{type(error).__name__}: {error}"
    report(out, {**found, "did": ledger()})


def _begin(book: str) -> None:
    global _ledger
    _ledger = book


async def _awaited(made: Any) -> Any:
    return await made
