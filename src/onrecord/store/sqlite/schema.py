"""The tables, and the triggers that enforce "events are never updated or deleted" on every user of the file.

Rules:

1. An append touches few pages: events are stored in the order of arrival, so concurrent runs fill the same pages, and
   (run, seq) is a narrow index. (Clustered by run, each of 64 runs would dirty its own page in every commit, which
   costs six times as much.) Ids that begin with `_` end with their seq and are found by it; only others have an index.
   The root lane `main`, with most events, needs none: in it seq and lane_seq grow together.
2. Triggers refuse UPDATE and DELETE, and INSERT over an existing key. The last is a BEFORE INSERT trigger, since
   `INSERT OR REPLACE` deletes the old row without firing delete triggers unless that connection asked for recursive
   triggers. The triggers are for other programs: the store's writer switches them off, since it changes rows only
   through the gates, and they cost a tenth of an append.
3. A gate is a row in `tombstones`, `erasures` or `node_erasures`, written in the same transaction by `delete_run` and
   `erase_contents`. The triggers do not stop deliberate edits of the file: the hash chain detects those. They stop
   accidents and careless tools.
4. Run numbers are never reused (AUTOINCREMENT), so a number that another process remembers may find nothing, but never
   another run.
5. `events` has no foreign key: its writer has just checked the run in the same transaction, and a third look-up for
   each event would gain nothing.
6. A file whose schema is not exactly this one is not written. A newer one may be read. The file may also hold plain
   tables of the user with their indexes (`user_transactions.py`): no views, triggers or virtual tables, which are
   code, no names that begin with `onrecord_`, which later versions may need, and no references to the store's tables.
"""

from __future__ import annotations

import apsw

from onrecord.core.lazy_regex import Pattern
from onrecord.errors import SchemaMismatch

APPLICATION_ID = 0x6F6E7265  # "onre"
SCHEMA_VERSION = 1

TABLES = (
    """CREATE TABLE runs(
  run_no INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, run TEXT NOT NULL, kind TEXT NOT NULL,
  created INTEGER NOT NULL, hash BLOB NOT NULL, imported INTEGER NOT NULL,
  epoch INTEGER NOT NULL DEFAULT 0, holder TEXT, lease_until INTEGER, lease_boot TEXT,
  header BLOB NOT NULL, salt BLOB, match BLOB, content BLOB,
  UNIQUE(namespace, run)) STRICT""",
    "CREATE INDEX runs_by_time ON runs(namespace, created, run) WHERE kind <> 'operations'",
    """CREATE TABLE events(
  event_no INTEGER PRIMARY KEY, run_no INTEGER NOT NULL, seq INTEGER NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL,
  lane TEXT NOT NULL, lane_seq INTEGER, link BLOB NOT NULL, hash BLOB NOT NULL,
  salt BLOB, match BLOB, prefix BLOB, content BLOB,
  UNIQUE(run_no, seq)) STRICT""",
    "CREATE UNIQUE INDEX events_by_id ON events(run_no, id) WHERE substr(id, 1, 1) <> '_'",
    """CREATE UNIQUE INDEX events_by_lane ON events(run_no, lane, lane_seq)
WHERE lane <> 'main' AND lane_seq IS NOT NULL""",
    """CREATE TABLE nodes(
  node_no INTEGER PRIMARY KEY, namespace TEXT NOT NULL, address BLOB NOT NULL, blob BLOB NOT NULL,
  UNIQUE(namespace, address)) STRICT""",
    # Numbers are never reused here either: a removal must not make a reader miss a later row.
    """CREATE TABLE inbox(
  inbox_no INTEGER PRIMARY KEY AUTOINCREMENT, run_no INTEGER NOT NULL REFERENCES runs, number INTEGER NOT NULL,
  key TEXT NOT NULL, payload BLOB NOT NULL, time INTEGER NOT NULL,
  UNIQUE(run_no, number), UNIQUE(run_no, key)) STRICT""",
    """CREATE TABLE snapshots(
  run_no INTEGER NOT NULL REFERENCES runs, seq INTEGER NOT NULL, head BLOB NOT NULL, reducer TEXT NOT NULL,
  state_version INTEGER NOT NULL, seal BLOB NOT NULL, blob BLOB NOT NULL,
  PRIMARY KEY(run_no, seq)) STRICT, WITHOUT ROWID""",
    "CREATE TABLE tombstones(run_no INTEGER PRIMARY KEY, namespace TEXT NOT NULL, run TEXT NOT NULL) STRICT",
    """CREATE TABLE erasures(
  run_no INTEGER NOT NULL, seq INTEGER NOT NULL, part TEXT NOT NULL,
  PRIMARY KEY(run_no, seq, part)) STRICT, WITHOUT ROWID""",
    "CREATE TABLE node_erasures(node_no INTEGER PRIMARY KEY) STRICT",
    """CREATE TABLE artifact_removals(
  namespace TEXT NOT NULL, address BLOB NOT NULL, PRIMARY KEY(namespace, address)) STRICT, WITHOUT ROWID""",
)

