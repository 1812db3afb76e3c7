"""The Postgres store: the shipped suite, and what only Postgres has (triggers, migrations, pools, settings,
passwords)."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from kit.postgres_server import (
    GENESIS,
    PostgresServer,
    assert_chained,
    database_url,  # noqa: F401 - a fixture
    event,
    head_of,
    header,
    pending,
    postgres_server,  # noqa: F401 - a fixture
    private_server,
)
from onrecord.errors import (
    InvalidInput,
    MovedHead,
    NotFound,
    Refused,
    RunExists,
    SchemaMismatch,
    StaleEpoch,
    StoreUnavailable,
    WrongSequence,
)
from onrecord.store.contract import DuplicateIds, Head, NodeRow, PendingAppend, Store
from onrecord.store.postgres import PostgresStore, Timeouts
from onrecord.store.postgres.connection import mask_password
from onrecord.store.postgres.lookups import OF_RUN
from onrecord.testing.store_contract import StoreContract


class TestPostgresStore(StoreContract):
    """Each test has a database of its own; a store that is opened again finds the same one."""

    race_rounds = 25

    @pytest.fixture(autouse=True)
    def _database(self, database_url: str) -> Iterator[None]:  # noqa: F811
        self.database_url = database_url
        self.opened: list[PostgresStore] = []
        yield
        for store in self.opened:
            store.close()

    def make_store(self) -> PostgresStore:
        self.opened.append(PostgresStore(self.database_url))
        return self.opened[-1]

    def reopen(self, store: Store) -> PostgresStore:
        return self.make_store()


@pytest.fixture
def store(database_url: str) -> Iterator[PostgresStore]:  # noqa: F811
    store = PostgresStore(database_url)
    store.create_run("n", header("r"))
    yield store
    store.close()


def append(store: PostgresStore, run: str, name: str, content: bytes = b"content", nodes: Any = ()) -> None:
    head = head_of(store.last_event("n", run))
    store.append("n", run, [event(head, name, content)], expected=head, epoch=0, nodes=nodes)


@contextlib.contextmanager
def direct(url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


# The order of refusals


def test_duplicates_come_before_epoch_and_epoch_before_head(store: PostgresStore) -> None:
    append(store, "r", "e1")
    first = event(GENESIS, "e1")
    with pytest.raises(DuplicateIds) as duplicate:
        store.append("n", "r", [first], expected=Head(7, b"?" * 32), epoch=9)
    assert duplicate.value.rows == [first]
    with pytest.raises(StaleEpoch):
        store.append("n", "r", [event(GENESIS, "e2")], expected=GENESIS, epoch=9)
    with pytest.raises(MovedHead):
        store.append("n", "r", [event(GENESIS, "e2")], expected=GENESIS, epoch=0)
    with pytest.raises(NotFound):
        store.append("other", "r", [event(GENESIS, "e2")], expected=GENESIS, epoch=0)
    with pytest.raises(RunExists):
        store.create_run("n", header("r")._replace(header=b"another"))


def test_an_id_made_by_the_journal_is_found_by_its_seq(store: PostgresStore) -> None:
    one = event(GENESIS, "_m_1")
    two = event(head_of(one), "_m_2")
    store.append("n", "r", [one], expected=GENESIS, epoch=0)
    store.append("n", "r", [two], expected=head_of(one), epoch=0)
    asked = ["_m_2", "_other_2", "_m_9", "_odd", "_m_-1", "_m_" + "f" * 40, "m_1", "_m_1"]
    assert store.events_by_id("n", "r", asked) == [two, one]
    for batch, expected, epoch in (
        ([two], Head(7, b"?" * 32), 9),
        ([two], head_of(one), 0),
        ([one], head_of(two), 0),
        ([event(head_of(two), "given"), one], head_of(two), 0),
    ):
        with pytest.raises(DuplicateIds) as duplicate:
            store.append("n", "r", batch, expected=expected, epoch=epoch)
        assert duplicate.value.rows == [batch[-1]]
        (refusal,) = store.append_many([PendingAppend("n", "r", batch, expected, epoch)])
        assert isinstance(refusal, DuplicateIds)
    with pytest.raises(MovedHead):
        store.append("n", "r", [event(head_of(one), "_other_2")], expected=head_of(one), epoch=0)
    assert list(store.scan("n", "r")) == [one, two]


def test_an_append_works_after_its_statement_was_dropped(store: PostgresStore) -> None:
    append(store, "r", "e1")
    head = head_of(store.last_event("n", "r"))
    with store._pool.connection() as connection:
        connection.execute("begin")  # rolled back when it is given back, and psycopg drops all statements then
    store.append("n", "r", [event(head, "e2")], expected=head, epoch=0)
    assert_chained(list(store.scan("n", "r")))


def test_a_lane_number_used_twice_is_refused_whole(store: PostgresStore) -> None:
    one = event(GENESIS, "e1")._replace(lane="1")
    two = event(Head(1, one.hash), "e2")._replace(lane="1", lane_seq=1)
    with pytest.raises(WrongSequence):
        store.append("n", "r", [one, two], expected=GENESIS, epoch=0, nodes=[NodeRow(b"a" * 32, b"x")])
    assert store.last_event("n", "r") is None
    assert store.nodes("n", [b"a" * 32]) == {}


def test_a_group_keeps_refusals_apart(store: PostgresStore) -> None:
    for run in ("a", "b", "c"):
        store.create_run("n", header(run))
    append(store, "b", "e1")
    twin = event(GENESIS, "x")
    results = store.append_many(
        [
            pending("n", "a", GENESIS, "e1"),
            pending("n", "b", GENESIS, "e1"),
            pending("n", "missing", GENESIS, "e1"),
            PendingAppend("n", "c", [twin, twin], GENESIS, 0),
            pending("n", "r", GENESIS, "e1"),
            pending("n", "r", GENESIS, "e2"),
        ]
    )
    kinds = [type(result).__name__ for result in results]
    assert kinds == ["NoneType", "DuplicateIds", "NotFound", "WrongSequence", "NoneType", "MovedHead"]
    assert [row.id for row in store.scan("n", "a")] == ["e1"]
    assert store.last_event("n", "c") is None


def test_plans_made_for_small_tables_fit_large_ones(store: PostgresStore, database_url: str) -> None:  # noqa: F811
    """They are kept as long as a connection lives: what is right for five rows has to be right for a million."""
    for number in range(5):
        append(store, "r", f"e{number}")
    with direct(database_url) as other:
        other.execute("vacuum analyze onrecord.events")
        other.execute("vacuum analyze onrecord.runs")
    with store._pool.connection() as connection:
        query = f"explain select e.seq {OF_RUN} order by e.seq desc limit 1"
        plan = "\n".join(row[0] for row in connection.execute(query, ("n", "r"), prepare=False))
    assert "Backward using events_pkey" in plan
    assert "runs_namespace_run_key" in plan
    assert "Sort" not in plan


@pytest.mark.parametrize("prefix", ["_m_", "given-"])
def test_nothing_is_planned_for_an_append(store: PostgresStore, prefix: str) -> None:
    """Postgres makes a plan for a few calls and then keeps one, unless values tell it that another would be cheaper."""
    planned: list[str | None] = []
    with store._pool.connection() as connection:
        connection.add_notice_handler(lambda notice: planned.append(notice.context))
    for number in range(1, 13):
        append(store, "r", f"{prefix}{number:x}")
    head = head_of(store.last_event("n", "r"))
    with store._pool.connection() as connection:
        connection.execute("set client_min_messages = log", prepare=False)
        connection.execute("set log_planner_stats = on", prepare=False)
    planned.clear()
    store.append("n", "r", [event(head, f"{prefix}d")], expected=head, epoch=0)
    assert planned == []
    assert store.run_row("n", "r") is not None  # the first time: this is planned, and shows that we would hear of it
    assert planned != []


# Triggers, by somebody with SQL


TAMPERING = [
    "update onrecord.events set content = null",
    "update onrecord.events set link = 'x', prefix = null",
    "delete from onrecord.events",
    "truncate onrecord.events",
    "truncate onrecord.runs cascade",
    "update onrecord.runs set header = 'x'",
    "update onrecord.runs set content = null, salt = null, match = null",
    "update onrecord.runs set epoch = epoch - 1",
    "delete from onrecord.runs",
    "update onrecord.nodes set blob = 'x'",
    "delete from onrecord.nodes",
    "truncate onrecord.nodes, onrecord.artifacts",
    "delete from onrecord.artifacts",
    "insert into onrecord.nodes select namespace, address, 'x' from onrecord.nodes"
    " on conflict (namespace, address) do update set blob = excluded.blob",
    "merge into onrecord.events e using (select 1) s on true when matched then delete",
    "insert into onrecord.tombstones (run_no, namespace, run, record_run_no, record_seq)"
    " select run_no, namespace, run, run_no, 1 from onrecord.runs",
    "insert into onrecord.erasures (run_no, seq, namespace, record_run_no, record_seq)"
    " select run_no, 1, namespace, run_no, 1 from onrecord.runs",
]


@pytest.mark.parametrize("statement", TAMPERING)
def test_recorded_rows_cannot_be_changed(store: PostgresStore, database_url: str, statement: str) -> None:  # noqa: F811
    append(store, "r", "e1", nodes=[NodeRow(b"a" * 32, b"blob")])
    store.put_artifact("n", b"b" * 32, b"artifact")
    before = (store.run_row("n", "r"), list(store.scan("n", "r")), list(store.all_nodes("n")))
    with direct(database_url) as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute(statement)
    assert refused.value.sqlstate == "RE001"
    assert before == (store.run_row("n", "r"), list(store.scan("n", "r")), list(store.all_nodes("n")))
    assert store.artifact("n", b"b" * 32) == b"artifact"


def test_the_slip_of_another_transaction_opens_nothing(store: PostgresStore, database_url: str) -> None:  # noqa: F811
    store.create_run("n", header("ops", kind="operations"))
    append(store, "r", "e1")
    append(store, "r", "e2")
    record = pending("n", "ops", GENESIS, "o1")
    store.erase_contents("n", [("r", 1)], [("r", 2, b"q" * 32)], record, [], [])
    with direct(database_url) as connection:
        for statement in TAMPERING[:3]:
            with pytest.raises(psycopg.Error, match="what was recorded stays"):
                connection.execute(statement)


# Retention and erasure


def test_erased_bytes_are_in_no_data_file(store: PostgresStore, postgres_server: PostgresServer) -> None:  # noqa: F811
    store.create_run("n", header("ops", kind="operations"))
    small, large = b"small-" + os.urandom(16).hex().encode(), b"large-" + os.urandom(16).hex().encode()
    append(store, "r", "e1", small, [NodeRow(b"a" * 32, large * 4000), NodeRow(b"b" * 32, b"kept")])
    append(store, "r", "e2")
    store.put_artifact("n", b"c" * 32, large)
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:  # a busy disk takes its time for it
        connection.execute("checkpoint")
    assert data_files_holding(postgres_server, small)
    store.erase_contents(
        "n", [("r", 0), ("r", 1)], [("r", 2, b"q" * 32)], pending("n", "ops", GENESIS, "o1"), [b"a" * 32], [b"c" * 32]
    )
    first, second = store.scan("n", "r")
    assert (first.content, first.salt, first.match) == (None, None, None)
    assert first.link == event(GENESIS, "e1").link
    assert (second.content, second.prefix) == (b"content", b"q" * 32)
    row = store.run_row("n", "r")
    assert row is not None
    assert (row.header.content, row.header.salt) == (None, None)
    assert [node.blob for node in store.all_nodes("n")] == [b"kept"]
    assert store.artifact("n", b"c" * 32) is None
    assert data_files_holding(postgres_server, small) == []
    assert data_files_holding(postgres_server, large) == []


def data_files_holding(server: PostgresServer, needle: bytes) -> list[Path]:
    found = []
    for path in (server.data / "base").rglob("*"):
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            if needle in path.read_bytes():
                found.append(path)
    return found


def test_a_run_goes_whole_with_its_record_or_not_at_all(store: PostgresStore) -> None:
    store.create_run("n", header("ops", kind="operations"))
    append(store, "r", "e1", nodes=[NodeRow(b"a" * 32, b"x")])
    store.inbox_put("n", "r", "k", b"payload", 1)
    with pytest.raises(StaleEpoch):
        store.delete_run("n", "r", pending("n", "ops", GENESIS, "o1")._replace(epoch=5), [b"a" * 32], [])
    with pytest.raises(NotFound):
        store.delete_run("n", "missing", pending("n", "ops", GENESIS, "o1"), [b"a" * 32], [])
    with pytest.raises(InvalidInput):
        store.delete_run("n", "r", pending("n", "r", GENESIS, "o1"), [], [])
    assert store.last_event("n", "ops") is None
    assert store.last_event("n", "r") is not None
    store.delete_run("n", "r", pending("n", "ops", GENESIS, "o1"), [b"a" * 32], [])
    assert store.run_row("n", "r") is None
    assert store.inbox("n", "r") == []
    assert store.nodes("n", [b"a" * 32]) == {}
    assert [row.id for row in store.scan("n", "ops")] == ["o1"]
    with pytest.raises(NotFound):
        store.delete_run("n", "r", pending("n", "ops", GENESIS, "o1"), [], [])


def test_an_import_is_whole_or_not_there_and_holds_nobody_up(store: PostgresStore) -> None:
    one = event(GENESIS, "e1")
    two = event(head_of(one), "e2")
    node = NodeRow(b"a" * 32, b"shared")

    def broken() -> Iterator[Any]:
        yield [one], [node]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.import_run("n", header("i"), [], broken())
    assert store.run_row("n", "i") is None
    assert store.nodes("n", [node.address]) == {}

    def slow() -> Iterator[Any]:
        yield [one], [node]
        append(store, "r", "e1", nodes=[node])  # the same new node, while the import is under way
        yield [two], []

    store.import_run("n", header("i"), [NodeRow(b"b" * 32, b"x")], slow())
    assert list(store.scan("n", "i")) == [one, two]
    assert sorted(store.nodes("n", [b"a" * 32, b"b" * 32])) == [b"a" * 32, b"b" * 32]
    with pytest.raises(RunExists):
        store.import_run("n", header("i"), [], [])
    with pytest.raises(Refused):
        store.import_run("n", header("j"), [], [([one], []), ([one], [])])
    assert store.run_row("n", "j") is None
    store.import_run("n", header("j"), [], [([one], [])])


# Many at once


def in_processes(count: int, target: Callable[..., None], *arguments: Any) -> list[Any]:
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    processes = [context.Process(target=target, args=(answers, number, *arguments)) for number in range(count)]
    for process in processes:
        process.start()
    found = [answers.get(timeout=40) for _ in processes]
    for process in processes:
        process.join(20)
        assert process.exitcode == 0
    answers.close()
    answers.join_thread()
    return found


def open_and_append(answers: Any, number: int, url: str) -> None:
    store = PostgresStore(url, pool_size=1)
    store.create_run("n", header(f"p{number}"))
    append(store, f"p{number}", "e1")
    answers.put(number)
    store.close()


def test_migrations_run_by_four_processes_at_once(database_url: str) -> None:  # noqa: F811
    assert sorted(in_processes(4, open_and_append, database_url)) == [0, 1, 2, 3]
    with direct(database_url) as connection:
        numbers = [row[0] for row in connection.execute("select number from onrecord.migrations order by 1")]
    assert numbers == [1, 2, 3, 4]
    store = PostgresStore(database_url)
    assert store.find_runs("n", "p") == ["p0", "p1", "p2", "p3"]
    store.close()


def append_to_the_one_run(answers: Any, number: int, url: str) -> None:
    store = PostgresStore(url, pool_size=2)
    won = 0
    while won < 8:
        with contextlib.suppress(MovedHead):
            append(store, "r", f"p{number}-{won}")
            won += 1
    answers.put(won)
    store.close()


def test_four_processes_and_sixteen_threads_on_one_run(store: PostgresStore, database_url: str) -> None:  # noqa: F811
    moved = []

    def write(number: int) -> None:
        won = 0
        while won < 5:
            try:
                append(store, "r", f"t{number}-{won}")
                won += 1
            except MovedHead:
                moved.append(number)

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(write, range(16)))
        assert in_processes(2, append_to_the_one_run, database_url) == [8, 8]
    rows = list(store.scan("n", "r"))
    assert_chained(rows)
    assert len(rows) == 16 * 5 + 2 * 8
    assert moved  # they did get into each other's way


def test_sixteen_writers_on_sixteen_runs_with_shared_nodes(store: PostgresStore) -> None:
    nodes = [NodeRow(bytes([number]) * 32, b"blob") for number in range(20)]

    def write(number: int) -> None:
        store.create_run("n", header(f"w{number}"))
        head = GENESIS
        for step in range(20):
            row = event(head, f"e{step}")
            # Each brings the same new nodes in an order of its own: a deadlock if the store did not sort
            # them.
            mixed = (nodes[number:] + nodes[:number])[:: -1 if number % 2 else 1]
            store.append("n", f"w{number}", [row], expected=head, epoch=0, nodes=mixed)
            head = head_of(row)

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(write, range(16)))
    for number in range(16):
        rows = list(store.scan("n", f"w{number}"))
        assert_chained(rows)
        assert len(rows) == 20
    assert len(list(store.all_nodes("n"))) == 20


def test_groups_in_opposite_orders_do_not_deadlock(store: PostgresStore) -> None:
    runs = [f"g{number}" for number in range(12)]
    for run in runs:
        store.create_run("n", header(run))

    def write(number: int) -> None:
        mine = runs[number * 6 : number * 6 + 6]
        for step in range(5):
            group = []
            for index, run in enumerate(mine):
                head = head_of(store.last_event("n", run))
                node = NodeRow(bytes([step, index if number else 5 - index]) * 16, b"x")
                group.append(PendingAppend("n", run, [event(head, f"e{step}")], head, 0, [node]))
            assert store.append_many(group if number else group[::-1]) == [None] * 6

    with ThreadPoolExecutor(2) as threads:  # a deadlock is an error of the server
        list(threads.map(write, range(2)))


def test_a_pool_of_one_serves_nested_use(database_url: str) -> None:  # noqa: F811
    store = PostgresStore(database_url, pool_size=1, timeouts=Timeouts(pool=0.5))
    store.create_run("n", header("r"))
    store.create_run("n", header("copy"))
    for number in range(5):
        append(store, "r", f"e{number}")
    for row in store.scan("n", "r"):
        append(store, "copy", row.id)
    assert [row.id for row in store.scan("n", "copy")] == [f"e{number}" for number in range(5)]

    with store._pool.connection(), pytest.raises(StoreUnavailable, match="all 1 connections were in use"):
        store.last_event("n", "r")
    assert store.last_event("n", "r") is not None
    store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        store.last_event("n", "r")


def test_a_forked_child_opens_its_own_connections(store: PostgresStore) -> None:
    append(store, "r", "parent-1")
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            append(store, "r", "child")
            (connection,) = store._pool._idle
            status = 0 if connection.pgconn.backend_pid else 1
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    append(store, "r", "parent-2")
    assert [row.id for row in store.scan("n", "r")] == ["parent-1", "child", "parent-2"]


# Leases


def test_one_of_many_claims_wins_and_the_fence_holds(store: PostgresStore) -> None:
    barrier = threading.Barrier(8)

    def claim(number: int) -> bool:
        barrier.wait()
        return store.claim("n", "r", f"holder-{number}", 30).granted

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(claim, range(8))) == 1
    with pytest.raises(StaleEpoch):
        store.append("n", "r", [event(GENESIS, "e1")], expected=GENESIS, epoch=0)
    store.append("n", "r", [event(GENESIS, "e1")], expected=GENESIS, epoch=1)
    store.release("n", "r", 1)
    assert store.claim("n", "r", "next", 60) == (2, "next", True)
    assert store.claim("n", "r", "later", 5).granted is False
    assert store.claim("n", "r", "next", 0.02) == (2, "next", True)
    time.sleep(0.05)
    assert store.claim("n", "r", "later", 5) == (3, "later", True)
    assert store.claim("n", "r", "heir", 5, superseding="nobody").granted is False
    assert store.claim("n", "r", "heir", 5, superseding="later") == (4, "heir", True)
    assert store.claim("n", "r", "heir", 5) == (4, "heir", True)
    store.release("n", "r", 2)  # a zombie's release changes nothing
    assert store.claim("n", "r", "next", 5).granted is False


# Settings, schema versions, messages


def wait_for_setting(url: str, name: str, value: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        with psycopg.connect(url) as connection:
            if connection.execute(f"show {name}").fetchone() == (value,):
                return
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_server_that_acknowledges_early_is_refused() -> None:
    with private_server() as server:
        url = server.url(server.fresh_database())
        server.reload_with(synchronous_commit="off")
        wait_for_setting(url, "synchronous_commit", "off")
        with pytest.raises(StoreUnavailable, match="synchronous_commit=off") as refused:
            PostgresStore(url)
        assert "relaxed" in refused.value.hint
        store = PostgresStore(url, durability="relaxed")
        store.create_run("n", header("r"))
        append(store, "r", "e1")
        store.close()
        server.reload_with(synchronous_commit="on", fsync="off")
        wait_for_setting(url, "fsync", "off")
        with pytest.raises(StoreUnavailable, match="fsync=off"):
            PostgresStore(url)


def test_sync_is_chosen_per_append(store: PostgresStore) -> None:
    with store._pool.connection() as connection:
        assert connection.execute("show synchronous_commit").fetchone() == ("on",)
    head = GENESIS
    for number in range(3):
        row = event(head, f"e{number}")
        store.append("n", "r", [row], expected=head, epoch=0, sync=number % 2 == 0)
        head = head_of(row)
    with store._pool.connection() as connection:
        assert connection.execute("show synchronous_commit").fetchone() == ("on",)
    assert len(list(store.scan("n", "r"))) == 3


def test_a_newer_schema_is_read_and_not_written(store: PostgresStore, database_url: str) -> None:  # noqa: F811
    append(store, "r", "e1")
    with direct(database_url) as connection:
        connection.execute("insert into onrecord.migrations (number, name, digest) values (99, 'future', 'x')")
    newer = PostgresStore(database_url)
    assert [row.id for row in newer.scan("n", "r")] == ["e1"]
    for write in (
        lambda: append(newer, "r", "e2"),
        lambda: newer.create_run("n", header("s")),
        lambda: newer.claim("n", "r", "me", 1),
        lambda: newer.inbox_put("n", "r", "k", b"", 1),
    ):
        with pytest.raises(SchemaMismatch, match="newer"):
            write()
    newer.close()


def test_a_foreign_schema_is_refused(database_url: str) -> None:  # noqa: F811
    with direct(database_url) as connection:
        connection.execute("create schema onrecord")
    with pytest.raises(SchemaMismatch, match="made by another program"):
        PostgresStore(database_url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cret-word@127.0.0.1:1/db",
        "postgresql://me:s3cret-word%40x@127.0.0.1:1/db?application_name=a",
        "postgresql://127.0.0.1:1/db?user=me&password=s3cret-word",
        "host=127.0.0.1 port=1 user=me password='s3cret-word' dbname=db",
        "postgresql://me:s3cret-word@127.0.0.1:port/db",
        "postgresql://me:s3cret-word@[::1/db",
    ],
)
def test_a_password_is_in_no_message(url: str) -> None:
    with pytest.raises(StoreUnavailable) as failed:
        PostgresStore(url, timeouts=Timeouts(connect=2))
    error = failed.value
    texts = [str(error), error.hint, repr(error), str(error.__cause__), mask_password(url)]
    assert all("s3cret-word" not in text for text in texts)
    assert "***" in mask_password(url)


def test_an_open_store_shows_no_password(postgres_server: PostgresServer) -> None:  # noqa: F811
    store = PostgresStore(postgres_server.url(postgres_server.fresh_database(), password="s3cret-word"))
    assert "s3cret-word" not in store.url
    store.close()


def test_names_and_limits_are_data(store: PostgresStore) -> None:
    for run in ("a%b", "a_b", "axb"):
        store.create_run("n", header(run))
    assert store.find_runs("n", "a%") == ["a%b"]
    assert store.find_runs("n", "a_") == ["a_b"]
    assert store.find_runs("n' or true --", "a") == []
    assert store.list_runs("n", limit=10**30)
    for bad in (-1, True, "1; drop table onrecord.runs"):
        with pytest.raises(InvalidInput):
            store.list_runs("n", limit=bad)  # type: ignore[arg-type]
    for text in ("nul\0", "\ud800"):
        with pytest.raises(InvalidInput):
            store.find_runs("n", text)
        with pytest.raises((InvalidInput, Refused)):
            store.append("n", "r", [event(GENESIS, "e")._replace(lane=text)], expected=GENESIS, epoch=0)


def test_large_contents_are_scanned_page_by_page(store: PostgresStore) -> None:
    head = GENESIS
    for number in range(6):
        row = event(head, f"e{number}", os.urandom(3_000_000))
        store.append("n", "r", [row], expected=head, epoch=0, sync=False)
        head = head_of(row)
    pages: list[int] = []
    rows = store._fetch
    store._fetch = lambda *a, **k: (pages.append(len(found := rows(*a, **k))), found)[1]  # type: ignore[method-assign]
    assert [row.seq for row in store.scan("n", "r")] == [1, 2, 3, 4, 5, 6]
    assert max(pages) <= 2
    assert [row.content for row in store.scan("n", "r", 2, 4, contents=False)] == [None, None]
    data = os.urandom(17_000_000)
    store.put_artifact("n", b"d" * 32, data)
    assert store.artifact("n", b"d" * 32) == data
    store.put_artifact("n", b"e" * 32, b"")
    assert store.artifact("n", b"e" * 32) == b""
    assert list(store.all_artifacts("n")) == [b"d" * 32, b"e" * 32]
    assert store.artifact("other", b"d" * 32) is None
