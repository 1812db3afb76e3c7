"""The SQLite store: the contract, and what is SQLite's own (files, triggers, schemas, processes, full disks)."""

import multiprocessing
import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from kit.soak import SOAK, cases
from onrecord.errors import Damaged, InvalidInput, MovedHead, NotFound, OutcomeUnknown, SchemaMismatch, StoreUnavailable
from onrecord.store.contract import Head, NodeRow, SnapshotRow, Store
from onrecord.store.sqlite import connection, leases, schema
from onrecord.store.sqlite import file_checks as files
from onrecord.store.sqlite.appends import MOST_ROWS
from onrecord.store.sqlite.store import SqliteStore
from onrecord.testing.store_contract import (
    NS,
    StoreContract,
    Writer,
    all_rows,
    at_once,
    event_row,
    event_rows,
    header_row,
    in_child,
)


class TestSqliteStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "store.db"

    def make_store(self) -> Store:
        return SqliteStore(self.path)

    def reopen(self, store: Store) -> Store:
        return SqliteStore(self.path)


class TestRelaxedSqliteStore(TestSqliteStore):
    race_rounds = 20

    def make_store(self) -> Store:
        return SqliteStore(self.path, durability="relaxed")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    store.close()


def stranger(path: Path) -> apsw.Connection:
    """As any tool would open it, without the store's settings. (Never the sqlite3 module: a second library here.)"""
    return apsw.Connection(str(path))


# Triggers


def filled(store: SqliteStore) -> Writer:
    writer = Writer(store)
    writer.append(*event_rows(1, 3), nodes=[NodeRow(b"n" * 32, b"node")])
    return writer


FORBIDDEN = {
    "change an event": "UPDATE events SET kind = 'x'",
    "change a link": "UPDATE events SET link = x'00' WHERE seq = 2",
    "change a content": "UPDATE events SET content = x'00' WHERE seq = 2",
    "erase a content": "UPDATE events SET content = NULL, salt = NULL, match = NULL WHERE seq = 2",
    "change a prefix": "UPDATE events SET prefix = x'00' WHERE seq = 2",
    "move an event": "UPDATE events SET seq = 9 WHERE seq = 3",
    "change or replace": "UPDATE OR REPLACE events SET seq = 1 WHERE seq = 2",
    "delete an event": "DELETE FROM events WHERE seq = 3",
    "delete all": "DELETE FROM events",
    "replace by seq": "INSERT OR REPLACE INTO events SELECT 99, run_no, seq, 'z', kind, lane, 99, link, hash, salt,"
    " match,"
    " prefix, x'00' FROM events WHERE seq = 2",
    "replace by id": "INSERT OR REPLACE INTO events SELECT 99, run_no, 99, id, kind, lane, 99, link, hash, salt, match,"
    " prefix, x'00' FROM events WHERE seq = 2",
    "replace statement": "REPLACE INTO events SELECT * FROM events WHERE seq = 2",
    "upsert": "INSERT INTO events SELECT * FROM events WHERE seq = 2"
    " ON CONFLICT(run_no, seq) DO UPDATE SET content = x'00'",
    "change a header": "UPDATE runs SET header = x'00'",
    "change facts": "UPDATE runs SET content = x'00'",
    "erase facts": "UPDATE runs SET content = NULL, salt = NULL, match = NULL",
    "lower an epoch": "UPDATE runs SET epoch = -1",
    "delete a header": "DELETE FROM runs",
    "replace a header": "INSERT OR REPLACE INTO runs SELECT * FROM runs",
    "replace a header by name": "INSERT OR REPLACE INTO runs(namespace, run, kind, created, hash, imported, header)"
    " SELECT namespace, run, kind, created, hash, imported, x'00' FROM runs",
    "change a node": "UPDATE nodes SET blob = x'00'",
    "delete a node": "DELETE FROM nodes",
    "replace a node": "INSERT OR REPLACE INTO nodes(namespace, address, blob)"
    " SELECT namespace, address, x'00' FROM nodes",
    "replace a node by number": "INSERT OR REPLACE INTO nodes SELECT node_no, namespace, x'11', x'00' FROM nodes",
}


@pytest.mark.parametrize("sql", FORBIDDEN.values(), ids=FORBIDDEN)
@pytest.mark.parametrize("recursive", [0, 1])
def test_nobody_changes_what_was_recorded(store: SqliteStore, path: Path, sql: str, recursive: int) -> None:
    filled(store)
    before = all_rows(store), store.run_row(NS, "run-1"), list(store.all_nodes(NS))
    other = stranger(path)
    other.pragma("recursive_triggers", recursive)
    with pytest.raises(apsw.ConstraintError, match="never"):
        other.execute(sql)
    other.close()
    assert (all_rows(store), store.run_row(NS, "run-1"), list(store.all_nodes(NS))) == before