_FIXED_EVENT_COLUMNS = ("event_no", "run_no", "seq", "id", "kind", "lane", "lane_seq", "link", "hash")
_FIXED_RUN_COLUMNS = ("run_no", "namespace", "run", "kind", "created", "header", "hash", "imported")


def _write_changed(columns: tuple[str, ...]) -> str:
    return " OR ".join(f"NEW.{c} IS NOT OLD.{c}" for c in columns)


def _write_erasing(seq: str) -> str:
    """Return SQL that is true if content, salt or match change other than to NULL under an erasure row."""
    changed = _write_changed(("content", "salt", "match"))
    wiped = "NEW.content IS NULL AND NEW.salt IS NULL AND NEW.match IS NULL"
    gate = f"SELECT 1 FROM erasures WHERE run_no = OLD.run_no AND seq = {seq} AND part = 'content'"
    return f"(({changed}) AND NOT ({wiped} AND EXISTS({gate})))"


TRIGGERS = (
    """CREATE TRIGGER events_insert BEFORE INSERT ON events
WHEN EXISTS(SELECT 1 FROM events WHERE run_no = NEW.run_no AND seq = NEW.seq)
  OR (substr(NEW.id, 1, 1) <> '_' AND EXISTS(SELECT 1 FROM events WHERE run_no = NEW.run_no AND id = NEW.id
    AND substr(id, 1, 1) <> '_'))
  OR (NEW.lane <> 'main' AND EXISTS(SELECT 1 FROM events WHERE run_no = NEW.run_no AND lane = NEW.lane
    AND lane <> 'main' AND lane_seq = NEW.lane_seq))
BEGIN SELECT RAISE(ABORT, 'events are never replaced'); END""",
    f"""CREATE TRIGGER events_update BEFORE UPDATE ON events
WHEN {_write_changed(_FIXED_EVENT_COLUMNS)} OR {_write_erasing("OLD.seq")}
  OR (NEW.prefix IS NOT OLD.prefix AND NOT EXISTS(
    SELECT 1 FROM erasures WHERE run_no = OLD.run_no AND seq = OLD.seq AND part = 'prefix'))
BEGIN SELECT RAISE(ABORT, 'events are never changed'); END""",
    """CREATE TRIGGER events_delete BEFORE DELETE ON events
WHEN NOT EXISTS(SELECT 1 FROM tombstones WHERE run_no = OLD.run_no)
BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END""",
    """CREATE TRIGGER runs_insert BEFORE INSERT ON runs
WHEN EXISTS(SELECT 1 FROM runs WHERE run_no = NEW.run_no)
  OR EXISTS(SELECT 1 FROM runs WHERE namespace = NEW.namespace AND run = NEW.run)
BEGIN SELECT RAISE(ABORT, 'headers are never replaced'); END""",
    f"""CREATE TRIGGER runs_update BEFORE UPDATE ON runs
WHEN {_write_changed(_FIXED_RUN_COLUMNS)} OR {_write_erasing("0")} OR NEW.epoch < OLD.epoch
BEGIN SELECT RAISE(ABORT, 'headers are never changed'); END""",
    """CREATE TRIGGER runs_delete BEFORE DELETE ON runs
WHEN NOT EXISTS(SELECT 1 FROM tombstones WHERE run_no = OLD.run_no)
BEGIN SELECT RAISE(ABORT, 'headers are never deleted'); END""",
    """CREATE TRIGGER nodes_insert BEFORE INSERT ON nodes
WHEN EXISTS(SELECT 1 FROM nodes WHERE node_no = NEW.node_no)
  OR EXISTS(SELECT 1 FROM nodes WHERE namespace = NEW.namespace AND address = NEW.address)
BEGIN SELECT RAISE(ABORT, 'nodes are never replaced'); END""",
    """CREATE TRIGGER nodes_update BEFORE UPDATE ON nodes
BEGIN SELECT RAISE(ABORT, 'nodes are never changed'); END""",
    """CREATE TRIGGER nodes_delete BEFORE DELETE ON nodes
WHEN NOT EXISTS(SELECT 1 FROM node_erasures WHERE node_no = OLD.node_no)
BEGIN SELECT RAISE(ABORT, 'nodes are never deleted'); END""",
)

