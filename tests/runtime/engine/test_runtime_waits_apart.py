"""A word from outside ends the wait that it was meant for, and nothing but a word from outside does."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

import onrecord
from kit.runtime import Died, kinds, new_id, recorded_and_replayed, replay, resume, run
from onrecord.core.wait_keys import Resolution, WaitIdentity
from onrecord.errors import KeysUnavailable
from onrecord.runtime.waits import WaitRegistry
from onrecord.runtime.waits.listed_waits import load_waits


def answering_once(store: Any) -> Any:
    """A tool that uses only the first key that it is given."""
    seen: list[str] = []

    @onrecord.tool
    async def hand_out(key: str) -> None:
        seen.append(key)
        if len(seen) == 1:
            WaitRegistry(store).resolve(key, Resolution.ok("yes"))

    return hand_out


def in_a_task(waited: Any) -> Any:
    return asyncio.create_task(waited)


def gathered(waited: Any) -> Any:
    async def first() -> Any:
        return (await asyncio.gather(waited))[0]

    return first()


@pytest.mark.parametrize("carried", [in_a_task, gathered])
def test_an_answer_ends_one_wait_although_tasks_carry_them_out(memory: Any, carried: Any) -> None:
    hand_out = answering_once(memory)

    @onrecord.agent
    async def asking() -> list[str]:
        answers = []
        for _ in range(3):
            await hand_out(onrecord.wait_key("approval"))
            try:
                answers.append(await carried(onrecord.wait_for("approval", timeout=0.05)))
            except TimeoutError:
                answers.append("nobody")
        return answers

    assert recorded_and_replayed(asking, store=memory) == ["yes", "nobody", "nobody"]


def test_two_waits_of_one_name_side_by_side_have_an_answer_each(memory: Any) -> None:
    hand_out = answering_once(memory)

    @onrecord.agent
    async def asking() -> list[Any]:
        await hand_out(onrecord.wait_key("approval"))
        waits = [onrecord.wait_for("approval", timeout=0.05) for _ in range(2)]
        return [str(one) for one in await asyncio.gather(*waits, return_exceptions=True)]

    assert recorded_and_replayed(asking, store=memory) == ["yes", "'approval' was not resolved in time"]


def test_a_decision_answers_one_of_two_questions_that_were_asked_side_by_side(memory: Any) -> None:
    @onrecord.agent
    async def asking() -> list[Any]:
        questions = [onrecord.interrupt("refund 5 EUR?"), onrecord.interrupt("delete the account?")]
        return list(await asyncio.gather(*questions))

    async def asked() -> None:
        carried = asyncio.create_task(asking.run(run_id="two", store=memory))
        while len(load_waits(memory, "two")) < 2 and not carried.done():
            await asyncio.sleep(0.005)
        carried.cancel()
        await asyncio.gather(carried, return_exceptions=True)

    asyncio.run(asked())
    assert sorted((one.ordinal, one.state) for one in load_waits(memory, "two")) == [(1, "open"), (2, "open")]


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_decisions_on_questions_side_by_side_stay_with_their_questions(memory: Any, order: tuple[int, int]) -> None:
    """Whoever comes back to the record must not be handed the consent to something else."""
    alive = [False]

    @onrecord.step
    async def go_on() -> None:
        if not alive[0]:
            raise Died

    @onrecord.agent
    async def asking() -> list[Any]:
        questions = [onrecord.interrupt("refund 5 EUR?"), onrecord.interrupt("delete the account?")]
        answers = await asyncio.gather(*questions)
        await go_on()
        return list(answers)

    desk = WaitRegistry(memory)

    async def answered() -> None:
        carried = asyncio.create_task(asking.run(run_id="two", store=memory))
        for number in order:
            while len(load_waits(memory, "two")) < 2:
                await asyncio.sleep(0.005)
            word = {1: "yes", 2: "no"}[number]
            desk.resolve(desk.key("two", WaitIdentity.named("interrupt@main", number)), Resolution.ok(word))
            await asyncio.sleep(0.05)
        await carried

    with pytest.raises(Died):
        asyncio.run(answered())
    alive[0] = True
    assert resume(asking, "two", store=memory) == ["yes", "no"]
    assert replay(asking, "two", store=memory) == ["yes", "no"]
    onrecord.verify_run(memory, "two").raise_if_invalid()


def waits_for_one() -> Any:
    return onrecord.wait_for("approval")


def waits_for_the_first() -> Any:
    return onrecord.wait_for_first("approve", "reject")


def asks_for_the_key() -> Any:
    onrecord.wait_key("approval")
    return onrecord.wait_for("approval")


def asks_an_operator() -> Any:
    return onrecord.interrupt("go on?")


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("waits", [waits_for_one, waits_for_the_first, asks_for_the_key, asks_an_operator])
def test_a_file_of_secrets_that_cannot_be_read_is_no_answer(
    memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: Any, is_async: bool
) -> None:
    @onrecord.step
    def look() -> str:
        return "seen"

    @onrecord.agent
    def asking() -> Any:
        look()
        try:
            return waits()
        except Exception as error:  # an agent that takes whatever comes for an answer
            return f"answered with {error}"

    @onrecord.agent
    async def asking_async() -> Any:
        look()
        try:
            return await waits()
        except Exception as error:
            return f"answered with {error}"

    agent, run_id = (asking_async if is_async else asking), new_id()
    keys = tmp_path / "exposed"
    keys.write_text("{}")
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(keys))
    os.chmod(keys, 0o644)
    for carry in (lambda: run(agent, store=memory, run_id=run_id), lambda: resume(agent, run_id, store=memory)):
        with pytest.raises(KeysUnavailable):
            carry()
        assert kinds(memory, run_id)[:2] == ["ActionRequested", "ActionSucceeded"]
        assert not {"WaitResolved", "Resumed", "Completed", "Failed"} & set(kinds(memory, run_id))

    keys.unlink()  # mended: a new one is made
    desk = WaitRegistry(memory)
    name = {waits_for_the_first: "approve", asks_an_operator: "interrupt@main"}.get(waits, "approval")
    desk.resolve(desk.key(run_id, WaitIdentity.named(name, 1)), Resolution.ok("yes"))
    answer = ("approve", "yes") if waits is waits_for_the_first else "yes"
    assert resume(agent, run_id, store=memory) == answer
    assert replay(agent, run_id, store=memory) == answer
