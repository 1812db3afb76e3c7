"""The numbered migrations of the schema, applied by the first process that opens the store.

A migration is a file `sql/NNN_name.sql` and never changes after its release. All missing migrations run in one
transaction under an advisory lock: processes that start together wait for one of them, and a failure changes nothing.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import NamedTuple

from psycopg import sql

from onrecord.errors import SchemaMismatch, StoreUnavailable
from onrecord.store.postgres.connection import Connection, ConnectionPool

LOCK = 7_305_518_612_114_021  # an arbitrary constant, the same in all versions


class Migration(NamedTuple):
    number: int
    name: str
    text: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def list_migrations() -> list[Migration]:
    folder = resources.files("onrecord.store.postgres").joinpath("sql")
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return [Migration(int(file.name[:3]), file.name[4:-4], file.read_text(encoding="utf-8")) for file in files]


def migrate(pool: ConnectionPool, *, read_only: bool = False) -> str:
    """Bring the schema to this version. Return why the store must not be written, or an empty text.

    With `read_only`, change nothing, and raise StoreUnavailable if the schema is missing or older.
    """
    steps = list_migrations()
    with pool.connection() as connection:
        applied = read_applied(connection, pool.shown)
        if read_only and (applied is None or len(applied) < len(steps)):
            raise StoreUnavailable(
                f"there is no store of this version in {pool.shown}",
                hint="Open it for writing once; that creates or upgrades the store.",
                code="no_store",
            )
        if applied is None or len(applied) < len(steps):
            if connection.standby:
                raise SchemaMismatch(
                    f"the schema of this standby is not up to date ({pool.shown}); open the primary first"
                )
            applied = apply_missing(connection, steps, pool.shown)
    for step in steps:
        if applied.get(step.number) != step.digest:
            raise SchemaMismatch(
                f"migration {step.number} of the schema `onrecord` is not this program's ({pool.shown})"
            )
    newer = max(applied) - steps[-1].number
    if newer > 0:
        return f"the schema is {newer} versions newer than this program"
    return "the store was opened for reading only" if read_only else ""


def read_applied(connection: Connection, shown: str) -> dict[int, str] | None:
    """Return number and digest of the applied migrations; None if there is no schema."""
    # From the tables, not by to_regnamespace(), which may answer from a cache older than the advisory lock.
    row = connection.execute(
        "select exists (select from pg_namespace where nspname = 'onrecord'), exists (select from pg_class c"
        " join pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname = 'onrecord' and c.relname = 'migrations')"
    ).fetchone()
    assert row is not None
    if not row[0]:
        return None
    if not row[1]:
        raise SchemaMismatch(f"the schema `onrecord` of the database was made by another program ({shown})")
    return dict(connection.execute("select number, digest from onrecord.migrations order by number").fetchall())


def apply_missing(connection: Connection, steps: list[Migration], shown: str) -> dict[int, str]:
    with connection.transaction():
        # Other processes may wait for a slow first migration longer than a statement usually takes.
        connection.execute("set local lock_timeout = '60s'")
        connection.execute("set local statement_timeout = '120s'")
        connection.patience, patience = 130.0, connection.patience
        try:
            connection.execute("select pg_advisory_xact_lock(%s)", (LOCK,))
            applied = read_applied(connection, shown)
            if applied is None:
                connection.execute("create schema onrecord")
                connection.execute(
                    "create table onrecord.migrations (number integer primary key, name text not null,"
                    " digest text not null,"
                    " time timestamptz not null default clock_timestamp())"
                )
                applied = {}
            for step in steps:
                if step.number not in applied:
                    # A file of this package with many statements: sent unchanged, without parameters.
                    connection.execute(sql.SQL(step.text), prepare=False)
                    connection.execute(
                        "insert into onrecord.migrations (number, name, digest) values (%s, %s, %s)",
                        (step.number, step.name, step.digest),
                    )
                    applied[step.number] = step.digest
        finally:
            connection.patience = patience
    return applied
