"""A run that never rests is handed what came all the same; that this was so is written with the next commit, which a
process that dies never makes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import onrecord
from kit.runtime import Died, broken_off, replay, resume
from kit.stores import any_store

dies = [True]


@onrecord.step
async def slow(value: str) -> str:
    await asyncio.sleep(0.01)
    return value


@onrecord.agent
async def polling() -> Any:
    task = asyncio.create_task(slow("polled"))
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    if dies[0]:
        raise Died
    return [turns, task.result(), await slow("last")]


@pytest.mark.parametrize("lives", [2, 4])
@any_store
def test_dying_before_it_is_known_that_an_answer_did_not_wait_for_a_rest(lives: int, store: Any) -> None:
    dies[0] = True
    run_id = broken_off(polling, store=store)
    for _ in range(lives - 2):
        with pytest.raises(Died):
            resume(polling, run_id, store=store)
    dies[0] = False
    result = resume(polling, run_id, store=store)
    assert result[1:] == ["polled", "last"]
    assert replay(polling, run_id, store=store) == result


@onrecord.tool
async def mail() -> str:
    raise Died


@onrecord.agent
async def polling_mail() -> Any:
    task = asyncio.create_task(mail())
    while not task.done():
        await asyncio.sleep(0)
    return await task


def test_a_run_that_never_rests_stops_in_doubt(memory: Any) -> None:
    """Its tasks are cancelled by a callback of the loop, which its own callbacks must let through."""
    run_id = broken_off(polling_mail, store=memory)
    with pytest.raises(onrecord.InDoubt):
        resume(polling_mail, run_id, store=memory)
