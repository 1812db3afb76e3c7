"""The SQLite store.

One connection writes, under one lock (`writer.py`, `group_commit.py`); others read, one statement at a time
(`readers.py`). The requirements on a file are in `file_checks.py` and `schema.py`, the behaviour at a fork in
`process_fork.py`.

`durability="full"` is WAL with synchronous=FULL: an acknowledged append survives power loss. `relaxed` is
synchronous=NORMAL: it survives the process, and after power loss the store is a valid, shorter prefix.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import apsw

from onrecord.errors import InvalidInput, OnrecordError, RunExists, SchemaMismatch, StoreUnavailable
from onrecord.store.contract import (
    DURABILITY_LEVELS,
    Claim,
    EventRow,
    Head,
    HeaderRow,
    InboxRow,
    NodeRow,
    PendingAppend,
    SnapshotRow,
)
from onrecord.store.sqlite import erasure, file_checks, leases, process_fork, schema, user_transactions
from onrecord.store.sqlite.artifacts import Artifacts
from onrecord.store.sqlite.connection import check_library, translate
from onrecord.store.sqlite.group_commit import CommitRequest
from onrecord.store.sqlite.index_files import empty_views
from onrecord.store.sqlite.readers import Readers
from onrecord.store.sqlite.reads import SqliteReads, clamp
from onrecord.store.sqlite.write_connection import SqliteWriter

BUSY_SECONDS = 10.0

T = TypeVar("T")


class SqliteStore(SqliteReads):
    def __init__(
        self,
        path: str | os.PathLike[str],
        durability: str = "full",
        read_only: bool = False,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        if durability not in DURABILITY_LEVELS:
            raise InvalidInput(f"unknown durability {durability!r}; known: {', '.join(DURABILITY_LEVELS)}")
        check_library()
        self.path = file_checks.resolve_path(path)
        self.url = "sqlite:///" + self.path
        self.durability = durability
        self.read_only = read_only
        self._pid = os.getpid()
        self._pending_scrubs = -1
        self._artifacts = Artifacts(self.path + ".artifacts")
        file_checks.refuse_network(self.path)
        exists = file_checks.check_kind(self.path)
        can_create = os.access(os.path.dirname(self.path), os.W_OK)  # False on a read-only file system, too
        self._writer = SqliteWriter(self.path, durability, busy_seconds)
        self._readers = Readers(self.path, busy_seconds, without_locks=read_only and not can_create)
        try:
            self._open(exists)
        except apsw.Error as error:
            raise translate(error, self.path) from error
        process_fork.register(self)

    def _open(self, exists: bool) -> None:
        if self.read_only:
            if not exists:
                raise StoreUnavailable(f"there is no store at {self.path}")
            self._writer.refusal = StoreUnavailable(f"{self.path} was opened for reading only", code="read_only")
        elif exists and not (os.access(self.path, os.W_OK) and os.access(os.path.dirname(self.path), os.W_OK)):
            raise StoreUnavailable(
                f"{self.path} or its folder is read-only, so nothing can be recorded there",
                hint="It can be read and replayed (in Python: read_only=True). Name another store to record.",
                code="read_only",
            )
        version = 0
        if exists and not self.read_only and os.path.exists(self.path + "-journal"):
            self._writer.roll_back()
        if exists and os.lstat(self.path).st_size > 0:
            # A file may be crafted: it is examined through a connection that cannot write.
            version = self._readers.read(lambda cursor: schema.examine(cursor.connection, self.path))
        if version > schema.SCHEMA_VERSION:
            self._writer.refusal = SchemaMismatch(
                f"{self.path} has schema version {version}, this program writes {schema.SCHEMA_VERSION}",
                hint="It can be read. Upgrade to write to it.",
            )
        elif self.read_only and version == 0:
            raise SchemaMismatch(
                f"{self.path} is empty",
                hint="A process was stopped before it created the tables; the next process that writes creates them.",
            )
        elif not self.read_only:
            if not exists:
                file_checks.create(self.path)
            self._writer.open()
            self._artifacts.sweep()
            self._finish_removals()

    def close(self) -> None:
        closed = StoreUnavailable(f"the store {self.path} is closed")
        if self._writer.refusal is not None and self._writer.refusal.message == closed.message:
            return
        if self._pid != os.getpid():
            process_fork.leak(self._writer.abandon() + self._readers.abandon())
            return
        self._readers.refusal = closed
        self._readers.drop(checkpoint=True)
        self._writer.group.exclusive(lambda: self._writer.close(closed))

    # Forks

    def before_fork(self, timeout_seconds: float) -> None:
        self._fork_ready = False
        locked = self._writer.group.acquire(timeout_seconds)
        if self._readers.pause(timeout_seconds) and locked:
            self._writer.drop()
            self._readers.drop(checkpoint=False)
            self._fork_ready = True

    def after_fork(self, *, child: bool) -> None:
        if not child:
            self._readers.resume()
            self._writer.group.release()
        elif self._fork_ready:
            self._pid = os.getpid()
            self._writer.group.reset()
            self._readers.reset()

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            process_fork.leak(self._writer.abandon() + self._readers.abandon())
            raise StoreUnavailable(
                f"{self.path} was opened before a fork that Python did not announce; it cannot be used in the child",
                hint="Open the store in the child.",
            )

    def _read(self, work: Callable[[apsw.Cursor], T]) -> T:
        self._check_process()
        return self._readers.read(work)

    def _write(self, work: Callable[[apsw.Cursor], T]) -> T:
        self._check_process()
        return self._writer.transaction(work)

    # Runs

    def create_run(self, namespace: str, header: HeaderRow, nodes: Sequence[NodeRow] = ()) -> None:
        def work(cursor: apsw.Cursor) -> None:
            found = self._writer.read_header(cursor, namespace, header.run)
            if found is not None:
                if found != header.header:
                    raise RunExists(f"there is another run {header.run!r} in namespace {namespace!r} already")
                return
            self._writer.add_run(cursor, namespace, header, nodes)

        self._write(work)

    def import_run(
        self,
        namespace: str,
        header: HeaderRow,
        nodes: Sequence[NodeRow],
        batches: Iterable[tuple[Sequence[EventRow], Sequence[NodeRow]]],
    ) -> None:
        def work(cursor: apsw.Cursor) -> None:
            if self._writer.read_header(cursor, namespace, header.run) is not None:
                raise RunExists(f"run {header.run!r} exists in namespace {namespace!r}")
            number = self._writer.add_run(cursor, namespace, header, nodes)
            for events, more in batches:
                self._writer.add_events(cursor, namespace, header.run, number, events, more)

        self._write(work)

    # Events

    def append(
        self,
        namespace: str,
        run: str,
        events: Sequence[EventRow],
        *,
        expected: Head,
        epoch: int,
        nodes: Sequence[NodeRow] = (),
        sync: bool = True,
    ) -> None:
        if self._pid != os.getpid():
            self._check_process()
        self._writer.group.submit(CommitRequest(namespace, run, events, expected, epoch, nodes, sync))

    def sync(self) -> None:
        # A commit that changes a page syncs the log and everything before it; this one writes the same value again.
        self._write(lambda cursor: cursor.execute(f"PRAGMA user_version={schema.SCHEMA_VERSION}"))

    @property
    def private_url(self) -> str:
        return self.url

    def append_many(self, appends: Sequence[PendingAppend]) -> list[Exception | None]:
        self._check_process()
        return self._writer.append_many([CommitRequest(*pending, sync=True) for pending in appends])

    def transact(self, work: Callable[[Any], PendingAppend]) -> None:
        self._check_process()
        user_transactions.transact(self._writer, self.path, work)

    # Shared values

    def put_artifact(self, namespace: str, address: bytes, data: bytes) -> None:
        if self._writer.refusal is not None:
            raise self._writer.refusal
        if self._read(lambda cursor: self._is_removed(cursor, namespace, address)):
            self._finish_removals()
        self._artifacts.put(namespace, address, data)

    def artifact(self, namespace: str, address: bytes) -> bytes | None:
        if self._read(lambda cursor: self._is_removed(cursor, namespace, address)):
            return None
        return self._artifacts.get(namespace, address)

    def all_artifacts(self, namespace: str) -> Iterator[bytes]:
        self._check_process()
        return self._artifacts.addresses(namespace)

    def remove_artifacts(self, namespace: str, addresses: Iterable[bytes]) -> None:
        def work(_: apsw.Cursor) -> None:
            for address in addresses:
                self._artifacts.remove(namespace, address)

        self._write(work)

    def _is_removed(self, cursor: apsw.Cursor, namespace: str, address: bytes) -> bool:
        sql = "SELECT 1 FROM artifact_removals WHERE namespace = ? AND address = ?"
        return cursor.execute(sql, (namespace, address)).get is not None

    def _finish_removals(self) -> None:
        """Remove the files that a committed erasure lists. Under the write lock no writer can add one."""
        if self._read(lambda cursor: cursor.execute("SELECT 1 FROM artifact_removals LIMIT 1").get) is None:
            return

        def work(cursor: apsw.Cursor) -> None:
            rows: Any = cursor.execute("SELECT namespace, address FROM artifact_removals").fetchall()
            for namespace, address in rows:
                self._artifacts.remove(namespace, address)
            cursor.execute("DELETE FROM artifact_removals")

        self._write(work)

    # Leases

    def claim(self, namespace: str, run: str, holder: str, ttl_seconds: float, superseding: str | None = None) -> Claim:
        if not 0 < ttl_seconds < 1e9:
            raise InvalidInput(f"a lease lasts more than 0 seconds, not {ttl_seconds!r}")

        def work(cursor: apsw.Cursor) -> Claim:
            number = self._writer.find_run_number(cursor, namespace, run)
            return leases.claim(cursor, number, holder, ttl_seconds, superseding)

        return self._write(work)

    def release(self, namespace: str, run: str, epoch: int) -> None:
        def work(cursor: apsw.Cursor) -> None:
            leases.release(cursor, self._writer.find_run_number(cursor, namespace, run), epoch)

        self._write(work)

    def holder(self, namespace: str, run: str) -> str | None:
        return self._read(lambda cursor: leases.find_holder(cursor, namespace, run))

    # Inbox

    def inbox_put(self, namespace: str, run: str, key: str, payload: bytes, time: int) -> InboxRow:
        def work(cursor: apsw.Cursor) -> InboxRow:
            number = self._writer.find_run_number(cursor, namespace, run)
            cursor.execute(
                "INSERT OR IGNORE INTO inbox(run_no, number, key, payload, time)"
                " SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4 FROM inbox WHERE run_no = ?1",
                (number, key, payload, time),
            )
            sql = "SELECT number, key, payload, time FROM inbox WHERE run_no = ? AND key = ?"
            return InboxRow(*next(cursor.execute(sql, (number, key))))

        return self._write(work)

    # Snapshots

    def put_snapshot(self, namespace: str, run: str, snapshot: SnapshotRow) -> None:
        def work(cursor: apsw.Cursor) -> None:
            number = self._writer.find_run_number(cursor, namespace, run)
            cursor.execute("INSERT OR REPLACE INTO snapshots VALUES(?,?,?,?,?,?,?)", (number, *snapshot))

        self._write(work)

    def delete_snapshot(self, namespace: str, run: str, seq: int) -> None:
        def work(cursor: apsw.Cursor) -> None:
            number = self._writer.find_run_number(cursor, namespace, run)
            cursor.execute("DELETE FROM snapshots WHERE run_no = ? AND seq = ?", (number, clamp(seq)))

        self._write(work)

    # Retention and erasure

    def delete_run(
        self, namespace: str, run: str, record: PendingAppend, nodes: Iterable[bytes], artifacts: Iterable[bytes]
    ) -> None:
        def work(cursor: apsw.Cursor) -> None:
            erasure.delete_run(cursor, self._writer, namespace, run)
            erasure.remove_values(cursor, namespace, nodes, artifacts)
            erasure.append_record(cursor, self._writer, record)

        self._write(work)
        self.scrub()

    def erase_contents(
        self,
        namespace: str,
        contents: Sequence[tuple[str, int]],
        prefixes: Sequence[tuple[str, int, bytes]],
        record: PendingAppend,
        nodes: Iterable[bytes],
        artifacts: Iterable[bytes],
        inboxes: Sequence[str] = (),
    ) -> None:
        def work(cursor: apsw.Cursor) -> None:
            erasure.erase_contents(cursor, self._writer, namespace, contents, prefixes, inboxes)
            erasure.remove_values(cursor, namespace, nodes, artifacts)
            erasure.append_record(cursor, self._writer, record)

        self._write(work)
        self.scrub()

    def scrub(self) -> None:
        """Remove erased bytes from all files: artifacts, the database, the log, and the indexes beside it.

        `secure_delete` zeroes freed cells and pages, but a page that was split or merged earlier can hold an old copy
        of a cell in its unused middle. Only rewriting the pages (VACUUM) removes those. The time is proportional to the
        size of the store; use `scrubbing_once` for many deletions.
        """
        if self._pending_scrubs >= 0:
            self._pending_scrubs += 1
            return
        try:
            empty_views(self.path)
            self._finish_removals()
            self._writer.vacuum()
            emptied = self._writer.checkpoint()
        except OnrecordError as error:
            raise _make_not_scrubbed(self.path, error.message) from error
        if not emptied:
            raise _make_not_scrubbed(self.path, "another process is reading")

    @contextmanager
    def scrubbing_once(self) -> Iterator[None]:
        """Run many deletions with one `scrub` at the end. For one thread that does retention."""
        self._pending_scrubs = 0
        try:
            yield
        finally:
            needed, self._pending_scrubs = self._pending_scrubs > 0, -1
            if needed:
                self.scrub()


def _make_not_scrubbed(path: str, why: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"{path}: the erasure is committed and recorded, but old bytes may remain in the files ({why})",
        hint="Call scrub() again; do not repeat the erasure.",
        code="not_scrubbed",
    )
