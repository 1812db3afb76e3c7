"""What ends the process while a loop carries a run: it travels as it would without one, and the run can be resumed."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import onrecord
from kit.runtime import events, kinds, new_id, replay, resume, run

calls: list[Any] = []
dies = [True]


@pytest.fixture(autouse=True)
def as_new() -> None:
    calls.clear()
    dies[0] = True


class Blackout(BaseException):
    """As exotic as can be: neither a `SystemExit` nor an `Exception`."""


@onrecord.step
async def ask(value: Any) -> Any:
    calls.append(value)
    await asyncio.sleep(0)
    return value


@onrecord.step
def ask_blocking(value: Any) -> Any:
    calls.append(value)
    return value


class Ends:
    """Ends the process, the first time."""

    def __init__(self, with_what: type[BaseException]) -> None:
        self.exception = with_what("the end")

    def __call__(self) -> None:
        if dies[0]:
            raise self.exception


async def in_a_gathered_task(end: Ends) -> Any:
    async def one(number: int) -> Any:
        value = await ask(number)
        if number == 1:
            end()
        return [value, await ask(number + 100)]

    return await asyncio.gather(*map(one, range(3)))


async def in_a_task_nobody_waits_for(end: Ends) -> Any:
    ended = asyncio.Event()

    async def one() -> None:
        end()
        ended.set()

    task = asyncio.create_task(one())
    await ended.wait()
    await task
    return await ask("after it")


async def in_a_callback(end: Ends) -> Any:
    called = asyncio.Event()

    def callback() -> None:
        end()
        called.set()

    asyncio.get_running_loop().call_soon(callback)
    await called.wait()
    return await ask("after it")


async def in_a_timer(end: Ends) -> Any:
    called = asyncio.Event()

    def callback() -> None:
        end()
        called.set()

    asyncio.get_running_loop().call_later(0.001, callback)
    await called.wait()
    return await ask("after it")


async def in_a_task_group(end: Ends) -> Any:
    async def one(number: int) -> Any:
        value = await ask(number)
        if number == 1:
            end()
        return value

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number)) for number in range(3)]
    return [task.result() for task in tasks]


async def in_an_executor_job(end: Ends) -> Any:
    def job() -> Any:
        value = ask_blocking("in the job")
        end()
        return value

    return await asyncio.get_running_loop().run_in_executor(None, job)


async def in_the_main_task(end: Ends) -> Any:
    end()
    return await ask("after it")


PLACES = [
    in_a_gathered_task,
    in_a_task_nobody_waits_for,
    in_a_callback,
    in_a_timer,
    in_a_task_group,
    in_an_executor_job,
    in_the_main_task,
]


def _agent(body: Callable[[Ends], Awaitable[Any]], end: Ends) -> Any:
    @onrecord.agent(name=f"ends {body.__name__}")
    async def ending() -> Any:
        return [await ask("before"), await body(end)]

    return ending


@pytest.mark.parametrize("exception", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("body", PLACES, ids=lambda body: body.__name__)
def test_what_ends_the_process_suspends_the_run_and_lets_it_go(memory: Any, body: Any, exception: Any) -> None:
    end, run_id = Ends(exception), new_id()
    agent = _agent(body, end)
    with pytest.raises(exception) as caught:
        run(agent, store=memory, run_id=run_id)
    assert caught.value is end.exception
    assert kinds(memory, run_id)[-1] in ("ActionRequested", "ActionSucceeded")
    before = len(events(memory, run_id))
    gc.collect()  # what the loop has left lying is thrown away
    assert len(events(memory, run_id)) == before

    dies[0] = False
    asked = list(calls)
    result = resume(agent, run_id, store=memory)
    assert asked.count("before") == calls.count("before") == 1
    assert replay(agent, run_id, store=memory) == result


@pytest.mark.parametrize("body", [in_a_gathered_task, in_a_task_group, in_an_executor_job, in_the_main_task])
def test_any_other_base_exception_that_leaves_the_agent_suspends_it_too(memory: Any, body: Any) -> None:
    end, run_id = Ends(Blackout), new_id()
    agent = _agent(body, end)
    with pytest.raises(BaseException) as caught:  # a task group puts it into a group
        run(agent, store=memory, run_id=run_id)
    assert end.exception in (caught.value, *getattr(caught.value, "exceptions", ()))
    assert "Failed" not in kinds(memory, run_id)
    dies[0] = False
    result = resume(agent, run_id, store=memory)
    assert replay(agent, run_id, store=memory) == result


def test_a_neighbour_that_ends_the_process_takes_the_run_with_it_and_lets_it_go(memory: Any) -> None:
    """The loop is thrown out of twice, the second time while it is being cleared: the run's own task never ends."""
    run_id, begun = new_id(), asyncio.Event()

    @onrecord.agent
    async def neighbour() -> Any:
        first = await ask("first")
        if dies[0]:
            begun.set()
            await asyncio.Event().wait()
        return [first, await ask("second")]

    async def ending() -> None:
        await begun.wait()
        raise SystemExit(3)

    async def main() -> None:
        await asyncio.gather(neighbour.run(run_id=run_id, store=memory), ending())

    with pytest.raises(SystemExit) as caught:
        asyncio.run(main())
    assert caught.value.code == 3
    dies[0] = False
    assert resume(neighbour, run_id, store=memory) == ["first", "second"]
    assert calls == ["first", "second"]


