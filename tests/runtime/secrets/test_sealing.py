"""Seals: opened by whoever recorded the run, by nobody else, and only in their place."""

from __future__ import annotations

import json
import os
import stat
import warnings
from pathlib import Path
from typing import Any

import pytest

from kit.redacted_agents import PASSWORD, RESULT, TOKEN, VARIABLE, calls, client, crash_in
from onrecord.errors import Damaged
from onrecord.journal.journal import Journal
from onrecord.journal.reader import JournalReader
from onrecord.journal.verify import verify_run
from onrecord.runtime.secrets.seals import SealedElsewhere, SealKeys, SealOwner, Seals
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore

SALT = bytes(range(16))


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "sk-real-0123456789abcdefghij")
    calls.clear()
    crash_in.clear()


@pytest.fixture
def keys(tmp_path: Path) -> SealKeys:
    return SealKeys(tmp_path / "ring" / "keys.json")


@pytest.fixture
def journal(memory: MemoryStore) -> Journal:
    return Journal.create(memory, "r1")


def place(seq: int = 3, **other: Any) -> SealOwner:
    return SealOwner("default", "r1", seq, "ActionSucceeded", SALT)._replace(**other)


def test_what_was_sealed_is_found_in_its_place(journal: Journal, keys: SealKeys) -> None:
    value = {"originals": {"<secret:jwt:3.1>": "the secret\udcff"}}
    Seals(keys).put(journal, place(), value, 1)
    assert Seals(SealKeys(keys.path)).find(journal, place()) == value
    [row] = journal.store.inbox("default", "r1")
    assert b"the secret" not in row.payload
    assert SALT.hex() not in row.key
    assert stat.S_IMODE(os.stat(keys.path).st_mode) == 0o600


@pytest.mark.parametrize(
    "other", [{"seq": 4}, {"run": "r2"}, {"namespace": "other"}, {"kind": "ActionFailed"}, {"salt": bytes(16)}]
)
def test_a_seal_that_was_moved_does_not_open(journal: Journal, keys: SealKeys, other: dict[str, Any]) -> None:
    seals, moved = Seals(keys), place(**other)
    seals.put(journal, place(), {"originals": {}}, 1)
    [row] = journal.store.inbox("default", "r1")
    if moved.name != place().name:
        journal.store.inbox_put("default", "r1", moved.name, row.payload, 1)
    with pytest.raises(Damaged) as broken:
        seals.find(journal, moved)
    assert broken.value.code == "seal_broken"


def test_swapped_seals_do_not_open(journal: Journal, keys: SealKeys) -> None:
    seals, first, second = Seals(keys), place(3), place(5)
    donor = Journal.create(MemoryStore(), "r1")
    seals.put(donor, first, {"originals": {"a": "1"}}, 1)
    seals.put(donor, second, {"originals": {"a": "2"}}, 1)
    rows = {row.key: row.payload for row in donor.store.inbox("default", "r1")}
    journal.store.inbox_put("default", "r1", first.name, rows[second.name], 1)
    journal.store.inbox_put("default", "r1", second.name, rows[first.name], 1)
    for one in (first, second):
        with pytest.raises(Damaged):
            seals.find(journal, one)


@pytest.mark.parametrize("payload", [b"{}", b"[]", b'{"key":"k","sealed":"!"}', b'{"key":1,"sealed":""}'])
def test_an_altered_seal_is_damage_or_foreign(journal: Journal, keys: SealKeys, payload: bytes) -> None:
    journal.store.inbox_put("default", "r1", place().name, payload, 1)
    with pytest.raises((Damaged, SealedElsewhere)):
        Seals(keys).find(journal, place())


def test_flipped_bits_do_not_open(journal: Journal, keys: SealKeys) -> None:
    donor = Journal.create(MemoryStore(), "r1")
    Seals(keys).put(donor, place(), {"originals": {}}, 1)
    [row] = donor.store.inbox("default", "r1")
    members = json.loads(row.payload)
    sealed = members["sealed"]
    members["sealed"] = ("B" if sealed[30] == "A" else "A").join((sealed[:30], sealed[31:]))
    journal.store.inbox_put("default", "r1", place().name, json.dumps(members).encode(), 1)
    with pytest.raises(Damaged):
        Seals(keys).find(journal, place())