_NAME = Pattern(r"CREATE (?:UNIQUE )?(TABLE|INDEX|TRIGGER) (\w+)")


def _normalise(sql: str) -> str:
    return " ".join(sql.split())


def _collect_expected() -> dict[tuple[str, str], str]:
    found = {}
    for sql in TABLES + TRIGGERS:
        match = _NAME.match(sql)
        assert match is not None
        found[match[1].lower(), match[2]] = _normalise(sql)
    return found


EXPECTED = _collect_expected()
READ_TABLES = ("runs", "events", "nodes", "inbox", "snapshots")
RESERVED_PREFIX = "onrecord_"


_OWN_TABLES = ("sqlite_sequence", "sqlite_stat1", "sqlite_stat4")


def _is_sqlites_own(kind: object, name: object, sql: object) -> bool:
    """Return True for SQLite's own objects. A `sqlite_` name alone proves nothing: writable_schema allows any name."""
    if kind == "index":
        return sql is None and str(name).startswith("sqlite_autoindex_")
    return kind == "table" and name in _OWN_TABLES and str(sql).startswith(f"CREATE TABLE {name}(")


def _find_user_objects(connection: apsw.Connection, rows: list[tuple[str, str, str, str]]) -> set[tuple[str, str]]:
    """Return the user's own tables and indexes that are allowed in the file."""
    tables = {
        name
        for kind, name, _, sql in rows
        if kind == "table" and sql.startswith("CREATE TABLE ") and not _is_reserved(name)
    }
    tables -= {name for name in tables if _refers_to_store(connection, name)}
    indexes = {name for kind, name, table, _ in rows if kind == "index" and table in tables and not _is_reserved(name)}
    return {("table", name) for name in tables} | {("index", name) for name in indexes}


def _is_reserved(name: str) -> bool:
    lowered = name.lower()
    return lowered.startswith((RESERVED_PREFIX, "sqlite_")) or any(lowered == own for _, own in EXPECTED)


def _refers_to_store(connection: apsw.Connection, table: str) -> bool:
    """Return True for a foreign key into the store's tables: it could prevent a removal."""
    quoted = table.replace('"', '""')
    rows = connection.execute(f'PRAGMA foreign_key_list("{quoted}")').fetchall()
    return any(_is_reserved(str(row[2])) for row in rows)


def read_schema(connection: apsw.Connection) -> dict[tuple[str, str], str]:
    """Return the schema of the file, without SQLite's own objects and without the user's tables."""
    found: list[tuple[str, str, str, str]] = []
    for kind, name, table, sql in connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall():
        if not _is_sqlites_own(kind, name, sql):
            found.append((str(kind), str(name), str(table), str(sql)))
    user_objects = _find_user_objects(connection, found)
    return {(kind, name): _normalise(sql) for kind, name, _, sql in found if (kind, name) not in user_objects}


def examine(connection: apsw.Connection, path: str) -> int:
    """Return the schema version of the file, 0 if it is empty. Refuse a file of another program."""
    application = int(connection.pragma("application_id"))
    version = int(connection.pragma("user_version"))
    found = read_schema(connection)
    if application == 0 and version == 0 and connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").get is None:
        return 0
    if application != APPLICATION_ID:
        raise SchemaMismatch(f"{path} is a SQLite database of another program (application id {application})")
    if version < SCHEMA_VERSION:
        raise SchemaMismatch(f"{path} has schema version {version}, which no released version wrote")
    if version == SCHEMA_VERSION and found != EXPECTED:
        strange = sorted({name for (_, name), _ in set(found.items()) ^ set(EXPECTED.items())})
        raise SchemaMismatch(f"{path} does not have the schema of version {version}: {', '.join(strange)}")
    if version > SCHEMA_VERSION:
        missing = [t for t in READ_TABLES if not found.get(("table", t), "").startswith("CREATE TABLE")]
        if missing:
            raise SchemaMismatch(f"{path} has schema version {version} without tables {', '.join(missing)}")
    return version


def initialise(connection: apsw.Connection, path: str) -> None:
    """Create the schema in an empty file, in one transaction.

    It is harmless if another process was faster.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = examine(connection, path)
        if version == 0:
            for sql in TABLES + TRIGGERS:
                connection.execute(sql)
            connection.pragma("application_id", APPLICATION_ID)
            connection.pragma("user_version", SCHEMA_VERSION)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
