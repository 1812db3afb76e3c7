"""A live replay does again what a run did: models and steps for real, everything else from the record."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import onrecord
from kit.forks import Ledger, assert_verifies, entries, fork, notes, replay_live, seqs
from kit.runtime import new_id, replay, resume, run
from onrecord.core.wait_keys import Resolution, WaitIdentity
from onrecord.journal.reader import JournalReader
from onrecord.runtime.api import primitives
from onrecord.runtime.engine.stops import NotCarriedOut
from onrecord.runtime.forks.fork import AnotherAnswer, AnotherModel
from onrecord.runtime.forks.recorded_answers import child_id
from onrecord.runtime.waits.registry import WaitRegistry
from onrecord.store.memory import MemoryStore

ledger = Ledger()
mood = ["kind"]


@pytest.fixture(autouse=True)
def as_new() -> None:
    ledger.clear()
    mood[0] = "kind"


@onrecord.tool(kind="model_call")
async def think(model: str, prompt: str) -> str:
    ledger.did("think", model, prompt)
    return f"{mood[0]} {prompt}"


@onrecord.tool
async def mail(text: str) -> str:
    ledger.did("mail", text)
    return f"mailed {len(ledger.lines)}"


@onrecord.step
async def count(text: str) -> int:
    ledger.did("count", text)
    return len(text)


@onrecord.agent(name="again.child")
async def child(order: str) -> list[Any]:
    return [await think("small", f"child {order}"), await mail("from the child"), onrecord.random()]


@onrecord.agent(name="again.desk")
async def desk(order: str) -> list[Any]:
    drawn = [onrecord.random(), onrecord.uuid()]
    thought, sent = await asyncio.gather(think("small", order), mail("fixed"))
    return [drawn, thought, sent, await count("fixed"), await child(order), onrecord.now()]


def recorded(store: Any) -> tuple[str, Any]:
    name = new_id()
    whole = run(desk, "a", run_id=name, store=store)
    ledger.clear()
    return name, whole


def test_it_is_a_run_of_its_own_that_names_what_it_replays(memory: MemoryStore) -> None:
    name, whole = recorded(memory)
    again = new_id("again")
    assert replay_live(desk, name, live_run_id=again, store=memory) == whole, "drawn values included"
    assert ledger.names == {"think": 2, "count": 1}
    reader = JournalReader(memory, again)
    parent = reader.header.parent
    assert parent is not None
    assert (parent.relation, parent.run, parent.seq) == ("replay", name, len(entries(memory, name)))
    assert parent.head == entries(memory, name)[-1].hash
    stood_in = notes(memory, again, "stood_in")
    mailed = seqs(memory, name, "ActionRequested", "mail")[0]
    assert {"action": "main>mail/mail/0", "run": name, "seq": mailed} in stood_in
    ledger.clear()
    assert replay(desk, again, store=memory) == whole
    assert not ledger.lines
    assert_verifies(memory, again)


def test_what_is_done_again_may_come_out_otherwise(memory: MemoryStore) -> None:
    name, whole = recorded(memory)
    mood[0] = "grim"
    got = replay_live(desk, name, store=memory)
    assert got[1] == "grim a"
    assert (got[0], got[2], got[5]) == (whole[0], whole[2], whole[5])


def test_children_are_replayed_live_under_the_same_policy(memory: MemoryStore) -> None:
    name, whole = recorded(memory)
    again = new_id("again")
    mood[0] = "grim"
    got = replay_live(desk, name, live_run_id=again, store=memory)
    assert got[4] == ["grim child a", whole[4][1], whole[4][2]]
    assert not ledger.count("mail")
    called = seqs(memory, again, "ActionRequested", "again.child")
    key = next(one.key for one in entries(memory, again) if one.seq == called[0])
    own = JournalReader(memory, child_id(f"{again}/{key}"))
    assert own.header.parent is not None
    assert (own.header.parent.relation, own.header.parent.run) == ("child", again)
    policy = (own.facts() or {})["standing_in"]
    assert policy["run"] == child_id(f"{name}/{key}")
    assert policy["is_replay"] is True
    assert notes(memory, own.run, "stood_in")


def test_another_model_is_asked_by_the_children_too(memory: MemoryStore) -> None:
    name, _ = recorded(memory)
    again = new_id("again")
    got = replay_live(desk, name, model="large", live_run_id=again, store=memory)
    assert [line[1] for line in ledger.lines if line[0] == "think"] == ["large", "large"]
    asked = [one.event.payload for one in entries(memory, again) if one.kind == "ActionRequested"]
    assert {"model": "large", "prompt": "a"} in asked
    ledger.clear()
    assert replay(desk, again, store=memory) == got
    assert not ledger.lines


def test_a_tool_that_is_named_is_carried_out(memory: MemoryStore) -> None:
    name, _ = recorded(memory)
    got = replay_live(desk, name, live_tools=["mail"], store=memory)
    assert ledger.count("mail") == 2
    assert got[2].startswith("mailed")


def test_a_tool_with_another_input_is_not_carried_out(memory: MemoryStore) -> None:
    @onrecord.agent(name="again.writer")
    async def writer(order: str) -> str:
        return str(await mail(await think("small", order)))

    name, again = new_id(), new_id("again")
    run(writer, "a", run_id=name, store=memory)
    mood[0] = "grim"
    ledger.clear()
    with pytest.raises(NotCarriedOut) as caught:
        replay_live(writer, name, live_run_id=again, store=memory)
    assert caught.value.code == "not_carried_out"
    assert not ledger.count("mail")
    assert notes(memory, again, "not_begun") == ["main/mail/0"]
    assert resume(writer, again, live_tools=["mail"], store=memory).startswith("mailed")
    assert ledger.lines[-1] == ("mail", "grim a")


def test_waits_and_sleeps_come_from_the_record(memory: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    def sleep_short(due: float) -> float:
        slept.append(due)
        return 0.0

    monkeypatch.setattr(primitives, "_seconds_left", sleep_short)

    @onrecord.agent(name="again.patient")
    async def patient() -> list[Any]:
        await onrecord.sleep(3600)
        said = await onrecord.wait_for("word")
        first = await onrecord.wait_for_first("yes", "no")
        return [said, list(first), await onrecord.interrupt("go on?"), await think("small", said)]

    name = new_id()
    desk_of_waits = WaitRegistry(memory)
    handle = patient.start(run_id=name, store=memory)
    for wait, value in (("word", "w"), ("no", 0), ("interrupt@main", "on")):
        desk_of_waits.resolve(desk_of_waits.key(name, WaitIdentity.named(wait, 1)).text, Resolution.ok(value))
    whole = handle.result(timeout=30)
    assert whole == ["w", ["no", 0], "on", "kind w"]
    ledger.clear()
    for call in (
        lambda: replay_live(patient, name, store=memory),
        lambda: fork(patient, name, 0, tail="mocked", store=memory),
    ):
        assert call() == whole
        assert len(slept) == 1, "only the recorded run sleeps"
    assert ledger.names == {"think": 1}


def test_a_live_replay_of_a_fork_does_what_the_fork_did(memory: MemoryStore) -> None:
    name, whole = recorded(memory)
    thought = seqs(memory, name, "ActionSucceeded", "think")[0]
    branch = new_id("branch")
    got = fork(desk, name, change=AnotherAnswer(thought, "other"), fork_id=branch, store=memory)
    assert got[1] == "other"
    again = replay_live(desk, branch, store=memory)
    assert again[1] == "kind a", "the model is asked again"
    assert (again[0], again[2:]) == (got[0], got[2:])
    last = new_id("last")
    assert fork(desk, name, fork_id=last, store=memory) == whole
    assert replay_live(desk, last, store=memory) == whole, "the child was called before the fork"
    assert not ledger.count("mail")


def test_a_live_replay_of_a_fork_with_another_model_asks_it(memory: MemoryStore) -> None:
    name, _ = recorded(memory)
    branch = new_id("branch")
    got = fork(desk, name, 0, change=AnotherModel("large"), fork_id=branch, store=memory)
    ledger.clear()
    again = new_id("again")
    assert replay_live(desk, branch, live_run_id=again, store=memory)[1:4] == got[1:4]
    assert {line[1] for line in ledger.lines if line[0] == "think"} == {"large"}
    ledger.clear()
    assert replay(desk, again, store=memory)[1:4] == got[1:4]
    assert not ledger.lines
