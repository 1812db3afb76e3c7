"""The log's file is made longer ahead of what is written to it, and means the same."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from onrecord import ActionRequested, Journal, open_store
from onrecord.store.sqlite import wal_space as room


def _append(journal: Journal, count: int) -> None:
    for _ in range(count):
        journal.append(ActionRequested(f"a{journal.position}", {"text": "x" * 300}), sync=False)


def test_a_log_that_is_written_to_grows_by_the_piece(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'store.db'}")
    log = tmp_path / "store.db-wal"
    with Journal.create(store) as journal:
        _append(journal, room.FIRST_CHECK - 1)
        assert log.stat().st_size < room.PIECE_BYTES
        lengths = set()
        for number in range(room.CHECK_EVERY * 10):
            journal.append(ActionRequested(f"b{number}", None), sync=False)
            lengths.add(log.stat().st_size)
        assert len(lengths) <= 4, "commits themselves have made it longer"
        assert log.read_bytes()[-1000:] == bytes(1000)
    store.close()


def test_a_log_with_room_left_is_read_by_whoever_finds_it(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'store.db'}")
    journal = Journal.create(store, "r")
    _append(journal, 50)
    assert (tmp_path / "store.db-wal").stat().st_size >= room.PIECE_BYTES
    (tmp_path / "left").mkdir()
    for name in ("store.db", "store.db-wal"):  # as a process leaves them that is killed
        shutil.copy(tmp_path / name, tmp_path / "left" / name)
    found = open_store(f"sqlite:///{tmp_path / 'left' / 'store.db'}")
    assert [row.hash for row in found.scan("default", "r", 1)] == [row.hash for row in store.scan("default", "r", 1)]
    assert journal.position == 50
    found.close()
    store.close()


def test_two_who_write_do_not_make_room_where_the_other_writes(tmp_path: Path) -> None:
    stores = [open_store(f"sqlite:///{tmp_path / 'store.db'}") for _ in range(2)]
    journals = [Journal.create(store, f"r{number}") for number, store in enumerate(stores)]
    for _ in range(60):
        for journal in journals:
            _append(journal, 5)
    for number, journal in enumerate(journals):
        assert len(list(stores[1 - number].scan("default", journal.run, 1))) == 300
    for store in stores:
        store.close()


def test_a_disk_without_room_is_for_the_commit_to_complain_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    store = open_store(f"sqlite:///{tmp_path / 'store.db'}")
    monkeypatch.setattr(os, "pwrite", full)
    with Journal.create(store) as journal:
        _append(journal, room.FIRST_CHECK * 2)
        assert journal.position == room.FIRST_CHECK * 2
    store.close()
