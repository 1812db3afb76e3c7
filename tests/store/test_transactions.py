"""Rows of the user's own and events in one transaction: both or neither."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from kit.store_transactions import doing, notes, with_table
from onrecord.errors import InvalidInput, MovedHead, NotFound, Refused, StaleEpoch, StoreUnavailable
from onrecord.journal.transactions import require_transactions
from onrecord.store.contract import DuplicateIds, Head, NodeRow, PendingAppend, TransactionalStore
from onrecord.store.factory import open_store
from onrecord.store.memory import MemoryStore
from onrecord.testing.store_contract.builders import NS, Writer, event_row


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


# Stores without


def test_a_store_without_transactions_says_so(memory: MemoryStore) -> None:
    assert not isinstance(memory, TransactionalStore)
    with pytest.raises(InvalidInput) as refusal:
        require_transactions(memory)
    assert refusal.value.code == "no_transactions"
    assert refusal.value.hint


def test_a_store_opened_for_reading_refuses(url: str, store: Any) -> None:
    writer = Writer(store)
    closed: Any = open_store(url)
    closed.close()
    with pytest.raises(StoreUnavailable):
        closed.transact(doing(writer))
