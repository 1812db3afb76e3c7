"""Facts: the names that the format fixes, and those that take no part in matching."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.journals import begin, crafted, written
from onrecord.analysis.diff.contents import begun_differently
from onrecord.core.canonical import stored_bytes
from onrecord.core.hashing import artifact_address, render
from onrecord.errors import InvalidInput
from onrecord.journal.import_file import verify_file
from onrecord.journal.reader import JournalReader
from onrecord.store.memory import MemoryStore

HASH = render(artifact_address(b"code"))
RIGHT: list[dict[str, Any]] = [
    {"tags": {"team": "a", "n": 1}},
    {"parent_policy": "abandon"},
    {"tolerance": {"cost": 0.1}},
    {"code_pin": {"digest": HASH, "version": "2"}},
    {"meta": {"hash_seed": 0, "own": [1]}},
]
WRONG: list[dict[str, Any]] = [
    {"tags": ["a"]},
    {"parent_policy": "hope"},
    {"tolerance": 0.1},
    {"code_pin": HASH},
    {"code_pin": {"digest": "sha256:0"}},
    {"meta": {"hash_seed": -1}},
    {"meta": {"hash_seed": "0"}},
    {"meta": []},
    {"meta": {}},
]


@pytest.mark.parametrize("facts", RIGHT, ids=repr)
def test_named_facts_are_written_and_read(tmp_path: Path, facts: dict[str, Any]) -> None:
    store = MemoryStore()
    assert JournalReader(store, begin(store, facts=facts).run).facts() == facts
    path = written(tmp_path / "r.jsonl", crafted([("Completed", b"{}")], facts=stored_bytes(facts)))
    assert verify_file(path).valid


@pytest.mark.parametrize("facts", WRONG, ids=repr)
def test_named_facts_of_another_type_are_neither_written_nor_read(tmp_path: Path, facts: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        begin(MemoryStore(), facts=facts)
    assert refused.value.code == "bad_member"
    path = written(tmp_path / "r.jsonl", crafted([("Completed", b"{}")], facts=stored_bytes(facts)))
    assert not verify_file(path).valid


def test_the_hash_seed_takes_no_part_in_a_comparison() -> None:
    store = MemoryStore()
    for run, seed, agent in (("r1", 1, "a"), ("r2", 2, "a"), ("r3", 1, "b")):
        begin(store, run, facts={"agent": agent, "meta": {"hash_seed": seed}})
    one, two, three = (JournalReader(store, run) for run in ("r1", "r2", "r3"))
    assert one.header_row.match == two.header_row.match
    assert begun_differently(one, two) == []
    assert begun_differently(two, three) == ["agent"]