def test_gates_are_closed_after_use(store: SqliteStore, path: Path) -> None:
    filled(store)
    operations = Writer(store, "operations", kind="operations")
    record = operations.pending(event_row(1, "operations"))
    store.erase_contents(NS, [("run-1", 2)], [("run-1", 3, b"p" * 32)], record, [b"n" * 32], [])
    other = stranger(path)
    assert other.execute("SELECT count(*) FROM node_erasures").get == 0
    assert other.execute("SELECT seq, part FROM erasures").fetchall() == [(2, "content")]
    for sql in (
        "UPDATE events SET prefix = x'00' WHERE seq = 3",
        "UPDATE events SET content = x'00' WHERE seq = 2",
        "DELETE FROM events WHERE seq = 2",
    ):
        with pytest.raises(apsw.ConstraintError, match="never"):
            other.execute(sql)
    other.close()


# Erased bytes

CANARY = b"the canary sings at midnight"


def raw_bytes(folder: Path) -> bytes:
    """Everything in the folder. In another process: closing a file here would drop this process' locks on it."""
    code = "import sys,pathlib\nfor p in sorted(pathlib.Path(sys.argv[1]).rglob('*')):\n"
    code += "    if p.is_file(): sys.stdout.buffer.write(p.read_bytes())"
    return subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, check=True).stdout


