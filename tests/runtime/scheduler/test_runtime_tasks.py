"""Tasks of an agent, one exact case each: what was observed while recording is observed again."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
import trio
import uvloop

import onrecord
from kit.runtime import (
    Died,
    broken_off,
    divergence_of,
    events,
    new_id,
    recorded_and_replayed,
    replay,
    requests,
    resume,
    run,
)
from kit.soak import SOAK

_chance = random.Random()
calls: list[Any] = []
gates: dict[str, asyncio.Event] = {}
ROUNDS = 10 if SOAK else 3


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    calls.clear()
    gates.clear()


@onrecord.step
async def after(turns: int, value: Any) -> Any:
    """Answers after so many turns of the loop."""
    calls.append(value)
    for _ in range(turns):
        await asyncio.sleep(0)
    return value


@onrecord.step
async def never() -> None:
    calls.append("never")
    await asyncio.Event().wait()


@onrecord.tool
async def lottery() -> int:
    calls.append("lottery")
    await asyncio.sleep(_chance.choice((0, 0, 0.001)))
    return _chance.randrange(1 << 60)


@onrecord.tool
def lottery_sync(what: Any = None) -> int:
    calls.append(what)
    time.sleep(_chance.choice((0, 0, 0.001)))
    return _chance.randrange(1 << 60)


@onrecord.step
async def breaks(what: str) -> None:
    calls.append(what)
    raise ValueError(what)


def test_gather_completes_in_the_recorded_order(memory: Any) -> None:
    @onrecord.agent
    async def gathering() -> Any:
        order: list[str] = []

        async def one(name: str, turns: int) -> str:
            answer = await after(turns, name)
            order.append(name)
            return str(answer)

        results = await asyncio.gather(one("slow", 40), one("quick", 0), one("middle", 20))
        return [results, order]

    results, order = recorded_and_replayed(gathering, store=memory)
    assert results == ["slow", "quick", "middle"]
    assert order == ["quick", "middle", "slow"]
    assert len(calls) == 3


def test_the_first_completed_is_the_recorded_winner_and_losers_are_cancelled(memory: Any) -> None:
    @onrecord.agent
    async def racing() -> Any:
        cancelled: list[str] = []

        async def one(name: str) -> str:
            try:
                await lottery()
            except asyncio.CancelledError:
                cancelled.append(name)
                raise
            return name

        tasks = {name: asyncio.create_task(one(name)) for name in "abc"}
        done, pending = await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        return [[name for name, task in tasks.items() if task in done], sorted(cancelled)]

    for _ in range(ROUNDS):
        recorded_and_replayed(racing, store=memory)
    assert len(calls) == 3 * ROUNDS


def test_a_loser_that_cleans_up_with_an_effect_comes_back(memory: Any) -> None:
    @onrecord.agent
    async def cleaning() -> Any:
        async def loser() -> str:
            try:
                await never()
            except asyncio.CancelledError:
                return f"cleaned {await after(1, 'up')}"
            return "?"

        task = asyncio.create_task(loser())
        first = await after(3, "won")
        task.cancel()
        return [first, await task]

    assert recorded_and_replayed(cleaning, store=memory) == ["won", "cleaned up"]


def test_a_time_out_that_fired_fires_again(memory: Any) -> None:
    @onrecord.agent
    async def timing_out() -> Any:
        seen = []
        try:
            async with asyncio.timeout(0.01):
                await never()
        except TimeoutError:
            seen.append("timeout")
        try:
            await asyncio.wait_for(never(), 0.01)
        except TimeoutError:
            seen.append("wait_for")
        async with asyncio.timeout(60):
            seen.append(await after(2, "in time"))
        return seen

    assert recorded_and_replayed(timing_out, store=memory) == ["timeout", "wait_for", "in time"]
    assert calls == ["never", "never", "in time"]


def test_a_time_that_was_up_before_it_was_begun_with_is_up_again(memory: Any) -> None:
    """The clock says so while recording, and stands still in a replay."""

    @onrecord.agent
    async def too_late() -> Any:
        seen = []
        for seconds in (0.001, 0.0, -1.0):
            limit = asyncio.timeout(seconds)
            time.sleep(0.002)
            try:
                async with limit:
                    await never()
            except TimeoutError:
                seen.append(await after(0, "up"))
        return seen

    assert recorded_and_replayed(too_late, store=memory) == ["up", "up", "up"]


def test_the_loops_clock_moves_in_a_replay_as_timers_fire(memory: Any) -> None:
    """Timers fire by the record: an hour that was cut short by the record is not waited for."""

    @onrecord.agent
    async def napping() -> Any:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.sleep(0.05)
        await after(0, "x")
        return loop.time() - began >= 0.05

    assert recorded_and_replayed(napping, store=memory) is True


def test_a_race_with_a_sleep_has_the_recorded_winner(memory: Any) -> None:
    @onrecord.agent
    async def racing_a_sleep() -> Any:
        winners = []
        for _ in range(5):
            asked = asyncio.create_task(lottery())
            slept = asyncio.create_task(asyncio.sleep(0.001, "slept"))
            done, pending = await asyncio.wait([asked, slept], return_when=asyncio.FIRST_COMPLETED)
            winners.append(sorted("asked" if task is asked else "slept" for task in done))
            for task in pending:
                task.cancel()
            await asyncio.gather(asked, slept, return_exceptions=True)
        return winners

    for _ in range(5):
        recorded_and_replayed(racing_a_sleep, store=memory)


def test_a_hedged_request_comes_back(memory: Any) -> None:
    @onrecord.agent
    async def hedging() -> Any:
        first = asyncio.create_task(never())
        done, _ = await asyncio.wait([first], timeout=0.005)
        assert not done
        second = asyncio.create_task(after(1, "hedge"))
        done, pending = await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        return [task.result() for task in done]

    assert recorded_and_replayed(hedging, store=memory) == ["hedge"]
    assert calls == ["never", "hedge"]


@pytest.mark.parametrize("how", ["tasks", "to_thread"])
def test_fifty_identical_calls_with_different_answers_each_get_their_own(memory: Any, how: str) -> None:
    @onrecord.agent
    async def fifty() -> list[int]:
        if how == "tasks":
            return list(await asyncio.gather(*(lottery() for _ in range(50))))
        return list(await asyncio.gather(*(asyncio.to_thread(lottery_sync) for _ in range(50))))

    result = recorded_and_replayed(fifty, store=memory)
    assert len(set(result)) == 50
    assert len(calls) == 50


# The program was edited between recording and replaying


def test_a_named_task_gets_its_own_answers_wherever_it_was_started(memory: Any) -> None:
    order = ["left", "right"]

    @onrecord.agent
    async def named() -> Any:
        tasks = {name: asyncio.create_task(lottery(), name=name) for name in order}
        return {name: await tasks[name] for name in ("left", "right")}

    run_id = new_id()
    recorded = run(named, store=memory, run_id=run_id)
    order.reverse()
    assert replay(named, run_id, store=memory) == recorded


def test_named_tasks_of_a_group_get_their_own_answers(memory: Any) -> None:
    order = ["left", "right"]

    @onrecord.agent
    async def named_group() -> Any:
        async with asyncio.TaskGroup() as group:
            tasks = {name: group.create_task(lottery(), name=name) for name in order}
        return {name: tasks[name].result() for name in ("left", "right")}

    run_id = new_id()
    recorded = run(named_group, store=memory, run_id=run_id)
    order.reverse()
    assert replay(named_group, run_id, store=memory) == recorded


# Groups


def test_a_failing_task_group_cancels_the_others_again(memory: Any) -> None:
    @onrecord.agent
    async def grouped() -> Any:
        seen: list[Any] = []

        async def waiting() -> None:
            try:
                await never()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(waiting())
                group.create_task(waiting())
                await after(1, "begun")
                group.create_task(breaks("broken"))
        except* ValueError as errors:
            seen.append([str(error) for error in errors.exceptions])
        return seen

    assert recorded_and_replayed(grouped, store=memory) == ["cancelled", "cancelled", ["broken"]]
    assert sorted(calls) == ["begun", "broken", "never", "never"]


def test_gather_with_a_failure_leaves_the_others_going(memory: Any) -> None:
    @onrecord.agent
    async def half_failing() -> Any:
        tasks = [asyncio.create_task(breaks("x")), asyncio.create_task(after(30, "late"))]
        try:
            await asyncio.gather(*tasks)
        except ValueError as error:
            return [str(error), await tasks[1]]

    assert recorded_and_replayed(half_failing, store=memory) == ["x", "late"]


def test_queues_events_semaphores_and_conditions_come_back(memory: Any) -> None:
    @onrecord.agent
    async def workers() -> Any:
        queue: asyncio.Queue[int] = asyncio.Queue()
        slots, done = asyncio.Semaphore(2), asyncio.Event()
        seen: list[Any] = []

        async def work(name: str) -> None:
            while True:
                number = await queue.get()
                async with slots:
                    seen.append((name, number, await lottery()))
                queue.task_done()
                if len(seen) == 12:
                    done.set()

        tasks = [asyncio.create_task(work(name)) for name in "abc"]
        for number in range(12):
            queue.put_nowait(number)
        await done.wait()
        await queue.join()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return seen

    for _ in range(5):
        recorded_and_replayed(workers, store=memory)
    assert len(calls) == 60


def test_a_poller_does_not_starve_and_sees_the_same_number_of_turns(memory: Any) -> None:
    @onrecord.agent
    async def polling() -> int:
        task, turns = asyncio.create_task(lottery()), 0
        while not task.done():
            turns += 1
            await asyncio.sleep(0)
        return turns

    for _ in range(5):
        recorded_and_replayed(polling, store=memory)


def test_a_blocking_call_in_the_loop_is_served_at_once(memory: Any) -> None:
    @onrecord.agent
    async def blocking() -> Any:
        seen: list[Any] = []

        async def one(name: str) -> None:
            seen.append((name, lottery_sync(name)))
            await asyncio.sleep(0)
            seen.append((name, await lottery()))
            seen.append((name, lottery_sync(name)))

        await asyncio.gather(*map(one, "abc"))
        return seen

    for _ in range(ROUNDS):
        recorded_and_replayed(blocking, store=memory)


def test_a_callback_may_start_effects(memory: Any) -> None:
    @onrecord.agent
    async def calling_back() -> Any:
        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Task[Any]] = []
        ready = asyncio.Event()

        def later() -> None:
            tasks.append(asyncio.ensure_future(after(1, "from a timer")))
            ready.set()

        loop.call_later(0.002, later)
        await ready.wait()
        return await tasks[0]

    assert recorded_and_replayed(calling_back, store=memory) == "from a timer"


def test_shielded_effects_go_on_when_their_caller_is_cancelled(memory: Any) -> None:
    @onrecord.agent
    async def shielding() -> Any:
        inner = asyncio.create_task(after(20, "saved"))
        try:
            async with asyncio.timeout(0.0001):
                await asyncio.shield(inner)
        except TimeoutError:
            pass
        return await inner

    assert recorded_and_replayed(shielding, store=memory) == "saved"
    assert calls == ["saved"]


def test_an_async_generator_of_the_agent_comes_back(memory: Any) -> None:
    @onrecord.agent
    async def streaming() -> list[int]:
        async def numbers() -> Any:
            for _ in range(3):
                yield await lottery()

        return [number async for number in numbers()]

    recorded_and_replayed(streaming, store=memory)


# Other loops


def test_anyio_on_asyncio_comes_back(memory: Any) -> None:
    @onrecord.agent
    async def with_anyio() -> Any:
        seen: list[Any] = []

        async def one(name: str) -> None:
            seen.append((name, await lottery()))

        async with anyio.create_task_group() as group:
            for name in "abc":
                group.start_soon(one, name)
        with anyio.move_on_after(0.005) as scope:
            await never()
        seen.append(scope.cancelled_caught)
        send, receive = anyio.create_memory_object_stream[int](5)
        async with anyio.create_task_group() as group, send:
            group.start_soon(send.send, 7)
            seen.append(await receive.receive())
        receive.close()
        return seen

    for _ in range(5):
        recorded_and_replayed(with_anyio, store=memory)


def test_anyios_threads_come_back(memory: Any) -> None:
    @onrecord.agent
    async def with_anyio_threads() -> Any:
        return await anyio.to_thread.run_sync(lottery_sync)

    for _ in range(5):
        recorded_and_replayed(with_anyio_threads, store=memory)


def test_block_in_a_loop_that_cannot_be_put_in_order_is_refused_aloud(memory: Any) -> None:
    async def main() -> Any:
        with onrecord.record("block", store=memory):
            return await after(0, 1)

    with pytest.raises(onrecord.OnrecordError) as caught:
        uvloop.run(main())
    assert caught.value.code == "unsupported_loop"
    assert "asyncio.run" in caught.value.hint
    assert calls == []


def test_cancellation_after_an_outcome_has_come_is_not_lost(memory: Any) -> None:
    """Both outcomes come together. The main task gets the first, and cancels the task that is to get the second."""

    @onrecord.agent
    async def cancelling() -> Any:
        got = []

        async def child() -> None:
            got.append(await after(3, "child"))
            await asyncio.Event().wait()

        task = asyncio.create_task(child())
        await after(3, "main")
        task.cancel()
        await asyncio.wait([task], timeout=60)
        return [task.cancelled(), got]

    assert recorded_and_replayed(cancelling, store=memory) == [True, []]


def test_trio_is_refused_aloud(memory: Any) -> None:
    @onrecord.agent(store=memory)
    async def under_trio() -> Any:
        return await after(0, 1)

    with pytest.raises(onrecord.OnrecordError) as caught:
        trio.run(under_trio)
    assert caught.value.code == "unsupported_loop"
    assert calls == []


def test_uvloop_awaits_an_agent_in_a_loop_of_its_own(memory: Any) -> None:
    @onrecord.agent(store=memory)
    async def under_uvloop() -> Any:
        return await after(0, 1)

    assert uvloop.run(under_uvloop()) == 1
    assert calls == [1]


# Several runs


def test_a_hundred_waiting_runs_beside_a_busy_one_get_their_outcomes(memory: Any) -> None:
    """The busy run never rests; the others are answered while it is still busy."""

    @onrecord.agent
    async def busy() -> int:
        turns = 0
        while not ended.is_set():
            turns += 1
            await asyncio.sleep(0)
        await after(0, "busy")
        return turns

    @onrecord.agent
    async def waiting(number: int) -> Any:
        return [await after(3, number), await after(3, -number)]

    async def main() -> Any:
        task = asyncio.create_task(busy.run(run_id=busy_id, store=memory))
        await asyncio.sleep(0)
        found = await asyncio.gather(*(waiting.run(n, run_id=f"{busy_id}-{n}", store=memory) for n in range(100)))
        assert not task.done()
        ended.set()
        return found, await task

    busy_id = new_id()
    ended = asyncio.Event()
    found, turns = asyncio.run(main())
    assert found == [[number, -number] for number in range(100)]
    assert turns < 5_000


def test_two_runs_in_one_loop_do_not_mix(memory: Any) -> None:
    @onrecord.agent
    async def counting(name: str) -> Any:
        return [await after(number % 3, f"{name}{number}") for number in range(10)]

    async def main() -> Any:
        return await asyncio.gather(*(counting.run(name, run_id=ids[name], store=memory) for name in ids))

    ids = {name: new_id() for name in "abc"}
    asyncio.run(main())
    for name, run_id in ids.items():
        assert [one.payload["value"] for one in requests(memory, run_id)] == [f"{name}{n}" for n in range(10)]
        replay(counting, run_id, store=memory)


# Resuming


def test_a_resume_in_the_middle_of_a_gather_goes_on(memory: Any) -> None:
    dies = [True]

    @onrecord.agent
    async def interrupted() -> Any:
        async def one(number: int) -> Any:
            value = await after(number * 10, number)
            if number == 2 and dies[0]:
                raise Died
            return [value, await after(0, number + 100)]

        return await asyncio.gather(*map(one, range(4)))

    run_id = broken_off(interrupted, store=memory)
    before = list(calls)
    dies[0] = False
    assert resume(interrupted, run_id, store=memory) == [[n, n + 100] for n in range(4)]
    done = [one.event for one in onrecord.JournalReader(memory, run_id).scan() if one.event.kind == "ActionSucceeded"]
    assert len(done) == 8
    assert calls.count(0) == calls.count(1) == calls.count(2) == 1
    assert before.count(102) == 0
    assert replay(interrupted, run_id, store=memory) == [[n, n + 100] for n in range(4)]


def test_a_resume_after_a_gather_goes_on(memory: Any) -> None:
    dies = [True]

    @onrecord.agent
    async def interrupted_after() -> Any:
        found = await asyncio.gather(*(after(number, number) for number in range(4)))
        if dies[0]:
            raise Died
        return [*found, await after(0, "new")]

    run_id = broken_off(interrupted_after, store=memory)
    dies[0] = False
    assert resume(interrupted_after, run_id, store=memory) == [0, 1, 2, 3, "new"]
    assert sorted(map(str, calls)) == ["0", "1", "2", "3", "new"]
    assert replay(interrupted_after, run_id, store=memory) == [0, 1, 2, 3, "new"]


# Divergences


def test_a_divergence_names_what_was_expected_and_where(memory: Any) -> None:
    text = ["recorded"]

    @onrecord.agent
    async def diverging() -> Any:
        await after(0, "first")
        return await after(0, {"prompt": {"text": text[0]}})

    run_id = new_id()
    run(diverging, store=memory, run_id=run_id)
    text[0] = "changed"
    parted = divergence_of(lambda: replay(diverging, run_id, store=memory))
    assert parted.code == "conflicting_request"
    where = parted.where
    assert where["path"] == "/payload/value/prompt/text"
    assert where["expected"]["payload"]["value"]["prompt"]["text"] == "recorded"
    assert where["actual"]["payload"]["value"]["prompt"]["text"] == "changed"
    assert where["line"].startswith(f"{__file__}:")
    assert where["seq"] == 3
    assert parted.exit_status == 1
    assert "recorded code back" in parted.hint
    assert len(calls) == 2


def test_a_call_that_the_record_does_not_have_names_the_nearest(memory: Any) -> None:
    more = [False]

    @onrecord.agent
    async def calling_more() -> Any:
        if more[0]:
            await lottery()
        return await after(0, "first")

    run_id = new_id()
    run(calling_more, store=memory, run_id=run_id)
    more[0] = True
    parted = divergence_of(lambda: replay(calling_more, run_id, store=memory))
    assert parted.code == "unrecorded_request"
    assert parted.where["nearest"] == 1
    assert parted.where["actual"]["name"] == "lottery"
    assert parted.where["line"].startswith(f"{__file__}:")
    assert parted.where["path"]
    assert calls == ["first"]


def test_a_replay_that_asks_for_less_ends_with_a_divergence(memory: Any) -> None:
    fewer = [False]

    @onrecord.agent
    async def calling_less() -> Any:
        found = [await after(0, "first")]
        if not fewer[0]:
            found.append(await after(0, "second"))
        return found

    run_id = new_id()
    run(calling_less, store=memory, run_id=run_id)
    fewer[0] = True
    parted = divergence_of(lambda: replay(calling_less, run_id, store=memory))
    assert parted.code == "missing_request"
    assert parted.where["expected"]["payload"] == {"turns": 0, "value": "second"}


def test_a_replay_that_would_wait_for_ever_ends_with_a_divergence(memory: Any) -> None:
    hangs = [False]

    @onrecord.agent
    async def hanging() -> Any:
        await after(0, "first")
        if hangs[0]:
            await asyncio.Event().wait()
        return await after(0, "second")

    run_id = new_id()
    run(hanging, store=memory, run_id=run_id)
    hangs[0] = True
    parted = divergence_of(lambda: replay(hanging, run_id, store=memory))
    assert parted.code == "missing_request"
    assert "second" in str(parted.where["expected"])


def test_a_replay_that_would_wait_for_ever_at_the_end_of_the_record_ends(memory: Any) -> None:
    hangs = [False]

    @onrecord.agent
    async def hanging_last() -> Any:
        await after(0, "first")
        if hangs[0]:
            await asyncio.Event().wait()
        return 1

    run_id = new_id()
    run(hanging_last, store=memory, run_id=run_id)
    hangs[0] = True
    with pytest.raises(onrecord.OnrecordError) as caught:
        replay(hanging_last, run_id, store=memory)
    assert isinstance(caught.value, onrecord.Divergence), caught.value.code


def test_another_end_is_a_divergence(memory: Any) -> None:
    ending = [1]

    @onrecord.agent
    async def ending_otherwise() -> Any:
        await after(0, "x")
        if ending[0] == 3:
            raise ValueError
        return ending[0]

    run_id = new_id()
    run(ending_otherwise, store=memory, run_id=run_id)
    for ending[0] in (2, 3):
        parted = divergence_of(lambda: replay(ending_otherwise, run_id, store=memory))
        assert parted.code == "other_end"
        assert parted.where["expected"] == {"output": 1}
        assert parted.where["path"]


def test_an_edited_program_is_not_run_live_past_an_unmatched_record(memory: Any) -> None:
    """The mail is not sent twice, whatever the new code asks for first."""
    edited = [False]

    @onrecord.tool
    async def mail(to: str) -> str:
        calls.append(f"mail {to}")
        return "sent"

    @onrecord.agent
    async def mailing() -> Any:
        if edited[0]:
            await mail("audit")
            return await mail("ann@new")
        await mail("ann")
        raise Died

    run_id = broken_off(mailing, store=memory)
    edited[0] = True
    before = len(events(memory, run_id))
    parted = divergence_of(lambda: resume(mailing, run_id, store=memory))
    assert parted.code in ("conflicting_request", "missing_request")
    assert calls == ["mail ann"]
    assert len(events(memory, run_id)) == before


def test_a_swallowed_divergence_still_ends_the_replay(memory: Any) -> None:
    text = ["a"]

    @onrecord.agent
    async def swallowing() -> Any:
        try:
            return await after(0, text[0])
        except Exception:
            return "swallowed"

    run_id = new_id()
    run(swallowing, store=memory, run_id=run_id)
    text[0] = "b"
    divergence_of(lambda: replay(swallowing, run_id, store=memory))


@pytest.mark.parametrize("place", ["my_asyncio_agent.py", "asyncio/agent.py", "onrecord/effect/agent.py"])
def test_the_line_is_told_wherever_the_agents_file_is(memory: Any, tmp_path: Path, place: str) -> None:
    """Only asyncio's own files, and ours, are nobody's code."""
    file = tmp_path / place
    source = "async def body(ask, text):\n    await ask(0, 'first')\n    return await ask(0, text)\n"
    code: dict[str, Any] = {}
    exec(compile(source, str(file), "exec"), code)
    text = ["recorded"]

    @onrecord.agent
    async def elsewhere() -> Any:
        return await asyncio.gather(code["body"](after, text[0]))

    run_id = new_id()
    run(elsewhere, store=memory, run_id=run_id)
    text[0] = "changed"
    parted = divergence_of(lambda: replay(elsewhere, run_id, store=memory))
    assert parted.where["line"] == f"{file}:3"


def test_agent_that_uvloop_stops_awaiting_is_suspended(memory: Any) -> None:
    run_id, started = new_id(), asyncio.Event()

    @onrecord.agent(store=memory)
    async def waiting() -> Any:
        first = await after(0, 1)
        if not started.is_set():
            started.set()
            await asyncio.sleep(60)
        return [first, await after(0, 2)]

    async def main() -> None:
        task = asyncio.create_task(waiting.run(run_id=run_id))
        while not started.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    uvloop.run(main())
    assert calls == [1]
    assert uvloop.run(waiting.resume(run_id)) == [1, 2]
    assert calls == [1, 2]
