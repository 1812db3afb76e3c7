"""Requests, clocks and randomness are recorded wherever an agent runs, in processes that nobody started for it."""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import os
import pickle
import random
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from pathlib import Path
from random import choice
from time import time as now_by_another_name
from typing import Any

import httpx
import pytest
import requests
import urllib3
import uvloop
from jupyter_client.manager import start_new_kernel

import onrecord
from kit.programs import Server, show_optional_packages
from kit.programs import onrecord as call
from onrecord.capture.unrecorded import UnrecordedWarning
from onrecord.runtime.engine.run import LiveRun
from onrecord.store.memory import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def kinds(store: Any, run: str) -> list[str]:
    return [entry.kind for entry in onrecord.JournalReader(store, run).scan()]


# Requests


def by_httpx(url: str) -> Any:
    return httpx.get(url).json()["number"]


def by_urllib(url: str) -> Any:
    with urllib.request.urlopen(url) as answer:
        return json.load(answer)["number"]


@pytest.mark.parametrize("get", [by_httpx, by_urllib])
def test_requests_of_an_agent_are_effects(store: MemoryStore, server: Server, get: Callable[[str], Any]) -> None:
    @onrecord.agent(store=store)
    def asks() -> Any:
        return [get(f"{server.url}/number"), get(f"{server.url}/number")]

    assert asks.run(run_id="r") == [1, 2]
    assert kinds(store, "r").count("ActionRequested") == 2
    assert asks.replay("r") == [1, 2]
    assert server.requests == 2


def test_requests_of_an_asynchronous_agent_are_effects(store: MemoryStore, server: Server) -> None:
    @onrecord.agent(store=store)
    async def asks() -> Any:
        async with httpx.AsyncClient() as client:
            answers = await asyncio.gather(*(client.get(f"{server.url}/number") for _ in range(3)))
        return sorted(answer.json()["number"] for answer in answers)

    assert asyncio.run(asks.run(run_id="r")) == [1, 2, 3]
    assert asyncio.run(asks.replay("r")) == [1, 2, 3]
    assert server.requests == 3


def test_requests_of_a_block_are_effects(store: MemoryStore, server: Server) -> None:
    with onrecord.record("block", run_id="r", store=store):
        assert by_httpx(f"{server.url}/number") == 1
    assert "ActionRequested" in kinds(store, "r")
    by_httpx(f"{server.url}/number")  # outside of any run
    assert kinds(store, "r").count("ActionRequested") == 1


def test_requests_inside_a_tool_belong_to_the_tool(store: MemoryStore, server: Server) -> None:
    @onrecord.tool
    def look() -> Any:
        return [by_httpx(f"{server.url}/number"), time.time() > 0, random.random() < 1]

    @onrecord.agent(store=store)
    def asks() -> Any:
        return look()

    assert asks.run(run_id="r") == [1, True, True]
    assert kinds(store, "r") == ["ActionRequested", "ActionSucceeded", "Completed"]


