"""Contents of files: text, bytes, and pieces that the versions of a file share."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.journals import NS, begin
from onrecord.core.cuts import CUT_FROM_BYTES, CUT_MIN_BYTES, cut_bytes
from onrecord.core.events import FilesObserved
from onrecord.core.hashing import artifact_address, render
from onrecord.core.packing import unpack
from onrecord.core.program_records import read_content, write_content
from onrecord.journal.reader import JournalReader
from onrecord.journal.verify import verify_run
from onrecord.store.memory import MemoryStore

MIXED = random.Random(1).randbytes(900_000)


def look(data: bytes) -> FilesObserved:
    version = {"kind": "file", "mode": 0o100600, "size": len(data), "digest": render(artifact_address(data))}
    return FilesObserved(
        [{"path": "a.db", "look": "open", "version": {**version, "content": write_content(data)}, "cause": "first"}]
    )


@given(st.binary(max_size=2000), st.integers(0, 90))
def test_a_content_is_read_back_to_the_byte(part: bytes, times: int) -> None:
    assert read_content(write_content(part * times)) == part * times


def test_text_stays_text_and_long_bytes_are_cut() -> None:
    assert write_content("né".encode()) == "né"
    assert write_content(b"\xff" * CUT_FROM_BYTES) == b"\xff" * CUT_FROM_BYTES
    assert write_content(b"\xff" * (CUT_FROM_BYTES + 1)) == [b"\xff" * CUT_FROM_BYTES, b"\xff"]


@pytest.mark.parametrize("data", [MIXED, MIXED[:70_000] * 5, bytes(200_000)])
def test_pieces_are_neither_tiny_nor_large(data: bytes) -> None:
    pieces = cut_bytes(data)
    assert b"".join(pieces) == data
    assert all(CUT_MIN_BYTES <= len(piece) <= CUT_FROM_BYTES for piece in pieces[:-1])


@pytest.mark.parametrize("edit", ["insert", "overwrite", "append", "remove"])
def test_versions_of_a_file_share_their_pieces(edit: str) -> None:
    at = 400_000
    changed = {
        "insert": MIXED[:at] + b"inserted" + MIXED[at:],
        "overwrite": MIXED[:at] + b"overwritten" + MIXED[at + 11 :],
        "append": MIXED + b"more",
        "remove": MIXED[:at] + MIXED[at + 5000 :],
    }[edit]
    store = MemoryStore()
    journal = begin(store)
    journal.append(look(MIXED))
    before = {address: len(unpack(blob)) for address, blob in store.all_nodes(NS)}
    journal.append(look(changed))
    added = sum(len(unpack(blob)) for address, blob in store.all_nodes(NS) if address not in before)
    assert added < 0.12 * sum(before.values())
    last = list(JournalReader(store, "r1").scan())[-1].event
    assert read_content(last.looks[0]["version"]["content"]) == changed  # type: ignore[attr-defined]
    assert verify_run(store, "r1", deep=True).valid
    assert list(store.all_artifacts(NS)) == []


def test_a_real_program_is_cut_and_read_back() -> None:
    import sys

    data = Path(sys.executable).read_bytes()[:2_000_000]
    assert read_content(write_content(data)) == data
