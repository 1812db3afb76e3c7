"""Receipts from a journal: complete, the same every time, and bound to where they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kit.receipts import REQUEST, FixedSources, recorded_run
from onrecord.core.events import ActionRequested, ActionSucceeded, Completed
from onrecord.errors import Damaged
from onrecord.journal.erasure import erase_value
from onrecord.journal.export import export_run
from onrecord.journal.import_file import import_file
from onrecord.journal.journal import Journal
from onrecord.journal.reader import JournalReader
from onrecord.proof.receipts import ReplayToken, check_chain, check_place, mint
from onrecord.runtime.api.tool import step
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore


def tokens_of(store: Store, run: str = "r1", namespace: str = "default") -> list[ReplayToken]:
    return list(mint(JournalReader(store, run, namespace)))


def test_every_answered_effect_has_a_receipt(store: Store) -> None:
    recorded_run(store)
    tokens = tokens_of(store)
    assert [(token.effect_name, token.effect_kind, token.status) for token in tokens] == [
        ("ask", "model_call", "succeeded"),
        ("send", "tool_call", "failed"),
        ("delete", "tool_call", "denied"),
        ("approval", "await_event", "succeeded"),
        ("interrupt", "await_event", "succeeded"),
    ]
    assert tokens[0].inputs == REQUEST
    assert tokens[0].outputs == {"text": "4", "n": 1.0}
    assert (tokens[0].model_version, tokens[0].sampling) == ("small-1", {"temperature": 0.5, "seed": 7})
    assert repr(tokens[1].decoded(tokens[1].outputs)) == "ValueError('no')"
    assert all(token.verifies for token in tokens)
    assert check_chain(tokens).whole


def test_a_receipt_says_where_it_stands(memory: MemoryStore) -> None:
    journal = recorded_run(memory)
    for token in tokens_of(memory):
        place = token.place
        assert place is not None
        assert journal.event(place.request).hash == place.request_hash
        assert journal.event(place.answer).hash == place.answer_hash
        assert journal.event(place.answer).parent == place.request
        assert journal.event(place.answer).time == token.time
        assert (token.flow, place.run, token.namespace) == ("r1", "r1", "default")
        assert check_place(token, journal) == []


def test_minting_twice_gives_the_same_receipts(store: Store, tmp_path: Path) -> None:
    recorded_run(store, tags={"legal_basis": "contract"})
    tokens = tokens_of(store)
    assert tokens == tokens_of(store)
    assert {token.tags["legal_basis"] for token in tokens} == {"contract"}
    export_run(JournalReader(store, "r1"), tmp_path / "r1.jsonl")
    other = MemoryStore()
    imported = import_file(other, tmp_path / "r1.jsonl", "elsewhere")
    assert tokens_of(other, imported.run, "elsewhere") == tokens, "wherever the recording is kept"
    assert check_place(tokens[0], JournalReader(other, imported.run, "elsewhere")) == []


def test_receipts_of_a_run_that_goes_on_stay_as_they_are(memory: MemoryStore) -> None:
    recorded_run(memory, end=False)
    before = tokens_of(memory)
    with Journal.open(memory, "r1", sources=FixedSources("later")) as journal:
        journal.append(ActionSucceeded("open", "late"))
        journal.append([ActionRequested("b", {}, "more"), ActionSucceeded("b", 1), Completed()])
    after = tokens_of(memory)
    assert after[: len(before)] == before
    assert [token.effect_name for token in after[len(before) :]] == ["never", "more"]


def test_models_are_found_in_commands_too(memory: MemoryStore) -> None:
    command = {
        "kind": "model_call",
        "model": "m-2",
        "request": {"top_p": 0.1, "max_completion_tokens": 9, "stop": ["x"]},
    }
    with Journal.create(memory, "r1") as journal:
        journal.append([ActionRequested("a", {"command": command}, "e1", "model_call"), ActionSucceeded("a", 1)])
        journal.append([ActionRequested("b", {"model": "T"}, "sell_car", "tool_call"), ActionSucceeded("b", 1)])
        journal.append([ActionRequested("c", {"model": 5}, None, "model_call"), ActionSucceeded("c", 1)])
    first, car, unnamed = tokens_of(memory)
    assert first.model_version == "m-2"
    assert first.sampling == {"top_p": 0.1, "max_tokens": 9, "stop": ["x"]}
    assert (car.model_version, car.sampling) == ("", {})
    assert (unnamed.effect_name, unnamed.model_version) == ("(unnamed)", "")


def test_agents_give_receipts(tmp_path: Path) -> None:
    import onrecord

    @step
    def double(number: int) -> int:
        return 2 * number

    @onrecord.agent
    def work(number: int) -> int:
        return double(double(number))

    opened = onrecord.open_store(str(tmp_path / "store.db"))
    assert work.run(3, run_id="w", store=opened) == 12
    tokens = tokens_of(opened, "w")
    assert [(token.inputs, token.outputs) for token in tokens] == [({"number": 3}, 6), ({"number": 6}, 12)]
    assert check_chain(tokens).whole
    opened.close()


# Secrets


def test_a_receipt_gives_no_salt_away(memory: MemoryStore) -> None:
    recorded_run(memory)
    salts = [row.salt for row in memory.scan("default", "r1") if row.salt is not None]
    for token in tokens_of(memory):
        assert all(salt.hex() not in token.to_json().decode() for salt in salts)
        assert token.nonce not in {salt.hex() for salt in salts}


def test_after_erasure_nothing_is_left_to_guess_a_nonce_from(memory: MemoryStore) -> None:
    """The nonce needs the salts of both contents; erasing either takes its salt away."""
    journal = Journal.create(memory, "r1", sources=FixedSources("r1"))
    journal.append([ActionRequested("a", {"who": "anna"}, "look_up"), ActionSucceeded("a", "Ada Lovelace")])
    journal.append([ActionRequested("b", {}, "next"), ActionSucceeded("b", 1), Completed()])
    journal.release()
    issued = tokens_of(memory)
    erase_value(memory, "Ada Lovelace", reason="asked for")
    left = tokens_of(memory)
    assert left[0].outputs == {"$erased": {}}
    assert left[0].inputs == {"who": "anna"}
    assert left[0].nonce != issued[0].nonce
    assert "Ada" not in "".join(token.to_json().decode() for token in left)
    assert issued[0].verifies, "what was issued before still verifies"
    assert issued[1].previous == issued[0].token_hash
    reader = JournalReader(memory, "r1")
    assert check_place(issued[0], reader) == [], "and still stands where it stood"
    assert check_place(issued[1], reader) == []


# A receipt that is used for something else


def test_a_receipt_of_another_run_or_event_does_not_stand_here(memory: MemoryStore) -> None:
    recorded_run(memory)
    recorded_run(memory, "r2")
    reader = JournalReader(memory, "r1")
    own, other = tokens_of(memory), tokens_of(memory, "r2")
    assert [problem.code for problem in check_place(other[0], reader)] == ["other_run"]
    place = own[0].place
    assert place is not None

    def moved(token: ReplayToken, **members: Any) -> ReplayToken:
        return msgspec.structs.replace(token, place=msgspec.structs.replace(token.place, **members))

    for members in (
        {"answer": 4},
        {"request": 3},
        {"answer_hash": place.request_hash},
        {"answer": 99},
        {"lane": "main>a"},
    ):
        assert [problem.code for problem in check_place(moved(own[0], **members), reader)] == ["other_event"], members
    swapped = msgspec.structs.replace(own[1], place=own[0].place)
    assert {problem.code for problem in check_place(swapped, reader)} == {"other_content"}
    loose = msgspec.structs.replace(own[0], place=None)
    assert [problem.code for problem in check_place(loose, reader)] == ["no_place"]


def test_a_damaged_journal_gives_no_receipts(memory: MemoryStore) -> None:
    from kit.journals import Altered, rows_of, with_content

    recorded_run(memory)
    rows = rows_of(memory)
    rows[1] = with_content(rows[1], lambda stored: stored.replace(b'"4"', b'"5"'))
    with pytest.raises(Damaged):
        tokens_of(Altered(memory, rows=rows))  # type: ignore[arg-type]


def test_ordinary_data_never_stops_the_minting(memory: MemoryStore) -> None:
    deep: Any = "bottom"
    for _ in range(900):
        deep = [deep]
    odd = {"raw": b"\0" * 70_000, "nan": float("nan"), "big": 2**80, "set": {1, 2}, "$node": 1, "client": object()}
    tags = {"long": "x" * 5000, "n": 1, **{f"t{number}": "v" for number in range(100)}}
    journal = Journal.create(memory, "r1", facts={"tags": tags})
    for number, value in enumerate([deep, odd, None, "", "\ud800"]):
        journal.append([ActionRequested(f"a{number}", value, " ", "x" * 3000), ActionSucceeded(f"a{number}", value)])
    tokens = tokens_of(memory)
    assert len(tokens) == 5
    assert check_chain(tokens).whole
    assert all(ReplayToken.from_json(token.to_json()).verifies for token in tokens)
    assert len(tokens[0].tags) == 64