def test_interceptor_that_was_put_back_is_there_in_the_next_run(
    store: MemoryStore, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mock that was active during the first run puts the library's own function back."""

    @onrecord.agent(store=store)
    def asks() -> Any:
        return requests.get(f"{server.url}/number").json()["number"]

    assert asks() == 1
    pool: Any = urllib3.HTTPConnectionPool
    monkeypatch.setattr(pool, "urlopen", pool.urlopen.__wrapped__)
    assert asks.run(run_id="r") == 2
    assert "ActionRequested" in kinds(store, "r")


def test_block_inside_a_run_is_part_of_it(store: MemoryStore, server: Server) -> None:
    @onrecord.agent(store=store)
    def asks() -> Any:
        with onrecord.record("inner", run_id="inner", store=store):
            return by_httpx(f"{server.url}/number")

    assert asks.run(run_id="r") == asks.replay("r") == 1
    assert server.requests == 1
    assert store.run_row("default", "inner") is None


# Clocks and randomness

READINGS: dict[str, Callable[[], Any]] = {
    "time.time": lambda: time.time(),
    "from time import time": lambda: now_by_another_name(),
    "time.time_ns": lambda: time.time_ns(),
    "time.monotonic": lambda: time.monotonic(),
    "time.perf_counter": lambda: time.perf_counter(),
    "time.strftime": lambda: time.strftime("%f%H%M%S"),
    "datetime.now": lambda: datetime.now(),
    "date.today": lambda: date.today(),
    "random.random": lambda: random.random(),
    "from random import choice": lambda: choice(range(1_000_000)),
    "random.shuffle": lambda: random.sample(range(100), 10),
    "random.Random()": lambda: random.Random().random(),
    "random.SystemRandom": lambda: random.SystemRandom().random(),
    "uuid.uuid4": lambda: uuid.uuid4(),
    "uuid.uuid1": lambda: uuid.uuid1(),
    "os.urandom": lambda: os.urandom(9),
    "secrets.token_hex": lambda: secrets.token_hex(),
}


@pytest.mark.parametrize("name", READINGS)
def test_readings_of_an_agent_are_on_record(store: MemoryStore, name: str) -> None:
    read = READINGS[name]

    @onrecord.agent(store=store)
    def reads(more: bool = False) -> Any:
        return [read(), read()]

    first = reads.run(run_id="r")
    assert reads.replay("r", strict=True) == first
    if name != "date.today":
        assert reads.run() != first or name == "time.strftime"
    assert "ValuesDrawn" in kinds(store, "r")


@pytest.mark.parametrize("name", READINGS)
def test_strict_replay_refuses_readings_that_are_not_on_record(store: MemoryStore, name: str) -> None:
    reads_again = [False]

    @onrecord.agent(store=store)
    def reads() -> Any:
        if reads_again[0]:
            READINGS[name]()
        return 1

    reads.run(run_id="r")
    reads_again[0] = True
    assert reads.replay("r") == 1
    with pytest.raises(onrecord.Divergence) as caught:
        reads.replay("r", strict=True)
    assert caught.value.code == "unrecorded_draw"
    assert "test_every_run.py" in caught.value.where["line"]


def test_each_run_has_numbers_of_its_own(store: MemoryStore) -> None:
    turn = threading.Barrier(2)

    @onrecord.agent(store=store)
    def draws() -> Any:
        found = []
        for _ in range(50):
            found.append(random.random())
            wait_at(turn)
        return found

    @onrecord.step
    def wait_at(barrier: Any) -> None:
        barrier.wait(10)

    results: dict[str, Any] = {}
    names = ("a", "b")
    strands = [threading.Thread(target=lambda n=n: results.update({n: draws.run(run_id=n)})) for n in names]
    for strand in strands:
        strand.start()
    for strand in strands:
        strand.join()
    assert [draws.replay(name) for name in names] == [results[name] for name in names]
    assert results["a"] != results["b"]


def test_seed_set_before_a_run_decides_its_numbers(store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    def draws() -> Any:
        return [random.random() for _ in range(3)]

    def seeded() -> Any:
        random.seed(7)
        return draws()

    state = random.getstate()
    try:
        assert seeded() == seeded()
    finally:
        random.setstate(state)


def test_seed_set_in_a_run_is_that_of_the_run(store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    def draws() -> Any:
        random.seed(7)
        return [random.random() for _ in range(3)]

    expected = random.Random(7)
    assert draws() == [expected.random() for _ in range(3)]


def test_clock_of_a_test_is_left_alone(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    @onrecord.agent(store=store)
    def reads() -> Any:
        return time.time()

    reads()
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: 12.0)
        assert reads() == 12.0
        assert time.time() == 12.0
    assert reads() > 1e9
    assert reads.run(run_id="r") == reads.replay("r")


def test_clock_of_a_test_that_came_first_is_left_alone() -> None:
    code = """
import time
real, time.time = time.time, lambda: 12.0
import onrecord
from onrecord.store.memory import MemoryStore
reads = onrecord.agent(lambda: time.time(), store=MemoryStore(), name="reads")
print(reads())
time.time = real
print(reads() > 1e9, reads.run(run_id="r") == reads.replay("r"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "12.0\nTrue True\n"


def test_readings_after_a_checkpoint_are_found_there(store: MemoryStore) -> None:
    dies = [True]

    @onrecord.agent(store=store)
    def goes_on() -> Any:
        done = onrecord.restored()
        if done is None:
            done = [random.random()]
            onrecord.checkpoint(done)
        found = [random.random(), time.time()]
        if dies[0]:
            note(found)
            raise KeyboardInterrupt
        return [*done, *found, note(found)]

    @onrecord.step
    def note(found: Any) -> Any:
        return found

    with pytest.raises(KeyboardInterrupt):
        goes_on.run(run_id="r")
    dies[0] = False
    result = goes_on.resume("r")
    assert result[1:3] == result[3]


def test_readings_of_the_garbage_collector_are_none_of_the_run(store: MemoryStore) -> None:
    def note(*_: Any) -> None:
        time.perf_counter()

    @onrecord.agent(store=store)
    def collects() -> None:
        gc.collect()

    gc.callbacks.append(note)
    try:
        collects.run(run_id="r")
    finally:
        gc.callbacks.remove(note)
    assert kinds(store, "r") == ["Completed"]


def test_run_that_begins_during_an_import_has_its_readings_on_record(tmp_path: Path) -> None:
    (tmp_path / "begins.py").write_text(
        "import onrecord, time\nfrom onrecord.store.memory import MemoryStore\nstore = MemoryStore()\n"
        "agent = onrecord.agent(lambda: time.time(), store=store, name='reads')\n"
        "result = agent.run(run_id='r')\n"
    )
    code = "import begins; print(begins.agent.replay('r', strict=True) == begins.result)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@pytest.mark.parametrize(
    "function",
    [time.time, time.monotonic, time.localtime, os.urandom, uuid.uuid1, random.choice, datetime.now, date.today],
)
def test_replaced_functions_can_be_pickled(store: MemoryStore, function: Any) -> None:
    onrecord.agent(lambda: None, store=store, name="nothing")()
    owner = getattr(function, "__self__", None) or sys.modules[function.__module__]
    found = getattr(owner if isinstance(owner, type) else sys.modules.get(function.__module__), function.__name__)
    assert pickle.loads(pickle.dumps(found)) == found


def test_replayed_runs_are_not_kept(store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    def reads() -> float:
        return time.perf_counter()

    reads.run(run_id="r")
    for _ in range(5):
        reads.replay("r")
    gc.collect()
    assert sum(type(one) is LiveRun and one.name == "r" for one in gc.get_objects()) == 0


# Unrecorded actions


def connect(port: int) -> None:
    with socket.socket() as made:
        made.connect(("127.0.0.1", port))


def test_unrecorded_connection_is_named_once(store: MemoryStore, server: Server) -> None:
    @onrecord.agent(store=store)
    def connects() -> None:
        for _ in range(3):
            connect(server.port)

    with pytest.warns(UnrecordedWarning, match=rf"127.0.0.1:{server.port} at .*test_every_run.py:\d+") as caught:
        connects()
    assert len([one for one in caught if one.category is UnrecordedWarning]) == 1


def test_each_run_names_its_own_connections(store: MemoryStore, server: Server) -> None:
    @onrecord.agent(store=store)
    def connects() -> None:
        connect(server.port)

    for run in ("a", "b"):
        with pytest.warns(UnrecordedWarning, match=f"run {run} does not record") as caught:
            connects.run(run_id=run)
        assert [Path(one.filename).name for one in caught] == ["test_every_run.py"]


def test_class_of_uvloop_can_be_extended_after_a_run(store: MemoryStore) -> None:
    onrecord.agent(lambda: None, store=store, name="nothing")()

    class Own(uvloop.Loop):
        pass

    assert issubclass(uvloop.Loop, asyncio.AbstractEventLoop)
    for cls in (Own, uvloop.Loop):
        loop = cls()
        loop.close()
        assert isinstance(loop, uvloop.Loop)
        assert isinstance(loop, Own) == (cls is Own)


def test_strict_agent_refuses_before_it_happens(store: MemoryStore, server: Server) -> None:
    @onrecord.agent(store=store, strict=True)
    def connects() -> None:
        connect(server.port)

    before = server.connections
    with pytest.raises(onrecord.OnrecordError) as caught:
        connects.run(run_id="r")
    assert caught.value.code == "unseen"
    assert server.connections == before


def test_strict_block_refuses_a_process(store: MemoryStore) -> None:
    with pytest.raises(onrecord.OnrecordError) as caught, onrecord.record("block", store=store, strict=True):
        subprocess.run([sys.executable, "-c", ""], check=True)
    assert caught.value.code == "unseen"


UNSEEN: dict[str, Callable[[], Any]] = {
    "thread": lambda: _joined(threading.Thread(target=subprocess.run, args=(["/bin/true"],))),
    "job": lambda: ThreadPoolExecutor(1).submit(subprocess.run, ["/bin/true"]).result(),
    "fork": lambda: os.fork() or os._exit(0),
    "spawn": lambda: _joined(multiprocessing.get_context("spawn").Process(target=int)),
}


def _joined(started: Any) -> None:
    started.start()
    started.join()


@pytest.mark.parametrize("how", UNSEEN)
def test_strict_agent_refuses_what_has_no_line_of_the_program(store: MemoryStore, how: str) -> None:
    @onrecord.agent(store=store, strict=True)
    def starts() -> None:
        UNSEEN[how]()

    with pytest.raises(onrecord.OnrecordError) as caught:
        starts()
    assert caught.value.code == "unseen"


def test_nothing_is_named_outside_of_a_run(store: MemoryStore, server: Server) -> None:
    @onrecord.tool
    def look() -> None:
        connect(server.port)

    @onrecord.agent(store=store)
    def looks() -> None:
        look()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        looks()
        connect(server.port)


# Processes of all kinds

SHOP = """
import os, sys, time, httpx, onrecord

URL = {url!r}

@onrecord.agent(lease_seconds=2)
def buys(item: str):
    paid = httpx.post(URL + "/number", json={{"item": item}}).json()["number"]
    if os.environ.get("DIES"):
        print("paid", flush=True)
        time.sleep(60)
    return [paid, httpx.get(URL + "/number").json()["number"]]
"""


@pytest.fixture
def shop(folder: Path, server: Server) -> Path:
    path = folder / "shop.py"
    path.write_text(SHOP.format(url=server.url))
    return path


def test_agent_of_the_command_line_records(shop: Path, server: Server) -> None:
    done = call("run", "--run-id", "r", "shop.py:buys", "--input", '["tea"]')
    assert (done.returncode, json.loads(done.stdout)) == (0, [1, 2]), done.stderr
    assert call("replay", "r").returncode == 0
    assert server.requests == 2


def test_payment_is_not_repeated_after_a_kill(shop: Path, server: Server) -> None:
    environment = {**os.environ, "DIES": "1"}
    arguments = [sys.executable, "-m", "onrecord", "run", "--run-id", "r", "shop.py:buys", "--input", '["tea"]']
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "paid\n"
        process.send_signal(signal.SIGKILL)
    resumed = resume_when_free("r")
    assert (resumed.returncode, json.loads(resumed.stdout)) == (0, [1, 2]), resumed.stderr
    assert [seen[0] for seen in server.seen] == ["POST", "GET"]
    assert call("replay", "r").returncode == 0


def resume_when_free(run: str) -> subprocess.CompletedProcess[str]:
    while (found := call("resume", run)).returncode != 0 and "run_busy" in found.stderr:
        time.sleep(0.1)
    return found


def test_worker_resumes_with_the_recorded_payment(shop: Path, server: Server) -> None:
    environment = {**os.environ, "DIES": "1"}
    code = "import shop; shop.buys.run('tea', run_id='r')"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "paid\n"
        process.send_signal(signal.SIGKILL)
    code = "import onrecord, shop; print([one.result for one in onrecord.sweep(agents=[shop.buys])])"
    for _ in range(100):
        swept = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        if swept.stdout != "[]\n":
            break
        time.sleep(0.1)
    assert swept.stdout == "[[1, 2]]\n"
    assert [seen[0] for seen in server.seen] == ["POST", "GET"]


def test_strict_run_of_an_agent_refuses_what_is_not_recorded(folder: Path, server: Server) -> None:
    (folder / "raw.py").write_text(
        f"import socket\n\ndef connects():\n    socket.create_connection(('127.0.0.1', {server.port})).close()\n"
    )
    free = call("run", "raw.py:connects")
    assert free.returncode == 0
    assert "UnrecordedWarning" in free.stderr
    connections = server.connections
    refused = call("run", "--strict", "raw.py:connects")
    assert refused.returncode != 0
    assert "[unseen]" in refused.stderr
    assert server.connections == connections


def test_hash_seed_of_an_agent_is_noted_and_used_again(folder: Path) -> None:
    (folder / "words.py").write_text("def order():\n    return list({f'w{n}' for n in range(20)})\n")
    first = call("run", "--run-id", "r", "words.py:order")
    assert first.returncode == 0
    replayed = call("replay", "r")
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    facts = json.loads(call("--json", "show", "r").stdout)["facts"]
    assert isinstance(facts["meta"]["hash_seed"], int)


def test_hash_seed_of_this_process_is_noted(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    @onrecord.agent(store=store)
    def nothing() -> None: ...

    monkeypatch.setenv("PYTHONHASHSEED", "41")
    nothing.run(run_id="known")
    monkeypatch.setenv("PYTHONHASHSEED", "random")
    nothing.run(run_id="unknown")
    facts = {run: onrecord.JournalReader(store, run).facts() or {} for run in ("known", "unknown")}
    assert facts["known"]["meta"] == {"hash_seed": 41}
    assert "meta" not in facts["unknown"]


# A web server's handler

WEB = """
import sys, httpx, onrecord, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

URL = {url!r}

@onrecord.agent
async def answers(name: str):
    async with httpx.AsyncClient() as client:
        return [name, (await client.post(URL + "/number", json=name)).json()["number"]]

async def handle(request):
    name = request.path_params["name"]
    return JSONResponse(await answers.run(name, run_id=name))

app = Starlette(routes=[Route("/{{name}}", handle)])
if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), loop=sys.argv[2], log_level="error")
"""


@pytest.fixture(params=["asyncio", "uvloop"])
def web(request: pytest.FixtureRequest, folder: Path, server: Server) -> Iterator[str]:
    (folder / "pages.py").write_text(WEB.format(url=server.url))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([sys.executable, "pages.py", str(port), request.param]) as process:
        url = f"http://127.0.0.1:{port}"
        try:
            while not _answers(port):
                assert process.poll() is None
                time.sleep(0.02)
            yield url
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    with socket.socket() as made:
        return made.connect_ex(("127.0.0.1", port)) == 0


def test_agents_of_a_web_server_record(web: str, server: Server) -> None:
    names = [f"n{number}" for number in range(8)]
    results: dict[str, Any] = {}
    strands = [threading.Thread(target=lambda n=n: results.update({n: httpx.get(f"{web}/{n}").json()})) for n in names]
    for strand in strands:
        strand.start()
    for strand in strands:
        strand.join()
    assert sorted(results[name][1] for name in names) == list(range(1, 9))
    for name in names[:3]:
        replayed = call("replay", name)
        assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert server.requests == 8


# A notebook

CELLS = (
    """
import httpx, onrecord, random, time
URL = {url!r}

@onrecord.agent
def asks():
    return [httpx.get(URL + "/number").json()["number"], time.time(), random.random()]

@onrecord.agent
async def asks_async():
    async with httpx.AsyncClient() as client:
        return (await client.get(URL + "/number")).json()["number"]
""",
    """first = asks.run(run_id="plain"); print(first[0], asks.replay("plain") == first)""",
    """later = await asks_async.run(run_id="awaited"); print(later, await asks_async.replay("awaited"))""",
    """
with onrecord.record("cell", run_id="cell"):
    print(httpx.get(URL + "/number").json()["number"])
""",
)


def test_cells_of_a_notebook_record(folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    show_optional_packages(monkeypatch)
    manager, client = start_new_kernel(cwd=str(folder))
    printed: list[str] = []

    def note(message: dict[str, Any]) -> None:
        content = message["content"]
        printed.append(content.get("text", "") + "\n".join(content.get("traceback", [])))

    try:
        for cell in CELLS:
            client.execute_interactive(cell.replace("{url!r}", repr(server.url)), timeout=60, output_hook=note)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert [line.strip() for line in printed if line.strip()] == ["1 True", "2 2", "3"]
    assert server.requests == 3
    counts = [json.loads(call("--json", "show", run).stdout) for run in ("plain", "awaited", "cell")]
    assert ["ActionRequested" in json.dumps(one) for one in counts] == [True, True, True]
