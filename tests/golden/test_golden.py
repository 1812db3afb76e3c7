"""The golden files: every hash, every recording, computed anew and compared. A difference is a new format version."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from golden import vectors
from kit.paths import DOCS
from onrecord.core.codec import decode
from onrecord.core.events import KINDS
from onrecord.core.merkle import expand
from onrecord.journal.import_file import verify_file

PINNED: dict[str, Any] = json.loads(vectors.VECTORS.read_text(encoding="utf-8"))
TABLE = [
    *("header", "link", "commit", "match", "prefix", "erased", "lanes", "order", "node", "artifact"),
    *("state", "statelink", "frame", "value", "snapshot"),
]


def test_every_row_of_the_table_is_pinned() -> None:
    assert {vector["hash"] for vector in PINNED["hashes"]} == set(TABLE)
    rows = (DOCS / "format.md").read_text(encoding="utf-8")
    tags = {line.split("`onrecord.")[1].split("/1`")[0] for line in rows.splitlines() if "| `onrecord." in line}
    assert tags == set(TABLE)


@pytest.mark.parametrize("vector", PINNED["hashes"], ids=lambda v: f"{v['hash']}: {v['case']}")
def test_a_pinned_hash_is_the_digest_of_tag_zero_and_parts(vector: dict[str, Any]) -> None:
    parts = b"".join(bytes.fromhex(part) for part in vector["parts"])
    digest = hashlib.sha256(f"onrecord.{vector['hash']}/1".encode() + b"\0" + parts).hexdigest()
    assert vector["expected"] == "sha256:" + digest


def test_the_code_computes_the_pinned_hashes() -> None:
    assert vectors.hash_vectors() == PINNED["hashes"]


def test_no_two_hashes_of_the_file_are_equal() -> None:
    expected = [vector["expected"] for vector in PINNED["hashes"]]
    assert len(set(expected)) == len(expected)


def test_equal_bytes_under_two_tags_differ() -> None:
    from onrecord.core import hashing

    functions = [
        *(hashing.header_hash, hashing.link_hash, hashing.match_digest, hashing.node_address),
        *(hashing.artifact_address, hashing.state_hash_of, hashing.frame_digest, hashing.value_digest),
    ]
    assert len({function(b"{}") for function in functions}) == len(functions)


def test_two_splits_of_the_parts_of_a_seal_differ() -> None:
    from onrecord.core.hashing import snapshot_seal

    head = bytes(32)
    assert snapshot_seal("r1", 2, head, "a", 1, b"x") != snapshot_seal("r", 12, head, "a", 1, b"x")
    assert snapshot_seal("r", 1, head, "a/1", 1, b"x") != snapshot_seal("r", 1, head, "a/", 11, b"x")


def test_the_code_shares_as_pinned() -> None:
    assert vectors.sharing_vectors() == PINNED["sharing"]


@pytest.mark.parametrize("case", list(vectors.sharing_inputs()))
def test_what_was_shared_expands_to_what_it_was(case: str) -> None:
    from onrecord.core.merkle import Sharer

    tree = vectors.sharing_inputs()[case]
    sharer = Sharer()
    root = sharer.share(tree)
    assert expand(root, lambda wanted: {a: sharer.new_nodes[a] for a in wanted}) == tree
    pinned = next(vector for vector in PINNED["sharing"] if vector["case"] == case)
    assert bool(pinned["nodes"]) == (b'":"sha256:' in root or b'["sha256:' in root)


def test_tags_are_written_as_pinned() -> None:
    assert vectors.tag_vectors() == PINNED["tags"]


@pytest.mark.parametrize("name", list(vectors.tag_values()))
def test_pinned_tags_come_back_as_the_value(name: str) -> None:
    value = vectors.tag_values()[name]
    back = decode(json.loads(PINNED["tags"][name]), loaded_classes=True, artifact=lambda _: bytes(65_537))
    assert type(back) is type(value)
    assert _shown(back) == _shown(value)


def _shown(value: object) -> str:
    """`repr`, but for sets: theirs depends on the hash seed and on the order in which the elements came in."""
    return repr(sorted(value)) if isinstance(value, (set, frozenset)) else repr(value)


def test_the_recording_is_made_again_to_the_byte() -> None:
    assert vectors.recordings()["golden-1"] == vectors.RECORDING.read_bytes()


def test_the_other_recordings_and_all_heads_are_as_pinned() -> None:
    made = vectors.recordings()
    assert {name: made[name].decode().splitlines() for name in PINNED["recordings"]} == PINNED["recordings"]
    assert {name: export.splitlines()[-1].decode() for name, export in made.items()} == PINNED["heads"]


def test_the_golden_recordings_hold_every_kind() -> None:
    lines = [*vectors.RECORDING.read_text("utf-8").splitlines()]
    lines += [line for recording in PINNED["recordings"].values() for line in recording]
    kinds = {json.loads(line)["kind"] for line in lines if line.startswith('{"seq":')}
    assert kinds == set(KINDS)


def test_the_golden_recordings_verify(tmp_path: Path) -> None:
    report = verify_file(vectors.RECORDING, deep=True)
    assert str(report) == "Verification: 45/45 events verified, 0 failures, 0 mismatches - VALID"
    for name, lines in PINNED["recordings"].items():
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes("".join(f"{line}\n" for line in lines).encode())
        assert verify_file(path, deep=True).valid, name


def test_changing_one_answer_changes_the_recording() -> None:
    """The counterpart: the comparison above can fail."""
    from onrecord.store.memory import MemoryStore

    store = MemoryStore()
    vectors.golden_run(store, sources=vectors.FixedSources("another seed"))
    assert vectors._export(store, "golden-1") != vectors.RECORDING.read_bytes()


def test_golden_files_are_not_written_over_unasked() -> None:
    from golden import make

    with pytest.raises(SystemExit, match="not written by tests"):
        make.write(overwrite=True)
    before = vectors.RECORDING.stat().st_mtime_ns, vectors.VECTORS.stat().st_mtime_ns
    done = subprocess.run([sys.executable, make.__file__], capture_output=True, check=True, text=True)
    assert done.stderr.count("left alone") == 2
    assert (vectors.RECORDING.stat().st_mtime_ns, vectors.VECTORS.stat().st_mtime_ns) == before