def with_canaries(store: SqliteStore, size: int) -> Writer:
    """Canaries everywhere, at sizes and in an order that makes pages split and merge."""
    writer = Writer(store)
    filler = Writer(store, "filler")
    for seq in range(1, 60):
        secret = CANARY + bytes([seq % 256]) + os.urandom(size)
        writer.append(event_row(seq, content=secret if seq % 2 else b"plain" * (size // 5)))
        filler.fill(1, content=b"plain" * (1 + (seq * size // 7) % 800))
    writer.append(event_row(60), nodes=[NodeRow(b"n" * 32, CANARY), NodeRow(b"o" * 32, b"kept")])
    store.put_artifact(NS, b"a" * 32, CANARY)
    store.put_snapshot(NS, "run-1", SnapshotRow(3, b"h" * 32, "r/1", 1, b"s" * 32, CANARY))
    store.inbox_put(NS, "run-1", "key", CANARY, 1)
    return writer


@pytest.mark.parametrize("size", [10, 700, 9000])
def test_no_file_holds_erased_bytes(store: SqliteStore, path: Path, size: int) -> None:
    with_canaries(store, size)
    operations = Writer(store, "operations", kind="operations")
    assert raw_bytes(path.parent).count(CANARY) > 30
    # the inbox belongs to the run and is not a content
    record = operations.pending(event_row(1, "operations"))
    contents = [("run-1", seq) for seq in range(1, 60, 2)]
    store.erase_contents(NS, contents, [], record, [b"n" * 32], [b"a" * 32])
    assert raw_bytes(path.parent).count(CANARY) == 1
    assert len(all_rows(store)) == 60


@pytest.mark.parametrize("size", [10, 700, 9000])
def test_no_file_holds_bytes_of_a_deleted_run(store: SqliteStore, path: Path, size: int) -> None:
    with_canaries(store, size)
    operations = Writer(store, "operations", kind="operations")
    store.delete_run(NS, "run-1", operations.pending(event_row(1, "operations")), [b"n" * 32], [b"a" * 32])
    assert CANARY not in raw_bytes(path.parent)
    assert len(all_rows(store, "filler")) == 59


def test_many_deletions_with_one_scrub(store: SqliteStore, path: Path) -> None:
    operations = Writer(store, "operations", kind="operations")
    for number in range(5):
        Writer(store, f"run-{number}").append(event_row(1, f"run-{number}", content=CANARY))
    with store.scrubbing_once():
        for number in range(5):
            row = event_row(number + 1, "operations")
            store.delete_run(NS, f"run-{number}", operations.pending(row), [], [])
            operations.head = Head(row.seq, row.hash)
    assert CANARY not in raw_bytes(path.parent)


def test_artifacts_of_a_crashed_erasure_are_gone_when_opened_again(path: Path) -> None:
    store = SqliteStore(path)
    filled(store)
    store.put_artifact(NS, b"a" * 32, CANARY)
    store.close()
    other = stranger(path)
    other.execute("INSERT INTO artifact_removals VALUES(?, ?)", (NS, b"a" * 32))
    other.close()
    reading = SqliteStore(path, read_only=True)
    assert reading.artifact(NS, b"a" * 32) is None
    reading.close()
    store = SqliteStore(path)
    assert CANARY not in raw_bytes(path.parent)
    assert list(store.all_artifacts(NS)) == []
    store.close()


# Files


def test_files_are_private(store: SqliteStore, path: Path) -> None:
    filled(store)
    store.put_artifact(NS, b"a" * 32, b"x")
    modes = {p.relative_to(path.parent).name: stat.S_IMODE(p.stat().st_mode) for p in path.parent.rglob("*")}
    folders = {name for name, mode in modes.items() if mode == 0o700}
    assert all(mode == 0o600 for name, mode in modes.items() if name not in folders)
    assert {"store.db", "store.db-wal", "store.db-shm"} <= set(modes) - folders
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_readable_by_others_is_said(store: SqliteStore, path: Path) -> None:
    store.close()
    path.chmod(0o644)
    with pytest.warns(UserWarning, match="read by others"):
        SqliteStore(path).close()


@pytest.mark.parametrize(
    "name",
    [
        "a?mode=memory",
        "b#frag",
        "c%20d",
        ":memory:",
        "file:e.db",
        "file:f.db?mode=ro",
        "g h'\"",
        "ü☃",
        "nl\nx",
        "\\134x",
    ],
)
def test_names_are_literal(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore(name)
    filled(store)
    store.close()
    assert [p.name for p in tmp_path.iterdir()] == [name]
    reading = SqliteStore(tmp_path / name, read_only=True)
    assert len(all_rows(reading)) == 3
    reading.close()


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_unusable_names(name: str) -> None:
    with pytest.raises(InvalidInput):
        SqliteStore(name)


@pytest.mark.parametrize("kind", ["symlink", "hard link", "pipe", "folder", "device", "dangling"])
@pytest.mark.parametrize("read_only", [False, True])
def test_only_a_plain_file_is_a_store(tmp_path: Path, kind: str, read_only: bool) -> None:
    real, name = tmp_path / "real.db", tmp_path / "name.db"
    SqliteStore(real).close()
    if kind == "symlink":
        name.symlink_to(real)
    elif kind == "dangling":
        name.symlink_to(tmp_path / "nothing")
    elif kind == "hard link":
        name.hardlink_to(real)
    elif kind == "pipe":
        os.mkfifo(name)
    elif kind == "folder":
        name.mkdir()
    else:
        name = Path("/dev/null")
    with pytest.raises(StoreUnavailable, match=str(name)):
        SqliteStore(name, read_only=read_only)
    assert not (tmp_path / "nothing").exists()


def test_linked_folder_leads_to_the_same_store(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    one, two = SqliteStore(tmp_path / "real" / "s.db"), SqliteStore(tmp_path / "link" / "s.db")
    assert one.path == two.path
    filled(one)
    assert len(all_rows(two)) == 3
    one.close()
    two.close()


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p"])
def test_network_file_systems_are_refused(path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "file_system", lambda _: kind)
    with pytest.raises(StoreUnavailable, match=kind):
        SqliteStore(path)
    assert not path.parent.exists()


def test_file_system_is_named() -> None:
    assert files.file_system("/proc/self") == "proc"
    assert files.file_system("/") not in ("", "proc")


def test_old_library_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")
    with pytest.raises(StoreUnavailable, match=r"3\.51\.2"):
        SqliteStore(path)


def test_orphaned_temporary_files_are_swept(store: SqliteStore, path: Path) -> None:
    store.put_artifact(NS, b"a" * 32, b"x")
    (kept,) = [p for p in path.parent.rglob("61*") if p.is_file()]
    old, new = kept.parent / ".tmp-old", kept.parent / ".tmp-new"
    old.write_bytes(b"half")
    new.write_bytes(b"half")
    os.utime(old, (1, 1))
    store.close()
    SqliteStore(path, read_only=True).close()
    assert old.exists()
    SqliteStore(path).close()
    assert (old.exists(), new.exists(), kept.exists()) == (False, True, True)


def test_artifact_behind_a_symlink_is_refused(store: SqliteStore, path: Path) -> None:
    store.put_artifact(NS, b"a" * 32, b"x")
    (file,) = [p for p in path.parent.rglob("61*") if p.is_file()]
    file.rename(file.with_name("moved"))
    file.symlink_to(file.with_name("moved"))
    with pytest.raises(Damaged):
        store.artifact(NS, b"a" * 32)


# Schemas


def test_another_programs_database_is_refused(path: Path) -> None:
    path.parent.mkdir()
    other = stranger(path)
    other.execute("CREATE TABLE notes(x)")
    other.close()
    path.chmod(0o600)
    for read_only in (False, True):
        with pytest.raises(SchemaMismatch, match="another program"):
            SqliteStore(path, read_only=read_only)


@pytest.mark.parametrize(
    "crafted",
    [
        "CREATE TRIGGER evil AFTER INSERT ON events BEGIN DELETE FROM nodes; END",
        "CREATE VIEW evil AS SELECT * FROM events",
        "CREATE VIRTUAL TABLE evil USING fts5(x)",
        "DROP TRIGGER events_delete",
        "DROP TRIGGER events_delete; CREATE TRIGGER events_delete BEFORE DELETE ON events BEGIN SELECT 1; END",
        "DROP INDEX events_by_lane",
        "ALTER TABLE inbox ADD COLUMN more TEXT",
    ],
)
def test_crafted_schema_is_refused(store: SqliteStore, path: Path, crafted: str) -> None:
    store.close()
    other = stranger(path)
    other.execute(crafted)
    other.close()
    for read_only in (False, True):
        with pytest.raises(SchemaMismatch):
            SqliteStore(path, read_only=read_only)


@pytest.mark.parametrize(
    ("kind", "name", "table", "root", "sql"),
    [
        ("trigger", "sqlite_x", "events", 0, "CREATE TRIGGER sqlite_x AFTER INSERT ON events BEGIN SELECT 1; END"),
        (
            "trigger",
            "sqlite_stat1",
            "events",
            0,
            "CREATE TRIGGER sqlite_stat1 AFTER INSERT ON runs BEGIN SELECT 1; END",
        ),
        ("view", "sqlite_x", "sqlite_x", 0, "CREATE VIEW sqlite_x AS SELECT * FROM events"),
        ("view", "sqlite_autoindex_x", "sqlite_autoindex_x", 0, "CREATE VIEW sqlite_autoindex_x AS SELECT 1"),
    ],
)
def test_nothing_hides_behind_a_name_of_sqlites_own(
    store: SqliteStore, path: Path, kind: str, name: str, table: str, root: int, sql: str
) -> None:
    store.close()
    rewrite(path, "INSERT INTO sqlite_schema VALUES(?, ?, ?, ?, ?)", (kind, name, table, root, sql))
    for read_only in (False, True):
        with pytest.raises(Damaged):
            SqliteStore(path, read_only=read_only)


def test_what_sqlite_adds_by_itself_is_no_difference(store: SqliteStore, path: Path) -> None:
    filled(store)
    store.close()
    other = stranger(path)
    other.execute("ANALYZE")
    other.close()
    SqliteStore(path).close()


def rewrite(path: Path, sql: str, values: tuple[object, ...] = ()) -> None:
    """Behind SQLite's back: statements that it refuses without writable_schema."""
    other = stranger(path)
    other.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    other.pragma("writable_schema", True)
    other.execute(sql, values)
    other.close()


VERBS = {
    "scan": lambda store: list(store.scan(NS, "run-1")),
    "event": lambda store: store.event(NS, "run-1", 3),
    "last": lambda store: store.last_event(NS, "run-1"),
    "row": lambda store: store.run_row(NS, "run-1"),
    "list": lambda store: store.list_runs(NS),
    "inbox": lambda store: store.inbox(NS, "run-1"),
    "snapshots": lambda store: store.snapshots(NS, "run-1"),
    "nodes": lambda store: list(store.all_nodes(NS)),
    "namespaces": lambda store: store.namespaces(),
}
EVENT_VERBS = ("scan", "event", "last", "row", "list")


@pytest.mark.parametrize(
    ("table", "change", "verbs"),
    [
        ("events", "link = 'text' WHERE seq = 3", EVENT_VERBS),
        ("events", "link = NULL WHERE seq = 3", EVENT_VERBS),
        ("events", "salt = 'text' WHERE seq = 3", EVENT_VERBS),
        ("events", "match = 7 WHERE seq = 3", EVENT_VERBS),
        ("events", "id = x'00' WHERE seq = 3", EVENT_VERBS),
        ("events", "lane_seq = 'x' WHERE seq = 3", EVENT_VERBS),
        ("events", "hash = 1.5 WHERE seq = 3", EVENT_VERBS),
        ("events", "content = 7 WHERE seq = 3", ("scan", "event", "last")),
        ("runs", "hash = 'text'", ("row", "list")),
        ("runs", "created = 'text'", ("row", "list")),
        ("runs", "epoch = x'00'", ("row", "list")),
        ("runs", "header = NULL", ("row", "list")),
        ("runs", "run = x'00'", ("list",)),
        ("runs", "namespace = x'00'", ("namespaces",)),
        ("inbox", "payload = 'text'", ("inbox",)),
        ("inbox", "time = NULL", ("inbox",)),
        ("snapshots", "blob = 'text'", ("snapshots",)),
        ("nodes", "blob = 'text'", ("nodes",)),
    ],
)
def test_columns_of_a_wrong_type_are_damage(
    store: SqliteStore, path: Path, table: str, change: str, verbs: tuple[str, ...]
) -> None:
    filled(store)
    store.inbox_put(NS, "run-1", "key", b"payload", 1)
    store.put_snapshot(NS, "run-1", SnapshotRow(1, b"head", "reducer", 1, b"seal", b"blob"))
    store._write(lambda c: c.execute("INSERT INTO nodes(namespace, address, blob) VALUES(?, x'01', x'02')", (NS,)))
    for verb in VERBS.values():
        verb(store)
    store.close()
    other = stranger(path)
    sql = str(other.execute("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?", (table,)).get)
    triggers = other.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    other.close()
    loose = sql.replace(" STRICT,", "").replace(" STRICT", "").replace(" NOT NULL", "")
    for kind in ("TEXT", "INTEGER", "BLOB"):
        loose = loose.replace(f" {kind},", " BLOB,") if "PRIMARY KEY(" in loose else loose
    rewrite(path, "UPDATE sqlite_schema SET sql = ? WHERE name = ?", (loose, table))
    other = stranger(path)
    for name, _ in triggers:
        other.execute(f"DROP TRIGGER {name}")
    other.execute(f"UPDATE {table} SET {change}")
    for _, trigger in triggers:
        other.execute(str(trigger))
    other.close()
    rewrite(path, "UPDATE sqlite_schema SET sql = ? WHERE name = ?", (sql, table))
    store = SqliteStore(path)
    for verb in verbs:
        with pytest.raises(Damaged) as found:
            VERBS[verb](store)
        assert found.value.code == "bad_row"
        if table == "events":
            assert "event 3 of run 'run-1'" in found.value.message
    store.close()


def set_version(path: Path, version: int, more: str = "") -> None:
    other = stranger(path)
    other.pragma("user_version", version)
    if more:
        other.execute(more)
    other.close()


def test_older_version_is_refused(store: SqliteStore, path: Path) -> None:
    store.close()
    set_version(path, 0)
    with pytest.raises(SchemaMismatch):
        SqliteStore(path)


def test_newer_version_is_read_and_not_written(store: SqliteStore, path: Path) -> None:
    writer = filled(store)
    store.close()
    set_version(path, schema.SCHEMA_VERSION + 1, "ALTER TABLE runs ADD COLUMN later TEXT; CREATE TABLE more(x)")
    newer = SqliteStore(path)
    assert len(all_rows(newer)) == 3
    for write in (
        lambda: newer.append(NS, "run-1", [event_row(4)], expected=writer.head, epoch=0),
        lambda: newer.create_run(NS, header_row("new")),
        lambda: newer.claim(NS, "run-1", "me", 60),
        lambda: newer.put_artifact(NS, b"a" * 32, b"x"),
    ):
        with pytest.raises(SchemaMismatch, match=f"version {schema.SCHEMA_VERSION + 1}"):
            write()
    newer.close()


def test_newer_version_with_a_view_for_a_table_is_refused(store: SqliteStore, path: Path) -> None:
    store.close()
    set_version(
        path, schema.SCHEMA_VERSION + 1, "ALTER TABLE inbox RENAME TO outbox; CREATE VIEW inbox AS SELECT * FROM outbox"
    )
    with pytest.raises(SchemaMismatch):
        SqliteStore(path)


def test_not_a_database(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"Once upon a time, " * 500)
    path.chmod(0o600)
    with pytest.raises(Damaged):
        SqliteStore(path)


def test_empty_file_becomes_a_store(path: Path) -> None:
    path.parent.mkdir()
    path.touch(0o600)
    with pytest.raises(SchemaMismatch):
        SqliteStore(path, read_only=True)
    store = SqliteStore(path)
    filled(store)
    store.close()


def test_damaged_pages_are_damage(path: Path) -> None:
    store = SqliteStore(path)
    writer = Writer(store)
    writer.fill(200, content=b"x" * 300)
    store.close()
    data = bytearray(path.read_bytes())
    for page in range(len(data) // 4096 // 2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 64] = b"\xa5" * 64
    path.write_bytes(data)
    damaged = SqliteStore(path)
    with pytest.raises(Damaged):
        all_rows(damaged)
    damaged.close()


def test_settings_of_the_connections(store: SqliteStore) -> None:
    filled(store)
    cursor = store._writer._cursor
    found = {
        name: cursor.execute(f"PRAGMA {name}").get
        for name in ("journal_mode", "synchronous", "foreign_keys", "trusted_schema", "secure_delete", "mmap_size")
    }
    assert found == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "trusted_schema": 0,
        "secure_delete": 1,
        "mmap_size": 0,
    }
    assert cursor.execute("PRAGMA cell_size_check").get == 1
    with pytest.raises(apsw.SQLError):
        cursor.execute("SELECT load_extension('x')").fetchall()
    with pytest.raises(StoreUnavailable) as refused:
        store._read(lambda reading: reading.execute("DELETE FROM events"))
    assert isinstance(refused.value.__cause__, apsw.ReadOnlyError)


def test_no_read_transaction_outlives_a_page(store: SqliteStore, path: Path) -> None:
    writer = Writer(store)
    writer.fill(600)
    scan = store.scan(NS, "run-1")
    next(scan)
    assert store._writer.checkpoint()
    assert path.with_name("store.db-wal").stat().st_size == 0
    assert len(list(scan)) == 599


def test_log_stays_bounded(store: SqliteStore, path: Path) -> None:
    writer = Writer(store)
    scan = store.scan(NS, "run-1")
    for _ in range(120):
        writer.fill(100, content=os.urandom(3000))
        next(scan, None)
    assert path.with_name("store.db-wal").stat().st_size < 20 << 20


def test_close_leaves_one_file_and_refuses_more(store: SqliteStore, path: Path) -> None:
    writer = filled(store)
    store.close()
    store.close()
    assert [p.name for p in path.parent.iterdir()] == ["store.db"]
    for use in (lambda: writer.fill(1), lambda: all_rows(store), lambda: store.claim(NS, "run-1", "me", 1)):
        with pytest.raises(StoreUnavailable, match="closed"):
            use()


def test_read_only_writes_nothing(store: SqliteStore, path: Path) -> None:
    writer = filled(store)
    reading = SqliteStore(path, read_only=True)
    assert len(all_rows(reading)) == 3
    with pytest.raises(StoreUnavailable, match="reading only"):
        reading.append(NS, "run-1", [event_row(4)], expected=writer.head, epoch=0)
    reading.close()
    with pytest.raises(StoreUnavailable, match="no store"):
        SqliteStore(path.with_name("other.db"), read_only=True)
    assert not path.with_name("other.db").exists()


def test_lease_ends_with_the_boot(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(store)
    assert store.claim(NS, "run-1", "me", 3600).epoch == 1
    monkeypatch.setattr(leases, "read_boot_id", lambda: "another boot")
    claim = store.claim(NS, "run-1", "you", 60)
    assert (claim.granted, claim.epoch) == (True, 2)


# Failures


class Failing:
    """A cursor that fails at the n-th statement beginning with a word."""

    def __init__(self, cursor: apsw.Cursor, word: str, error: apsw.Error, *, after: bool = False) -> None:
        self._cursor, self._word, self._error, self._after = cursor, word, error, after

    def execute(self, sql: str, *values: object) -> apsw.Cursor:
        if sql.startswith(self._word):
            if self._after:
                self._cursor.execute(sql, *values)
            raise self._error
        return self._cursor.execute(sql, *values)

    def __getattr__(self, name: str) -> object:
        return getattr(self._cursor, name)


def fail(store: SqliteStore, word: str, error: apsw.Error, *, after: bool = False) -> None:
    store._writer._cursor = Failing(store._writer._cursor, word, error, after=after)  # type: ignore[assignment]


TOO_MANY = MOST_ROWS + 1
"""More rows than go into one statement, which would be a transaction by itself."""


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize(("count", "word"), [(1, "INSERT"), (TOO_MANY, "COMMIT")])
def test_error_at_commit_is_unknown_and_the_store_goes_on(
    store: SqliteStore, committed: bool, count: int, word: str
) -> None:
    writer = filled(store)
    fail(store, word, apsw.IOError("disk I/O error"), after=committed)
    with pytest.raises(OutcomeUnknown, match=r"store\.db"):
        writer.fill(count)
    assert len(all_rows(store)) == (3 + count if committed else 3)
    if committed:
        writer.head = Head(3 + count, event_row(3 + count).hash)
    writer.fill(1)


@pytest.mark.parametrize(
    ("error", "raised", "text"),
    [
        (apsw.FullError("full"), StoreUnavailable, "bytes free"),
        (apsw.BusyError("busy"), StoreUnavailable, "lock"),
        (apsw.CorruptError("malformed"), Damaged, "malformed"),
        (apsw.IOError("disk I/O error"), StoreUnavailable, "I/O"),
    ],
)
def test_error_before_commit_writes_nothing(
    store: SqliteStore, error: apsw.Error, raised: type[Exception], text: str
) -> None:
    writer = filled(store)
    fail(store, "INSERT", error)
    with pytest.raises(raised, match=text):
        writer.fill(TOO_MANY)
    assert len(all_rows(store)) == 3
    store._writer.drop()
    writer.fill(1)


def test_full_at_commit_writes_nothing(store: SqliteStore) -> None:
    writer = filled(store)
    fail(store, "COMMIT", apsw.FullError("full"))
    with pytest.raises(StoreUnavailable, match="nothing was written"):
        writer.fill(TOO_MANY)
    assert len(all_rows(store)) == 3
    writer.fill(1)


def test_failed_commit_is_told_to_all_of_the_group(store: SqliteStore) -> None:
    writers = [Writer(store, f"run-{n}") for n in range(8)]
    fail(store, "INSERT", apsw.IOError("disk I/O error"))
    assert store._writer.group.acquire(1)
    results: list[object] = []

    def work(writer: Writer) -> None:
        try:
            writer.fill(1)
            results.append(None)
        except Exception as error:
            results.append(error)

    threads = [threading.Thread(target=work, args=(w,)) for w in writers]
    for thread in threads:
        thread.start()
    while len(store._writer.group._queue) < 8:
        pass
    store._writer.group.release()
    for thread in threads:
        thread.join()
    assert [type(result) for result in results] == [OutcomeUnknown] * 8
    assert len({id(result) for result in results}) == 8


def test_locked_by_another_is_unavailable(path: Path) -> None:
    store = SqliteStore(path, busy_seconds=0.1)
    writer = filled(store)
    other = stranger(path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match=r"store\.db.*lock"):
        writer.fill(1)
    other.execute("ROLLBACK")
    other.close()
    writer.fill(1)
    store.close()


def test_import_from_itself_does_not_wait_for_itself(store: SqliteStore) -> None:
    def batches() -> Iterator[tuple[list[object], list[NodeRow]]]:
        store.create_run(NS, header_row("inner"))
        yield [], []

    with pytest.raises(InvalidInput):
        store.import_run(NS, header_row(), [], batches())  # type: ignore[arg-type]
    store.create_run(NS, header_row())


def namespace_script(body: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Runs Python code as root of a mount namespace of its own."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("no private mount namespaces here (unshare -rm)")
    code = textwrap.dedent(body)
    command = ["unshare", "-rm", sys.executable, "-c", code, str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_read_only_folder(store: SqliteStore, path: Path) -> None:
    filled(store)
    store.close()
    result = namespace_script(
        """
        import os, subprocess, sys
        from onrecord.errors import StoreUnavailable
        from onrecord.store.sqlite.store import SqliteStore
        path = sys.argv[1]
        folder = os.path.dirname(path)
        subprocess.run(["mount", "--bind", folder, folder], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        for name in (path, os.path.join(folder, "new.db"), os.path.join(folder, "more", "new.db")):
            try:
                SqliteStore(name)
            except StoreUnavailable as error:
                assert folder in error.message
            else:
                raise AssertionError(name)
        store = SqliteStore(path, read_only=True)
        assert [row.seq for row in store.scan("default", "run-1")] == [1, 2, 3]
        assert os.listdir(folder) == ["store.db"]
        print("done")
        """,
        path,
    )
    assert result.stdout == "done\n", result.stderr


def test_full_disk(tmp_path: Path) -> None:
    result = namespace_script(
        """
        import os, subprocess, sys
        from onrecord.errors import StoreUnavailable
        from onrecord.store.sqlite.store import SqliteStore
        from onrecord.testing.store_contract import Writer, event_row
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", sys.argv[1]], check=True)
        store = SqliteStore(os.path.join(sys.argv[1], "store.db"))
        writer = Writer(store)
        ballast = os.path.join(sys.argv[1], "ballast")
        with open(ballast, "wb") as file:
            file.write(bytes(1_000_000))
        acknowledged = 0
        try:
            while True:
                writer.append(event_row(writer.head.seq + 1, content=os.urandom(5000)))
                acknowledged += 1
        except StoreUnavailable as error:
            assert error.code == "disk_full" and "bytes free" in error.message and "store.db" in error.message
        assert acknowledged > 20
        try:
            store.put_artifact("default", b"a" * 32, bytes(1_000_000))
        except StoreUnavailable as error:
            assert error.code == "disk_full"
        else:
            raise AssertionError
        assert len(list(store.scan("default", "run-1"))) == acknowledged
        assert store.artifact("default", b"a" * 32) is None
        os.unlink(ballast)
        writer.append(event_row(writer.head.seq + 1))
        store.close()
        again = SqliteStore(store.path)
        assert [row.seq for row in again.scan("default", "run-1")] == list(range(1, acknowledged + 2))
        names = {name for _, _, files in os.walk(sys.argv[1]) for name in files}
        assert not any("tmp" in name for name in names), names
        print("done")
        """,
        tmp_path,
    )
    assert result.stdout == "done\n", result.stderr


# Processes


def work_in_process(path: str, run: str, count: int) -> None:
    store = SqliteStore(path)
    writer = Writer(store, run)
    for _ in range(count):
        writer.append(event_row(writer.head.seq + 1, run))
    store.close()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_several_processes_write(path: Path, method: str) -> None:
    store = SqliteStore(path)
    filled(store)
    context = multiprocessing.get_context(method)
    processes = [context.Process(target=work_in_process, args=(str(path), f"p{n}", 40)) for n in range(4)]
    for process in processes:
        process.start()
    mine = Writer(store, "mine")
    for _ in range(40):
        mine.fill(1)
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    for run in ("p0", "p1", "p2", "p3", "mine"):
        assert [row.seq for row in all_rows(store, run)] == list(range(1, 41))
    store.close()


def test_processes_race_for_one_head(path: Path) -> None:
    store = SqliteStore(path)
    Writer(store)

    def compete() -> None:
        won = 0
        while won < 25:
            last = store.last_event(NS, "run-1")
            head = Head(0, header_row().hash) if last is None else Head(last.seq, last.hash)
            row = event_row(head.seq + 1, id=f"{os.getpid()}-{head.seq}")
            try:
                store.append(NS, "run-1", [row], expected=head, epoch=0)
                won += 1
            except MovedHead:
                continue

    pids = []
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                compete()
                status = 0
            finally:
                os._exit(status)
        pids.append(pid)
    compete()
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0] * 3
    rows = all_rows(store)
    assert [row.seq for row in rows] == list(range(1, 101))
    assert len({row.id for row in rows}) == 100
    store.close()


def test_child_outlives_the_parents_store(path: Path) -> None:
    """The classic fork bug: the parent closes as the last one it knows of, and the child's log is gone."""
    store = SqliteStore(path)
    its = Writer(store, "child")
    ready, go = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            its.fill(5)
            os.write(ready[1], b"x")
            os.read(go[0], 1)
            its.fill(5)
            status = 0
        finally:
            os._exit(status)
    os.read(ready[0], 1)
    store.close()
    os.write(go[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    again = SqliteStore(path)
    assert len(all_rows(again, "child")) == 10
    again.close()


def test_fork_that_nobody_announced_is_refused_in_the_child(store: SqliteStore) -> None:
    filled(store)
    store._pid -= 1
    with pytest.raises(StoreUnavailable, match="fork"):
        all_rows(store)
    with pytest.raises(StoreUnavailable, match="fork"):
        store.append(NS, "run-1", [], expected=Head(0, b""), epoch=0)
    store._pid += 1


def test_killed_writer_leaves_whole_appends(path: Path) -> None:
    SqliteStore(path).close()
    code = """
        import sys
        from onrecord.store.sqlite.store import SqliteStore
        from onrecord.testing.store_contract import Writer, event_row
        store = SqliteStore(sys.argv[1])
        writer = Writer(store, sys.argv[2])
        while True:
            writer.fill(3)
            print(writer.head.seq, flush=True)
    """
    for number in range(4):
        run = f"run-{number}"
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), str(path), run], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        acknowledged = 0
        for _ in range(20 + number):
            acknowledged = int(process.stdout.readline())
        process.kill()
        acknowledged = max([acknowledged, *(int(line) for line in process.stdout if line.strip())])
        process.wait()
        process.stdout.close()
        store = SqliteStore(path)
        rows = all_rows(store, run)
        assert len(rows) >= acknowledged
        assert len(rows) % 3 == 0
        store.close()


# Group commit


def test_overlapping_appends_share_commits(store: SqliteStore) -> None:
    writers = [Writer(store, f"run-{n}") for n in range(16)]
    groups: list[int] = []
    commit = store._writer.group._commit

    def counting(group: list[object]) -> None:
        groups.append(len(group))
        commit(group)  # type: ignore[arg-type]

    store._writer.group._commit = counting  # type: ignore[assignment]

    def work(writer: Writer) -> None:
        for _ in range(20):
            writer.fill(1)

    assert at_once([lambda w=w: work(w) for w in writers]) == [None] * 16
    assert sum(groups) == 320
    assert len(groups) < 320


def test_lone_writer_stays_in_its_thread(store: SqliteStore) -> None:
    writer = Writer(store)
    threads: set[int] = set()
    commit = store._writer.group._commit

    def watching(group: list[object]) -> None:
        threads.add(threading.get_ident())
        assert len(group) == 1
        commit(group)  # type: ignore[arg-type]

    store._writer.group._commit = watching  # type: ignore[assignment]
    for _ in range(10):
        writer.fill(1)
    assert threads == {threading.get_ident()}


def test_unsynced_append_does_not_wait_for_the_disk(store: SqliteStore) -> None:
    writer = Writer(store)
    writer.append(event_row(1), sync=False)
    assert store._writer._cursor.execute("PRAGMA synchronous").get == 1
    writer.append(event_row(2))
    assert store._writer._cursor.execute("PRAGMA synchronous").get == 2
    assert store._write(lambda cursor: cursor.execute("PRAGMA synchronous").get) == 2


def test_run_number_of_a_run_deleted_elsewhere(store: SqliteStore, path: Path) -> None:
    writer = filled(store)
    other = SqliteStore(path)
    operations = Writer(other, "operations", kind="operations")
    other.delete_run(NS, "run-1", operations.pending(event_row(1, "operations")), [], [])
    with pytest.raises(NotFound):
        writer.fill(1)
    again = Writer(other, body=b"again")
    again.fill(1)
    with pytest.raises(MovedHead):
        store.append(NS, "run-1", [event_row(4)], expected=writer.head, epoch=0)
    other.close()


def test_interrupted_follower_is_taken_out_of_the_queue(store: SqliteStore) -> None:
    writer = Writer(store)
    group = store._writer.group
    assert group.acquire(1)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            writer.fill(1)
    finally:
        signal.signal(signal.SIGALRM, before)
        group.release()
    assert not group._queue
    assert all_rows(store) == []


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_append_that_an_interrupted_leader_took_is_unknown(store: SqliteStore) -> None:
    group = store._writer.group
    assert group.acquire(1)
    result: list[object] = []

    def work() -> None:
        try:
            store.append(NS, "run-1", [event_row(1)], expected=Head(0, b""), epoch=0)
        except Exception as error:
            result.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    while not group._queue:
        pass
    group._queue.popleft()  # and nothing more: that is all an interrupt may leave behind
    group.release()
    thread.join(10)
    assert [type(one) for one in result] == [OutcomeUnknown]


INTERRUPTED = """
import faulthandler, random, signal, sys, time
import onrecord

def interrupt(*_):
    raise KeyboardInterrupt

faulthandler.dump_traceback_later(100, exit=True)
signal.signal(signal.SIGALRM, interrupt)
random.seed(int(sys.argv[2]))
store = onrecord.open_store(sys.argv[1], durability="relaxed")
journal = onrecord.Journal.create(store, facts={})
interrupts, kept = 0, []
end = time.monotonic() + 5
for number in range(int(sys.argv[3])):
    if interrupts > 20 and number > 50 and time.monotonic() > end:
        break
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00001, 0.0015))
        journal.append(onrecord.StateUpdated(step_id="s", payload=number))
        for _ in range(20):
            store.last_event(journal.namespace, journal.run)
            list(store.scan(journal.namespace, journal.run, max(1, number - 5)))
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt as error:
        interrupts += 1
        kept.append(error)  # with the frames of its traceback: nothing may depend on their going away
    except onrecord.OnrecordError:
        signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        journal.append(onrecord.StateUpdated(step_id="s", payload=-number))
    except onrecord.OnrecordError:
        journal.reopen()
        journal.append(onrecord.StateUpdated(step_id="s", payload=-number))
assert not store._readers._lent and not store._writer.group.lock.locked() and not store._writer.group._owner
assert interrupts > 20, interrupts
assert number > 50, number
onrecord.verify_run(store, journal.run, deep=True)
print(number + 1, interrupts)
"""


@pytest.mark.parametrize("seed", cases([11], [12, 13, 14]))
def test_no_interrupt_leaves_a_lock_behind(path: Path, seed: int) -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(path), str(seed), "300" if SOAK else "120"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_translation_names_the_path() -> None:
    for error in (apsw.CantOpenError("x"), apsw.ReadOnlyError("x"), apsw.Error("x")):
        found = connection.translate(error, "/some/path")
        assert isinstance(found, StoreUnavailable)
        assert "/some/path" in found.message


def test_no_warning_in_ordinary_use(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = SqliteStore(path)
        filled(store)
        store.close()
        SqliteStore(path).close()
    assert in_child(lambda: SqliteStore(path).close()) == 0
