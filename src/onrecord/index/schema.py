"""The tables of the index, and the fingerprint that identifies a valid index file."""

from __future__ import annotations

from functools import cache
from hashlib import sha256

import apsw

APPLICATION_ID = 0x6F6E7269  # "onri"
VERSION = 2
"""Increase with every change of the stored data, or of how it is read from the log."""

NEEDS_ATTENTION = "ended = 0 AND imported = 0 AND (waits > 0 OR status = 'in_doubt')"
"""The same text in the index and in the query, so that SQLite uses the partial index."""

TABLES = (
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
    """CREATE TABLE runs(
  run_no INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, created INTEGER NOT NULL,
  agent TEXT, status TEXT NOT NULL, ended INTEGER NOT NULL, held INTEGER NOT NULL, about TEXT NOT NULL,
  seqs TEXT NOT NULL, waits INTEGER NOT NULL, events INTEGER NOT NULL, head TEXT NOT NULL, imported INTEGER NOT NULL,
  parent TEXT NOT NULL, texted INTEGER NOT NULL, tokens INTEGER, cost REAL, version INTEGER NOT NULL,
  looked INTEGER NOT NULL) STRICT""",
    "CREATE INDEX runs_by_time ON runs(created, run, cost) WHERE kind = 'run'",
    "CREATE INDEX runs_by_status ON runs(status, created, run) WHERE kind = 'run'",
    "CREATE INDEX runs_by_agent ON runs(agent, created, run) WHERE kind = 'run'",
    "CREATE INDEX runs_by_cost ON runs(cost) WHERE kind = 'run' AND cost IS NOT NULL",
    "CREATE INDEX runs_by_version ON runs(version)",
    "CREATE INDEX runs_to_read ON runs(created) WHERE texted < events",
    "CREATE INDEX runs_open ON runs(held, looked) WHERE ended = 0",
    f"CREATE INDEX runs_that_need_somebody ON runs(created, run) WHERE {NEEDS_ATTENTION}",
    """CREATE TABLE docs(doc INTEGER PRIMARY KEY, run_no INTEGER NOT NULL, seq INTEGER NOT NULL,
  cut INTEGER NOT NULL) STRICT""",
    # Shared values that are already indexed with an event of the run; deleted once the run has ended.
    """CREATE TABLE parts(run_no INTEGER NOT NULL, address BLOB NOT NULL,
  PRIMARY KEY(run_no, address)) STRICT, WITHOUT ROWID""",
    # Contentless: words and positions only. Single rows are never deleted.
    """CREATE VIRTUAL TABLE words USING fts5(
  text, content='', columnsize=0, tokenize='unicode61 remove_diacritics 2')""",
)


def create(connection: apsw.Connection) -> None:
    for sql in TABLES:
        connection.execute(sql)
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", VERSION)


def fingerprint(connection: apsw.Connection) -> str:
    """Return the digest of the whole schema, including foreign tables and triggers."""
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name").fetchall()
    marks = (connection.pragma("application_id"), connection.pragma("user_version"))
    return sha256(repr((marks, rows)).encode()).hexdigest()


@cache
def expected_fingerprint() -> str:
    connection = apsw.Connection(":memory:")
    try:
        create(connection)
        return fingerprint(connection)
    finally:
        connection.close()
