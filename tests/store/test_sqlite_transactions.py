"""What SQLite refuses to work in the store's transaction, and what such work may do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from kit.store_transactions import doing, notes, with_table
from onrecord.errors import InvalidInput, Refused, SchemaMismatch, StoreUnavailable
from onrecord.store.contract import PendingAppend
from onrecord.store.factory import open_store
from onrecord.store.sqlite import schema
from onrecord.store.sqlite.store import SqliteStore
from onrecord.testing.store_contract.builders import NS, Writer, event_row


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Any]:
    opened: Any = open_store(str(tmp_path / "own.db"))
    with_table(opened)
    yield opened
    opened.close()


def test_the_thread_that_works_does_not_write_otherwise(sqlite: Any) -> None:
    writer = Writer(sqlite)
    other = Writer(sqlite, "other")

    def work(connection: Any) -> PendingAppend:
        other.append(event_row(1, "other"))
        raise AssertionError("a thread that waits for itself waits for ever")

    with pytest.raises(InvalidInput, match="already writing to the store"):
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
    "reserved name": "CREATE TABLE onrecord_mine(x)",
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
        sqlite.transact(doing(writer, f"PRAGMA user_version={schema.SCHEMA_VERSION}"))
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


def test_closing_the_connection_is_refused_and_commits_nothing(sqlite: Any) -> None:
    writer = Writer(sqlite)

    def work(connection: Any) -> PendingAppend:
        connection.execute("INSERT INTO notes VALUES(1, 'one')")
        connection.close(True)
        return writer.pending(event_row(1))

    with pytest.raises(Refused) as refusal:
        sqlite.transact(work)
    assert refusal.value.code == "not_in_transaction"
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
        with pytest.raises(InvalidInput) as over:
            cursor.fetchall()
        assert over.value.code == "transaction_over"
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
