"""Lists, filters and searches over HTTP: what they take with many runs, beside what they take with few.

Both stores are served at once and asked in turn. The first look at a store builds its index and is told apart.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from bench.effects_measuring import own_keys
from bench.measuring import Row, Workplace

FEW, MANY = 100, 10_000
MUST = 3.0
ROUNDS = 40
ASKED = (
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
    ("the page of what waits for somebody", "/waits"),
)


def lists(workplace: Workplace) -> Iterator[Row]:
    own_keys(workplace)
    many = workplace.count(MANY, least=1_000)
    with _served(workplace, FEW) as few, _served(workplace, many) as lots:
        yield Row(f"the index of {many:,} runs is built", f"{_built(lots):.1f} s", "", None)
        _built(few)
        for what, path in ASKED:
            took: dict[str, list[float]] = {"few": [], "lots": []}
            for _ in range(ROUNDS):
                for name, client in (("few", few), ("lots", lots)):
                    began = time.perf_counter()
                    client.get(path, headers={"Accept": "text/html"}).raise_for_status()
                    took[name].append(time.perf_counter() - began)
            small, large = (statistics.median(took[name]) * 1000 for name in ("few", "lots"))
            told = f"{large / small:.2f} × ({large:.1f} ms; {FEW} runs {small:.1f} ms)"
            yield Row(f"{what}, {many:,} runs", told, f"≤ {MUST:g} ×", large / small <= MUST)


def _built(client: httpx.Client) -> float:
    began = time.perf_counter()
    while client.get("/api/v1/search?q=zebra").json()["unread"] != 0:
        time.sleep(0.05)
    return time.perf_counter() - began


@contextmanager
def _served(workplace: Workplace, runs: int) -> Iterator[httpx.Client]:
    from reenact.store.opening import open_store
    from reenact.web.server import make_server
    from reenact.web.stores import Stores

    path = str(workplace.path(f"lists-{runs}.db"))
    _record(path, runs)
    server = make_server(Stores(open_store(path, read_only=True), lambda: open_store(path)), auth=False)
    thread = threading.Thread(target=server.serve_until_stopped, daemon=True)
    thread.start()
    try:
        with httpx.Client(base_url=server.address.url, timeout=120) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(20)


def _record(path: str, runs: int) -> None:
    from reenact.core.events import ActionRequested, ActionSucceeded, Completed, StateUpdated
    from reenact.journal.chain import Draft
    from reenact.journal.journal import Journal
    from reenact.store.opening import open_store

    store = open_store(path, durability="relaxed")
    for number in range(runs):
        usage = {"input_tokens": 10, "output_tokens": number % 50, "cost": number / 1000}
        output = {"model": "m", "text": f"the answer common to all is number{number}", "usage": usage}
        asked = ActionRequested(action_id="a", payload={"question": f"{number}?"}, name="ask", effect="model_call")
        ends = [Completed(output="x")] if number % 10 else []
        with Journal.create(store, f"run-{number:06}", facts={"agent": f"agent-{number % 7}"}) as journal:
            answered = Draft(ActionSucceeded(action_id="a", output=output), parent=1)
            journal.append([asked, answered, StateUpdated(payload={"n": number}), *ends])
    store.close()
