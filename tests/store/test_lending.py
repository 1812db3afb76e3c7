"""The connection of a transaction is lent: it does what it should while the work goes on, and nothing afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row, scalar_row

from kit.store_transactions import notes, with_table
from onrecord.errors import InvalidInput, Refused
from onrecord.store.contract import PendingAppend
from onrecord.store.factory import open_store
from onrecord.testing.store_contract.builders import Writer, event_row


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


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def working(store: Any, use: Callable[[Any], Any]) -> None:
    """A transaction in which the connection is used like that."""
    writer = Writer(store, "lending")

    def work(connection: Any) -> PendingAppend:
        connection.execute("INSERT INTO notes VALUES(1, 'one'), (2, 'two')")
        use(connection)
        return writer.pending(event_row(1, "lending"))

    store.transact(work)


def is_dead(use: Callable[[], Any]) -> bool:
    with pytest.raises(InvalidInput) as refusal:
        use()
    return refusal.value.code == "transaction_over"


def test_nothing_of_it_is_left_when_the_work_is_over(store: Any) -> None:
    kept: dict[str, Any] = {}

    def keep(connection: Any) -> None:
        kept["connection"] = connection
        kept["execute"] = connection.execute
        kept["cursor"] = connection.cursor()
        kept["half read"] = connection.execute("SELECT text FROM notes")
        assert next(iter(kept["half read"]))[0] == "one"
        kept["fetchall"] = kept["half read"].fetchall

    working(store, keep)
    connection, cursor, rows = kept["connection"], kept["cursor"], kept["half read"]
    for use in (
        lambda: connection.execute("DELETE FROM notes"),
        lambda: connection.cursor(),
        lambda: connection.close(),
        lambda: connection.anything,
        lambda: setattr(connection, "row_factory", None),
        lambda: kept["execute"]("DELETE FROM notes"),
        lambda: cursor.execute("DELETE FROM notes"),
        lambda: cursor.connection,
        lambda: next(rows),
        lambda: list(rows),
        lambda: kept["fetchall"](),
    ):
        assert is_dead(use)
    assert notes(store) == ["one", "two"]


def test_nor_when_it_has_failed(store: Any) -> None:
    kept: list[Any] = []

    def fail(connection: Any) -> None:
        kept.append(connection)
        raise KeyError("x")

    with pytest.raises(KeyError):
        working(store, fail)
    assert is_dead(lambda: kept[0].execute("SELECT 1"))
    assert notes(store) == []


def test_a_thread_that_goes_on_writes_nothing_later(store: Any) -> None:
    errors: list[BaseException] = []
    going = threading.Event()

    def go_on(connection: Any) -> None:
        try:
            while True:
                connection.execute("UPDATE notes SET text = text")
                going.set()
        except BaseException as error:
            errors.append(error)

    threads: list[threading.Thread] = []

    def start(connection: Any) -> None:
        threads.append(threading.Thread(target=go_on, args=(connection,)))
        threads[0].start()
        going.wait(30)

    working(store, start)
    threads[0].join(30)
    assert [getattr(error, "code", error) for error in errors] == ["transaction_over"]
    assert notes(store) == ["one", "two"]


def test_the_connection_can_do_what_a_step_needs(store: Any) -> None:
    def use(connection: Any) -> None:
        cursor = connection.cursor()
        assert cursor.execute("SELECT id FROM notes ORDER BY id") is cursor
        assert [row[0] for row in cursor] == [1, 2]
        assert cursor.execute("SELECT id FROM notes ORDER BY id").fetchone()[0] == 1
        assert cursor.connection is connection
        assert cursor.description
        is_sqlite = isinstance(connection, apsw.Connection)
        assert is_sqlite or isinstance(connection, psycopg.Connection)
        mark = "?, ?" if is_sqlite else "%s, %s"
        cursor.executemany(f"INSERT INTO notes VALUES({mark})", [(3, "three"), (4, "four")])
        with pytest.raises(KeyError), connection if is_sqlite else connection.transaction():
            connection.execute("DELETE FROM notes")
            raise KeyError

    working(store, use)
    assert notes(store) == ["one", "two", "three", "four"]


@pytest.mark.parametrize(
    "name",
    ["close", "blob_open", "backup", "set_authorizer", "set_commit_hook", "deserialize", "create_scalar_function"],
)
def test_sqlite_what_would_change_the_stores_connection_is_refused(sqlite: Any, name: str) -> None:
    with pytest.raises(Refused) as refusal:
        working(sqlite, lambda connection: getattr(connection, name))
    assert refusal.value.code == "not_in_transaction"
    for attribute in ("authorizer", "cursor_factory", "exec_trace"):
        with pytest.raises(Refused):
            working(sqlite, lambda connection, attribute=attribute: setattr(connection, attribute, None))
    assert notes(sqlite) == []


def test_sqlite_rows_are_made_as_the_step_says_and_no_longer(sqlite: Any) -> None:
    found: list[Any] = []

    def use(connection: Any) -> None:
        def named(cursor: Any, row: Any) -> Any:
            assert cursor.connection is connection
            return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}

        connection.row_trace = named
        found.extend(connection.execute("SELECT id FROM notes"))

    working(sqlite, use)
    assert found == [{"id": 1}, {"id": 2}]
    assert notes(sqlite) == ["one", "two"]


@pytest.mark.parametrize("name", ["close", "pgconn", "set_autocommit", "add_notice_handler", "info", "cursor_factory"])
def test_postgres_what_would_change_the_stores_connection_is_refused(postgres: Any, name: str) -> None:
    with pytest.raises(Refused) as refusal:
        working(postgres, lambda connection: getattr(connection, name))
    assert refusal.value.code == "not_in_transaction"
    with pytest.raises(Refused):
        working(postgres, lambda connection: setattr(connection, "autocommit", True))
    assert notes(postgres) == []


@pytest.mark.parametrize("text", ["SELECT 1; COMMIT", "COMMIT", "SELECT * FROM onrecord.events"])
def test_postgres_a_cursor_with_a_name_is_asked_too(postgres: Any, text: str) -> None:
    def use(connection: Any) -> None:
        with connection.cursor("named") as cursor:
            cursor.execute(text)

    with pytest.raises(Refused):
        working(postgres, use)
    with pytest.raises(Refused):
        working(postgres, lambda connection: list(connection.cursor().stream(text.rpartition("; ")[2] or text)))
    assert notes(postgres) == []


def test_postgres_the_usual_ways_to_read_and_write(postgres: Any) -> None:
    kept: list[Any] = []

    def use(connection: Any) -> None:
        with connection.cursor(row_factory=dict_row) as cursor:
            assert cursor.execute("SELECT id FROM notes WHERE id = %s", (1,)).fetchall() == [{"id": 1}]
        table = sql.SQL("SELECT text FROM {} ORDER BY id").format(sql.Identifier("notes"))
        assert table.as_string(connection) == 'SELECT text FROM "notes" ORDER BY id'
        connection.row_factory = scalar_row
        assert connection.execute(table).fetchall() == ["one", "two"]
        with connection.cursor().copy("COPY notes FROM STDIN") as copy:
            copy.write_row((3, "three"))
        with connection.cursor().copy("COPY (SELECT text FROM notes ORDER BY id) TO STDOUT") as copy:
            assert [row[0] for row in copy.rows()] == ["one", "two", "three"]
        with connection.cursor("named") as cursor:
            cursor.execute("SELECT id FROM notes ORDER BY id;")
            assert list(cursor) == [1, 2, 3]
        stream = connection.cursor().stream("SELECT id FROM notes ORDER BY id")
        assert list(stream) == [1, 2, 3]
        kept.extend([stream, copy])

    working(postgres, use)
    assert is_dead(lambda: next(kept[0]))
    assert is_dead(lambda: kept[1].read())
    assert notes(postgres) == ["one", "two", "three"]
