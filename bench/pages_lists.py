"""Measure lists, filters and searches over HTTP, with many runs beside few.

Both stores are served at once and requested in turn. Building the index is measured separately.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from bench.measurement import Row, Workplace, use_own_keys

FEW, MANY = 100, 10_000
MUST = 3.0
ROUNDS = 40
REQUESTS = (
    ("the page with the list of runs", "/"),
    ("the list, 100 runs", "/api/v1/overview"),
    ("filtered by status", "/api/v1/overview?status=interrupted&limit=10"),
    (
        "filtered by status, agent and time",
        "/api/v1/overview?status=completed&agent=agent-3&since=2020-01-01T00:00:00Z",
    ),
    ("filtered by cost, few are wanted", "/api/v1/overview?max_cost=0.003"),
    ("a search for a word in every run", "/api/v1/search?q=common"),
    ("a search for a phrase", "/api/v1/search?q=%22common+to+all%22"),
    ("a search for a beginning", "/api/v1/search?q=numb*"),
    ("a search for a word in one run", "/api/v1/search?q=number42"),
    ("a search for a word in none", "/api/v1/search?q=zebra"),
    ("the page of open waits", "/waits"),
)


def measure_lists(workplace: Workplace) -> Iterator[Row]:
    use_own_keys(workplace)
    many = workplace.count(MANY, least=1_000)
    with _serve_runs(workplace, FEW) as few, _serve_runs(workplace, many) as lots:
        yield Row(f"the index of {many:,} runs is built", f"{_wait_for_index(lots):.1f} s", "", None)
        _wait_for_index(few)
        for what, path in REQUESTS:
            times: dict[str, list[float]] = {"few": [], "lots": []}
            for _ in range(ROUNDS):
                for name, client in (("few", few), ("lots", lots)):
                    start = time.perf_counter()
                    client.get(path, headers={"Accept": "text/html"}).raise_for_status()
                    times[name].append(time.perf_counter() - start)
            small, large = (statistics.median(times[name]) * 1000 for name in ("few", "lots"))
            measured = f"{large / small:.2f} × ({large:.1f} ms; {FEW} runs {small:.1f} ms)"
            yield Row(f"{what}, {many:,} runs", measured, f"≤ {MUST:g} ×", large / small <= MUST)


def _wait_for_index(client: httpx.Client) -> float:
    start = time.perf_counter()
    while client.get("/api/v1/search?q=zebra").json()["unread"] != 0:
        time.sleep(0.05)
    return time.perf_counter() - start


@contextmanager
def _serve_runs(workplace: Workplace, runs: int) -> Iterator[httpx.Client]:
    from onrecord.store.factory import open_store
    from onrecord.web.server import make_server
    from onrecord.web.stores import Stores

    path = str(workplace.path(f"lists-{runs}.db"))
    _record_runs(path, runs)
    server = make_server(Stores(open_store(path, read_only=True), lambda: open_store(path)), auth=False)
    thread = threading.Thread(target=server.serve_until_stopped, daemon=True)
    thread.start()
    try:
        with httpx.Client(base_url=server.address.url, timeout=120) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(20)


def _record_runs(path: str, runs: int) -> None:
    from onrecord.core.events import ActionRequested, ActionSucceeded, Completed, StateUpdated
    from onrecord.journal.chain import Draft
    from onrecord.journal.journal import Journal
    from onrecord.store.factory import open_store

    store = open_store(path, durability="relaxed")
    for number in range(runs):
        usage = {"input_tokens": 10, "output_tokens": number % 50, "cost": number / 1000}
        output = {"model": "m", "text": f"the answer common to all is number{number}", "usage": usage}
        request = ActionRequested(action_id="a", payload={"question": f"{number}?"}, name="ask", effect="model_call")
        ends = [Completed(output="x")] if number % 10 else []
        with Journal.create(store, f"run-{number:06}", facts={"agent": f"agent-{number % 7}"}) as journal:
            answer = Draft(ActionSucceeded(action_id="a", output=output), parent=1)
            journal.append([request, answer, StateUpdated(payload={"n": number}), *ends])
    store.close()
