"""Processes and connections are trapped in a replay, in the agent's own code and nowhere else."""

from __future__ import annotations

import asyncio
import datetime as datetimes
import logging
import multiprocessing
import os
import random
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from datetime import date, datetime
from random import choice
from time import monotonic
from time import time as now_by_another_name
from typing import Any

import pytest

import onrecord
from kit.runtime import divergence_of, new_id, recorded_and_replayed, replay, run

pytestmark = pytest.mark.filterwarnings("ignore:run .* does not record")


@onrecord.step
def fetch(what: str) -> str:
    return what


@onrecord.step
async def fetch_async(what: str) -> str:
    return what


def _connects() -> Any:
    with socket.socket() as made:
        made.settimeout(0.01)
        try:
            made.connect(("127.0.0.1", 1))
        except OSError:
            return "refused"


def _serves_itself() -> Any:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", 0))
        return made.sendto(b"x", made.getsockname())


def _forks() -> Any:
    child = os.fork()
    if child == 0:
        os._exit(0)
    return os.waitpid(child, 0)[1]


def _nothing() -> None: ...


def _processes(method: str) -> Any:
    process = multiprocessing.get_context(method).Process(target=_nothing)
    process.start()
    process.join()
    return process.exitcode


SPAWNS: dict[str, Callable[[], Any]] = {
    "subprocess.run": lambda: subprocess.run([sys.executable, "-c", ""], check=True).returncode,
    "os.system": lambda: os.system("true"),
    "os.fork": _forks,
    "os.posix_spawn": lambda: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)[1],
    "os.spawnv": lambda: os.spawnv(os.P_WAIT, "/bin/true", ["true"]),
    "multiprocessing fork": lambda: _processes("fork"),
    "multiprocessing spawn": lambda: _processes("spawn"),
}
CONNECTS: dict[str, Callable[[], Any]] = {
    "socket.connect": _connects,
    "socket.sendto": _serves_itself,
    "socket.getaddrinfo": lambda: len(socket.getaddrinfo("127.0.0.1", 80)) > 0,
}
CLOCKS: dict[str, Callable[[], Any]] = {
    "time.time": lambda: time.time(),
    "from time import time": lambda: now_by_another_name(),
    "time.time_ns": lambda: time.time_ns(),
    "time.monotonic": lambda: time.monotonic(),
    "from time import monotonic": lambda: monotonic(),
    "time.perf_counter": lambda: time.perf_counter(),
    "datetime.now": lambda: datetime.now(),
    "datetime.now of the module": lambda: datetimes.datetime.now(datetimes.UTC),
    "date.today": lambda: date.today(),
}
CHANCES: dict[str, Callable[[], Any]] = {
    "random.random": lambda: random.random(),
    "random.choice": lambda: random.choice([1, 2, 3]),
    "from random import choice": lambda: choice([1, 2, 3]),
    "random.shuffle": lambda: random.shuffle([1, 2, 3]),
    "random.randrange": lambda: random.randrange(7),
    "random.uniform": lambda: random.uniform(0, 1),
    "random.Random()": lambda: random.Random().random(),
    "random.SystemRandom": lambda: random.SystemRandom().random(),
    "uuid.uuid4": lambda: uuid.uuid4(),
    "os.urandom": lambda: os.urandom(4),
    "secrets.token_hex": lambda: secrets.token_hex(),
    "secrets.choice": lambda: secrets.choice([1, 2, 3]),
}
STRICTLY = {**CLOCKS, **CHANCES}


def _agents(does: Callable[[], Any]) -> list[Any]:
    """The same deed in every place where an agent's code may be."""

    @onrecord.agent
    def in_a_function() -> Any:
        fetch("a")
        return bool(does()) and fetch("b")

    @onrecord.agent
    async def in_a_task() -> Any:
        async def one() -> Any:
            await fetch_async("a")
            return does()

        return bool(await asyncio.gather(one(), fetch_async("b")))

    @onrecord.agent
    async def in_a_job() -> Any:
        def job() -> Any:
            fetch("a")
            return does()

        return bool(await asyncio.to_thread(job))

    @onrecord.agent
    def in_a_thread() -> Any:
        found = []

        def work() -> None:
            found.append(fetch("a"))
            found.append(does())

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return len(found)

    return [in_a_function, in_a_task, in_a_job, in_a_thread]


PLACES = ["function", "task", "job", "thread"]


def _trapped(agent: Any, store: Any, **options: Any) -> Any:
    run_id = new_id()
    run(agent, store=store, run_id=run_id)
    parted = divergence_of(lambda: replay(agent, run_id, store=store, **options))
    assert parted.code == "trapped"
    assert parted.where["line"].startswith(f"{__file__}:")
    assert parted.where["line"] in parted.message
    return parted


@pytest.mark.parametrize("what", SPAWNS)
def test_starting_a_process_is_trapped_in_every_replay(memory: Any, what: str) -> None:
    parted = _trapped(_agents(SPAWNS[what])[0], memory)
    assert "starts a process" in parted.message
    assert "tool or a step" in parted.hint


@pytest.mark.parametrize("what", CONNECTS)
def test_using_the_network_is_trapped_in_every_replay(memory: Any, what: str) -> None:
    parted = _trapped(_agents(CONNECTS[what])[0], memory)
    assert "uses the network" in parted.message
    assert "tool or a step" in parted.hint


@pytest.mark.parametrize("place", range(4), ids=PLACES)
def test_a_process_is_trapped_wherever_the_agent_starts_it(memory: Any, place: int) -> None:
    _trapped(_agents(lambda: not os.system("true"))[place], memory)


