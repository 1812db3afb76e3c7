"""A fork costs the same wherever it begins: what was before is not copied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

import onrecord
from kit.forks import entries
from kit.runtime import new_id
from kit.soak import SOAK
from kit.stores import CountingStore
from onrecord.journal.journal import Journal
from onrecord.runtime.engine.stops import Suspended
from onrecord.runtime.forks.fork import AnotherAnswer, begin_fork
from onrecord.store.factory import open_store

LONG, SHORT = 10_000 if SOAK else 2_000, 10
MOST_BYTES = 64 * 1024
BATCH = 1000


@onrecord.step
def look(page: int) -> int:
    return page


@onrecord.agent(name="cost.reader")
def reader(pages: int) -> int:
    return sum(look(page) for page in range(pages))


def recorded(store: Any, pages: int) -> str:
    """As the agent records it, only in few appends."""
    from onrecord.core.events import ActionRequested, ActionSucceeded, Completed
    from onrecord.journal.chain import Draft

    name = new_id()
    facts = {"agent": "cost.reader", "input": {"args": [pages], "kwargs": {}}, **reader.own_facts()}
    with Journal.create(store, name, facts=facts) as journal:
        drafts: list[Draft] = []
        for page in range(pages):
            key = f"main/look/{page}"
            drafts += [
                Draft(ActionRequested(key, {"page": page}, "look", "durable_step"), key=key),
                Draft(ActionSucceeded(key, page)),
            ]
            if len(drafts) >= BATCH:
                journal.append(drafts)
                drafts = []
        journal.append([*drafts, Draft(Completed(sum(range(pages))))])
    return name


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    url = str(tmp_path / "store.db") if request.param == "sqlite" else request.getfixturevalue("database_url")
    store = open_store(url)
    yield store
    store.close()


def size(store: Any, tmp_path: Path) -> int:
    if str(store.url).startswith("sqlite"):
        connection = apsw.Connection(str(tmp_path / "store.db"))
        connection.execute("pragma wal_checkpoint(truncate)").fetchall()
        connection.close()
        return sum(path.stat().st_size for path in tmp_path.iterdir() if path.name.startswith("store.db"))
    import psycopg

    with psycopg.connect(store.private_url) as connection:
        found = connection.execute("select pg_database_size(current_database())").fetchone()
        assert found is not None
        return int(found[0])


def test_to_begin_a_fork_costs_the_same_wherever_that_is(opened: Any, tmp_path: Path) -> None:
    costs = []
    for pages in (SHORT, LONG):
        name = recorded(opened, pages)
        last = 2 * pages
        for at, change in ((None, None), (last - 1, None), (pages, None), (None, AnotherAnswer(last, 7))):
            counting: Any = CountingStore(opened)
            before = size(opened, tmp_path)
            begin_fork(counting, name, at, change=change)
            grown = size(opened, tmp_path) - before
            assert grown <= MOST_BYTES, f"{grown} bytes for a fork of {last} events at {at}"
            costs.append((pages, counting.rows_read, counting.rows_written, sum(counting.calls.values())))
    half = len(costs) // 2
    assert [cost[1:] for cost in costs[:half]] == [cost[1:] for cost in costs[half:]]
    assert max(cost[2] for cost in costs) <= 2


def test_the_first_new_event_comes_after_few_bytes(opened: Any, tmp_path: Path) -> None:
    name = recorded(opened, LONG)
    before, branch = size(opened, tmp_path), new_id("branch")
    with pytest.raises(Suspended):
        reader.fork(name, 2 * LONG - 2, tail="stopped", fork_id=branch, store=opened)
    assert size(opened, tmp_path) - before <= MOST_BYTES
    assert len(entries(opened, branch)) == 2, "the request that it stands before, and the word that it was not begun"
    assert reader.resume(branch, tail="live", store=opened) == sum(range(LONG))
    assert len(entries(opened, branch)) <= 6


def test_many_forks_of_a_long_run_share_it(opened: Any, tmp_path: Path) -> None:
    name = recorded(opened, LONG)
    before = size(opened, tmp_path)
    for number in range(20):
        begin_fork(opened, name, 2 * LONG - number)
    assert size(opened, tmp_path) - before <= 20 * MOST_BYTES
