"""Forks whose record was made up: each is refused with a clean error, and nothing is carried out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import onrecord
from kit.forks import Ledger, entries, outcome
from kit.runtime import new_id
from onrecord.core.events import ActionRequested, ActionSucceeded, Event, ProcessAttached
from onrecord.core.hashing import render
from onrecord.core.links import ParentRun
from onrecord.errors import Damaged, OnrecordError
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.journal.reader import JournalReader
from onrecord.runtime.engine.stops import NotCarriedOut
from onrecord.store.memory import MemoryStore

ledger = Ledger()


@pytest.fixture(autouse=True)
def as_new() -> None:
    ledger.clear()


@onrecord.tool
def mail(text: str) -> str:
    ledger.did("mail", text)
    return f"mailed {text}"


@onrecord.tool(kind="model_call")
def think(model: str, prompt: str) -> str:
    ledger.did("think", prompt)
    return f"{model} {prompt}"


@onrecord.agent(name="hostile.clerk")
def clerk(order: str) -> list[Any]:
    return [think("small", order), mail(order), onrecord.random()]


def recorded(store: Any) -> str:
    name = new_id()
    clerk.run("a", run_id=name, store=store)
    ledger.clear()
    return name


def made_up(
    store: Any, parent: str, at: int = 0, *, relation: Any = "fork", events: list[Event] | None = None, **facts: Any
) -> str:
    """A run that somebody wrote by hand."""
    reader = JournalReader(store, parent)
    row = store.event("default", parent, at) if at else reader.header_row
    link = ParentRun(head=render(row.hash), relation=relation, run=parent, seq=at)
    told = {**(reader.facts() or {}), **facts}
    with Journal.create(store, new_id("hostile"), facts=told, parent=link) as journal:
        for event in events or []:
            key = event.action_id if isinstance(event, ActionRequested) else None
            journal.append([Draft(event, key=key)])
        return journal.run


def policy(parent: str, **changed: Any) -> dict[str, Any]:
    return {"run": parent, "after": 0, "mode": "live", "live_tools": [], "is_replay": False, **changed}


def refused(call: Callable[[], Any]) -> OnrecordError:
    with pytest.raises(OnrecordError) as caught:
        call()
    assert not ledger.count("mail")
    assert "Traceback" not in str(caught.value)
    return caught.value


BAD_POLICIES: list[Any] = [
    *(None, 7, "live", [], ["run"], {}, {"run": "x"}, True, float("nan")),
    *({"mode": "wild"}, {"mode": None}, {"mode": ["live"]}, {"after": "0"}, {"after": float("inf")}, {"after": None}),
    *({"live_tools": "mail"}, {"live_tools": None}, {"live_tools": 3}, {"live_tools": [["mail"]]}, {"run": 7}),
    *({"is_replay": "no"}, {"is_replay": None}, {"run": None}, {"further": 1}, {"after": 1.5}),
]


@pytest.mark.parametrize("number", range(len(BAD_POLICIES)))
@pytest.mark.parametrize("relation", ["fork", "replay"])
def test_facts_that_tell_no_policy(memory: MemoryStore, relation: str, number: int) -> None:
    parent, bad = recorded(memory), BAD_POLICIES[number]
    told = policy(parent, **bad) if isinstance(bad, dict) and bad and bad != {"run": "x"} else bad
    for fact in (bad, told):
        name = made_up(memory, parent, relation=relation, standing_in=fact)
        error = refused(lambda: clerk.resume(name, store=memory))  # noqa: B023
        assert (type(error), error.code) == (Damaged, "bad_content")
        refused(lambda: clerk.replay(name, store=memory))  # noqa: B023
    assert not ledger.lines


@pytest.mark.parametrize("relation", ["fork", "replay"])
def test_a_fork_that_tells_no_policy_at_all_carries_nothing_out(memory: MemoryStore, relation: str) -> None:
    name = made_up(memory, recorded(memory), relation=relation)
    assert refused(lambda: clerk.resume(name, store=memory)).code == "bad_content"
    assert not ledger.lines


@pytest.mark.parametrize("after", [10**15, -(10**15), 2**53 - 1, -1, 99])
def test_positions_from_nowhere(memory: MemoryStore, after: int) -> None:
    parent = recorded(memory)
    name = made_up(memory, parent, standing_in=policy(parent, after=after))
    outcome(lambda: clerk.resume(name, store=memory))
    assert not ledger.count("mail")


@pytest.mark.parametrize("run", ["nowhere", "", "x" * 100_000, "../../etc/passwd", "a\0b", "operations"])
def test_a_record_that_is_not_there_answers_nothing(memory: MemoryStore, run: str) -> None:
    parent = recorded(memory)
    name = made_up(memory, parent, standing_in=policy(run))
    error = refused(lambda: clerk.resume(name, store=memory))
    assert len(str(error)) < 1000


def test_a_run_that_stands_in_for_itself(memory: MemoryStore) -> None:
    parent = recorded(memory)
    name = new_id("hostile")
    reader = JournalReader(memory, parent)
    link = ParentRun(head=render(reader.header_row.hash), relation="fork", run=parent, seq=0)
    facts = {**(reader.facts() or {}), "standing_in": policy(name)}
    Journal.create(memory, name, facts=facts, parent=link).release()
    assert isinstance(refused(lambda: clerk.resume(name, store=memory)), NotCarriedOut)


BAD_CHANGES: list[Any] = [
    *(7, "answer", [], {}, {"kind": "wild"}, {"kind": None}, {"kind": "model"}, {"kind": "request"}),
    *({"kind": "request", "match": "zz", "occurrence": 1, "payload": 1}, {"kind": "request", "match": 7}),
    {"kind": "request", "match": "00", "occurrence": "many", "payload": 1},
    {"kind": "request", "match": "00", "occurrence": float("inf"), "payload": 1},
]


@pytest.mark.parametrize("number", range(len(BAD_CHANGES)))
def test_facts_that_tell_no_change(memory: MemoryStore, number: int) -> None:
    parent = recorded(memory)
    name = made_up(memory, parent, standing_in=policy(parent), change=BAD_CHANGES[number])
    for call in (clerk.resume, clerk.replay):
        assert refused(lambda: call(name, store=memory)).code == "bad_content"  # noqa: B023
    assert not ledger.lines
    below = made_up(memory, name, standing_in=policy(name))
    assert refused(lambda: clerk.resume(below, store=memory)).code == "bad_content"


BAD_NOTES: list[Any] = [
    *({"stood_in": 7}, {"stood_in": {}}, {"stood_in": {"action": "a"}}, {"stood_in": {"action": "a", "seq": "many"}}),
    *({"stood_in": {"action": "a", "seq": float("inf")}}, {"stood_in": None}, {"stood_in": []}),
    *({"not_begun": "nobody"}, {"not_begun": 7}, {"not_begun": ["main/mail/0"]}, {"not_begun": None}),
    *({"standing_in": None}, {"standing_in": 7}, {"standing_in": {"mode": "live"}}),
    *({"accepted": 7}, {"accepted": {}}, {"accepted": {"dropped": ["x"], "turns": []}}),
]


@pytest.mark.parametrize("number", range(len(BAD_NOTES)))
def test_notes_of_a_wrong_shape(memory: MemoryStore, number: int) -> None:
    parent = recorded(memory)
    note = ProcessAttached(BAD_NOTES[number])
    name = made_up(memory, parent, standing_in=policy(parent), events=[note])
    for call in (clerk.resume, clerk.replay):
        error = refused(lambda: call(name, store=memory))  # noqa: B023
        assert error.code in ("bad_content", "damaged"), error.code
    assert not ledger.lines


@pytest.mark.parametrize("seq", [10**15, -5, 0, 1, 2, 3])
def test_a_note_of_an_answer_that_was_never_used(memory: MemoryStore, seq: int) -> None:
    parent = recorded(memory)
    note = ProcessAttached({"stood_in": {"action": "main/mail/0", "run": parent, "seq": seq}})
    name = made_up(memory, parent, standing_in=policy(parent), events=[note])
    outcome(lambda: clerk.resume(name, store=memory))
    assert not ledger.count("mail")


def test_a_huge_number_of_notes(memory: MemoryStore) -> None:
    parent = recorded(memory)
    huge = ProcessAttached({"stood_in": {"action": "a" * 100_000, "run": parent, "seq": 3}})
    name = made_up(memory, parent, standing_in=policy(parent), events=[huge] * 50)
    outcome(lambda: clerk.resume(name, store=memory))
    assert not ledger.count("mail")


def test_no_record_lets_a_tool_begin_that_was_begun_before(memory: MemoryStore) -> None:
    """Two words that it was not begun, around an attempt that was."""
    parent = recorded(memory)
    from onrecord.core.events import AttemptRecorded

    events = [
        ActionRequested("main/think/0", {"model": "small", "prompt": "a"}, "think", "model_call"),
        ActionSucceeded("main/think/0", "small a"),
        ActionRequested("main/mail/0", {"text": "a"}, "mail", "tool_call", meta={"once": True}),
        ProcessAttached({"not_begun": "main/mail/0"}),
        AttemptRecorded("main/mail/0", 1, "begun"),
    ]
    name = made_up(memory, parent, standing_in=policy(parent, live_tools=["mail"]), events=events)
    assert isinstance(refused(lambda: clerk.resume(name, store=memory)), onrecord.InDoubt)


# The line of parents


def test_a_line_without_an_end(memory: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    from onrecord.journal import lineage

    monkeypatch.setattr(lineage, "LONGEST", 20)
    name = recorded(memory)
    for _ in range(30):
        name = made_up(memory, name, standing_in=policy(name))
    assert refused(lambda: clerk.resume(name, store=memory)).code == "endless_lineage"
    assert refused(lambda: clerk.fork(name, store=memory)).code == "endless_lineage"


class Looping:
    """A store in which a run is its own parent."""

    def __init__(self, store: Any, row: Any) -> None:
        self._store = store
        self._row = row

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def run_row(self, namespace: str, run: str) -> Any:
        return self._row if run.startswith("hostile") else self._store.run_row(namespace, run)


def test_a_loop_of_parents(memory: MemoryStore) -> None:
    parent = recorded(memory)
    name = made_up(memory, parent, standing_in=policy(parent))
    row = memory.run_row("default", name)
    assert row is not None
    header = row.header.header.replace(parent.encode(), name.encode())
    looping: Any = Looping(memory, row._replace(header=row.header._replace(header=header)))
    for call in (clerk.resume, clerk.replay, clerk.fork):
        refused(lambda: call(name, store=looping))  # noqa: B023


@pytest.mark.parametrize("seq", [-1, 99, 10**15, 2**53 - 1])
def test_a_parent_that_never_came_so_far(memory: MemoryStore, seq: int) -> None:
    parent = recorded(memory)
    reader, name = JournalReader(memory, parent), new_id("hostile")
    link = ParentRun(head=render(reader.header_row.hash), relation="fork", run=parent, seq=seq)
    facts = {**(reader.facts() or {}), "standing_in": policy(parent)}
    try:
        Journal.create(memory, name, facts=facts, parent=link).release()
    except OnrecordError:
        return
    for call in (clerk.resume, clerk.replay, clerk.fork):
        assert refused(lambda: call(name, store=memory)).code == "other_parent"  # noqa: B023


def test_a_parent_in_another_namespace_is_no_parent(memory: MemoryStore) -> None:
    parent = recorded(memory)
    reader, name = JournalReader(memory, parent), new_id("hostile")
    link = ParentRun(head=render(reader.header_row.hash), relation="fork", run=parent, seq=0)
    facts = {**(reader.facts() or {}), "standing_in": policy(parent)}
    Journal.create(memory, name, "elsewhere", facts=facts, parent=link).release()
    assert refused(lambda: clerk.resume(name, store=memory, namespace="elsewhere")).code == "missing_parent"


def test_another_record_of_a_wrong_shape(memory: MemoryStore) -> None:
    from onrecord.core.events import ValuesDrawn

    for draws in (7, [7], [["0"]], [["0", "random"]], None):
        parent = recorded(memory)
        odd = made_up(memory, parent, relation="replay", events=[ValuesDrawn(draws)], standing_in=policy(parent))
        name = made_up(memory, parent, standing_in=policy(odd, mode="mocked"))
        refused(lambda: clerk.resume(name, store=memory))  # noqa: B023
        assert not ledger.lines
        assert entries(memory, odd)
