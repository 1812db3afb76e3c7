"""Waiting for a word from outside, sleeping, and what an agent keeps or draws for itself."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import onrecord
from kit.kept_bytes import kept_in
from kit.runtime import (
    Died,
    broken_off,
    divergence_of,
    events,
    kinds,
    new_id,
    recorded_and_replayed,
    replay,
    requests,
    resume,
    run,
)
from onrecord.core.wait_keys import Resolution, WaitIdentity
from onrecord.runtime.waits import WaitRegistry

sent: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    sent.clear()


@onrecord.tool
def mail(text: Any) -> str:
    sent.append(text)
    return "sent"


@onrecord.tool
async def mail_async(text: Any) -> str:
    sent.append(text)
    return "sent"


def resolving(store: Any, key: str, resolution: Resolution) -> None:
    WaitRegistry(store).resolve(key, resolution)


RESOLUTIONS = {
    "ok": (Resolution.ok({"approved": True}), {"approved": True}),
    "error": (Resolution.error("no money"), "WaitFailed no money"),
    "cancelled": (Resolution.cancelled("no need"), "WaitCancelled None"),
}


@pytest.mark.parametrize("how", RESOLUTIONS)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_wait_that_was_resolved_before_anyone_waits(memory: Any, how: str, is_async: bool) -> None:
    resolution, expected = RESOLUTIONS[how]

    @onrecord.tool
    def decide(key: str) -> None:
        sent.append(key)
        resolving(memory, key, resolution)

    @onrecord.agent
    def asking() -> Any:
        decide(onrecord.wait_key("approval"))
        try:
            return onrecord.wait_for("approval")
        except onrecord.OnrecordError as error:
            return f"{type(error).__name__} {getattr(error, 'value', None)}"

    @onrecord.agent
    async def asking_async() -> Any:
        decide(onrecord.wait_key("approval"))
        try:
            return await onrecord.wait_for("approval")
        except onrecord.OnrecordError as error:
            return f"{type(error).__name__} {getattr(error, 'value', None)}"

    agent = asking_async if is_async else asking
    run_id = new_id()
    assert run(agent, store=memory, run_id=run_id) == expected
    assert replay(agent, run_id, store=memory) == expected
    assert len(sent) == 1
    assert "WaitCreated" in kinds(memory, run_id)
    assert "WaitResolved" in kinds(memory, run_id)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_wait_that_is_resolved_while_the_run_waits(memory: Any, is_async: bool) -> None:
    keys: list[str] = []
    out = threading.Event()

    @onrecord.tool
    def hand_out(key: str) -> None:
        keys.append(key)
        out.set()

    @onrecord.agent
    def blocked() -> Any:
        hand_out(onrecord.wait_key("word"))
        return onrecord.wait_for("word")

    @onrecord.agent
    async def blocked_async() -> Any:
        hand_out(onrecord.wait_key("word"))
        return await onrecord.wait_for("word")

    agent = blocked_async if is_async else blocked
    handle = agent.start(run_id=new_id(), store=memory)
    assert out.wait(10)
    resolving(memory, keys[0], Resolution.ok((1, "two")))
    assert handle.result(10) == (1, "two")
    assert replay(agent, handle.run_id, store=memory) == (1, "two")


@pytest.mark.parametrize("timeout", [0.01, "10ms", timedelta(milliseconds=10)])
def test_a_wait_times_out_and_does_so_again(memory: Any, timeout: Any) -> None:
    @onrecord.agent
    async def impatient() -> str:
        try:
            await onrecord.wait_for("never", timeout=timeout)
        except TimeoutError as late:
            return str(late)
        return "?"

    @onrecord.agent
    def impatient_thread() -> str:
        try:
            onrecord.wait_for("never", timeout=timeout)
        except TimeoutError as late:
            return str(late)
        return "?"

    assert "never" in recorded_and_replayed(impatient, store=memory)
    assert "never" in recorded_and_replayed(impatient_thread, store=memory)


def test_a_wait_is_waited_on_by_whoever_resumes(memory: Any) -> None:
    @onrecord.agent
    async def waiting_on() -> Any:
        await mail_async(onrecord.wait_key("word"))
        return await onrecord.wait_for("word")

    async def cut_short() -> None:
        task = asyncio.create_task(waiting_on.run(run_id=run_id, store=memory))
        while "WaitCreated" not in kinds(memory, run_id) if sent else True:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_id = new_id()
    asyncio.run(cut_short())
    assert kinds(memory, run_id)[-1] == "WaitCreated"
    resolving(memory, sent[0], Resolution.ok("meanwhile"))
    assert resume(waiting_on, run_id, store=memory) == "meanwhile"
    assert len(sent) == 1
    assert replay(waiting_on, run_id, store=memory) == "meanwhile"


def test_the_key_is_the_same_when_the_run_comes_back(memory: Any) -> None:
    alive = [False]

    @onrecord.step
    def note(key: str) -> None:
        sent.append(key)

    @onrecord.agent
    def asking_again() -> Any:
        key = onrecord.wait_key("word")
        note(key)
        if not alive[0]:
            raise Died
        sent.append(key)
        resolving(memory, key, Resolution.ok(7))
        return onrecord.wait_for("word")

    run_id = broken_off(asking_again, store=memory)
    alive[0] = True
    assert resume(asking_again, run_id, store=memory) == 7
    assert sent[0] == sent[1]


def test_two_waits_of_one_name_have_keys_of_their_own(memory: Any) -> None:
    @onrecord.tool
    def answer(key: str, value: int) -> None:
        sent.append(key)
        resolving(memory, key, Resolution.ok(value))

    @onrecord.agent
    async def asking_twice() -> Any:
        async def one(number: int) -> Any:
            answer(onrecord.wait_key("word"), number)
            return await onrecord.wait_for("word")

        first = [await one(1), await one(2)]
        return [*first, *await asyncio.gather(one(3), one(4))]

    assert recorded_and_replayed(asking_twice, store=memory) == [1, 2, 3, 4]
    assert len(set(sent)) == 4


def test_a_wait_that_loses_a_race_is_cancelled_for_everyone(memory: Any) -> None:
    @onrecord.agent
    async def racing() -> Any:
        sent.append(onrecord.wait_key("word"))
        try:
            async with asyncio.timeout(0.05):
                return await onrecord.wait_for("word")
        except TimeoutError:
            return "gave up"

    run_id = new_id()
    assert run(racing, store=memory, run_id=run_id) == "gave up"
    outcome = WaitRegistry(memory).resolve(sent[0], Resolution.ok("late"))
    assert outcome.terminal is not None
    assert outcome.terminal.status == "cancelled"
    assert replay(racing, run_id, store=memory) == "gave up"


# The key is a secret


@dataclass
class Letter:
    to: str
    link: str


def stored_bytes(folder: Path) -> bytes:
    return b"".join(data for where, data in kept_in(folder) if "store.db" in where)


KEY_CARRIERS: dict[str, Any] = {
    "argument": lambda key: mail(f"open https://x/?key={key}"),
    "nested argument": lambda key: mail({"to": ["ann", {"link": key}], key: 1}),
    "dataclass": lambda key: mail(Letter("ann", f"https://x/{key}")),
    "bytes": lambda key: mail(key.encode()),
    "result": lambda key: onrecord.run_step("echo", lambda text: [text], key),
    "error": lambda key: _swallowed(lambda: onrecord.run_step("fail", _fails_with, key)),
    "state": lambda key: onrecord.set_state({"link": key}),
    "child agent": lambda key: keeping_child(key),
}


def _fails_with(text: str) -> None:
    raise ValueError(f"cannot deliver {text}")


def _swallowed(call: Any) -> str:
    try:
        call()
    except ValueError as error:
        return str(error)[:6]
    return "?"


@onrecord.agent
def keeping_child(text: str) -> int:
    mail(text)
    return len(text)


@pytest.mark.parametrize("carrier", list(KEY_CARRIERS))
def test_a_key_is_nowhere_in_the_store(sqlite: Any, tmp_path: Path, carrier: str) -> None:
    keys: list[str] = []

    @onrecord.agent
    def keeping_secret() -> Any:
        key = onrecord.wait_key("word")
        keys.append(key)
        KEY_CARRIERS[carrier](key)
        resolving(sqlite, key, Resolution.ok(1)) if not key.startswith("<") else None
        return onrecord.wait_for("word")

    run_id = new_id()
    assert run(keeping_secret, store=sqlite, run_id=run_id) == 1
    data = stored_bytes(tmp_path)
    assert b"keeping_secret" in data
    assert keys[0].encode() not in data
    assert replay(keeping_secret, run_id, store=sqlite) == 1


@pytest.mark.parametrize("ending", ["returned", "raised"])
def test_a_key_in_the_end_of_a_run_is_nowhere_in_the_store(sqlite: Any, tmp_path: Path, ending: str) -> None:
    keys: list[str] = []

    @onrecord.agent
    def telling() -> Any:
        key = onrecord.wait_key("word")
        keys.append(key)
        if ending == "raised":
            raise LookupError(f"nobody opened {key}")
        return {"link": key}

    run_id = new_id()
    if ending == "raised":
        with pytest.raises(LookupError):
            run(telling, store=sqlite, run_id=run_id)
    else:
        assert run(telling, store=sqlite, run_id=run_id) == {"link": keys[0]}
    assert keys[0].encode() not in stored_bytes(tmp_path)


# Interrupts


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_an_interrupt_blocks_until_a_decision_comes(memory: Any, is_async: bool) -> None:
    @onrecord.agent
    def interrupted() -> Any:
        return [mail("before"), onrecord.interrupt({"approve": "refund"}), mail("after")]

    @onrecord.agent
    async def interrupted_async() -> Any:
        return [await mail_async("before"), await onrecord.interrupt({"approve": "refund"}), await mail_async("after")]

    agent = interrupted_async if is_async else interrupted
    handle = agent.start(run_id=new_id(), store=memory)
    desk = WaitRegistry(memory)
    desk.resolve(desk.key(handle.run_id, WaitIdentity.named("interrupt@main", 1)), Resolution.ok({"yes": 1}))
    assert handle.result(10) == ["sent", {"yes": 1}, "sent"]
    assert [kind for kind in kinds(memory, handle.run_id) if kind in ("Interrupted", "Resumed")] == [
        "Interrupted",
        "Resumed",
    ]
    assert replay(agent, handle.run_id, store=memory) == ["sent", {"yes": 1}, "sent"]
    assert sent == ["before", "after"]


def test_waiting_outside_of_a_run_is_refused() -> None:
    with pytest.warns(UserWarning, match="outside"), pytest.raises(onrecord.OnrecordError) as caught:
        onrecord.wait_for("never-outside")
    assert caught.value.code == "outside_run"


# Sleep


def test_a_sleep_is_an_effect_with_a_due_time(memory: Any) -> None:
    @onrecord.agent
    async def sleeping() -> Any:
        await onrecord.sleep(0.01)
        return "woke"

    @onrecord.agent
    def sleeping_thread() -> Any:
        onrecord.sleep(0.01)
        return "woke"

    for agent in (sleeping, sleeping_thread):
        run_id = new_id()
        assert run(agent, store=memory, run_id=run_id) == "woke"
        request = requests(memory, run_id)[0]
        assert request.payload == {"seconds": 0.01}
        assert request.meta["due"] > 1e15
        assert replay(agent, run_id, store=memory) == "woke"


def test_a_replay_does_not_sleep(memory: Any) -> None:
    """Twenty years have passed, as far as the record is concerned."""

    @onrecord.agent
    async def sleeping_long() -> Any:
        done, _ = await asyncio.wait(
            [asyncio.create_task(onrecord.sleep(3600 * 24 * 365 * 20)), asyncio.create_task(mail_async("x"))],
            return_when=asyncio.FIRST_COMPLETED,
        )
        return len(done)

    assert recorded_and_replayed(sleeping_long, store=memory) == 1


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_a_sleep_of_no_length_is_refused(seconds: float) -> None:
    with pytest.raises(onrecord.OnrecordError) as caught:
        onrecord.sleep(seconds)
    assert caught.value.code == "bad_sleep"


# Drawn values


def test_values_drawn_before_and_after_the_first_request_of_a_task_come_back(memory: Any) -> None:
    @onrecord.agent
    async def drawing_around() -> Any:
        async def one() -> Any:
            return [onrecord.random(), await mail_async("x"), onrecord.random()]

        return await asyncio.create_task(one())

    recorded_and_replayed(drawing_around, store=memory)


def test_time_chance_and_ids_come_back(memory: Any) -> None:
    @onrecord.agent
    async def drawing() -> Any:
        async def one() -> Any:
            return [await mail_async("x"), onrecord.now(), onrecord.random(), onrecord.uuid(), onrecord.random()]

        return [onrecord.now(), *await asyncio.gather(one(), one()), onrecord.uuid(), onrecord.random()]

    first = recorded_and_replayed(drawing, store=memory)
    assert isinstance(first[0], datetime)
    assert first[0].tzinfo is UTC
    assert isinstance(first[-2], UUID)
    assert first[-2].version == 4
    assert 0 <= first[-1] < 1
    assert first[1][2] != first[2][2]


def test_drawn_values_come_back_on_resume(memory: Any) -> None:
    drawn: list[Any] = []
    alive = [False]

    @onrecord.agent
    def drawing_on() -> Any:
        drawn.append((onrecord.now(), onrecord.random(), onrecord.uuid()))
        mail("x")
        if not alive[0]:
            raise Died
        return onrecord.random()

    run_id = broken_off(drawing_on, store=memory)
    alive[0] = True
    result = resume(drawing_on, run_id, store=memory)
    assert drawn[0] == drawn[1]
    assert replay(drawing_on, run_id, store=memory) == result
    assert len(sent) == 1


def test_values_drawn_after_the_last_effect_come_back(memory: Any) -> None:
    @onrecord.agent
    def drawing_last() -> Any:
        mail("x")
        return [onrecord.random(), onrecord.uuid()]

    recorded_and_replayed(drawing_last, store=memory)


def test_drawing_more_than_the_record_has_is_no_divergence(memory: Any) -> None:
    more = [False]

    @onrecord.agent
    def drawing_more() -> Any:
        if more[0]:
            onrecord.random()
            onrecord.random()
        return [onrecord.random(), mail("x")][1]

    run_id = new_id()
    run_result = run(drawing_more, store=memory, run_id=run_id)
    more[0] = True
    assert replay(drawing_more, run_id, store=memory) == run_result


def test_drawing_inside_of_an_effect_belongs_to_the_effect(memory: Any) -> None:
    @onrecord.step
    def draws() -> Any:
        return onrecord.random()

    @onrecord.agent
    def drawing_inside() -> Any:
        return draws()

    run_id = new_id()
    result = run(drawing_inside, store=memory, run_id=run_id)
    assert "ValuesDrawn" not in [event.kind for event in events(memory, run_id)]
    assert replay(drawing_inside, run_id, store=memory) == result


# State


def test_state_is_on_record_and_comes_back(memory: Any) -> None:
    seen: list[Any] = []

    @onrecord.agent
    def stateful() -> Any:
        seen.append(onrecord.state())
        onrecord.set_state({"step": 1}, step_id="one")
        mail("x")
        seen.append(onrecord.state())
        onrecord.set_state({"step": 2})
        return onrecord.state()

    run_id = new_id()
    assert run(stateful, store=memory, run_id=run_id) == {"step": 2}
    assert replay(stateful, run_id, store=memory) == {"step": 2}
    assert seen == [None, {"step": 1}] * 2
    assert kinds(memory, run_id).count("StateUpdated") == 2
    assert next(event for event in events(memory, run_id) if event.kind == "StateUpdated").step_id == "one"


def test_another_state_is_a_divergence_that_names_the_field(memory: Any) -> None:
    step = [1]

    @onrecord.agent
    def stateful_otherwise() -> Any:
        onrecord.set_state({"a": {"step": step[0]}})
        return mail("x")

    run_id = new_id()
    run(stateful_otherwise, store=memory, run_id=run_id)
    step[0] = 2
    parted = divergence_of(lambda: replay(stateful_otherwise, run_id, store=memory))
    assert parted.code == "conflicting_state"
    assert parted.where["path"] == "/payload/a/step"
    assert parted.where["line"].startswith(f"{__file__}:")
    assert parted.where["expected"]["payload"] == {"a": {"step": 1}}


def test_state_that_is_not_set_again_is_a_divergence(memory: Any) -> None:
    sets = [True]

    @onrecord.agent
    def forgetful() -> Any:
        mail("x")
        if sets[0]:
            onrecord.set_state(1)
        return 0

    run_id = new_id()
    run(forgetful, store=memory, run_id=run_id)
    sets[0] = False
    divergence_of(lambda: replay(forgetful, run_id, store=memory))


def test_what_is_changed_in_the_state_without_setting_it_is_not_on_record(memory: Any) -> None:
    """What one task changes in what it was given does not change what others are given."""

    @onrecord.agent
    def changing() -> Any:
        given = {"list": [1]}
        onrecord.set_state(given)
        given["list"].append(2)
        mail("x")
        return onrecord.state()

    assert recorded_and_replayed(changing, store=memory) == {"list": [1]}
