"""The tables of the index, and how a file is told to be one of ours."""

from __future__ import annotations

from functools import cache
from hashlib import sha256

import apsw

APPLICATION_ID = 0x7265696E  # "rein"
VERSION = 2
"""To be counted up with every change of what is kept, or of how it is read from the log."""

NEEDS_SOMEBODY = "ended = 0 AND imported = 0 AND (waits > 0 OR status = 'in_doubt')"
"""Word for word in the index and in the query: so SQLite knows that they are the same."""

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
    f"CREATE INDEX runs_that_need_somebody ON runs(created, run) WHERE {NEEDS_SOMEBODY}",
    """CREATE TABLE docs(doc INTEGER PRIMARY KEY, run_no INTEGER NOT NULL, seq INTEGER NOT NULL,
  cut INTEGER NOT NULL) STRICT""",
    # Shared values that are indexed with an event of the run already; gone once the run has ended.
    """CREATE TABLE parts(run_no INTEGER NOT NULL, address BLOB NOT NULL,
  PRIMARY KEY(run_no, address)) STRICT, WITHOUT ROWID""",
    # Without a content: words and places only. Nothing is ever taken out of it by itself.
    """CREATE VIRTUAL TABLE words USING fts5(
  text, content='', columnsize=0, tokenize='unicode61 remove_diacritics 2')""",
)


def create(connection: apsw.Connection) -> None:
    for sql in TABLES:
        connection.execute(sql)
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", VERSION)


def fingerprint(connection: apsw.Connection) -> str:
    """Of everything that the file holds: of code that somebody put beside our tables, too."""
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name").fetchall()
    marks = (connection.pragma("application_id"), connection.pragma("user_version"))
    return sha256(repr((marks, rows)).encode()).hexdigest()


@cache
def expected() -> str:
    connection = apsw.Connection(":memory:")
    try:
        create(connection)
        return fingerprint(connection)
    finally:
        connection.close()
