"""Tools that yield: chunks come as they came, the end is the answer, a cut is told."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import onrecord
from kit import command_server
from kit.runtime import new_id, recorded_and_replayed, replay, run
from onrecord.core.wait_keys import Resolution, WaitIdentity
from onrecord.journal.chain import Draft
from onrecord.runtime.waits import WaitRegistry
from onrecord.store.memory import MemoryStore

store = MemoryStore()
begun = 0


@onrecord.tool(idempotent=True)
async def words(count: int, fails: bool = False) -> AsyncIterator[str]:
    global begun
    begun += 1
    for number in range(count):
        await asyncio.sleep(0.001)
        yield f"w{number}"
    if fails:
        raise ValueError("no more words")


@onrecord.step
async def ask(word: str) -> str:
    return word.upper()


async def _read(count: int) -> list[str]:
    return [word async for word in words(count)]


@onrecord.agent(store=store)
async def reader() -> list[Any]:
    seen: list[Any] = [await _read(3)]
    try:
        async for word in words(2, fails=True):
            seen.append(word)  # noqa: PERF401  # what came before the error counts
    except ValueError as error:
        seen.append(str(error))
    stream = words(5)
    async for word in stream:
        seen.append(await ask(word))
        break
    await stream.aclose()
    seen.append(await asyncio.gather(_read(3), _read(1)))
    return seen


def test_a_stream_comes_back_chunk_by_chunk() -> None:
    recorded = asyncio.run(reader.run(run_id="streams"))
    assert recorded == [["w0", "w1", "w2"], "w0", "w1", "no more words", "W0", [["w0", "w1", "w2"], ["w0"]]]
    before = begun
    assert asyncio.run(reader.replay("streams")) == recorded
    assert begun == before
    kinds = [event.kind for event in onrecord.JournalReader(store, "streams").scan()]
    assert kinds[:5] == ["ActionRequested", "ChunkReceived", "ChunkReceived", "ChunkReceived", "ActionSucceeded"]


def test_the_answer_holds_the_whole_stream() -> None:
    asyncio.run(reader.run(run_id="whole"))
    first = next(e.event for e in onrecord.JournalReader(store, "whole").scan() if e.kind == "ActionSucceeded")
    assert isinstance(first, onrecord.ActionSucceeded)
    assert first.output == ["w0", "w1", "w2"]


def test_a_stream_outside_of_a_run_is_an_ordinary_generator() -> None:
    async def read() -> list[str]:
        with pytest.warns(UserWarning, match="outside of a run"):
            stream = words(2)
        return [word async for word in stream]

    assert asyncio.run(read()) == ["w0", "w1"]


closed = 0
kept: list[Any] = []


@onrecord.tool
async def letters() -> AsyncIterator[str]:
    global closed
    try:
        for letter in "abcde":
            await asyncio.sleep(0)
            yield letter
    finally:
        closed += 1


@onrecord.agent(store=store)
async def leaving(how: str) -> str:
    stream = letters() if how in ("kept", "held") else None
    if how == "kept":
        kept.append(stream)
    async for letter in stream or letters():
        if how == "return":
            return letter
        if how == "raise" and letter == "b":
            raise ValueError(letter)
        if how not in ("return", "raise"):
            break
    if how == "ask":
        return await ask(letter)
    return letter


def _keys(run: str) -> list[tuple[str, str | None]]:
    reader = onrecord.JournalReader(store, run)
    return [(row.kind, reader.link(row).key) for row in store.scan("default", run, 1)]


async def _outcome(carried: Any) -> str:
    """With the rest of the loop's work done: what is left by then is left for good."""
    try:
        return str(await carried)
    except ValueError as error:
        return f"raised {error}"
    finally:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("how", "expected"),
    [("break", "a"), ("return", "a"), ("raise", "raised b"), ("held", "a"), ("kept", "a"), ("ask", "A")],
)
def test_a_stream_that_is_left_early(how: str, expected: str) -> None:
    before = closed
    run = f"left by {how}".replace(" ", "-")
    assert asyncio.run(_outcome(leaving.run(how, run_id=run))) == expected
    assert closed == before + 1  # with the run, not with the process
    events = list(onrecord.JournalReader(store, run).scan())
    kinds = [event.kind for event in events if event.kind != "ChunkReceived"]
    rest = ["ActionRequested", "ActionSucceeded"] if how == "ask" else []
    assert kinds == ["ActionRequested", "ActionFailed", *rest, "Failed" if how == "raise" else "Completed"]
    assert next(key for kind, key in _keys(run) if kind == "ActionFailed") == "cancelled apart"
    assert asyncio.run(_outcome(leaving.replay(run))) == expected
    assert asyncio.run(_outcome(leaving.resume(run))) == expected if how != "raise" else True
    kept.clear()
    assert len(list(onrecord.JournalReader(store, run).scan())) == len(events)


