"""Threads of an agent, one exact case each: what was observed while recording is observed again."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import queue
import random
import threading
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, as_completed, wait
from typing import Any

import pytest

import onrecord
from kit.runtime import divergence_of, new_id, recorded_and_replayed, replay, requests, run
from kit.soak import SOAK
from onrecord.runtime.scheduler.drivers.strands import RunEnded

_chance = random.Random()
calls: list[Any] = []
ROUNDS = 5 if SOAK else 2
LONG_WORK_SECONDS = 0.7
"""Longer than an impatient replay waits for a thread, also after it has relaxed the order."""


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    calls.clear()


@onrecord.tool
def ask(what: Any = None) -> int:
    calls.append(what)
    time.sleep(_chance.choice((0, 0.0003, 0.001)))
    return _chance.randrange(1 << 40)


@onrecord.tool
async def ask_async(what: Any = None) -> int:
    calls.append(what)
    await asyncio.sleep(_chance.choice((0, 0.0003, 0.001)))
    return _chance.randrange(1 << 40)


def all_rounds(agent: Any, store: Any) -> None:
    for _ in range(ROUNDS):
        before = len(calls)
        run_id = new_id()
        result = run(agent, store=store, run_id=run_id)
        made = len(calls)
        assert made > before
        assert replay(agent, run_id, store=store) == result
        assert len(calls) == made, "a replay calls nothing"


def test_threads_that_share_a_list_write_to_it_in_the_recorded_order(memory: Any) -> None:
    @onrecord.agent
    def sharing() -> Any:
        seen: list[Any] = []

        def work(name: int) -> None:
            for number in range(3):
                seen.append((name, number))
                seen.append((name, ask(name)))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return seen

    all_rounds(sharing, memory)


@pytest.mark.parametrize("make", ["Lock", "RLock"])
def test_a_lock_across_effects_is_taken_in_the_recorded_order(memory: Any, make: str) -> None:
    @onrecord.agent
    def locking() -> Any:
        lock, seen = getattr(threading, make)(), []

        def work(name: int) -> None:
            ask(("before", name))
            with lock:
                seen.append((name, ask(name)))
                seen.append((name, ask(name)))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return seen

    all_rounds(locking, memory)


_made_before = threading.Lock()


@pytest.mark.xfail(strict=False, reason="known defect: the system chooses among threads that wait for a lock of C")
def test_a_lock_that_was_made_before_the_run_does_not_hang_a_replay(memory: Any) -> None:
    @onrecord.agent
    def locking_outside() -> Any:
        seen: list[Any] = []

        def work(name: int) -> None:
            ask(("before", name))
            with _made_before:
                seen.append((name, ask(name)))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(seen)

    recorded_and_replayed(locking_outside, store=memory)


def test_queues_come_back(memory: Any) -> None:
    @onrecord.agent
    def queueing() -> Any:
        jobs: queue.Queue[int | None] = queue.Queue(maxsize=2)
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def work(name: str) -> None:
            while (number := jobs.get()) is not None:
                done.put((name, number, ask(number)))
                jobs.task_done()

        threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for number in range(6):
            jobs.put(number)
        jobs.join()
        for _ in threads:
            jobs.put(None)
        for thread in threads:
            thread.join()
        return [done.get() for _ in range(6)]

    all_rounds(queueing, memory)


def test_conditions_events_semaphores_and_barriers_come_back(memory: Any) -> None:
    @onrecord.agent
    def coordinating() -> Any:
        condition, ready, slots, barrier = (
            threading.Condition(),
            threading.Event(),
            threading.Semaphore(1),
            threading.Barrier(3),
        )
        seen: list[Any] = []

        def work(name: int) -> None:
            ready.wait()
            with slots:
                seen.append((name, ask(name)))
            barrier.wait()
            with condition:
                seen.append(("through", name))
                condition.notify_all()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        ask("before")
        ready.set()
        with condition:
            condition.wait_for(lambda: len(seen) == 6)
        for thread in threads:
            thread.join()
        return seen

    all_rounds(coordinating, memory)


def test_a_pool_with_fewer_workers_than_jobs_comes_back(memory: Any) -> None:
    @onrecord.agent
    def pooling() -> Any:
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(ask, range(9)))

    all_rounds(pooling, memory)


def test_identical_jobs_of_a_pool_each_get_their_own_answer(memory: Any) -> None:
    @onrecord.agent
    def identical() -> Any:
        with ThreadPoolExecutor(3) as pool:
            return [future.result() for future in [pool.submit(ask) for _ in range(20)]]

    all_rounds(identical, memory)


def test_futures_complete_in_the_recorded_order(memory: Any) -> None:
    @onrecord.agent
    def completing() -> Any:
        with ThreadPoolExecutor(4) as pool:
            futures = {pool.submit(ask, number): number for number in range(4)}
            seen, left = [], set(futures)
            while left:
                done, left = wait(left, return_when=FIRST_COMPLETED)
                seen.append(sorted(futures[one] for one in done))
            return [seen, sorted(futures[one] for one in as_completed(futures))]

    all_rounds(completing, memory)


def test_a_failing_job_fails_again(memory: Any) -> None:
    @onrecord.step
    def fails() -> None:
        calls.append("fails")
        raise LookupError("lost")

    @onrecord.agent
    def failing_job() -> Any:
        with ThreadPoolExecutor(1) as pool:
            try:
                pool.submit(fails).result()
            except LookupError as error:
                return str(error)

    assert recorded_and_replayed(failing_job, store=memory) == "lost"
    assert calls == ["fails"]


def test_a_pool_may_be_given_more_or_fewer_jobs_than_recorded(memory: Any) -> None:
    """A cache that is warm needs no job. What the program asks for is the same."""

    @onrecord.agent
    def caching() -> int:
        with ThreadPoolExecutor(2) as pool:
            for _ in range(given[0]):
                pool.submit(len, "cached").result()
            return pool.submit(ask).result()

    for recorded, replayed in ((2, 0), (0, 2)):
        given, run_id = [recorded], new_id()
        result = run(caching, run_id=run_id, store=memory)
        given[0] = replayed
        assert replay(caching, run_id, store=memory) == result


def test_a_lane_is_named_after_its_function_without_wrappers(memory: Any) -> None:
    async def work() -> int:
        return await ask_async(2)

    @onrecord.agent
    async def wrapped() -> None:
        context = contextvars.copy_context()
        await asyncio.to_thread(context.run, functools.partial(ask), 1)
        thread = threading.Thread(target=contextvars.copy_context().run, args=(asyncio.run, work()))
        thread.start()
        thread.join()

    run_id = new_id()
    run(wrapped, run_id=run_id, store=memory)
    scanned = onrecord.JournalReader(memory, run_id).scan()
    lanes = [event.lane for event in scanned if event.kind == "ActionRequested"]
    inner = f"{wrapped.__qualname__.partition('.')[0]}.work"
    assert lanes == ["main>ask", f"main>{inner}>{inner}"]


def test_to_thread_comes_back(memory: Any) -> None:
    @onrecord.agent
    async def threading_out() -> Any:
        seen: list[Any] = []

        def job(number: int) -> int:
            first = ask(number)
            seen.append(("job", number))
            return first ^ ask(-number)

        async def one(number: int) -> None:
            seen.append((number, await asyncio.to_thread(job, number)))

        await asyncio.gather(*map(one, range(4)), *(ask_async(n) for n in range(3)))
        return seen

    all_rounds(threading_out, memory)


def test_a_thread_that_hands_work_to_the_loop_comes_back(memory: Any) -> None:
    @onrecord.agent
    async def handing_back() -> Any:
        loop = asyncio.get_running_loop()

        def job() -> Any:
            return [ask("in the thread"), asyncio.run_coroutine_threadsafe(ask_async("in the loop"), loop).result()]

        return await asyncio.to_thread(job)

    all_rounds(handing_back, memory)


def test_asyncio_run_inside_a_sync_agent_comes_back(memory: Any) -> None:
    async def inner(name: str) -> Any:
        order: list[Any] = []

        async def one(number: int) -> None:
            order.append((number, await ask_async(f"{name}{number}")))

        await asyncio.gather(*map(one, range(4)))
        await asyncio.sleep(0.001)
        return order

    @onrecord.agent
    def with_a_loop() -> Any:
        return [ask("before"), asyncio.run(inner("a")), ask("between"), asyncio.run(inner("b"))]

    all_rounds(with_a_loop, memory)


def test_asyncio_run_inside_a_thread_of_an_agent_comes_back(memory: Any) -> None:
    async def inner() -> Any:
        return await asyncio.gather(ask_async(1), ask_async(2))

    @onrecord.agent
    def loop_in_a_thread() -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, inner()).result()

    all_rounds(loop_in_a_thread, memory)


def test_a_timer_thread_comes_back(memory: Any) -> None:
    @onrecord.agent
    def timing() -> Any:
        seen: list[Any] = []
        timer = threading.Timer(0.002, lambda: seen.append(ask("timer")))
        timer.start()
        seen.append(ask("main"))
        timer.join()
        return sorted(map(bool, seen))

    all_rounds(timing, memory)


def test_a_thread_that_outlives_the_agent_cannot_act_in_its_name(memory: Any) -> None:
    released, met = threading.Event(), []
    threads: list[threading.Thread] = []

    @onrecord.agent
    def leaving() -> str:
        begun = threading.Event()

        def straggler() -> None:
            begun.set()
            try:
                released.wait()
                ask("late")
            except BaseException as error:
                met.append(error)

        ask("in time")
        threads.append(threading.Thread(target=straggler))
        threads[0].start()
        begun.wait()
        return "gone"

    run_id = new_id()
    assert run(leaving, store=memory, run_id=run_id) == "gone"
    released.set()
    threads[0].join()
    assert calls == ["in time"]
    assert isinstance(met[0], RunEnded)


def test_a_thread_of_the_program_is_not_of_the_run(memory: Any) -> None:
    """Started before the run, it belongs to nobody: what it does is not recorded."""
    go, done = threading.Event(), threading.Event()

    @onrecord.step
    def elsewhere() -> str:
        calls.append("elsewhere")
        return "done"

    def other() -> None:
        go.wait()
        with pytest.warns(UserWarning, match="outside of a run"):
            elsewhere()
        done.set()

    thread = threading.Thread(target=other)
    thread.start()

    @onrecord.agent
    def waiting_for_another() -> Any:
        go.set()
        done.wait()
        return ask("own")

    run_id = new_id()
    run(waiting_for_another, store=memory, run_id=run_id)
    thread.join()
    assert [one.name for one in requests(memory, run_id)] == ["ask"]


def test_a_divergence_in_a_thread_ends_the_replay_without_noise(memory: Any) -> None:
    text = ["recorded"]

    @onrecord.agent
    def diverging_thread() -> Any:
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(ask(text[0])))
        thread.start()
        thread.join()
        return len(found)

    run_id = new_id()
    run(diverging_thread, store=memory, run_id=run_id)
    text[0] = "changed"
    parted = divergence_of(lambda: replay(diverging_thread, run_id, store=memory))
    assert parted.where["line"].startswith(f"{__file__}:")


def test_a_job_that_works_for_long_is_no_divergence(memory: Any) -> None:
    @onrecord.agent
    async def working_long() -> Any:
        def job() -> int:
            time.sleep(LONG_WORK_SECONDS)  # instead of the processor work of a large input
            return int(ask("after long work"))

        await ask_async("before")
        return await asyncio.to_thread(job)

    recorded_and_replayed(working_long, store=memory)


def test_a_thread_that_works_for_long_is_no_divergence(memory: Any) -> None:
    @onrecord.agent
    def thread_working_long() -> Any:
        def job() -> int:
            time.sleep(LONG_WORK_SECONDS)
            return int(ask("after long work"))

        ask("before")
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(job).result()

    recorded_and_replayed(thread_working_long, store=memory)


def test_a_thread_that_waits_for_one_that_diverged_ends_too(memory: Any) -> None:
    text = ["recorded"]

    @onrecord.agent
    def waiting_for_the_diverged() -> Any:
        found: queue.Queue[int] = queue.Queue()
        thread = threading.Thread(target=lambda: found.put(ask(text[0])))
        thread.start()
        return bool(found.get())

    run_id = new_id()
    run(waiting_for_the_diverged, store=memory, run_id=run_id)
    text[0] = "changed"
    parted = divergence_of(lambda: replay(waiting_for_the_diverged, run_id, store=memory))
    assert parted.code == "conflicting_request"
    assert parted.where["path"] == "/payload/what"


def test_a_thread_that_is_missing_ends_the_replay_with_a_divergence(memory: Any) -> None:
    starts = [True]

    @onrecord.agent
    def without_a_thread() -> Any:
        found: list[Any] = [ask("main")]
        if starts[0]:
            thread = threading.Thread(target=lambda: found.append(ask("thread")))
            thread.start()
            thread.join()
        return len(found)

    run_id = new_id()
    run(without_a_thread, store=memory, run_id=run_id)
    starts[0] = False
    parted = divergence_of(lambda: replay(without_a_thread, run_id, store=memory))
    assert parted.code == "missing_request"


def test_a_thread_that_waits_for_ever_ends_the_replay_with_a_divergence(memory: Any) -> None:
    hangs = [False]

    @onrecord.agent
    def waiting_for_ever() -> Any:
        found: queue.Queue[int] = queue.Queue()

        def work() -> None:
            if not hangs[0]:
                found.put(ask("thread"))

        thread = threading.Thread(target=work)
        thread.start()
        try:
            return bool(found.get())
        finally:
            thread.join()

    run_id = new_id()
    run(waiting_for_ever, store=memory, run_id=run_id)
    hangs[0] = True
    parted = divergence_of(lambda: replay(waiting_for_ever, run_id, store=memory))
    assert parted.code == "missing_request"


@pytest.mark.filterwarnings("ignore:act was called outside")
@pytest.mark.parametrize("begin", ["thread", "pool"])
def test_threads_that_begin_after_a_run_was_stopped_do_nothing(memory: Any, begin: str) -> None:
    """A replay that has parted is over; what goes on until it notices must not do anything in earnest."""
    done: list[str] = []
    asks = ["recorded"]

    @onrecord.step
    def act(what: str) -> str:
        done.append(what)
        return what

    def act_late(pool: ThreadPoolExecutor) -> None:
        if begin == "thread":
            threading.Thread(target=act, args=("late",)).start()
        else:
            pool.submit(act, "late")

    @onrecord.agent
    def agent() -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(int).result()
            try:
                act(asks[0])
            finally:
                if asks[0] != "recorded":
                    act_late(pool)
                    time.sleep(0.3)

    run_id = new_id()
    run(agent, store=memory, run_id=run_id)
    done.clear()
    asks[0] = "another"
    with pytest.raises(onrecord.Divergence):
        replay(agent, run_id, store=memory)
    assert done == []


def test_a_named_thread_keeps_its_identity_when_threads_start_in_another_order(memory: Any) -> None:
    order = ["left", "right"]

    @onrecord.agent
    def named() -> Any:
        found: dict[str, int] = {}
        threads = [
            threading.Thread(target=lambda name=name: found.__setitem__(name, ask(name)), name=name) for name in order
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [found["left"], found["right"]]

    run_id = new_id()
    recorded = run(named, store=memory, run_id=run_id)
    assert {one.action_id for one in requests(memory, run_id)} == {"main>left/ask/0", "main>right/ask/0"}
    order.reverse()
    assert replay(named, run_id, store=memory) == recorded


@pytest.mark.parametrize("workers", [1, 3])
def test_a_job_that_is_cancelled_before_it_begins_leaves_nothing_open(memory: Any, workers: int) -> None:
    """A checkpoint is allowed then. With as many workers as jobs, a worker has the job already."""

    @onrecord.agent
    async def cancelling_jobs() -> Any:
        loop, pool = asyncio.get_running_loop(), ThreadPoolExecutor(workers)
        jobs = [loop.run_in_executor(pool, ask, number) for number in range(3)]
        await asyncio.sleep(0)
        jobs[0].cancel()
        jobs[2].cancel()
        found = await asyncio.gather(*jobs, return_exceptions=True)
        onrecord.checkpoint("nothing is open")
        pool.shutdown()
        assert not vars(pool)["_onrecord_jobs"]
        return [isinstance(one, asyncio.CancelledError) for one in found]

    assert recorded_and_replayed(cancelling_jobs, store=memory) == [True, False, True]
    assert calls == [1]


def test_a_thread_that_is_not_slow_any_more_waits_for_a_job(memory: Any) -> None:
    """It was away while the job ran. In the replay it waits for the job first, and its return comes later."""
    slow = [True]

    @onrecord.agent
    def waiting_for_a_job() -> Any:
        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(ask, "job")
            end = time.perf_counter() + (0.3 if slow[0] else 0)
            while time.perf_counter() < end:
                pass
            return job.result()

    run_id = new_id()
    result = run(waiting_for_a_job, store=memory, run_id=run_id)
    slow[0] = False
    assert replay(waiting_for_a_job, run_id, store=memory) == result
