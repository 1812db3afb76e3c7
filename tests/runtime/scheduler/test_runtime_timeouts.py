"""Waits of threads that have a time-out end as they did when they were recorded, however fast the threads are now."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import suppress
from typing import Any

import pytest

import onrecord
from kit.runtime import Died, broken_off, new_id, replay, resume, run

SHORT, LONG = 0.03, 0.15
calls: list[Any] = []
pause = [0.0]


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    calls.clear()


@onrecord.step
def ask(what: Any) -> Any:
    calls.append(what)
    return what


def an_event() -> Any:
    event = threading.Event()
    with Other(event.set):
        return event.wait(SHORT)


def a_condition() -> Any:
    condition = threading.Condition()

    def notify() -> None:
        with condition:
            condition.notify()

    with Other(notify), condition:
        return condition.wait(SHORT)


def a_predicate() -> Any:
    """Counts the rest of its time-out itself, and waits again while there is any."""
    condition, done = threading.Condition(), []

    def notify() -> None:
        with condition:
            done.append(1)
            condition.notify_all()

    with Other(notify), condition:
        return condition.wait_for(lambda: bool(done), SHORT)


def a_queue() -> Any:
    channel: queue.Queue[int] = queue.Queue()
    with Other(lambda: channel.put(7)):
        try:
            return channel.get(timeout=SHORT) == 7
        except queue.Empty:
            return False


def a_full_queue() -> Any:
    channel: queue.Queue[int] = queue.Queue(maxsize=1)
    channel.put(1)
    with Other(channel.get):
        try:
            channel.put(2, timeout=SHORT)
        except queue.Full:
            return False
        return True


def a_semaphore() -> Any:
    semaphore = threading.Semaphore(0)
    with Other(semaphore.release):
        return semaphore.acquire(timeout=SHORT)


def a_barrier() -> Any:
    barrier = threading.Barrier(2)

    def meet() -> None:
        with suppress(threading.BrokenBarrierError):
            barrier.wait(LONG)

    with Other(meet):
        try:
            barrier.wait(SHORT)
        except threading.BrokenBarrierError:
            return False
        return True


def a_lock() -> Any:
    return _locked(threading.Lock())


def an_rlock() -> Any:
    return _locked(threading.RLock())


def _locked(lock: Any) -> Any:
    held = threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            ask("held")
            time.sleep(pause[0])

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    got = lock.acquire(timeout=SHORT)
    if got:
        lock.release()
    thread.join()
    return got


def a_thread() -> Any:
    thread = threading.Thread(target=lambda: (ask("other"), time.sleep(pause[0]), ask("end of the other")))
    thread.start()
    thread.join(SHORT)
    over = not thread.is_alive()
    ask("in between")
    thread.join()
    return over


def a_future() -> Any:
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(_slow)
        try:
            return future.result(SHORT)
        except TimeoutError:
            return False


def a_wait_for_futures() -> Any:
    with ThreadPoolExecutor(1) as pool:
        done, _ = wait([pool.submit(_slow)], timeout=SHORT)
        return bool(done)


def futures_as_completed() -> Any:
    with ThreadPoolExecutor(1) as pool:
        future: Future[bool] = pool.submit(_slow)
        try:
            return all(one.result() for one in as_completed([future], timeout=SHORT))
        except TimeoutError:
            return False


def _slow() -> bool:
    ask("other")
    time.sleep(pause[0])
    ask("end of the other")
    return True


class Other:
    """Another thread, which asks for something and then takes its time until it wakes this one."""

    def __init__(self, wake: Callable[[], Any]) -> None:
        def work() -> None:
            ask("other")
            time.sleep(pause[0])
            ask("about to wake")
            wake()

        self._thread = threading.Thread(target=work)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join()


WAITS = [
    *(an_event, a_condition, a_predicate, a_queue, a_full_queue, a_semaphore, a_barrier),
    *(a_lock, an_rlock, a_thread, a_future, a_wait_for_futures, futures_as_completed),
]


@onrecord.agent
def waiting(which: str) -> Any:
    found = globals()[which]()
    return [found, ask(f"after it: {found}")]


def record(which: Any, memory: Any, *, in_time: bool) -> tuple[str, Any]:
    """Record a run whose wait ended in time, or late. A busy machine takes several tries."""
    pause[0] = 0.0 if in_time else LONG
    for _ in range(100):
        run_id = new_id()
        recorded = run(waiting, which.__name__, store=memory, run_id=run_id)
        if recorded[0] is in_time:
            return run_id, recorded
    raise AssertionError(f"no wait ended {'in time' if in_time else 'late'}")


@pytest.mark.parametrize("which", WAITS, ids=lambda which: which.__name__)
def test_a_wait_that_was_late_is_late_again_however_early_it_is_over_now(memory: Any, which: Any) -> None:
    run_id, recorded = record(which, memory, in_time=False)
    made, pause[0] = len(calls), 0.0
    for _ in range(2):
        assert replay(waiting, run_id, store=memory) == recorded
    assert len(calls) == made


@pytest.mark.parametrize("which", WAITS, ids=lambda which: which.__name__)
def test_a_wait_that_was_over_in_time_has_all_the_time_it_needs(memory: Any, which: Any) -> None:
    run_id, recorded = record(which, memory, in_time=True)
    made, pause[0] = len(calls), LONG
    assert replay(waiting, run_id, store=memory) == recorded
    assert len(calls) == made


def test_a_run_that_is_resumed_goes_on_by_the_clock_where_its_record_ends(memory: Any) -> None:
    dies = [True]

    @onrecord.agent
    def waiting_twice() -> Any:
        event = threading.Event()
        with Other(event.set):
            first = event.wait(SHORT)
        ask(f"first: {first}")
        if dies[0]:
            raise Died
        never = threading.Event()
        return [first, event.wait(SHORT), never.wait(SHORT), ask("last")]

    pause[0] = LONG
    run_id = broken_off(waiting_twice, store=memory)
    dies[0], pause[0] = False, 0.0
    assert resume(waiting_twice, run_id, store=memory) == [False, True, False, "last"]
    assert calls.count("other") == calls.count("first: False") == calls.count("last") == 1
    assert replay(waiting_twice, run_id, store=memory) == [False, True, False, "last"]


def test_a_time_out_that_is_cut_off_by_the_end_of_the_process_is_waited_for_again(memory: Any) -> None:
    dies = [True]

    @onrecord.agent
    def cut_off() -> Any:
        never, seen = threading.Event(), []

        def work() -> None:
            ask("before")
            seen.append(never.wait(SHORT))
            seen.append(ask("after"))

        thread = threading.Thread(target=work)
        thread.start()
        if dies[0]:
            while not calls:
                time.sleep(0.001)
            raise Died
        thread.join()
        return seen

    run_id = broken_off(cut_off, store=memory)
    dies[0] = False
    assert resume(cut_off, run_id, store=memory) == [False, "after"]
    assert replay(cut_off, run_id, store=memory) == [False, "after"]


def test_one_that_was_woken_and_is_late_all_the_same_wakes_another(memory: Any) -> None:
    """No word to go on is lost between a time-out and its turn."""

    @onrecord.agent
    def both() -> Any:
        condition, seen = threading.Condition(), []

        def wait_for_it(name: str, timeout: float | None) -> None:
            with condition:
                seen.append((name, condition.wait(timeout)))

        threads = [threading.Thread(target=wait_for_it, args=args) for args in (("late", SHORT), ("patient", None))]
        for thread in threads:
            thread.start()
            ask("started")
        time.sleep(pause[0])  # without a word: its turn is not over before the other is late
        with condition:
            condition.notify()
        for thread in threads:
            thread.join(5.0)
            if thread.is_alive():  # the word was for the one that was late in time
                with condition:
                    condition.notify()
                thread.join()
        return sorted(name for name, _ in seen)

    for pause[0] in (0.0, SHORT * 1.1, LONG):
        run_id = new_id()
        assert run(both, store=memory, run_id=run_id) == ["late", "patient"]
        pause[0] = 0.0
        assert replay(both, run_id, store=memory) == ["late", "patient"]


def test_threads_of_no_run_wait_as_ever() -> None:
    channel: queue.Queue[int] = queue.Queue()
    with pytest.raises(queue.Empty):
        channel.get(timeout=0.001)
    assert threading.Event().wait(0.001) is False
    assert threading.Semaphore(0).acquire(timeout=0.001) is False
    assert threading.Condition().acquire(timeout=0.001) is True