def test_a_record_that_ends_with_an_open_stream() -> None:
    """Nobody was there to say that it was left: the run has ended upon what it had read all the same."""
    asyncio.run(leaving.run("break", run_id="said"))
    reader = onrecord.JournalReader(store, "said")
    with onrecord.Journal.create(store, "unsaid", facts=reader.facts()) as journal:
        for one, (kind, key) in zip(reader.scan(), _keys("said"), strict=True):
            if kind != "ActionFailed":
                journal.append(Draft(one.event, key=key))
    assert asyncio.run(_outcome(leaving.replay("unsaid"))) == "a"


def test_a_stream_that_was_left_is_not_in_doubt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys"))

    @onrecord.agent(store=store, name="leaving_then_waiting")
    async def waiting() -> list[Any]:
        stream = letters()
        letter = await anext(stream)
        del stream
        return [letter, await onrecord.wait_for("word")]

    async def suspended() -> None:
        task = asyncio.create_task(waiting.run(run_id="doubt"))
        while (last := store.last_event("default", "doubt")) is None or last.kind != "WaitCreated":
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def resumed() -> Any:
        task = asyncio.create_task(waiting.resume("doubt"))
        desk = WaitRegistry(store)
        key = await asyncio.to_thread(desk.key, "doubt", WaitIdentity.named("word"))
        await asyncio.to_thread(desk.resolve, key, Resolution.ok("yes"))
        return await asyncio.wait_for(task, 60)

    asyncio.run(suspended())
    assert asyncio.run(resumed()) == ["a", "yes"]
    assert asyncio.run(waiting.replay("doubt")) == ["a", "yes"]


@pytest.mark.parametrize("chunks", [0, 1])
def test_a_reader_that_is_cancelled(memory: Any, chunks: int) -> None:
    """The effect is cancelled, its outcome is awaited, and the stream has ended."""
    ended: list[str] = []

    @onrecord.tool
    async def slow() -> AsyncIterator[int]:
        try:
            for number in range(chunks):
                yield number
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.001)
            ended.append("cleaned up")

    @onrecord.agent(store=memory)
    async def hurried() -> list[Any]:
        seen: list[Any] = []
        stream = slow()
        try:
            async with asyncio.timeout(0.05):
                async for number in stream:
                    seen.append(number)  # noqa: PERF401
        except TimeoutError:
            seen.append("too late")
        seen.append([number async for number in stream])
        return [*seen, await ask("done")]

    expected = [*range(chunks), "too late", [], "DONE"]
    assert asyncio.run(hurried.run(run_id="r")) == expected
    assert ended == ["cleaned up"]
    assert asyncio.run(hurried.replay("r")) == expected
    assert ended == ["cleaned up"]


def test_a_chunk_that_arrives_with_a_cancellation_does_not_end_it(memory: Any) -> None:
    @onrecord.tool
    async def numbers() -> AsyncIterator[int]:
        yield 1
        yield 2

    @onrecord.agent(store=memory)
    async def cancelling() -> list[str]:
        async def read() -> list[int]:
            return [number async for number in numbers()]

        told: list[str] = []
        for delay in range(12):
            task = asyncio.create_task(read())
            for _ in range(delay):
                await ask("turn")
            task.cancel()
            try:
                told.append(str(await task))
            except asyncio.CancelledError:
                told.append("cancelled")
        return told

    recorded = asyncio.run(cancelling.run(run_id="r"))
    assert set(recorded) <= {"cancelled", "[1, 2]"}
    assert asyncio.run(cancelling.replay("r")) == recorded


def test_a_stream_that_the_collector_finds_in_another_thread(memory: Any) -> None:
    class Knot:
        stream: Any = None
        itself: Any = None

    @onrecord.agent(store=memory)
    async def tied() -> str:
        knot = Knot()
        knot.itself, knot.stream = knot, letters()
        letter = await anext(knot.stream)
        del knot
        await asyncio.to_thread(gc.collect)
        return await ask(letter)

    before = closed
    assert asyncio.run(_outcome(tied.run(run_id="r"))) == "A"
    assert closed == before + 1
    for _ in range(3):
        assert asyncio.run(_outcome(tied.replay("r"))) == "A"
        assert asyncio.run(_outcome(tied.resume("r"))) == "A"


