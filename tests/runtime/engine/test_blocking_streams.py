"""Streams of threads: read by one thread, by several, inside a loop; given up, cut and read again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import onrecord
from onrecord.core.events import ActionRequested
from onrecord.runtime.engine.blocking_streams import BlockingStream
from onrecord.runtime.engine.context import current_effect, current_lane
from onrecord.runtime.engine.open_effect import EffectSpec

executed: list[Any] = []


def letters(text: str, fails: bool = False, dies_after: int = -1) -> BlockingStream:
    lane = current_lane()
    assert lane is not None
    spec = EffectSpec("letters", "tool_call", False)

    def generate() -> Iterator[str]:
        try:
            for number, letter in enumerate(text):
                if number == dies_after and not executed.count("died"):
                    executed.append("died")
                    raise KeyboardInterrupt
                assert current_effect() is not None
                executed.append(letter)
                yield letter
            if fails:
                raise ValueError("no more letters")
        finally:
            executed.append("closed")

    return BlockingStream(
        lane, spec, lambda key: ActionRequested(key, {"text": text}, "letters", "tool_call"), generate
    )


@onrecord.step
def ask(letter: str) -> str:
    return letter.upper()


@pytest.fixture(autouse=True)
def _nothing_executed() -> None:
    executed.clear()


def _check_replay(agent: Any, run: str, expected: Any) -> None:
    before = list(executed)
    assert agent.replay(run) == expected
    assert executed == before


def test_a_thread_reads_chunk_by_chunk(memory: Any) -> None:
    foretold: list[Any] = []

    @onrecord.agent(store=memory)
    def reading() -> list[Any]:
        seen: list[Any] = [ask(letter) for letter in letters("abc")]
        try:
            for letter in letters("de", fails=True):
                seen.append(letter)  # noqa: PERF402  # what came before the error counts
        except ValueError as error:
            seen.append(str(error))
        whole = letters("fg")
        first = next(whole)
        foretold.append(whole.foretold())
        return [*seen, first, list(whole), whole.result]

    expected = ["A", "B", "C", "d", "e", "no more letters", "f", ["g"], ["f", "g"]]
    assert reading.run(run_id="r") == expected
    _check_replay(reading, "r", expected)
    assert foretold == [None, ["f", "g"]]


def test_streams_of_several_threads(memory: Any) -> None:
    @onrecord.agent(store=memory)
    def reading() -> list[str]:
        seen: list[str] = []

        def read(text: str) -> None:
            for letter in letters(text):
                seen.append(letter)
                if letter in "aA":
                    seen.append(ask(letter))

        threads = [threading.Thread(target=read, args=(text,)) for text in ("abc", "ABC", "xyz")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return seen

    _check_replay(reading, "r", reading.run(run_id="r"))


def test_a_stream_that_one_thread_begins_and_another_ends(memory: Any) -> None:
    @onrecord.agent(store=memory)
    def reading() -> list[str]:
        stream = letters("abcd")
        seen = [next(stream)]
        thread = threading.Thread(target=lambda: seen.append(next(stream)))
        thread.start()
        thread.join()
        return [*seen, *stream]

    assert reading.run(run_id="r") == list("abcd")
    _check_replay(reading, "r", list("abcd"))


def test_a_blocking_stream_inside_a_loop(memory: Any) -> None:
    @onrecord.agent(store=memory)
    async def reading() -> list[Any]:
        async def other() -> str:
            return await asyncio.to_thread(ask, "z")

        task = asyncio.create_task(other())
        await asyncio.sleep(0)
        return [*letters("abc"), await task]

    assert asyncio.run(reading.run(run_id="r")) == ["a", "b", "c", "Z"]
    before = list(executed)
    assert asyncio.run(reading.replay("r")) == ["a", "b", "c", "Z"]
    assert executed == before


@pytest.mark.parametrize("how", ["close", "drop", "keep"])
def test_a_stream_that_is_left_early(memory: Any, how: str) -> None:
    kept = []

    @onrecord.agent(store=memory)
    def reading() -> str:
        stream: Any = letters("abc")
        first = next(stream)
        if how == "close":
            stream.close()
        elif how == "keep":
            kept.append(stream)
        stream = None
        return ask(first)

    assert reading.run(run_id="r") == "A"
    assert executed == ["a", "closed"]
    rows = list(memory.scan("default", "r", 1))
    reader = onrecord.JournalReader(memory, "r")
    assert [reader.link(row).key for row in rows if row.kind == "ActionFailed"] == ["cancelled apart"]
    _check_replay(reading, "r", "A")


@pytest.mark.parametrize("acts", [False, True])
def test_a_process_that_dies_in_mid_stream(memory: Any, acts: bool) -> None:
    @onrecord.agent(store=memory)
    def reading() -> list[str]:
        seen = []
        try:
            for letter in letters("abc", dies_after=2):
                seen.append(ask(letter) if acts else letter)  # noqa: PERF401  # what came before the cut counts
        except ConnectionError as cut:
            seen.append(str(cut)[:22])
        return seen

    with pytest.raises(KeyboardInterrupt):
        reading.run(run_id="r")
    expected = ["A", "B", "the stream was cut off"] if acts else ["a", "b", "c"]
    assert reading.resume("r") == expected
    _check_replay(reading, "r", expected)


def test_a_stream_that_is_read_inside_an_effect_is_executed(memory: Any) -> None:
    @onrecord.agent(store=memory)
    def reading() -> Any:
        stream = letters("abc")
        return onrecord.run_step("collect", lambda: list(stream))

    assert reading.run(run_id="r") == ["a", "b", "c"]
    _check_replay(reading, "r", ["a", "b", "c"])
    assert [one.kind for one in onrecord.JournalReader(memory, "r").scan()].count("ChunkReceived") == 0
