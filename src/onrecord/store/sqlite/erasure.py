"""Delete a run and erase contents: only these statements open the gates of the triggers.

The gate, the change and its record are one transaction. Gates that could allow anything else are closed at its end.
Artifact files are removed after the commit, from a list that is part of it, so that the next opening completes a
removal that a crash interrupted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import apsw

from onrecord.errors import NotFound
from onrecord.store.contract import PendingAppend
from onrecord.store.sqlite.group_commit import CommitRequest
from onrecord.store.sqlite.write_connection import SqliteWriter


def delete_run(cursor: apsw.Cursor, writer: SqliteWriter, namespace: str, run: str) -> None:
    number = writer.find_run_number(cursor, namespace, run)
    cursor.execute("INSERT INTO tombstones VALUES(?, ?, ?)", (number, namespace, run))
    for table in ("events", "inbox", "snapshots", "erasures", "runs"):
        cursor.execute(f"DELETE FROM {table} WHERE run_no = ?", (number,))


def erase_contents(
    cursor: apsw.Cursor,
    writer: SqliteWriter,
    namespace: str,
    contents: Sequence[tuple[str, int]],
    prefixes: Sequence[tuple[str, int, bytes]],
    inboxes: Sequence[str],
) -> None:
    runs = {run for run, _ in contents} | {run for run, _, _ in prefixes}
    numbers = {run: writer.find_run_number(cursor, namespace, run) for run in runs}
    for run, seq in contents:
        key = (numbers[run], seq)
        cursor.execute("INSERT OR IGNORE INTO erasures VALUES(?, ?, 'content')", key)
        if seq == 0:
            cursor.execute("UPDATE runs SET content = NULL, salt = NULL, match = NULL WHERE run_no = ?", key[:1])
        else:
            cursor.execute(
                "UPDATE events SET content = NULL, salt = NULL, match = NULL WHERE run_no = ? AND seq = ?", key
            )
            _must_exist(cursor, namespace, run, seq)
    for run, seq, prefix in prefixes:
        key = (numbers[run], seq)
        cursor.execute("INSERT INTO erasures VALUES(?, ?, 'prefix')", key)
        cursor.execute("UPDATE events SET prefix = ? WHERE run_no = ? AND seq = ?", (prefix, *key))
        _must_exist(cursor, namespace, run, seq)
    cursor.execute("DELETE FROM erasures WHERE part = 'prefix'")
    for number in numbers.values():
        cursor.execute("DELETE FROM snapshots WHERE run_no = ?", (number,))
    for run in inboxes:
        cursor.execute("DELETE FROM inbox WHERE run_no = ?", (writer.find_run_number(cursor, namespace, run),))


def _must_exist(cursor: apsw.Cursor, namespace: str, run: str, seq: int) -> None:
    if cursor.connection.changes() == 0:
        raise NotFound(f"no event {seq} in run {run!r} of namespace {namespace!r}")


def remove_values(cursor: apsw.Cursor, namespace: str, nodes: Iterable[bytes], artifacts: Iterable[bytes]) -> None:
    for address in nodes:
        found = cursor.execute(
            "SELECT node_no FROM nodes WHERE namespace = ? AND address = ?", (namespace, address)
        ).get
        if found is not None:
            cursor.execute("INSERT INTO node_erasures VALUES(?)", (found,))
            cursor.execute("DELETE FROM nodes WHERE node_no = ?", (found,))
    cursor.execute("DELETE FROM node_erasures")
    cursor.executemany(
        "INSERT OR IGNORE INTO artifact_removals VALUES(?, ?)", [(namespace, address) for address in artifacts]
    )


def append_record(cursor: apsw.Cursor, writer: SqliteWriter, record: PendingAppend) -> None:
    request = CommitRequest(*record, sync=True)
    refusal = writer.append_carefully(cursor, request)
    if refusal is not None:
        raise refusal
