"""What is new in the inboxes of a Postgres store, when transactions end in another order than they began."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from kit.postgres_server import (
    database_url,  # noqa: F401 - a fixture
    header,
    postgres_server,  # noqa: F401 - a fixture
)
from onrecord.store.contract import InboxArrival
from onrecord.store.postgres import PostgresStore

PUT = "select onrecord.inbox_put('n', %s, %s, 'payload', 1)"


@pytest.fixture
def store(database_url: str) -> Iterator[PostgresStore]:  # noqa: F811
    opened = PostgresStore(database_url)
    for run in ("a", "b"):
        opened.create_run("n", header(run))
    yield opened
    opened.close()


def test_a_transaction_that_ends_later_is_not_missed(store: PostgresStore, database_url: str) -> None:  # noqa: F811
    """It began and was numbered before another one whose row has been read already."""
    with psycopg.connect(database_url) as slow, psycopg.connect(database_url) as quick:
        cursor, _ = store.inbox_since(None)
        slow.execute(PUT, ("a", "slow"))
        quick.execute(PUT, ("b", "quick"))
        quick.commit()
        cursor, arrivals = store.inbox_since(cursor)
        assert arrivals == [InboxArrival("n", "b", "quick")], "who is slow holds nobody up"
        assert store.inbox_since(cursor)[1] == []
        slow.commit()
        cursor, arrivals = store.inbox_since(cursor)
        assert arrivals == [InboxArrival("n", "a", "slow")]
        assert store.inbox_since(cursor)[1] == []


def test_a_transaction_open_at_the_first_look_is_not_missed(store: PostgresStore, database_url: str) -> None:  # noqa: F811
    with psycopg.connect(database_url) as slow:
        slow.execute(PUT, ("a", "slow"))
        cursor, _ = store.inbox_since(None)
        slow.commit()
    assert store.inbox_since(cursor)[1] == [InboxArrival("n", "a", "slow")]


def test_a_savepoint_counts_as_its_transaction(store: PostgresStore, database_url: str) -> None:  # noqa: F811
    with psycopg.connect(database_url) as slow:
        slow.execute("select 1")
        slow.execute("savepoint s")
        slow.execute(PUT, ("a", "inside"))
        cursor, _ = store.inbox_since(None)
        slow.execute("release s")
        slow.commit()
    assert store.inbox_since(cursor)[1] == [InboxArrival("n", "a", "inside")]


def test_a_transaction_that_failed_brings_nothing(store: PostgresStore, database_url: str) -> None:  # noqa: F811
    cursor, _ = store.inbox_since(None)
    with psycopg.connect(database_url) as failing:
        failing.execute(PUT, ("a", "never"))
        failing.rollback()
    assert store.inbox_since(cursor)[1] == []


def test_rows_from_a_server_whose_transactions_went_further(store: PostgresStore, database_url: str) -> None:  # noqa: F811
    """A restored copy keeps the numbers of its old server; they are not new over and over again."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(PUT, ("a", "restored"))
        connection.execute("update onrecord.inbox set transaction = '4000000000000'")
    cursor, _ = store.inbox_since(None)
    assert store.inbox_since(cursor)[1] == []


def test_asking_reads_the_new_rows_alone(store: PostgresStore, database_url: str) -> None:  # noqa: F811
    from onrecord.store.postgres.queries import INBOX_SINCE

    for number in range(50):
        store.inbox_put("n", "a", f"key-{number}", b"", 1)
    cursor, _ = store.inbox_since(None)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "insert into onrecord.inbox select 1, g, 'k' || g, '', 1, '3' from generate_series(1000, 6000) g"
        )
        connection.execute("analyze onrecord.inbox")
        plan = connection.execute("explain " + INBOX_SINCE, (cursor, cursor)).fetchall()
    assert any("inbox_by_transaction" in line for (line,) in plan), plan