CUT = """
import asyncio, os, signal, sys
import onrecord

@onrecord.tool(idempotent=True)
async def words():
    for number in range(4):
        if number == 2 and os.environ.get("DIE"):
            os.kill(os.getpid(), signal.SIGKILL)
        with open(sys.argv[2] + ".ledger", "a") as ledger:
            ledger.write(f"{number} ")
        yield number

@onrecord.step
async def ask(number):
    return number

@onrecord.agent(store=sys.argv[2])
async def agent(between):
    seen = []
    try:
        async for number in words():
            seen.append(await ask(number) if between else number)
    except ConnectionError as cut:
        seen.append(str(cut)[:22])
    return seen

if sys.argv[1] == "run":
    asyncio.run(agent.run(sys.argv[3] == "between", run_id="cut"))
else:
    print(asyncio.run(agent.resume("cut")), asyncio.run(agent.replay("cut")))
"""


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ("nothing", "[0, 1, 2, 3] [0, 1, 2, 3]"),  # nobody has acted upon the chunks: it is done again
        ("between", "[0, 1, 'the stream was cut off'] [0, 1, 'the stream was cut off']"),
    ],
)
def test_a_process_that_dies_in_mid_stream(tmp_path: Path, between: str, expected: str) -> None:
    file = str(tmp_path / "store.db")

    def run(verb: str, **more: str) -> subprocess.CompletedProcess[str]:
        return command_server.call([verb, file, between], code=CUT, env={**os.environ, **more})

    assert run("run", DIE="1").returncode == -signal.SIGKILL
    resumed = run("resume")
    assert resumed.stdout.strip() == expected, resumed.stderr


@pytest.mark.parametrize("then", ["fails", "is empty", "takes too long"])
def test_a_stream_that_is_done_again_and_gives_no_chunk(memory: Any, then: str) -> None:
    """What the process that died was handed of it was seen by nobody: neither now nor when the run comes back."""
    lives: list[str] = []

    @onrecord.tool(idempotent=True)
    async def words() -> AsyncIterator[str]:
        lives.append(then)
        if len(lives) == 1:
            yield "a"
            raise KeyboardInterrupt
        if then == "fails":
            raise LookupError("refused")
        if then == "takes too long":
            await asyncio.sleep(60)
        if then != "is empty":
            yield "never"

    @onrecord.step
    async def ask(what: list[str]) -> list[str]:
        return what

    @onrecord.agent(name=f"again-{then}", store=memory)
    async def agent() -> list[str]:
        seen = []
        try:
            async with asyncio.timeout(0.05 if lives and then == "takes too long" else 60):
                async for word in words():
                    seen.append(word)  # noqa: PERF401  # what came before the error counts
        except (LookupError, TimeoutError) as error:
            seen.append(type(error).__name__)
        return await ask(seen)

    async def resumed() -> Any:
        return await agent.resume("again")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(agent.run(run_id="again"))
    told = {"fails": ["LookupError"], "is empty": [], "takes too long": ["TimeoutError"]}[then]
    assert asyncio.run(resumed()) == told
    assert asyncio.run(agent.replay("again")) == told
    assert len(lives) == 2


def test_a_reader_that_is_cancelled_while_a_chunk_is_on_its_way_gives_the_stream_up(memory: Any) -> None:
    """The chunk is delivered while the loop is blocked. The reader is cancelled before it runs again."""

    @onrecord.step
    async def open_gate() -> None:
        gates.append(asyncio.Event())
        asyncio.get_running_loop().call_later(0.005, gates[0].set)
        await gates[0].wait()

    @onrecord.step
    async def speak() -> AsyncIterator[str]:
        await gates[0].wait()
        await asyncio.sleep(0)  # the chunk arrives after the outcome of the other effect, and in the same round
        yield "word"
        yield "another"

    @onrecord.step
    def block() -> None: ...

    @onrecord.agent
    async def cancelling_a_reader() -> Any:
        async def read() -> list[str]:
            return [word async for word in speak()]

        reader = asyncio.create_task(read())
        await open_gate()
        block()
        asyncio.get_running_loop().call_soon(reader.cancel)
        return [str(type(one)) for one in await asyncio.gather(reader, return_exceptions=True)]

    gates: list[asyncio.Event] = []
    run_id = new_id()
    result = run(cancelling_a_reader, store=memory, run_id=run_id)
    assert onrecord.verify_run(memory, run_id).orphans == []
    assert replay(cancelling_a_reader, run_id, store=memory) == result


def test_a_stream_that_is_left_in_a_loop_which_has_ended(memory: Any) -> None:
    """The effect is told to end when the run rests: its loop is closed then."""

    @onrecord.step
    def block() -> str:
        return "done"

    async def read_one() -> str:
        stream = words(3)
        async for word in stream:
            return word
        return "nothing"

    @onrecord.agent
    def leaving() -> Any:
        return [asyncio.run(read_one()), block()]

    assert recorded_and_replayed(leaving, store=memory) == ["w0", "done"]