def test_an_asyncio_process_and_connection_are_trapped(memory: Any) -> None:
    @onrecord.agent
    async def asyncio_process() -> Any:
        await fetch_async("a")
        process = await asyncio.create_subprocess_exec("/bin/true")
        return await process.wait()

    @onrecord.agent
    async def asyncio_connection() -> Any:
        await fetch_async("a")
        try:
            await asyncio.open_connection("127.0.0.1", 1)
        except OSError:
            return "refused"

    for agent in (asyncio_process, asyncio_connection):
        _trapped(agent, memory)


@pytest.mark.parametrize("what", ["time.time", "random.random"])
def test_clock_and_chance_are_free_in_a_replay_that_is_not_strict(memory: Any, what: str) -> None:
    for agent in _agents(lambda: bool(STRICTLY[what]()) or True):
        recorded_and_replayed(agent, store=memory)


@pytest.mark.parametrize("what", ["subprocess.run", "socket.connect", "time.time", "random.choice", "uuid.uuid4"])
def test_nothing_is_trapped_inside_of_an_effect_or_while_recording_or_resuming(memory: Any, what: str) -> None:
    does = {**SPAWNS, **CONNECTS, **STRICTLY}[what]

    @onrecord.step
    def outside_world() -> str:
        return str(does())

    @onrecord.agent
    def asking_properly() -> Any:
        return outside_world()

    run_id = new_id()
    result = run(asking_properly, store=memory, run_id=run_id)
    assert replay(asking_properly, run_id, store=memory, strict=True) == result


def test_what_onrecord_offers_is_not_trapped(memory: Any) -> None:
    @onrecord.agent
    async def well_behaved() -> Any:
        loop = asyncio.get_running_loop()
        seeded = random.Random(7)
        values = [onrecord.now(), onrecord.random(), onrecord.uuid(), seeded.random(), seeded.choice([1, 2])]
        await onrecord.sleep(0.001)
        await asyncio.sleep(0.001)
        async with asyncio.timeout(5):
            await fetch_async("a")
        values.append(await asyncio.to_thread(fetch, "b"))
        values.append(loop.time() > 0)
        values.append(await asyncio.wait_for(fetch_async("c"), 5))
        return values

    run_id = new_id()
    result = run(well_behaved, store=memory, run_id=run_id)
    assert replay(well_behaved, run_id, store=memory, strict=True) == result


def test_threads_and_pools_are_not_trapped(memory: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor
    from queue import Queue

    @onrecord.agent
    def with_threads() -> Any:
        queue: Queue[str] = Queue()
        thread = threading.Thread(target=lambda: queue.put(fetch("a"), timeout=5))
        thread.start()
        got = queue.get(timeout=5)
        thread.join(5)
        with ThreadPoolExecutor(2) as pool:
            return [got, *pool.map(fetch, "bcd", timeout=5)]

    run_id = new_id()
    assert run(with_threads, store=memory, run_id=run_id) == list("abcd")
    assert replay(with_threads, run_id, store=memory, strict=True) == list("abcd")


def test_the_standard_library_may_look_at_the_clock_for_itself(memory: Any, caplog: pytest.LogCaptureFixture) -> None:
    @onrecord.agent
    def logging_agent() -> Any:
        logging.getLogger("an agent").warning("a line with a time")
        with tempfile.TemporaryDirectory() as folder:
            return [bool(folder), fetch("a")]

    run_id = new_id()
    run(logging_agent, store=memory, run_id=run_id)
    assert replay(logging_agent, run_id, store=memory, strict=True) == [True, "a"]
    assert len(caplog.records) == 2


def test_a_module_may_look_at_the_clock_while_it_is_imported(
    memory: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "looks_at_the_clock.py").write_text(
        "import os, random, subprocess, time\n"
        "BEGAN, CHANCE, RAN = time.time(), random.random(), subprocess.run(['/bin/true']).returncode\n"
    )

    @onrecord.agent
    def importing() -> Any:
        import looks_at_the_clock  # type: ignore[import-not-found]

        return [looks_at_the_clock.RAN, fetch("a")]

    run_id = new_id()
    run(importing, store=memory, run_id=run_id)
    sys.modules.pop("looks_at_the_clock")
    assert replay(importing, run_id, store=memory, strict=True) == [0, "a"]
    sys.modules.pop("looks_at_the_clock")


def test_a_trap_cannot_be_caught_by_the_agent(memory: Any) -> None:
    @onrecord.agent
    def catching() -> Any:
        try:
            return os.system("true")
        except Exception:
            return 0

    run_id = new_id()
    run(catching, store=memory, run_id=run_id)
    assert divergence_of(lambda: replay(catching, run_id, store=memory)).code == "trapped"


def test_code_outside_of_the_replay_is_not_affected(memory: Any) -> None:
    """Neither another task of the loop, nor another thread, nor what comes after."""
    elsewhere: list[Any] = []
    over = threading.Event()

    def other_thread() -> None:
        while not over.is_set():
            elsewhere.append((time.time(), random.random(), uuid.uuid4(), datetime.now()))
            time.sleep(0.001)

    @onrecord.agent
    async def strict_one() -> Any:
        await asyncio.sleep(0.02)
        return await fetch_async("a")

    async def main() -> Any:
        async def other_task() -> None:
            for _ in range(5):
                elsewhere.append((time.time(), random.random(), uuid.uuid4(), datetime.now()))
                subprocess.run(["/bin/true"], check=True)
                await asyncio.sleep(0)

        return (await asyncio.gather(strict_one.replay(run_id, store=memory, strict=True), other_task()))[0]

    run_id = new_id()
    run(strict_one, store=memory, run_id=run_id)
    thread = threading.Thread(target=other_thread)
    thread.start()
    assert asyncio.run(main()) == "a"
    over.set()
    thread.join()
