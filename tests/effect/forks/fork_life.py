"""A fork that is killed at every point of its tail, and what its ledger says then. Run as a program of its own:

    python fork_life.py STORE LEDGER TAIL LIVE_TOOL…

It forks a process for every point at which the store is written to, kills it there, and prints a line of JSON about
each: what the run came to when it was resumed, and what was done.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "crash"))

from crash_points import WatchedStore, points

import reenact
from reenact.effect.forking import AnotherAnswer
from reenact.effect.settling import settle
from reenact.store.opening import open_store

LEDGER = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(os.devnull)


def did(name: str, what: str) -> None:
    with LEDGER.open("a") as file:
        file.write(json.dumps([name, what]) + "\n")
        file.flush()
    points.pass_by(f"in {name}")


@reenact.tool(kind="model_call")
async def think(prompt: str) -> str:
    did("think", prompt)
    return prompt.upper()


@reenact.tool
async def mail(text: str) -> str:
    did("mail", text)
    return f"mailed {text}"


@reenact.tool
async def lot(kind: str) -> int:
    did("lot", kind)
    return len(LEDGER.read_text().splitlines())


@reenact.agent(name="life.child")
async def child(order: str) -> list[Any]:
    return [await think(f"child {order}"), await lot("child")]


@reenact.agent(name="life.desk")
async def desk(order: str) -> list[Any]:
    word = await think(order)
    lots = [await lot("same"), *await asyncio.gather(lot("same"), lot("same"))]
    mailed = await asyncio.gather(mail(f"1 {word}"), think(f"2 {word}"))
    return [word, lots, mailed, await child(order), await mail(f"end {word}")]


def lives(url: str, tail: str, tools: list[str]) -> None:
    store = open_store(url)
    recorded = asyncio.run(_awaited(desk.run("a", run_id="parent", store=store)))
    store.close()
    print(json.dumps({"recorded": recorded, "did": _ledger()}), flush=True)
    point = 1
    while True:
        LEDGER.write_text("")
        if not _killed(url, f"fork-{point}", tail, tools, point):
            return
        before = _ledger()
        print(json.dumps({"point": point, "before": before, **_resumed(url, f"fork-{point}", tail)}), flush=True)
        point += 1


async def _awaited(made: Any) -> Any:
    return await made


def _killed(url: str, name: str, tail: str, tools: list[str], point: int) -> bool:
    """False: there are not so many points."""
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        return os.WIFSIGNALED(status)
    points.passed.clear()
    points.die_at = point
    store: Any = WatchedStore(open_store(url))
    change = AnotherAnswer(1, "A") if tail == "live" else None

    async def forked() -> Any:
        return await desk.fork("parent", 1, change=change, tail=tail, live_tools=tools, fork_id=name, store=store)

    asyncio.run(forked())
    os._exit(0)


def _resumed(url: str, name: str, tail: str) -> dict[str, Any]:
    """In a process of its own: that of the killed ones is not to have anything open."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        with os.fdopen(reading) as file:
            said = file.read()
        os.waitpid(pid, 0)
        return json.loads(said) if said else {"died": True}
    os.close(reading)
    told: dict[str, Any] = {"doubts": []}
    store = open_store(url)
    try:
        for _ in range(9):
            try:
                told["result"] = asyncio.run(_going_on(name, store))
                told["replayed"] = asyncio.run(_replayed(name, store))
                break
            except reenact.InDoubt as doubt:
                run = doubt.message.partition(":")[0].removeprefix("run ")
                told["doubts"].append(doubt.message)
                settle(store, run, doubt.seq, decision="done", value=f"settled {doubt.key}")
    except BaseException as error:
        told["error"] = f"{type(error).__name__}: {error}"
    told["did"] = _ledger()
    os.write(writing, json.dumps(told).encode())
    os._exit(0)


async def _going_on(name: str, store: Any) -> Any:
    return await desk.resume(name, store=store)


async def _replayed(name: str, store: Any) -> Any:
    return await desk.replay(name, store=store)


def _ledger() -> list[list[str]]:
    return [json.loads(line) for line in LEDGER.read_text().splitlines()]


if __name__ == "__main__":
    lives(sys.argv[1], sys.argv[3], sys.argv[4:])
