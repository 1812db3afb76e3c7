"""Rows of the user's own and events in one transaction: both or neither, and nothing of the store's is touched."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from reenact.errors import InvalidInput, MovedHead, NotFound, Refused, SchemaMismatch, StaleEpoch, StoreUnavailable
from reenact.journal.transactions import transactional
from reenact.store.contract import DuplicateIds, Head, NodeRow, PendingAppend, TransactionalStore
from reenact.store.memory import MemoryStore
from reenact.store.opening import open_store
from reenact.store.postgres import guests
from reenact.store.postgres.store import PostgresStore
from reenact.store.sqlite.store import SqliteStore
from reenact.testing.store_contract.builders import NS, Writer, event_row

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "faults"))
from tcp_proxy import tcp_proxy


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    found: str = request.getfixturevalue("database_url")
    return found


@pytest.fixture
def store(url: str) -> Iterator[Any]:
    opened: Any = open_store(url)
    with_table(opened)
    yield opened
    opened.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Any]:
    opened: Any = open_store(str(tmp_path / "own.db"))
    with_table(opened)
    yield opened
    opened.close()


@pytest.fixture
def postgres(database_url: str) -> Iterator[Any]:
    opened: Any = open_store(database_url)
    with_table(opened)
    yield opened
    opened.close()


def with_table(store: Any) -> None:
    writer = Writer(store, "tables")
    store.transact(doing(writer, "CREATE TABLE notes(id INTEGER PRIMARY KEY, text TEXT UNIQUE)"))


def doing(writer: Writer, *statements: str, nodes: tuple[NodeRow, ...] = ()) -> Callable[[Any], PendingAppend]:
    """Work that carries the statements out and appends the next event."""

    def work(connection: Any) -> PendingAppend:
        for statement in statements:
            connection.execute(statement)
        row = event_row(writer.head.seq + 1, writer.run)
        return writer.pending(row)._replace(nodes=nodes)

    return work


def notes(store: Any) -> list[str]:
    found: list[str] = []

    class Looked(Exception):
        pass

    def look(connection: Any) -> PendingAppend:
        found.extend(row[0] for row in connection.execute("SELECT text FROM notes ORDER BY id").fetchall())
        raise Looked

    with pytest.raises(Looked):
        store.transact(look)
    return found


def test_rows_and_events_are_committed_together(store: Any, url: str) -> None:
    writer = Writer(store)
    node = NodeRow(b"a" * 32, b"blob")
    store.transact(doing(writer, "INSERT INTO notes VALUES(1, 'one')", nodes=(node,)))
    assert notes(store) == ["one"]
    assert [row.seq for row in store.scan(NS, writer.run)] == [1]
    assert store.nodes(NS, [b"a" * 32]) == {b"a" * 32: b"blob"}
    store.close()
    again: Any = open_store(url)
    assert notes(again) == ["one"]
    assert again.last_event(NS, writer.run).seq == 1
    again.close()


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), Refused("mine")])
def test_what_the_work_raises_comes_out_as_it_is_and_undoes_all(store: Any, error: BaseException) -> None:
    writer = Writer(store)

    def work(connection: Any) -> PendingAppend:
        connection.execute("INSERT INTO notes VALUES(1, 'one')")
        raise error

    with pytest.raises(type(error)) as raised:
        store.transact(work)
    assert raised.value is error
    assert notes(store) == []
    writer.append(event_row(1))
    assert store.last_event(NS, writer.run).seq == 1


def test_a_failed_statement_is_the_works_own_error(store: Any) -> None:
    writer = Writer(store)
    store.transact(doing(writer, "INSERT INTO notes VALUES(1, 'one')"))
    writer.head = Head(1, event_row(1).hash)
    with pytest.raises((apsw.ConstraintError, psycopg.errors.UniqueViolation)):
        store.transact(doing(writer, "INSERT INTO notes VALUES(2, 'two')", "INSERT INTO notes VALUES(3, 'one')"))
    with pytest.raises((apsw.SQLError, psycopg.errors.UndefinedTable)):
        store.transact(doing(writer, "INSERT INTO nowhere VALUES(1)"))
    assert notes(store) == ["one"]


def test_a_savepoint_of_the_works_own(store: Any) -> None:
    writer = Writer(store)

    def work(connection: Any) -> PendingAppend:
        connection.execute("INSERT INTO notes VALUES(1, 'one')")
        inner = connection if isinstance(connection, apsw.Connection) else connection.transaction()
        with pytest.raises((apsw.ConstraintError, psycopg.errors.UniqueViolation)), inner:
            connection.execute("INSERT INTO notes VALUES(2, 'two')")
            connection.execute("INSERT INTO notes VALUES(3, 'one')")
        return writer.pending(event_row(1))

    store.transact(work)
    assert notes(store) == ["one"]


def refused(writer: Writer) -> dict[type[Exception], PendingAppend]:
    row = event_row(2)
    return {
        NotFound: writer.pending(row)._replace(run="nobody"),
        DuplicateIds: writer.pending(event_row(1)),
        StaleEpoch: writer.pending(row)._replace(epoch=7),
        MovedHead: writer.pending(row)._replace(expected=Head(0, b"h" * 32)),
    }


@pytest.mark.parametrize("refusal", [NotFound, DuplicateIds, StaleEpoch, MovedHead])
def test_a_refused_append_undoes_the_rows(store: Any, refusal: type[Exception]) -> None:
    writer = Writer(store)
    writer.append(event_row(1))

    def work(connection: Any) -> PendingAppend:
        connection.execute("INSERT INTO notes VALUES(1, 'one')")
        return refused(writer)[refusal]

    with pytest.raises(refusal):
        store.transact(work)
    assert notes(store) == []
    assert store.last_event(NS, writer.run).seq == 1


def test_whoever_took_the_run_over_before_the_transaction_wins(store: Any) -> None:
    writer = Writer(store)
    store.claim(NS, writer.run, "somebody", 60)
    with pytest.raises(StaleEpoch):
        store.transact(doing(writer, "INSERT INTO notes VALUES(1, 'one')"))
    assert notes(store) == []


def test_many_threads_share_the_store(store: Any) -> None:
    writers = [Writer(store, f"run-{number}") for number in range(8)]
    errors: list[BaseException] = []

    def work(number: int, writer: Writer) -> None:
        try:
            store.transact(doing(writer, f"INSERT INTO notes VALUES({number}, 'note {number}')"))
            writer.head = Head(1, event_row(1, writer.run).hash)
            writer.append(event_row(2, writer.run))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert len(notes(store)) == 8
    assert all(store.last_event(NS, writer.run).seq == 2 for writer in writers)


def test_the_thread_that_works_does_not_write_otherwise(sqlite: Any) -> None:
    writer = Writer(sqlite)
    other = Writer(sqlite, "other")

    def work(connection: Any) -> PendingAppend:
        other.append(event_row(1, "other"))
        raise AssertionError("a thread that waits for itself waits for ever")

    with pytest.raises(InvalidInput, match="middle of another change"):
        sqlite.transact(work)
    assert sqlite.last_event(NS, writer.run) is None


# SQLite: what is refused while the work is done

OFFENCES = {
    "insert": "INSERT INTO events(run_no, seq, id, kind, lane, link, hash) VALUES(1, 9, 'x', 'x', '0', x'00', x'00')",
    "update": "UPDATE runs SET epoch = 9",
    "delete": "DELETE FROM main.inbox",
    "read": "SELECT * FROM events",
    "in a subquery": "INSERT INTO notes SELECT 1, id FROM events",
    "replace": "INSERT OR REPLACE INTO nodes VALUES(1, 'default', x'00', x'00')",
    "drop": "DROP TABLE snapshots",
    "drop an index": "DROP INDEX events_by_lane",
    "alter": "ALTER TABLE runs ADD COLUMN mine TEXT",
    "index": "CREATE INDEX mine ON events(kind)",
    "trigger": "CREATE TRIGGER mine AFTER INSERT ON notes BEGIN SELECT 1; END",
    "trigger of ours": "DROP TRIGGER events_delete",
    "view": "CREATE VIEW mine AS SELECT 1",
    "virtual table": "CREATE VIRTUAL TABLE mine USING fts5(x)",
    "temporary": "CREATE TEMP TABLE events(x)",
    "reserved name": "CREATE TABLE reenact_mine(x)",
    "numbers": "DELETE FROM sqlite_sequence",
    "numbers again": "UPDATE sqlite_sequence SET seq = 0",
    "commit": "COMMIT",
    "rollback": "ROLLBACK",
    "begin": "BEGIN",
    "attach": "ATTACH ':memory:' AS other",
    "setting": "PRAGMA synchronous=OFF",
    "version": "PRAGMA user_version=9",
    "analyse": "ANALYZE",
}


@pytest.mark.parametrize("offence", OFFENCES)
def test_sqlite_lets_the_work_touch_nothing_of_the_stores(sqlite: Any, offence: str) -> None:
    writer = Writer(sqlite)
    with pytest.raises(Refused) as refusal:
        sqlite.transact(doing(writer, "INSERT INTO notes VALUES(1, 'one')", OFFENCES[offence]))
    assert refusal.value.code == "not_in_transaction"
    assert notes(sqlite) == []
    writer.append(event_row(1))


def test_a_statement_that_the_store_itself_uses_is_refused_from_its_cache_too(sqlite: Any) -> None:
    writer = Writer(sqlite)
    with pytest.raises(Refused):
        sqlite.transact(doing(writer, "PRAGMA user_version=1"))
    with pytest.raises(Refused):
        sqlite.transact(doing(writer, "SELECT run_no FROM runs WHERE namespace = ? AND run = ?"))


def test_a_conflict_that_rolls_everything_back_commits_nothing_after_it(sqlite: Any) -> None:
    writer = Writer(sqlite)

    def work(connection: Any) -> PendingAppend:
        connection.execute("INSERT INTO notes VALUES(1, 'one')")
        with pytest.raises(apsw.ConstraintError):
            connection.execute("INSERT OR ROLLBACK INTO notes VALUES(2, 'one')")
        with pytest.raises(apsw.ConstraintError):  # it would commit by itself
            connection.execute("INSERT INTO notes VALUES(3, 'three')")
        return writer.pending(event_row(1))

    with pytest.raises(Refused) as refusal:
        sqlite.transact(work)
    assert refusal.value.code == "transaction_ended"
    assert notes(sqlite) == []
    assert sqlite.last_event(NS, writer.run) is None


def test_a_closed_connection_commits_nothing(sqlite: Any) -> None:
    writer = Writer(sqlite)

    def work(connection: Any) -> PendingAppend:
        connection.execute("INSERT INTO notes VALUES(1, 'one')")
        connection.close(True)
        return writer.pending(event_row(1))

    with pytest.raises(Refused) as refusal:
        sqlite.transact(work)
    assert refusal.value.code == "transaction_ended"
    assert notes(sqlite) == []
    writer.append(event_row(1))


def test_cursors_left_open_are_closed(sqlite: Any) -> None:
    writer = Writer(sqlite)
    left: list[Any] = []

    def work(connection: Any) -> PendingAppend:
        connection.execute("INSERT INTO notes VALUES(1, 'one'), (2, 'two')")
        left.append(connection.execute("SELECT * FROM notes"))
        left.append(connection.cursor().execute("INSERT INTO notes VALUES(3, 'three'), (4, 'four') RETURNING id"))
        return writer.pending(event_row(1))

    sqlite.transact(work)
    for cursor in left:
        with pytest.raises(apsw.CursorClosedError):
            cursor.fetchall()
    assert len(notes(sqlite)) == 4


def test_a_full_disk_is_the_stores_failure_not_the_works(sqlite: Any) -> None:
    writer = Writer(sqlite)
    connection = sqlite._writer._connection
    connection.pragma("max_page_count", connection.pragma("page_count") + 10)
    with pytest.raises(StoreUnavailable) as failure:
        sqlite.transact(doing(writer, "INSERT INTO notes SELECT 1, hex(randomblob(1000000))"))
    assert failure.value.code == "disk_full"
    assert notes(sqlite) == []
    writer.append(event_row(1))


def test_tables_are_made_changed_and_dropped(sqlite: Any) -> None:
    writer = Writer(sqlite)
    sqlite.transact(
        doing(
            writer,
            "CREATE TABLE mine(id INTEGER PRIMARY KEY AUTOINCREMENT, note INTEGER REFERENCES notes, x TEXT UNIQUE)",
            "CREATE INDEX mine_by_note ON mine(note)",
            "ALTER TABLE mine ADD COLUMN more TEXT",
            "ALTER TABLE mine RENAME COLUMN more TO less",
            "INSERT INTO mine(x) VALUES('a')",
            "DROP TABLE mine",
            "CREATE TABLE other AS SELECT * FROM notes",
        )
    )
    sqlite.close()
    SqliteStore(sqlite.path).close()
    SqliteStore(sqlite.path, read_only=True).close()


def test_a_table_that_refers_to_ours_is_refused(sqlite: Any) -> None:
    writer = Writer(sqlite)
    with pytest.raises(SchemaMismatch, match="mine"):
        sqlite.transact(doing(writer, "CREATE TABLE mine(run INTEGER REFERENCES runs)"))
    sqlite.close()
    other = apsw.Connection(sqlite.path)
    other.execute("CREATE TABLE mine(run INTEGER REFERENCES runs)")
    other.close()
    with pytest.raises(SchemaMismatch, match="mine"):
        SqliteStore(sqlite.path)


# Postgres


@pytest.mark.parametrize(
    "offence",
    [
        "commit",
        "/* soon */ COMMIT",
        "-- soon\n rollback",
        "begin",
        "end",
        "start transaction",
        "prepare transaction 'x'",
        "set search_path = reenact",
        "reset all",
        "discard all",
        "delete from reenact.events",
        'select * from "reenact".runs',
        "insert into notes select 1, id from Reenact . events",
    ],
)
def test_postgres_lets_the_work_touch_nothing_of_the_stores(postgres: Any, offence: str) -> None:
    writer = Writer(postgres)
    with pytest.raises(Refused) as refusal:
        postgres.transact(doing(writer, "INSERT INTO notes VALUES(1, 'one')", offence))
    assert refusal.value.code == "not_in_transaction"
    assert notes(postgres) == []
    writer.append(event_row(1))


def test_one_statement_in_each_text(postgres: Any) -> None:
    writer = Writer(postgres)
    with pytest.raises(psycopg.errors.SyntaxError):
        postgres.transact(doing(writer, "INSERT INTO notes VALUES(1, 'one'); COMMIT"))
    assert notes(postgres) == []


def test_a_text_may_speak_of_the_store(postgres: Any) -> None:
    writer = Writer(postgres)
    postgres.transact(doing(writer, "INSERT INTO notes VALUES(1, 'reenact.events; commit')", "SET LOCAL jit = on"))
    assert notes(postgres) == ["reenact.events; commit"]


def test_commit_and_rollback_are_the_stores(postgres: Any) -> None:
    writer = Writer(postgres)
    for end in ("commit", "rollback"):

        def work(connection: Any, end: str = end) -> PendingAppend:
            connection.execute("INSERT INTO notes VALUES(1, 'one')")
            getattr(connection, end)()
            return writer.pending(event_row(1))

        with pytest.raises(psycopg.ProgrammingError):
            postgres.transact(work)
    assert notes(postgres) == []


def test_going_on_after_a_failed_statement_is_refused(postgres: Any) -> None:
    writer = Writer(postgres)

    def work(connection: Any) -> PendingAppend:
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("INSERT INTO nowhere VALUES(1)")
        return writer.pending(event_row(1))

    with pytest.raises(Refused) as refusal:
        postgres.transact(work)
    assert refusal.value.code == "transaction_ended"
    assert postgres.last_event(NS, writer.run) is None


def test_settings_of_the_work_do_not_outlive_it(postgres: Any) -> None:
    writer = Writer(postgres)
    seen: list[Any] = []

    def work(connection: Any) -> PendingAppend:
        connection.execute("SET LOCAL synchronous_commit = off")
        seen.append(connection.execute("SELECT current_setting('search_path')").fetchone()[0])
        return writer.pending(event_row(1))

    postgres.transact(work)
    assert seen == ['"$user", public']
    with postgres._pool.connection() as connection:
        names = ("search_path", "synchronous_commit", "enable_seqscan")
        settings = [connection.execute("select current_setting(%s)", (name,)).fetchone()[0] for name in names]
    assert settings == ["pg_catalog, pg_temp", "on", "off"]


def test_a_pool_of_one_is_enough(database_url: str) -> None:
    store: Any = PostgresStore(database_url, pool_size=1)
    with_table(store)
    writer = Writer(store)
    writer.append(event_row(1))
    writer.head = Head(0, b"")
    with pytest.raises(DuplicateIds):
        store.transact(doing(writer))

    def with_artifact(connection: Any) -> PendingAppend:
        store.put_artifact(NS, b"a" * 32, b"large")
        return writer.pending(event_row(2))

    writer.head = Head(1, event_row(1).hash)
    store.transact(with_artifact)
    assert store.artifact(NS, b"a" * 32) == b"large"
    assert store._pool.size == 1
    assert store._pool._made <= 1
    store.close()


@pytest.mark.parametrize("fault", ["cut_request", "cut_answer"])
def test_a_connection_lost_while_committing_is_looked_up(
    database_url: str, monkeypatch: pytest.MonkeyPatch, fault: Any
) -> None:
    """Cut before the commit arrives: nothing was written, and it is said. Cut after: it was, and all is well."""
    direct: Any = open_store(database_url)
    with_table(direct)
    port = int(database_url.rpartition(":")[2].partition("/")[0])
    with tcp_proxy(port) as proxy:
        store: Any = PostgresStore(database_url.replace(f":{port}/", f":{proxy.port}/"))
        writer = Writer(store)
        append = guests._Attempt._append

        def then_cut(self: Any, connection: Any) -> bool:
            done = append(self, connection)
            proxy.arm(fault)
            return done

        monkeypatch.setattr(guests._Attempt, "_append", then_cut)
        if fault == "cut_request":
            with pytest.raises(StoreUnavailable, match="nothing was written"):
                store.transact(doing(writer, "INSERT INTO notes VALUES(1, 'one')"))
        else:
            store.transact(doing(writer, "INSERT INTO notes VALUES(1, 'one')"))
        monkeypatch.undo()
        there = fault == "cut_answer"
        assert notes(direct) == (["one"] if there else [])
        assert (direct.last_event(NS, writer.run) is not None) == there
        store.close()
    direct.close()


def test_a_connection_lost_during_the_work_has_written_nothing(postgres: Any) -> None:
    Writer(postgres)

    def work(connection: Any) -> PendingAppend:
        connection.execute("INSERT INTO notes VALUES(1, 'one')")
        connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        raise AssertionError("there is no connection any more")

    with pytest.raises(StoreUnavailable, match="nothing was written"):
        postgres.transact(work)
    assert notes(postgres) == []


# Stores without


def test_a_store_without_transactions_says_so(memory: MemoryStore) -> None:
    assert not isinstance(memory, TransactionalStore)
    with pytest.raises(InvalidInput) as refusal:
        transactional(memory)
    assert refusal.value.code == "no_transactions"
    assert refusal.value.hint


def test_a_store_opened_for_reading_refuses(url: str, store: Any) -> None:
    writer = Writer(store)
    closed: Any = open_store(url)
    closed.close()
    with pytest.raises(StoreUnavailable):
        closed.transact(doing(writer))
