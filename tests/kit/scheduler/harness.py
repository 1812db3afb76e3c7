"""Run a small program on the scheduler alone: effects of random latency, a text file as the journal.

`python -m kit.scheduler.harness PROGRAM record|replay|resume FILE [COMMITS]` prints what the program returned. With
COMMITS the process dies after so many commits.
"""

from __future__ import annotations

import ast
import asyncio
import functools
import os
import random
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

from onrecord.runtime.scheduler import items
from onrecord.runtime.scheduler.drivers import loops, threads
from onrecord.runtime.scheduler.drivers.coordinator import Coordinator
from onrecord.runtime.scheduler.drivers.strands import CURRENT, InsideTask, LaneTask, Strand, find_lane, inside
from onrecord.runtime.scheduler.items import Call, Chunk, Cut, EffectCancelled, EffectFailed, EffectOutcome, Item, Token
from onrecord.runtime.scheduler.kernel import Kernel
from onrecord.runtime.scheduler.window import Window, digest_history

DIED, DIVERGED, IN_DOUBT, RECORD_OVER = 9, 3, 4, 5
LATENCY = random.Random()


class TextJournal:
    """Items as lines of Python literals."""

    def __init__(self, path: Path, dies_after: int | None = None) -> None:
        self.path = path
        self.dies_after = dies_after
        self.commits = 0
        self._time = max((getattr(item, "time", 0) for item in self.read()), default=0)
        self._opened = monotonic() - self._time / 1e6

    def commit(self, batch: list[Item], sync: bool) -> int:
        self._time = max(self._time, int((monotonic() - self._opened) * 1e6))
        with self.path.open("a") as file:
            file.write("".join(f"{(type(item).__name__, *_plain(self._timed(item)))!r}\n" for item in batch))
        self.commits += 1
        if self.commits == self.dies_after:
            os._exit(DIED)
        return self._time

    def _timed(self, item: Item) -> Item:
        return item._replace(time=self._time) if isinstance(item, EffectOutcome | Chunk) else item

    def read(self) -> list[Item]:
        return list(self._read()) if self.path.exists() else []

    def _read(self) -> Iterator[Item]:
        for line in self.path.read_text().splitlines():
            kind, *fields = ast.literal_eval(line)
            if kind in ("EffectOutcome", "Chunk", "SettledItem"):
                at = 2 if kind == "Chunk" else 1 if kind == "EffectOutcome" else 2
                fields[at] = _back(fields[at])
            yield getattr(items, kind)(*fields)


def _plain(item: Any) -> list[Any]:
    return [_value(one) for one in item]


def _value(value: Any) -> Any:
    if isinstance(value, EffectCancelled | Cut | EffectFailed):
        return ("$", type(value).__name__, *value)
    return value


def _back(value: Any) -> Any:
    if isinstance(value, tuple) and value and value[0] == "$":
        return getattr(items, value[1])(*value[2:])
    return value


# Effects


def opened(value: Any) -> Any:
    if isinstance(value, EffectCancelled):
        raise asyncio.CancelledError
    if isinstance(value, Cut):
        raise ConnectionError("cut off")
    if isinstance(value, EffectFailed):
        raise RuntimeError(value.reason)
    how, result = value
    if how == "error":
        raise RuntimeError(result)
    return result


class SyncEffect:
    """The calling thread executes the effect itself, without the baton."""

    def __init__(self, strand: Strand, call: Callable[[], Any]) -> None:
        self._strand = strand
        self._call = call
        self.value: Any = None

    def begin(self, token: Token) -> None:
        def work() -> None:
            with inside():
                try:
                    value = ("ok", self._call())
                except Exception as error:
                    value = ("error", str(error))
            self._strand.coordinator.arrived(token, value)

        self._strand.work = work
        self._strand.gate.release()

    def stop(self, token: Token) -> None: ...

    def deliver(self, value: Any, last: bool) -> None:
        self.value = value
        self._strand.coordinator.kernel.wake(self._strand)


class EffectFuture(asyncio.Future[Any]):
    """What a task awaits. Cancelling it cancels the effect, whose outcome is still waited for."""

    token: Token | None = None
    run: Coordinator

    def cancel(self, msg: Any = None) -> bool:
        if self.done() or self.token is None:
            return False
        if self.run.is_over:
            return super().cancel(msg)
        with self.run.lock:
            self.run.kernel.cancel(self.token)
        return True


class TaskEffect:
    """A task of its own executes the effect, in the same loop."""

    def __init__(self, strand: Strand, lane: str, call: Callable[[], Any]) -> None:
        self._strand = strand
        self._lane = lane
        self._call = call
        self._task: InsideTask | None = None
        self._is_stopped = False
        self._driver = strand.loop
        self.future = EffectFuture(loop=strand.loop.loop)
        self.future.run = strand.coordinator

    def begin(self, token: Token) -> None:
        self._driver.call_soon_threadsafe_really(self._begin, token)

    def _begin(self, token: Token) -> None:
        def over(task: asyncio.Task[Any]) -> None:
            if task.cancelled():
                value: Any = EffectCancelled()
            elif task.exception() is not None:
                value = ("error", str(task.exception()))
            else:
                value = ("ok", task.result())
            self._driver.arrived(self._strand.coordinator, token, value)

        with inside():
            self._task = InsideTask(self._call(), loop=self._driver.loop)
            self._task.add_done_callback(over)
            if self._is_stopped:
                self._task.cancel()

    def stop(self, token: Token) -> None:
        self._driver.call_soon_threadsafe_really(self._stop)

    def _stop(self) -> None:
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()

    def deliver(self, value: Any, last: bool) -> None:
        def set_result() -> None:
            if not self.future.done():
                if isinstance(value, EffectCancelled):
                    asyncio.Future.cancel(self.future)
                else:
                    self.future.set_result(value)

        self._driver.add(self._strand.coordinator, self._lane, asyncio.Handle(set_result, (), self._driver.loop, None))


