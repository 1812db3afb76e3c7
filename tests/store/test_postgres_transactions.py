"""What Postgres refuses to work in the store's transaction, and what a lost connection means to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from kit.store_transactions import doing, notes, with_table
from kit.tcp_proxy import tcp_proxy
from onrecord.errors import Refused, StoreUnavailable
from onrecord.store.contract import DuplicateIds, Head, PendingAppend
from onrecord.store.factory import open_store
from onrecord.store.postgres import user_transactions as guests
from onrecord.store.postgres.store import PostgresStore
from onrecord.testing.store_contract.builders import NS, Writer, event_row


@pytest.fixture
def postgres(database_url: str) -> Iterator[Any]:
    opened: Any = open_store(database_url)
    with_table(opened)
    yield opened
    opened.close()


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
        "set search_path = onrecord",
        "reset all",
        "discard all",
        "delete from onrecord.events",
        'select * from "onrecord".runs',
        "insert into notes select 1, id from Onrecord . events",
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
    postgres.transact(doing(writer, "INSERT INTO notes VALUES(1, 'onrecord.events; commit')", "SET LOCAL jit = on"))
    assert notes(postgres) == ["onrecord.events; commit"]


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
