"""Nothing is done to the world that was not named: in live tails, in mocked and stopped ones, in what they call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import onrecord
from kit.forks import Ledger, assert_verifies, entries, fork, kinds, notes, seqs
from kit.runtime import Died, new_id, replay, resume, run
from kit.stores import CountingStore
from onrecord.core.wait_keys import Resolution
from onrecord.journal.reader import JournalReader
from onrecord.runtime.engine.stops import NotCarriedOut, Suspended
from onrecord.runtime.forks.fork import AnotherAnswer
from onrecord.runtime.waits.registry import WaitRegistry
from onrecord.store.memory import MemoryStore

ledger = Ledger()
dies_in: list[str] = []


@pytest.fixture(autouse=True)
def as_new() -> None:
    ledger.clear()
    dies_in.clear()


def begun(name: str, *what: Any) -> None:
    ledger.did(name, *what)
    if name in dies_in:
        raise Died


@onrecord.tool(kind="model_call")
async def think(prompt: str) -> str:
    begun("think", prompt)
    return prompt.upper()


@onrecord.tool
async def mail(text: str) -> str:
    begun("mail", text)
    return f"mailed {text}"


@onrecord.tool(idempotent=True)
async def refund(order: str) -> str:
    begun("refund", order)
    return f"refunded {order}"


@onrecord.tool
async def tell(text: str) -> Any:
    begun("tell", text)
    for word in text.split():
        yield word


@onrecord.agent(name="effects.child")
async def child(order: str) -> str:
    return await mail(f"child {await think(order)}")


@onrecord.agent(name="effects.desk")
async def desk(order: str) -> list[Any]:
    word = await think(order)
    found = await asyncio.gather(mail(f"1 {word}"), mail(f"2 {word}"), refund(word), think(f"again {word}"))
    told = [part async for part in tell(f"{word} told")]
    return [*found, told, await child(word)]


TOOLS = ("mail", "refund", "tell")


def recorded(store: Any) -> str:
    name = new_id()
    run(desk, "a", run_id=name, store=store)
    ledger.clear()
    return name


def changed(store: Any, name: str) -> AnotherAnswer:
    return AnotherAnswer(seqs(store, name, "ActionSucceeded", "think")[0], "Q")


def test_what_is_not_named_is_never_carried_out(memory: MemoryStore) -> None:
    name, branch = recorded(memory), new_id("branch")
    with pytest.raises(NotCarriedOut):
        fork(desk, name, change=changed(memory, name), fork_id=branch, store=memory)
    assert not set(ledger.names) & set(TOOLS)
    got = resume(desk, branch, live_tools=TOOLS, store=memory)
    assert got == ["mailed 1 Q", "mailed 2 Q", "refunded Q", "AGAIN Q", ["Q", "told"], "mailed child Q"]
    assert ledger.count("mail", "1 Q") == ledger.count("mail", "2 Q") == ledger.count("mail", "child Q") == 1
    assert ledger.count("tell") == 1
    ledger.clear()
    assert replay(desk, branch, store=memory) == got
    assert not ledger.lines
    assert_verifies(memory, branch)


def test_tools_are_named_one_after_the_other(memory: MemoryStore) -> None:
    @onrecord.agent(name="effects.line")
    async def line(order: str) -> list[Any]:
        word = await think(order)
        return [await mail(word), await refund(word), [part async for part in tell(word)], await mail(f"{word} end")]

    name, branch, named = new_id(), new_id("branch"), []
    run(line, "a", run_id=name, store=memory)
    ledger.clear()
    with pytest.raises(NotCarriedOut):
        fork(line, name, change=AnotherAnswer(2, "Q"), fork_id=branch, store=memory)
    for further in TOOLS:
        assert further not in ledger.names
        named.append(further)
        if further != TOOLS[-1]:
            with pytest.raises(NotCarriedOut):
                resume(line, branch, live_tools=[further], store=memory)
        else:
            got = resume(line, branch, live_tools=[further], store=memory)
        assert set(ledger.names) <= set(named)
    assert got == ["mailed Q", "refunded Q", ["Q"], "mailed Q end"]
    assert ledger.names == {"mail": 2, "refund": 1, "tell": 1}


def test_all_that_stopped_together_is_known_not_to_have_begun(memory: MemoryStore) -> None:
    name, branch = recorded(memory), new_id("branch")
    with pytest.raises(NotCarriedOut):
        fork(desk, name, change=changed(memory, name), fork_id=branch, store=memory)
    assert sorted(notes(memory, branch, "not_begun")) == ["main>mail#1/mail/0", "main>mail/mail/0"]
    resume(desk, branch, live_tools=TOOLS, store=memory)
    assert ledger.names["mail"] == 3


def test_children_are_held_to_the_same(memory: MemoryStore) -> None:
    @onrecord.agent(name="effects.above")
    async def above(order: str) -> str:
        return str(await child(order))

    name, branch = new_id(), new_id("branch")
    assert run(above, "x", run_id=name, store=memory) == "mailed child X"
    ledger.clear()
    # Nothing has changed: the child's mail is answered by the child of the parent.
    assert fork(above, name, 0, fork_id=branch, store=memory) == "mailed child X"
    assert ledger.names == {"think": 1}
    ledger.clear()
    asked = AnotherAnswer(1, "not called at all")
    assert fork(above, name, change=asked, store=memory) == "not called at all"
    assert not ledger.lines
    # Another input: the child's own record does not have its mail.
    from onrecord.runtime.forks.fork import AnotherInput

    with pytest.raises(onrecord.OnrecordError):
        fork(above, name, change=AnotherInput(1, {"args": ["y"], "kwargs": {}}), store=memory)
    assert not ledger.lines


def test_a_child_goes_on_with_what_its_caller_is_told(memory: MemoryStore) -> None:
    @onrecord.agent(name="effects.caller")
    async def caller(order: str) -> str:
        return str(await child(await think(order)))

    name, branch = new_id(), new_id("branch")
    run(caller, "x", run_id=name, store=memory)
    ledger.clear()
    change = AnotherAnswer(2, "other")
    with pytest.raises(NotCarriedOut):
        fork(caller, name, change=change, fork_id=branch, store=memory)
    assert ledger.names == {"think": 1}
    assert resume(caller, branch, live_tools=["mail"], store=memory) == "mailed child OTHER"
    assert ledger.names == {"think": 1, "mail": 1}
    assert replay(caller, branch, store=memory) == "mailed child OTHER"


@pytest.mark.parametrize("at", range(0, 15, 2))
def test_a_stopped_tail_does_nothing(memory: MemoryStore, at: int) -> None:
    name, branch = recorded(memory), new_id("branch")
    assert at < len(entries(memory, name))
    for _ in range(2):
        with pytest.raises(Suspended):
            if branch in memory.find_runs("default", branch):
                resume(desk, branch, store=memory)
            else:
                fork(desk, name, at, tail="stopped", fork_id=branch, store=memory)
    assert not ledger.lines
    whole = resume(desk, name, store=memory)
    assert resume(desk, branch, tail="mocked", store=memory) == whole
    assert not ledger.lines


def test_a_tool_that_was_begun_stays_in_doubt_whatever_it_is_told_then(memory: MemoryStore) -> None:
    name, branch = recorded(memory), new_id("branch")
    dies_in.append("mail")
    with pytest.raises(Died):
        fork(desk, name, change=changed(memory, name), live_tools=TOOLS, fork_id=branch, store=memory)
    dies_in.clear()
    carried_out = ledger.names["mail"]
    assert carried_out
    for options in ({}, {"tail": "stopped"}, {"tail": "mocked"}, {"tail": "live", "live_tools": TOOLS}):
        with pytest.raises(onrecord.InDoubt):
            resume(desk, branch, store=memory, **options)
    assert ledger.names["mail"] == carried_out


def test_a_tool_that_could_not_begin_is_not_in_doubt(memory: MemoryStore) -> None:
    """The process died between the request and the word that it was not begun."""
    name, branch = recorded(memory), new_id("branch")

    class Dying:
        def __init__(self, store: Any) -> None:
            self._store = store

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

        def append(self, *args: Any, **options: Any) -> Any:
            rows = args[2] if len(args) > 2 else options["rows"]
            if any(row.kind == "ProcessAttached" for row in rows):
                raise Died
            return self._store.append(*args, **options)

    with pytest.raises(Died):
        fork(desk, name, change=changed(memory, name), fork_id=branch, store=Dying(memory))
    assert "ProcessAttached" not in kinds(memory, branch)
    assert not ledger.names["mail"]
    resume(desk, branch, live_tools=TOOLS, store=memory)
    assert ledger.count("mail", "1 Q") == ledger.count("mail", "2 Q") == 1


def test_a_transactional_step_is_carried_out_only_if_it_is_named(tmp_path: Any) -> None:
    @onrecord.step(transactional=True)
    def book(connection: Any, text: str) -> str:
        ledger.did("book", text)
        return f"booked {text}"

    @onrecord.agent(name="effects.booking")
    def booking() -> list[str]:
        return [look("x"), book("y")]

    @onrecord.step
    def look(text: str) -> str:
        ledger.did("look", text)
        return text

    store = onrecord.open_store(str(tmp_path / "store.db"))
    try:
        name, branch = new_id(), new_id("branch")
        booking.run(run_id=name, store=store)
        ledger.clear()
        assert booking.fork(name, 0, fork_id=branch, store=store) == ["x", "booked y"]
        assert ledger.names == {"look": 1}
        assert booking.fork(name, 0, live_tools=["book"], store=store) == ["x", "booked y"]
        assert ledger.names == {"look": 2, "book": 1}
        assert booking.replay_live(name, store=store) == ["x", "booked y"]
        assert ledger.names == {"look": 3, "book": 1}
    finally:
        store.close()


def test_answers_of_the_other_record_are_used_once(memory: MemoryStore) -> None:
    @onrecord.tool
    def draw_lot() -> int:
        ledger.did("lot")
        return len(ledger.lines)

    @onrecord.agent(name="effects.lots")
    def lots(many: int) -> list[int]:
        return [draw_lot() for _ in range(many)]

    name = new_id()
    assert lots.run(3, run_id=name, store=memory) == [1, 2, 3]
    ledger.clear()
    branch = new_id("branch")
    assert lots.fork(name, 2, tail="mocked", fork_id=branch, store=memory) == [1, 2, 3]
    used = [note["seq"] for note in notes(memory, branch, "stood_in")]
    assert len(set(used)) == len(used) == 2
    assert not ledger.lines


def test_whoever_asks_more_often_is_not_answered_with_what_was_used(memory: MemoryStore) -> None:
    many = [3]

    @onrecord.tool
    def draw_lot() -> int:
        ledger.did("lot")
        return len(ledger.lines)

    @onrecord.agent(name="effects.more_lots")
    def lots() -> list[int]:
        return [draw_lot() for _ in range(many[0])]

    name, branch = new_id(), new_id("branch")
    lots.run(run_id=name, store=memory)
    ledger.clear()
    many[0] = 4
    with pytest.raises(onrecord.NotCarriedOut):
        lots.fork(name, 0, tail="mocked", fork_id=branch, store=memory)
    assert len(notes(memory, branch, "stood_in")) == 3
    assert not ledger.lines


def test_what_was_told_survives_a_checkpoint(memory: MemoryStore) -> None:
    """The policy that it was resumed with, and which answers were used up."""
    dying = [-1]

    @onrecord.tool
    def lot(kind: str) -> int:
        ledger.did("lot")
        return len(ledger.lines)

    @onrecord.step
    def turn_over(turn: int) -> int:
        ledger.did("turn", turn)
        if dying[0] == turn:
            raise Died
        return turn

    @onrecord.agent(name="effects.turns")
    def turns(many: int) -> list[Any]:
        state = onrecord.restored() or []
        for turn in range(len(state), many):
            state = [*state, [lot("a"), turn_over(turn)]]
            onrecord.checkpoint(state)
        return list(state)

    name, branch = new_id(), new_id("branch")
    whole = turns.run(6, run_id=name, store=memory)
    ledger.clear()
    with pytest.raises(Suspended):
        turns.fork(name, 0, tail="stopped", fork_id=branch, store=memory)
    with pytest.raises(onrecord.OnrecordError):
        turns.resume(branch, tail="mocked", store=Failing(memory, after=12))
    assert notes(memory, branch, "stood_in")
    assert turns.resume(branch, store=memory) == whole, "still mocked, and no answer twice"
    assert not ledger.lines
    dying[0] = 4
    live = new_id("live")
    with pytest.raises(Died):
        turns.fork(name, 0, fork_id=live, store=memory)
    dying[0] = -1
    assert turns.resume(live, store=memory) == whole
    assert not ledger.count("lot")
    used = [note["seq"] for note in notes(memory, live, "stood_in")]
    assert len(set(used)) == len(used) == 6


class Failing:
    """A store that fails after so many appends."""

    def __init__(self, store: Any, after: int) -> None:
        self._store = store
        self._left = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, *args: Any, **options: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise onrecord.OnrecordError("the disk is full")
        return self._store.append(*args, **options)


def test_only_the_tail_is_read_behind_a_checkpoint(memory: MemoryStore) -> None:
    @onrecord.step
    def turn_of(turn: int) -> int:
        ledger.did("turn", turn)
        return turn

    @onrecord.agent(name="effects.haul")
    def haul(many: int) -> int:
        state = onrecord.restored() or {"turn": 0, "sum": 0}
        while state["turn"] < many:
            found = turn_of(state["turn"])
            state = {"turn": state["turn"] + 1, "sum": state["sum"] + found}
            onrecord.checkpoint(state)
        return int(state["sum"])

    costs = []
    for many in (100, 400):
        name = new_id()
        haul.run(many, run_id=name, store=memory)
        ledger.clear()
        counting = CountingStore(memory)
        last = len(entries(memory, name))
        assert haul.fork(name, last - 3, store=counting) == sum(range(many))
        assert len(ledger.lines) <= 1
        costs.append(counting.rows_read)
        mocked = CountingStore(memory)
        assert haul.fork(name, last - 3, tail="mocked", store=mocked) == sum(range(many))
        costs.append(mocked.rows_read)
    assert max(costs) < 120, costs
    assert costs[0] == pytest.approx(costs[2], abs=20)
    assert costs[1] == pytest.approx(costs[3], abs=20)


def test_streams_open_where_it_begins(memory: MemoryStore) -> None:
    @onrecord.agent(name="effects.listener")
    async def listener(text: str) -> list[str]:
        return [part async for part in tell(text)]

    name = new_id()
    whole = run(listener, "a b c", run_id=name, store=memory)
    ledger.clear()
    for at in range(len(entries(memory, name))):
        branch = new_id("branch")
        assert fork(listener, name, at, tail="mocked", fork_id=branch, store=memory) == whole
        assert replay(listener, branch, store=memory) == whole
        assert_verifies(memory, branch)
    assert not ledger.lines
    assert fork(listener, name, 2, live_tools=["tell"], store=memory) == whole
    assert ledger.count("tell") == 1, "nobody has acted upon the first part: it is done again"


def test_a_stream_is_answered_with_other_parts(memory: MemoryStore) -> None:
    @onrecord.agent(name="effects.told")
    async def told(text: str) -> list[str]:
        try:
            return [part async for part in tell(text)]
        except ConnectionError as error:
            return [str(error)]

    name = new_id()
    run(told, "a b c", run_id=name, store=memory)
    ledger.clear()
    for seq in (1, seqs(memory, name, "ActionSucceeded")[0]):
        for parts in (["x", "y"], []):
            branch = new_id("branch")
            assert fork(told, name, change=AnotherAnswer(seq, parts), fork_id=branch, store=memory) == parts
            assert replay(told, branch, store=memory) == parts
            assert_verifies(memory, branch)
    assert fork(told, name, change=AnotherAnswer(1, error=ConnectionError("cut")), store=memory) == ["cut"]
    with pytest.raises(onrecord.OnrecordError) as caught:
        fork(told, name, change=AnotherAnswer(1, "not a list"), store=memory)
    assert caught.value.code == "bad_change"
    assert not ledger.lines


def test_a_stream_that_was_read_in_part_where_it_begins_is_cut_off(memory: MemoryStore) -> None:
    @onrecord.agent(name="effects.reader")
    async def reader(text: str) -> list[str]:
        return [await mail(part) async for part in tell(text)]

    name = new_id()
    run(reader, "a b", run_id=name, store=memory)
    ledger.clear()

    async def forked(at: int) -> Any:
        return await asyncio.wait_for(reader.fork(name, at, tail="mocked", store=memory), 5)

    answered = seqs(memory, name, "ActionSucceeded", "tell")[0]
    for at in range(seqs(memory, name, "ActionRequested", "mail")[0], answered):
        with pytest.raises(ConnectionError):
            asyncio.run(forked(at))
    assert not ledger.lines


def test_keys_of_waits_that_were_given_out(memory: MemoryStore) -> None:
    @onrecord.tool(idempotent=True)
    def send_link(key: str) -> str:
        ledger.did("send_link")
        WaitRegistry(memory).resolve(key, Resolution.ok("yes"))
        return "ok"

    @onrecord.agent(name="effects.asking")
    def asking() -> list[str]:
        return [send_link(onrecord.wait_key("approval")), onrecord.wait_for("approval")]

    name = new_id()
    whole = asking.run(run_id=name, store=memory)
    ledger.clear()
    for at in range(len(entries(memory, name))):
        branch = new_id("branch")
        assert asking.fork(name, at, tail="mocked", fork_id=branch, store=memory) == whole
        assert asking.replay(branch, store=memory) == whole
    assert asking.replay_live(name, store=memory) == whole
    assert not ledger.lines


def test_the_header_and_the_facts_tell_the_policy(memory: MemoryStore) -> None:
    name, branch = recorded(memory), new_id("branch")
    fork(desk, name, 3, tail="mocked", live_tools=["mail"], fork_id=branch, store=memory)
    facts = JournalReader(memory, branch).facts() or {}
    assert facts["standing_in"] == {
        "run": name,
        "after": 3,
        "mode": "mocked",
        "live_tools": ["mail"],
        "is_replay": False,
    }
    assert facts["agent"] == "effects.desk"
