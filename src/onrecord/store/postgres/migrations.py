"""The schema's numbered steps, taken one at a time by whoever opens the store first.

A step is a file `sql/NNN_name.sql` and never changes once released. All missing steps run in one transaction
under an advisory lock, so that processes starting together wait for one of them, and a failure leaves the
schema as it was.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import NamedTuple

from psycopg import sql

from reenact.errors import SchemaMismatch, StoreUnavailable
from reenact.store.postgres.connection import Connection, Pool

LOCK = 7_305_518_612_114_021  # any constant number; it is the same in all versions


class Migration(NamedTuple):
    number: int
    name: str
    text: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def known() -> list[Migration]:
    folder = resources.files("reenact.store.postgres").joinpath("sql")
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return [Migration(int(file.name[:3]), file.name[4:-4], file.read_text(encoding="utf-8")) for file in files]


def migrate(pool: Pool, *, read_only: bool = False) -> str:
    """Brings the schema up to this version. Returns why the store must not be written, or an empty text.

    One who only reads changes nothing, and finds no store where the schema is missing or older.
    """
    steps = known()
    with pool.connection() as connection:
        applied = read(connection, pool.shown)
        if read_only and (applied is None or len(applied) < len(steps)):
            raise StoreUnavailable(
                f"there is no store of this version in {pool.shown}",
                hint="Open it for writing once; that makes or upgrades the store.",
                code="no_store",
            )
        if applied is None or len(applied) < len(steps):
            if connection.standby:
                raise SchemaMismatch(
                    f"the schema of this standby is not up to date ({pool.shown}); open the primary first"
                )
            applied = apply(connection, steps, pool.shown)
    for step in steps:
        if applied.get(step.number) != step.digest:
            raise SchemaMismatch(
                f"migration {step.number} of the schema `reenact` is not this program's ({pool.shown})"
            )
    newer = max(applied) - steps[-1].number
    if newer > 0:
        return f"the schema is {newer} versions newer than this program"
    return "the store was opened for reading only" if read_only else ""


def read(connection: Connection, shown: str) -> dict[int, str] | None:
    """Number and digest of the steps taken; None where there is no schema yet."""
    # From the tables, not by to_regnamespace(): that may answer from a cache older than the advisory lock.
    row = connection.execute(
        "select exists (select from pg_namespace where nspname = 'reenact'), exists (select from pg_class c"
        " join pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname = 'reenact' and c.relname = 'migrations')"
    ).fetchone()
    assert row is not None
    if not row[0]:
        return None
    if not row[1]:
        raise SchemaMismatch(f"the database has a schema `reenact` that is not ours ({shown})")
    return dict(connection.execute("select number, digest from reenact.migrations order by number").fetchall())


def apply(connection: Connection, steps: list[Migration], shown: str) -> dict[int, str]:
    with connection.transaction():
        # Others may be waiting behind a slow first migration for longer than a statement usually takes.
        connection.execute("set local lock_timeout = '60s'")
        connection.execute("set local statement_timeout = '120s'")
        connection.patience, patience = 130.0, connection.patience
        try:
            connection.execute("select pg_advisory_xact_lock(%s)", (LOCK,))
            applied = read(connection, shown)
            if applied is None:
                connection.execute("create schema reenact")
                connection.execute(
                    "create table reenact.migrations (number integer primary key, name text not null,"
                    " digest text not null,"
                    " time timestamptz not null default clock_timestamp())"
                )
                applied = {}
            for step in steps:
                if step.number not in applied:
                    # Our own file, many statements: sent as it is, without parameters.
                    connection.execute(sql.SQL(step.text), prepare=False)
                    connection.execute(
                        "insert into reenact.migrations (number, name, digest) values (%s, %s, %s)",
                        (step.number, step.name, step.digest),
                    )
                    applied[step.number] = step.digest
        finally:
            connection.patience = patience
    return applied