def test_rotated_keys_go_on_opening(journal: Journal, keys: SealKeys) -> None:
    seals = Seals(keys)
    seals.put(journal, place(3), {"originals": {"a": "1"}}, 1)
    first = keys.current_seal()[0]
    assert keys.rotate_seals().id != first
    seals.put(journal, place(5), {"originals": {"a": "2"}}, 1)
    assert seals.find(journal, place(3)) == {"originals": {"a": "1"}}
    assert seals.find(journal, place(5)) == {"originals": {"a": "2"}}
    assert len({json.loads(row.payload)["key"] for row in journal.store.inbox("default", "r1")}) == 2


def test_wait_keys_and_seals_share_a_file(keys: SealKeys) -> None:
    sealing, signing = keys.current_seal()[0], keys.current_id()
    keys.rotate()
    assert keys.current_seal()[0] == sealing
    assert keys.current_id() != signing
    assert {info.purpose for info in keys.entries()} == {"wait", "seal"}


# In a run


def interrupted(store: Store) -> None:
    crash_in.append("save")
    with pytest.raises(KeyboardInterrupt):
        client.run("bob", PASSWORD, run_id="r1", store=store)
    calls.clear()


@pytest.mark.parametrize("how", ["missing", "wrong"])
def test_without_the_key_nothing_is_sent_and_the_chain_is_valid(
    store: Store, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(store)
    keys = Path(os.environ["ONRECORD_KEY_FILE"])
    if how == "missing":
        kept = keys.rename(tmp_path / "kept.json")
    else:
        kept = keys
        monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "another.json"))
        SealKeys().current_seal()
    with pytest.raises(SealedElsewhere) as refused:
        client.resume("r1", store=store)
    assert refused.value.code == "sealed_elsewhere"
    assert refused.value.exit_status == 7
    assert "chain is still valid" in refused.value.hint
    assert TOKEN not in str(refused.value)
    assert calls == []
    assert verify_run(store, "r1").valid
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(kept))
    assert client.resume("r1", store=store) == RESULT


def test_an_exchanged_seal_stops_a_resume(memory: MemoryStore) -> None:
    interrupted(memory)
    other = MemoryStore()
    reader = JournalReader(memory, "r1")
    rows = memory.inbox("default", "r1")
    altered = {row.key: rows[index - 1].payload for index, row in enumerate(rows)}
    find = memory.inbox_find

    def exchanged(namespace: str, pairs: Any) -> Any:
        found = find(namespace, pairs)
        return {pair: row._replace(payload=altered[row.key]) for pair, row in found.items() if row.key in altered}

    memory.inbox_find = exchanged  # type: ignore[method-assign]
    assert other is not memory
    with pytest.raises(Damaged) as broken:
        client.resume("r1", store=memory)
    assert broken.value.code == "seal_broken"
    assert calls == []
    assert reader.head().seq > 0
    assert verify_run(memory, "r1").valid


def test_where_nothing_can_be_sealed_the_run_is_recorded(
    memory: MemoryStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(blocked / "keys.json"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        assert client.run("bob", PASSWORD, run_id="r1", store=memory) == RESULT
    told = [one for one in caught if "could not be sealed" in str(one.message)]
    assert [one.filename for one in told] == ["onrecord"], "one line, without a path of the library"
    assert memory.inbox("default", "r1") == []
    assert client.replay("r1", store=memory)["saved"] == "saved"


def test_an_erased_answer_takes_its_seal_with_it(memory: MemoryStore, keys: SealKeys) -> None:
    """The key of a seal is derived from the salt of its event, which is erased with the content."""
    client.run("bob", PASSWORD, run_id="r1", store=memory)
    row = memory.event("default", "r1", 2)
    assert row is not None
    assert row.salt is not None
    names = [message.key for message in memory.inbox("default", "r1")]
    assert SealOwner("default", "r1", 2, "ActionSucceeded", row.salt).name in names
    assert SealOwner("default", "r1", 2, "ActionSucceeded", b"").name not in names