def effect(function: Any = None, *, once: bool = False) -> Any:
    if function is None:
        return functools.partial(effect, once=once)
    name = function.__name__
    if asyncio.iscoroutinefunction(function):

        @functools.wraps(function)
        async def ask(*args: Any) -> Any:
            found = find_lane()
            if found is None:
                return await function(*args)
            strand, lane = found
            run = strand.coordinator
            made = TaskEffect(strand, lane, lambda: function(*args))
            with run.lock:
                made.future.token = run.ask(lane, Call(name, args, once), made)
            return opened(await made.future)

        return ask

    @functools.wraps(function)
    def ask_blocking(*args: Any) -> Any:
        found = find_lane()
        if found is None:
            return function(*args)
        strand, lane = found
        run = strand.coordinator
        made = SyncEffect(strand, lambda: function(*args))
        with run.lock:
            run.act(strand)
            run.ask(lane, Call(name, args, once), made)
            run.wait(strand)
        return opened(made.value)

    return ask_blocking


def draw(site: str, make: Callable[[], Any]) -> Any:
    found = find_lane()
    if found is None:
        return make()
    run = found[0].coordinator
    with run.lock:
        run.act(found[0], draws=True)
        return run.draw(found[1], site, make)


def set_state(value: Any) -> None:
    found = find_lane()
    assert found is not None
    run = found[0].coordinator
    with run.lock:
        run.act(found[0])
        run.note(found[1], value)


# Runs


def latency() -> float:
    """Return a random delay. That of a lane is drawn: with another one its deadline would move the clock elsewhere."""
    return float(draw("latency", lambda: LATENCY.random() * 0.012))


def carry(program: Callable[[], Any], mode: str, path: Path, dies_after: int | None = None) -> tuple[int, Any]:
    """Run a program. Return the exit status and what it returned, with the run's clock, or why it stopped."""
    threads.install()
    journal = TextJournal(path, dies_after)
    history = list(enumerate(journal.read())) if mode != "record" else []
    writable = mode != "replay"
    kernel = Kernel(Window(history, digest_history(history, writable=writable)), writable=writable)
    run = Coordinator(kernel, journal)
    CURRENT.strand = run.running = run.main
    try:
        outcome: Any = ("ok", program())
    except (Exception, asyncio.CancelledError) as error:
        outcome = ("error", repr(error))
    except BaseException as stop:
        outcome = ("stopped", repr(stop))
    finally:
        CURRENT.strand = None
    if run.stopped is None:
        run.finish(repr(outcome))
    if run.stopped is not None:
        kind = type(run.stopped).__name__
        return {"Diverged": DIVERGED, "EffectsInDoubt": IN_DOUBT, "RecordOver": RECORD_OVER}[kind], run.stopped
    return 0, (outcome, kernel.time)


async def carry_beside(programs: list[Callable[[], Any]], mode: str, folder: Path) -> list[Any]:
    """Run asynchronous programs as runs of their own in one loop, at the same time."""
    threads.install()

    async def one(number: int, call: Callable[[], Any]) -> Any:
        journal = TextJournal(folder / str(number))
        history = list(enumerate(journal.read())) if mode == "replay" else []
        window = Window(history, digest_history(history, writable=mode != "replay"))
        run = Coordinator(Kernel(window, writable=mode != "replay"), journal)
        result = await _carry_in_loop(run, call(), lambda task: repr(task.result()))
        return (result, run.kernel.time) if run.stopped is None else run.stopped

    return await asyncio.gather(*[one(number, call) for number, call in enumerate(programs)])


async def _carry_in_loop(run: Coordinator, coroutine: Coroutine[Any, Any, Any], digest: Callable[[Any], Any]) -> Any:
    """Run an asynchronous agent in the running loop, beside whatever else lives there.

    `digest` makes of the ended task what the record says of the end. It is asked before the run rests again.
    """
    loop = asyncio.get_running_loop()
    driver, strand = loops.LoopDriver.of(loop), run.main
    ended: asyncio.Future[None] = loop.create_future()

    def end(task: asyncio.Task[Any]) -> None:
        if not run.is_over:
            run.finish(digest(task))
        if not ended.done():
            ended.set_result(None)

    with run.lock:
        driver.enter(strand)
        task = LaneTask(coroutine, strand, run.kernel.root, run.next_number(), loop=loop)
        task.add_done_callback(end)
        run.advance()
    try:
        await ended
    finally:
        with run.lock:
            driver.leave(strand)
    return task.result()


def main() -> None:
    from kit.scheduler.programs import COROUTINES, PROGRAMS

    name, mode, path, *more = sys.argv[1:]
    if name == "beside":
        Path(path).mkdir(exist_ok=True)
        status, outcome = 0, asyncio.run(carry_beside(list(COROUTINES.values()), mode, Path(path)))
    else:
        status, outcome = carry(PROGRAMS[name], mode, Path(path), int(more[0]) if more else None)
    print(outcome, flush=True)
    os._exit(status)


if __name__ == "__main__":
    main()