def test_a_run_that_nobody_waits_for_any_more_is_let_go_with_its_loop(memory: Any) -> None:
    run_id = new_id()

    @onrecord.agent
    async def left_lying() -> Any:
        first = await ask("first")
        while dies[0]:
            await asyncio.sleep(0.001)
        return [first, await ask("second")]

    loop = asyncio.new_event_loop()
    task = loop.create_task(left_lying.run(run_id=run_id, store=memory))

    async def until_begun() -> None:
        while not calls:
            await asyncio.sleep(0)

    loop.run_until_complete(until_begun())
    loop.close()
    dies[0] = False
    assert resume(left_lying, run_id, store=memory) == ["first", "second"]
    del task


def test_a_run_that_was_let_go_early_is_not_let_go_again_when_its_remains_are_collected(memory: Any) -> None:
    """By then it is carried by somebody else."""
    agent, run_id = _agent(in_a_gathered_task, Ends(SystemExit)), new_id()
    with pytest.raises(SystemExit):
        run(agent, store=memory, run_id=run_id)
    dies[0] = False

    async def resumed() -> Any:
        task = asyncio.ensure_future(agent.resume(run_id, store=memory))
        await asyncio.sleep(0)
        gc.collect()
        with pytest.raises(onrecord.OnrecordError) as busy:
            await agent.resume(run_id, store=memory)
        assert busy.value.code == "run_busy"
        return await task

    assert asyncio.run(resumed()) == ["before", [[0, 100], [1, 101], [2, 102]]]


def test_a_synchronous_agent_may_catch_what_its_own_loop_raised(memory: Any) -> None:
    @onrecord.agent
    def catching() -> Any:
        async def child() -> None:
            await ask("child")
            raise SystemExit(4)

        async def main() -> None:
            await asyncio.gather(child())

        try:
            asyncio.run(main())
        except SystemExit as caught:
            return [caught.code, ask_blocking("after it")]

    run_id = new_id()
    assert run(catching, store=memory, run_id=run_id) == [4, "after it"]
    assert replay(catching, run_id, store=memory) == [4, "after it"]


def test_loops_that_runs_have_lived_in_are_not_kept(memory: Any) -> None:
    @onrecord.agent
    async def simple() -> Any:
        return await ask(1)

    loops: list[Any] = []

    async def main() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        await simple.run(run_id=new_id(), store=memory)

    asyncio.run(main())
    gc.collect()
    assert loops[0]() is None
