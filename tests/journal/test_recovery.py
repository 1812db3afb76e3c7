"""Recovery: the valid prefix of a damaged run in a new store; nothing repaired in place, nothing made up (F12)."""

from __future__ import annotations

from typing import Any

import pytest

from golden.vectors import golden_run
from kit.journals import (
    NS,
    Altered,
    FixedSources,
    begin,
    call,
    everything,
    export,
    flipped,
    rows_of,
    small_run,
    with_content,
)
from onrecord.core.events import Completed, StateUpdated
from onrecord.core.state import StateUpdatedOnlyReducer
from onrecord.errors import Damaged, NotFound, RunExists
from onrecord.journal.erasure import erase_value
from onrecord.journal.journal import Journal
from onrecord.journal.reader import JournalReader
from onrecord.journal.recovery import recover_run
from onrecord.journal.snapshots import take_snapshot
from onrecord.journal.verify import verify_run
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore


@pytest.mark.parametrize("bad", range(1, 44))
def test_the_events_before_the_first_bad_one_are_copied(memory: MemoryStore, bad: int) -> None:
    golden_run(memory)
    rows = rows_of(memory, "golden-1")
    before = everything(memory)
    damaged = [*rows[: bad - 1], with_content(rows[bad - 1], flipped), *rows[bad:]]
    target = MemoryStore()
    recovered = recover_run(Altered(memory, "golden-1", rows=damaged), "golden-1", target)
    assert (recovered.events, recovered.lost) == (bad - 1, len(rows) + 1 - bad)
    assert recovered.report.first_bad_seq == bad
    assert rows_of(target, "golden-1") == rows[: bad - 1]
    assert verify_run(target, "golden-1", deep=True).valid
    assert everything(memory) == before


def test_a_whole_run_is_copied_whole(store: Store) -> None:
    journal = begin(store, facts={"text": "fact " * 200, "blob": b"f" * 70_000})
    journal.append([*call(1, {"list": ["word " * 240] * 9}, bytes(70_001)), Completed()])
    target = MemoryStore()
    recovered = recover_run(store, "r1", target)
    assert (recovered.events, recovered.lost) == (3, 0)
    assert export(target) == export(store)
    assert verify_run(target, "r1", deep=True).valid
    assert not JournalReader(target, "r1").imported


@pytest.mark.parametrize("damage", ["dropped", "swapped", "spliced", "node missing", "bad link"])
def test_every_sort_of_damage_leaves_the_prefix(memory: MemoryStore, damage: str) -> None:
    small_run(memory)
    small_run(memory, "r2")
    rows, others = rows_of(memory), rows_of(memory, "r2")
    ((address, _),) = memory.all_nodes(NS)
    changes: dict[str, tuple[dict[str, Any], int]] = {
        "dropped": ({"rows": [*rows[:2], *rows[3:]]}, 2),
        "swapped": ({"rows": [*rows[:3], rows[4]._replace(seq=4), rows[3]._replace(seq=5), rows[5]]}, 3),
        "spliced": ({"rows": [*rows[:4], *others[4:]]}, 4),
        "node missing": ({"nodes": {address: None}}, 1),
        "bad link": ({"rows": [*rows[:5], rows[5]._replace(hash=bytes(32))]}, 5),
    }
    altered, kept = changes[damage]
    target = MemoryStore()
    assert recover_run(Altered(memory, **altered), "r1", target).events == kept
    assert rows_of(target) == rows[:kept]
    assert verify_run(target, "r1", deep=True).valid


def test_a_recovered_run_can_be_continued(memory: MemoryStore) -> None:
    journal = begin(memory)
    journal.append([StateUpdated(1), StateUpdated(2), StateUpdated(3)])
    rows = rows_of(memory)
    target = MemoryStore()
    recover_run(Altered(memory, rows=[*rows[:2], with_content(rows[2], flipped)]), "r1", target)
    Journal.open(target, "r1", sources=FixedSources("on")).append([StateUpdated("anew"), Completed()])
    assert verify_run(target, "r1", deep=True).valid


def test_a_damaged_header_leaves_no_prefix(memory: MemoryStore) -> None:
    small_run(memory, facts={"a": 1})
    row = memory.run_row(NS, "r1")
    assert row is not None
    for changes in ({"hash": bytes(32)}, {"content": flipped(row.header.content or b"")}, {"header": b"{}"}):
        target = MemoryStore()
        with pytest.raises(Damaged):
            recover_run(Altered(memory, header=changes), "r1", target)
        assert target.namespaces() == []


def test_nothing_is_written_over(memory: MemoryStore) -> None:
    small_run(memory)
    target = MemoryStore()
    small_run(target, sources=FixedSources("another"))
    before = everything(target)
    with pytest.raises(RunExists):
        recover_run(memory, "r1", target)
    with pytest.raises(NotFound):
        recover_run(memory, "nothing", target)
    assert everything(target) == before


def test_a_bad_snapshot_costs_no_event(memory: MemoryStore) -> None:
    """A snapshot is derived data: the log behind it is as good as before."""
    journal = begin(memory)
    journal.append(StateUpdated(1))
    take_snapshot(journal, StateUpdatedOnlyReducer(), 1, 1)
    journal.append([StateUpdated(2), Completed()])
    store = Altered(memory, snapshots=lambda rows: [row._replace(seal=bytes(32)) for row in rows])
    target = MemoryStore()
    assert recover_run(store, "r1", target).events == 4
    assert verify_run(target, "r1", deep=True).valid


def test_erased_contents_stay_erased_by_right(memory: MemoryStore) -> None:
    begin(memory).append([StateUpdated("a value to be erased"), StateUpdated(2), Completed()])
    erase_value(memory, "a value to be erased", reason="x")
    target = MemoryStore()
    assert recover_run(memory, "r1", target).events == 3
    report = verify_run(target, "r1", deep=True)
    assert report.valid, "a valid prefix is valid where it was copied to"
    assert report.erased == [1]
