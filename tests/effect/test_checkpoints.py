"""Checkpoints: a run that comes back begins behind the last one, and nothing but its cost is different."""

from __future__ import annotations

import _thread
import asyncio
import contextvars
import itertools
import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.core.wait_keys import Resolution
from reenact.effect.earlier import EarlierKeys
from reenact.effect.past import Past
from reenact.effect.stopping import EffectConflict
from reenact.effect.waits.desk import WaitDesk
from reenact.errors import InvalidInput
from reenact.store.memory import MemoryStore

done: list[Any] = []
ticks = [0]
dies_at = [0]
_numbers = itertools.count(1)


class Died(SystemExit):
    """Ends the process's part in a run the way a signal does: the agent's own handlers do not see it."""


@pytest.fixture(autouse=True)
def as_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REENACT_KEY_FILE", str(tmp_path / "keys.json"))
    done.clear()
    ticks[0] = dies_at[0] = 0


def tick() -> None:
    """One step of the program: at one of them the process dies."""
    ticks[0] += 1
    if ticks[0] == dies_at[0]:
        raise Died


def new_id() -> str:
    return f"run-{next(_numbers)}"


def run(agent: Any, *args: Any, store: Any, run_id: str) -> Any:
    made = agent.run(*args, run_id=run_id, store=store)
    return asyncio.run(_awaited(made)) if agent.is_async else made


def resume(agent: Any, run_id: str, *, store: Any, **options: Any) -> Any:
    if not agent.is_async:
        return agent.resume(run_id, store=store, **options)

    async def resumed() -> Any:
        return await agent.resume(run_id, store=store, **options)

    return asyncio.run(resumed())


def replay(agent: Any, run_id: str, *, store: Any) -> Any:
    if not agent.is_async:
        return agent.replay(run_id, store=store)

    async def replayed() -> Any:
        return await agent.replay(run_id, store=store)

    return asyncio.run(replayed())


async def _awaited(made: Any) -> Any:
    return await made


def broken_off(agent: Any, *args: Any, store: Any) -> str:
    run_id = new_id()
    with pytest.raises(Died):
        run(agent, *args, store=store, run_id=run_id)
    dies_at[0] = 0
    return run_id


def kinds(store: Any, run_id: str) -> list[str]:
    return [one.kind for one in reenact.JournalReader(store, run_id).scan()]


def checkpoints(store: Any, run_id: str) -> list[Any]:
    return [one for one in reenact.JournalReader(store, run_id).scan() if one.key == "checkpoint"]


def is_sound(agent: Any, run_id: str, result: Any, store: Any) -> bool:
    """The record is whole, and a replay from its beginning gives the same."""
    assert replay(agent, run_id, store=store) == result
    report = reenact.verify_run(store, run_id, deep=True)
    assert report.valid, str(report)
    return True


class Counting(MemoryStore):
    """Counts the events that are read, and can be told to have no snapshots or bad ones."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[int] = []
        self.lanes_asked = 0

    def scan(self, *args: Any, **options: Any) -> Iterator[Any]:
        for row in super().scan(*args, **options):
            self.read.append(row.seq)
            yield row

    def lanes(self, *args: Any, **options: Any) -> Any:
        self.lanes_asked += 1
        return super().lanes(*args, **options)


def without_snapshots(store: Any, run_id: str) -> None:
    for row in store.snapshots("default", run_id):
        store.delete_snapshot("default", run_id, row.seq)


@reenact.step
def ask(value: Any) -> Any:
    tick()
    done.append(value)
    tick()
    return value


@reenact.step
async def ask_later(value: Any) -> Any:
    tick()
    done.append(value)
    await asyncio.sleep(0)
    tick()
    return value


@reenact.tool
def pay(cents: int) -> str:
    done.append(f"paid {cents}")
    return f"receipt {cents}"


@reenact.agent
def plain(turns: int) -> Any:
    state = reenact.restored() or {"turn": 0, "sum": 0}
    while state["turn"] < turns:
        tick()
        value = ask(state["turn"])
        reenact.random()
        reenact.set_state({"between": value})
        value += ask(100 * state["turn"])
        state = {"turn": state["turn"] + 1, "sum": state["sum"] + value}
        tick()
        reenact.checkpoint(state)
        assert reenact.state() == reenact.restored() == state
    return [state, ask("end")]


async def _slow(seconds: float, value: Any) -> Any:
    await asyncio.sleep(seconds)
    return await ask_later(value)


@reenact.agent
async def branching(turns: int) -> Any:
    state = reenact.restored() or {"turn": 0, "seen": []}
    while state["turn"] < turns:
        turn = state["turn"]
        tick()
        seen = list(await asyncio.gather(*(ask_later(f"{turn}.{n}") for n in range(3))))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_slow(0.001 * (2 - n), f"{turn}-{n}")) for n in range(2)]
        seen += [task.result() for task in tasks]
        await reenact.sleep(0)
        try:
            async with asyncio.timeout(0):
                await asyncio.sleep(10)
        except TimeoutError:
            seen.append("late")
        seen.append(await asyncio.to_thread(ask, f"job {turn}"))
        tick()
        state = {"turn": turn + 1, "seen": [*state["seen"], seen]}
        reenact.checkpoint(state)
    return [state, await ask_later("end")]


@reenact.step
def ask_in_thread(value: Any) -> Any:
    """A process does not end with a thread of it, so it does not die here."""
    done.append(value)
    return value


def _ask_into(seen: list[Any], value: Any) -> None:
    seen.append(ask_in_thread(value))


@reenact.agent
def threaded(turns: int) -> Any:
    state = reenact.restored() or {"turn": 0, "seen": []}
    while state["turn"] < turns:
        turn = state["turn"]
        seen: list[Any] = []
        tick()
        threads = [threading.Thread(target=_ask_into, args=(seen, f"{turn}.{number}")) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
            tick()
        with ThreadPoolExecutor(2) as pool:
            seen += pool.map(ask_in_thread, [f"{turn}-{n}" for n in range(2)])
        tick()
        seen.append(ask(turn))
        state = {"turn": turn + 1, "seen": [*state["seen"], sorted(map(str, seen))]}
        reenact.checkpoint(state)
        tick()
    return state


AGENTS = (plain, branching, threaded)


# What it costs


@pytest.mark.parametrize("agent", AGENTS[:2], ids=lambda agent: agent.name)
def test_a_resume_reads_what_came_after_the_last_checkpoint(agent: Any) -> None:
    read = []
    for turns in (3, 30):
        store, run_id = Counting(), new_id()
        run(agent, turns, store=store, run_id=run_id)
        per_turn = ticks[0] // turns
        ticks[0] = 0
        dies_at[0] = per_turn * (turns - 1) + 3
        run_id = broken_off(agent, turns, store=store)
        store.read, store.lanes_asked = [], 0
        past = len(kinds(store, run_id))
        store.read = []
        dies_at[0] = ticks[0] + 2  # still before the end
        with pytest.raises(Died):
            resume(agent, run_id, store=store)
        assert store.lanes_asked == 0
        read.append(len(store.read))
        assert max(store.read, default=past) == past
        ticks[0] = dies_at[0] = 0
    assert read[0] == read[1] < 40


@pytest.mark.parametrize("turns", [200])
def test_a_run_is_as_deep_as_it_likes(turns: int, store: Any) -> None:
    dies_at[0] = turns * 5
    run_id = broken_off(plain, turns, store=store)
    result = resume(plain, run_id, store=store)
    assert result == [{"turn": turns, "sum": sum(range(turns)) * 101}, "end"]
    assert len(store.snapshots("default", run_id)) == 2
    assert {one.lane.count(".") for one in reenact.JournalReader(store, run_id).scan()} == {0, 1}
    assert [one.lane for one in checkpoints(store, run_id)] == [f"0.{number}" for number in range(1, turns + 1)]
    assert is_sound(plain, run_id, result, store)


# Dying at every step


@pytest.mark.parametrize("snapshots", ["kept", "deleted"])
@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_a_process_may_die_at_every_step(agent: Any, snapshots: str) -> None:
    run_id = new_id()
    expected = run(agent, 3, store=MemoryStore(), run_id=run_id)
    steps, undisturbed = ticks[0], sorted(map(str, done))
    for step in range(1, steps + 1):
        store = MemoryStore()
        done.clear()
        ticks[0], dies_at[0] = 0, step
        run_id = broken_off(agent, 3, store=store)
        if snapshots == "deleted":
            without_snapshots(store, run_id)
        assert resume(agent, run_id, store=store) == expected
        assert set(undisturbed) == set(map(str, done))
        assert is_sound(agent, run_id, expected, store)


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_many_lives_are_one_run(agent: Any, store: Any) -> None:
    expected = run(agent, 4, store=MemoryStore(), run_id=new_id())
    ticks[0], dies_at[0] = 0, 4
    run_id = new_id()
    lives = 0
    try:
        result = run(agent, 4, store=store, run_id=run_id)
    except Died:
        while True:
            lives += 1
            if lives % 5 == 4:
                without_snapshots(store, run_id)
            dies_at[0] = ticks[0] + 5 + lives  # further each time: what is passed again has its steps, too
            try:
                result = resume(agent, run_id, store=store)
                break
            except Died:
                continue
    assert lives > 2
    dies_at[0] = 0
    assert result == expected
    assert is_sound(agent, run_id, result, store)


def test_what_was_drawn_before_a_checkpoint_and_behind_it_comes_again(store: Any) -> None:
    @reenact.agent(name="draws")
    def draws() -> Any:
        state = reenact.restored() or []
        while len(state) < 6:
            state = [*state, [reenact.random(), str(reenact.uuid()), reenact.now().isoformat()]]
            ask(len(state))
            state[-1].append(reenact.random())
            if len(state) % 2 == 0:
                reenact.checkpoint(state)
        return state

    dies_at[0] = 9
    run_id = broken_off(draws, store=store)
    result = resume(draws, run_id, store=store)
    assert len({draw for turn in result for draw in (turn[0], turn[3])}) == 12
    assert is_sound(draws, run_id, result, store)


# Snapshots are never the truth


def _damaged(store: Any, run_id: str, how: str) -> None:
    for row in store.snapshots("default", run_id)[: 2 if how == "all" else 1]:
        blob = row.blob[:-1] + bytes([row.blob[-1] ^ 1])
        store.put_snapshot("default", run_id, row._replace(blob=blob))


@pytest.mark.parametrize("how", ["newest", "all"])
def test_a_bad_snapshot_is_passed_over_for_an_older_one(how: str) -> None:
    store = Counting()
    dies_at[0] = 5 * 6 + 2
    run_id = broken_off(plain, 8, store=store)
    _damaged(store, run_id, how)
    done.clear()
    store.read = []
    result = resume(plain, run_id, store=store)
    assert (1 in store.read) is (how == "all")
    assert result == [{"turn": 8, "sum": 28 * 101}, "end"]
    assert done[0] == 5, "what was done before is not done again"
    without_snapshots(store, run_id)
    assert is_sound(plain, run_id, result, store)


def test_a_snapshot_of_another_kind_is_no_beginning() -> None:
    store = Counting()
    dies_at[0] = 5 * 2 + 4
    run_id = broken_off(plain, 4, store=store)
    with reenact.Journal.open(store, run_id) as journal:
        reenact.SnapshotManager(journal, reenact.StateUpdatedOnlyReducer(), reenact.EveryEvents(1)).take()
    result = resume(plain, run_id, store=store)
    assert result == [{"turn": 4, "sum": 606}, "end"]
    assert is_sound(plain, run_id, result, store)


def test_a_state_of_that_name_is_no_checkpoint(store: Any) -> None:
    @reenact.agent(name="looks_alike")
    def looks_alike() -> Any:
        assert reenact.restored() is None
        reenact.set_state({"turn": 1}, step_id="checkpoint")
        ask(1)
        reenact.set_state({"turn": 2}, step_id="checkpoint")
        return [ask(2), reenact.restored()]

    dies_at[0] = 3
    run_id = broken_off(looks_alike, store=store)
    assert resume(looks_alike, run_id, store=store) == [2, None]
    assert is_sound(looks_alike, run_id, [2, None], store)


# Keys of the caller's own


@pytest.mark.parametrize("snapshots", ["kept", "deleted"])
def test_a_key_that_was_used_before_is_answered_from_the_record(store: Any, snapshots: str) -> None:
    @reenact.agent(name="keyed")
    def keyed() -> Any:
        state = reenact.restored() or {"turn": 0, "receipts": []}
        while state["turn"] < 4:
            receipt = pay.keyed("rent", 500)
            ask(state["turn"])
            again = pay.keyed(f"extra {state['turn'] // 2}", 7)
            state = {"turn": state["turn"] + 1, "receipts": [*state["receipts"], receipt, again]}
            reenact.checkpoint(state)
        return state["receipts"]

    for step in range(1, 9):
        done.clear()
        ticks[0], dies_at[0] = 0, step
        run_id = broken_off(keyed, store=store)
        if snapshots == "deleted":
            without_snapshots(store, run_id)
        result = resume(keyed, run_id, store=store)
        assert result == ["receipt 500", "receipt 7"] * 4
        assert [one for one in done if str(one).startswith("paid")] == ["paid 500", "paid 7", "paid 7"]
        assert is_sound(keyed, run_id, result, store)


def test_earlier_history_is_looked_through_once_and_only_for_such_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    find = EarlierKeys.find
    monkeypatch.setattr(EarlierKeys, "find", lambda self, key: (looks.append(key), find(self, key))[1])

    @reenact.agent(name="looks_back")
    def looks_back() -> Any:
        if reenact.restored() is None:
            pay.keyed("first", 1)
            for number in range(20):
                ask(number)
            reenact.checkpoint("there")
        ask("behind")
        given = [pay.keyed("first", 1), pay.keyed("new", 2), pay.keyed("new", 2), pay.keyed("first", 1)]
        with pytest.raises(EffectConflict):
            pay.keyed("first", 3)
        return given

    store = Counting()
    dies_at[0] = 41
    run_id = broken_off(looks_back, store=store)
    store.read = []
    assert resume(looks_back, run_id, store=store) == ["receipt 1", "receipt 2", "receipt 2", "receipt 1"]
    assert looks == ["first", "new"]
    assert store.read.count(1) == 1
    assert [one for one in done if str(one).startswith("paid")] == ["paid 1", "paid 2"]


# Waits


@pytest.mark.parametrize("snapshots", ["kept", "deleted"])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_key_given_out_before_is_the_one_that_is_waited_for(store: Any, snapshots: str, asynchronous: bool) -> None:
    sent: list[str] = []

    @reenact.tool(idempotent=True)
    def send(key: str) -> None:
        sent.append(key)

    @reenact.agent(name="waiting")
    def waiting() -> Any:
        state = reenact.restored()
        if state is None or state["at"] == 1:
            if state is None:
                state = {"key": reenact.wait_key("approval"), "at": 1}
                send(state["key"])
                reenact.checkpoint(state)
            ask("between")
            state = {**state, "at": 2}
            reenact.checkpoint(state)
        send(state["key"])
        ask("still")
        first = reenact.wait_for("approval", timeout="1m")
        reenact.checkpoint({"first": first, "at": 3, "key": reenact.wait_key("approval")})
        send(reenact.wait_key("approval"))
        return [first, reenact.wait_for("approval", timeout="1m")]

    @reenact.agent(name="waiting_async")
    async def waiting_async() -> Any:
        state = reenact.restored()
        if state is None:
            state = {"key": reenact.wait_key("approval"), "at": 1}
            send(state["key"])
            reenact.checkpoint(state)
        send(state["key"])
        await ask_later("still")
        first = await reenact.wait_for("approval", timeout="1m")
        send(reenact.wait_key("approval"))
        return [first, await reenact.wait_for("approval", timeout="1m")]

    agent = waiting_async if asynchronous else waiting
    dies_at[0] = 1 if asynchronous else 3
    run_id = broken_off(agent, store=store)
    assert len(set(sent)) == 1
    desk = WaitDesk(store)
    desk.resolve(sent[0], Resolution.ok("yes"))
    if snapshots == "deleted":
        without_snapshots(store, run_id)
    ahead = threading.Thread(target=_resolve_second, args=(desk, sent))
    ahead.start()
    result = resume(agent, run_id, store=store)
    ahead.join()
    assert result == ["yes", "second"]
    assert all(key.startswith("rwk1.") for key in sent)
    assert not any("rwk1." in str(one.event.content()) for one in reenact.JournalReader(store, run_id).scan())
    assert is_sound(agent, run_id, result, store)


def _resolve_second(desk: WaitDesk, sent: list[str]) -> None:
    while len(set(sent)) < 2:
        threading.Event().wait(0.005)
    second = next(key for key in reversed(sent) if key != sent[0])
    desk.resolve(second, Resolution.ok("second"))


# Budgets


def test_what_was_spent_before_counts(store: Any) -> None:
    @reenact.step
    def costly(tokens: int) -> Any:
        tick()
        return {"usage": {"total_tokens": tokens}}

    @reenact.agent(name="spender", policy=reenact.Policy(budget=reenact.Budget(calls=20, tokens=100)))
    def spender() -> Any:
        state = reenact.restored() or 0
        try:
            while True:
                costly(30)
                state += 1
                reenact.checkpoint(state)
        except reenact.BudgetExceeded as exceeded:
            return [state, exceeded.message]

    expected = [4, "the budget of 100 tokens is spent"]
    for step in range(1, 5):
        ticks[0], dies_at[0] = 0, step
        run_id = broken_off(spender, store=store)
        assert resume(spender, run_id, store=store) == expected
        assert is_sound(spender, run_id, expected, store)


def test_a_budget_that_is_newer_than_the_checkpoint_counts_from_the_beginning() -> None:
    def work() -> Any:
        state = reenact.restored() or 0
        try:
            while state < 10:
                ask(state)
                state += 1
                reenact.checkpoint(state)
        except reenact.BudgetExceeded:
            return f"out of budget after {state}"
        return state

    store = Counting()
    free = reenact.agent(name="budgeted_later")(work)
    dies_at[0] = 7
    run_id = broken_off(free, store=store)
    bound = reenact.agent(name="budgeted_later", policy=reenact.Policy(budget=reenact.Budget(calls=6)))(work)
    store.read = []
    assert resume(bound, run_id, store=store) == "out of budget after 6"
    assert 1 in store.read


# Where it is allowed


class _Coded:
    def __init__(self, code: str) -> None:
        self.code = code

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        assert isinstance(error, InvalidInput), error
        assert (error.code, bool(error.hint)) == (self.code, True)
        return True


async def _in_a_task() -> None:
    async def checkpointed() -> None:
        reenact.checkpoint(1)

    with _Coded("checkpoint_in_branch"):
        await asyncio.create_task(checkpointed())
    with _Coded("checkpoint_in_branch"):
        await asyncio.gather(checkpointed())


async def _beside_a_task() -> None:
    task = asyncio.create_task(ask_later("beside"))
    with _Coded("checkpoint_not_alone"):
        reenact.checkpoint({"now": "it may"})
    await asyncio.sleep(0)
    with _Coded("checkpoint_not_alone"):
        reenact.checkpoint({"now": "it may"})
    await task


async def _beside_a_timer() -> None:
    timer = asyncio.get_running_loop().call_later(60, print)
    with _Coded("checkpoint_not_alone"):
        reenact.checkpoint(1)
    timer.cancel()
    with _Coded("checkpoint_not_alone"):
        async with asyncio.timeout(60):
            reenact.checkpoint(1)


async def _beside_a_job() -> None:
    goes_on = threading.Event()
    job = asyncio.create_task(asyncio.to_thread(goes_on.wait))
    await ask_later("the job is under way")
    with _Coded("checkpoint_not_alone"):
        reenact.checkpoint(1)
    goes_on.set()
    await job


async def _in_a_job() -> None:
    with _Coded("checkpoint_in_branch"):
        await asyncio.to_thread(reenact.checkpoint, 1)


async def _in_wait_for() -> None:
    async def checkpointed() -> None:
        reenact.checkpoint(1)

    with pytest.raises(InvalidInput, match="a checkpoint was asked for"):  # in a task, before Python 3.12
        await asyncio.wait_for(checkpointed(), 60)


REFUSED = [_in_a_task, _beside_a_task, _beside_a_timer, _beside_a_job, _in_a_job, _in_wait_for]


@pytest.mark.parametrize("refused", REFUSED, ids=lambda one: one.__name__)
def test_refused_where_something_is_under_way(refused: Any, store: Any) -> None:
    @reenact.agent(name=f"refused{refused.__name__}")
    async def agent() -> Any:
        await ask_later("first")
        await refused()
        reenact.checkpoint({"now": "it may"})
        return await ask_later("last")

    run_id = new_id()
    assert run(agent, store=store, run_id=run_id) == "last"
    assert [one.event.payload for one in checkpoints(store, run_id)] == [{"now": "it may"}]
    assert is_sound(agent, run_id, "last", store)


def test_refused_beside_a_thread_and_in_one(store: Any) -> None:
    @reenact.agent(name="refused_threads")
    def agent() -> Any:
        goes_on = threading.Event()
        codes: list[str] = []

        def work() -> None:
            try:
                reenact.checkpoint(1)
            except InvalidInput as error:
                codes.append(error.code)
            goes_on.wait()
            ask("thread")

        thread = threading.Thread(target=work)
        thread.start()
        ask("beside")
        try:
            reenact.checkpoint(1)
        except InvalidInput as error:
            codes.append(error.code)
        goes_on.set()
        thread.join()
        reenact.checkpoint(2)
        return [sorted(codes), ask("last")]

    run_id = new_id()
    result = run(agent, store=store, run_id=run_id)
    assert result == [["checkpoint_in_branch", "checkpoint_not_alone"], "last"]
    assert is_sound(agent, run_id, result, store)


def test_a_thread_that_nobody_joins_may_take_its_time_to_end() -> None:
    slow = [False]

    @reenact.agent(name="unjoined")
    def agent() -> Any:
        told: queue.Queue[Any] = queue.Queue()

        def work() -> None:
            told.put(ask_in_thread("thread"))
            if slow[0]:
                _pause()

        thread = threading.Thread(target=work)
        thread.start()
        told.get()
        while not slow[0] and thread.is_alive():
            _pause()
        reenact.checkpoint(1)
        return ask("last")

    store, run_id = MemoryStore(), new_id()
    assert run(agent, store=store, run_id=run_id) == "last"
    slow[0] = True
    assert replay(agent, run_id, store=store) == "last"


def _pause() -> None:
    """Not asked for, and of no effect: as slow as a thread may be to end."""
    lock = _thread.allocate_lock()
    lock.acquire()
    lock.acquire(timeout=0.05)


def test_refused_in_an_effect_and_in_a_loop_of_its_own(store: Any) -> None:
    @reenact.step
    def inside() -> Any:
        assert reenact.restored() is None
        with _Coded("checkpoint_in_effect"):
            reenact.checkpoint(1)
        return "inside"

    async def looped() -> None:
        with _Coded("checkpoint_in_branch"):
            reenact.checkpoint(1)

    @reenact.agent(name="refused_inside")
    def agent() -> Any:
        inside()
        asyncio.run(looped())
        with _Coded("state_without_value"):
            reenact.checkpoint({"lock": threading.Lock()})
        reenact.checkpoint(2)
        return ask("last")

    run_id = new_id()
    assert run(agent, store=store, run_id=run_id) == "last"
    assert is_sound(agent, run_id, "last", store)


def test_what_was_begun_before_asks_for_nothing_behind(store: Any) -> None:
    @reenact.agent(name="left_behind")
    def agent() -> Any:
        ask("first")
        before = contextvars.copy_context()
        reenact.checkpoint(1)
        for call in (lambda: ask(1), reenact.random, lambda: reenact.set_state(1), lambda: reenact.checkpoint(1)):
            with _Coded("left_behind"):
                before.run(call)
        return ask("last")

    run_id = new_id()
    assert run(agent, store=store, run_id=run_id) == "last"
    assert is_sound(agent, run_id, "last", store)


def test_outside_of_a_run_it_says_so_once() -> None:
    import reenact.effect.boundary as boundary

    boundary._told -= {"checkpoint", "restored"}
    with pytest.warns(UserWarning, match="checkpoint was called outside"):
        reenact.checkpoint({"turn": 1})
    with pytest.warns(UserWarning, match="restored was called outside"):
        assert reenact.restored() is None
    reenact.checkpoint({"turn": 2})


# The rest of what a run can do


def test_a_state_is_its_own(store: Any) -> None:
    @reenact.agent(name="changes")
    def changes() -> Any:
        state = reenact.restored() or {"seen": []}
        while len(state["seen"]) < 3:
            state["seen"].append(ask(len(state["seen"])))
            reenact.checkpoint(state)
            state["seen"].append("gone")
            assert len(reenact.restored()["seen"]) == len(state["seen"]) - 1
            reenact.restored()["seen"].clear()
            state["seen"].pop()
        return state

    dies_at[0] = 4
    run_id = broken_off(changes, store=store)
    result = resume(changes, run_id, store=store)
    assert result == {"seen": [0, 1, 2]}
    assert is_sound(changes, run_id, result, store)


def test_in_doubt_behind_a_checkpoint(store: Any) -> None:
    @reenact.tool
    def once(value: int) -> int:
        tick()
        done.append(value)
        return value

    @reenact.agent(name="doubtful")
    def doubtful() -> Any:
        state = reenact.restored() or 0
        while state < 3:
            once(state)
            state += 1
            reenact.checkpoint(state)
        return state

    dies_at[0] = 2
    run_id = broken_off(doubtful, store=store)
    with pytest.raises(reenact.InDoubt):
        resume(doubtful, run_id, store=store)
    reenact.settle(store, run_id, decision="done", value=1)
    assert resume(doubtful, run_id, store=store) == 3
    assert done == [0, 2]
    assert is_sound(doubtful, run_id, 3, store)


@pytest.mark.parametrize("snapshots", ["kept", "deleted"])
def test_changed_code_is_named_or_accepted(store: Any, snapshots: str) -> None:
    said = ["old"]

    @reenact.agent(name="changing")
    def changing() -> Any:
        state = reenact.restored() or {"turn": 0, "said": []}
        while state["turn"] < 4:
            word = said[0] if state["turn"] >= 2 else "old"
            state = {"turn": state["turn"] + 1, "said": [*state["said"], ask(f"{word} {state['turn']}")]}
            if state["turn"] % 2 == 0:
                reenact.checkpoint(state)
        return state["said"]

    dies_at[0] = 7  # before the fourth: the checkpoint after the second is there
    run_id = broken_off(changing, store=store)
    if snapshots == "deleted":
        without_snapshots(store, run_id)
    said[0] = "new"
    with pytest.raises(reenact.Divergence):
        resume(changing, run_id, store=store)
    result = resume(changing, run_id, store=store, accept_code=True)
    assert result == ["old 0", "old 1", "new 2", "new 3"]
    assert is_sound(changing, run_id, result, store)


def test_a_checkpoint_that_changed_code_did_not_come_by_is_no_beginning(store: Any) -> None:
    said = ["old"]

    @reenact.agent(name="passing_by")
    def passing_by() -> Any:
        state = reenact.restored() or {"turn": 0, "said": []}
        while state["turn"] < 5:
            state = {"turn": state["turn"] + 1, "said": [*state["said"], ask(f"{said[0]} {state['turn']}")]}
            if state["turn"] != 4 or said[0] == "old":
                reenact.checkpoint(state)
        return state["said"]

    dies_at[0] = 7
    run_id = broken_off(passing_by, store=store)
    kept = store.snapshots("default", run_id)
    without_snapshots(store, run_id)
    said[0] = "new"
    dies_at[0] = ticks[0] + 3
    with pytest.raises(Died):
        resume(passing_by, run_id, store=store, accept_code=True)
    dies_at[0] = 0
    for row in kept:
        store.put_snapshot("default", run_id, row)  # they are as good as ever, but for what the record says
    result = resume(passing_by, run_id, store=store)
    assert result == [f"new {number}" for number in range(5)]
    assert is_sound(passing_by, run_id, result, store)


def test_another_state_is_a_divergence(store: Any) -> None:
    word = ["one"]

    @reenact.agent(name="other_state")
    def other_state() -> Any:
        if reenact.restored() is None:
            ask(1)
            reenact.checkpoint(word[0])
        return ask(2)

    dies_at[0] = 3
    run_id = broken_off(other_state, store=store)
    word[0] = "two"
    with pytest.raises(reenact.Divergence) as caught:
        replay(other_state, run_id, store=store)
    assert caught.value.code == "conflicting_state"
    assert resume(other_state, run_id, store=store) == 2, "nobody asks for it any more"
    word[0] = "one"
    assert is_sound(other_state, run_id, 2, store)


def test_a_checkpoint_more_or_less_is_a_divergence() -> None:
    there = [True]

    @reenact.agent(name="more_or_less")
    def more_or_less() -> Any:
        ask(1)
        if there[0]:
            reenact.checkpoint(1)
        return ask(2)

    store = MemoryStore()
    with_one, without = new_id(), new_id()
    run(more_or_less, store=store, run_id=with_one)
    there[0] = False
    run(more_or_less, store=store, run_id=without)
    with pytest.raises(reenact.Divergence):
        replay(more_or_less, with_one, store=store)
    there[0] = True
    with pytest.raises(reenact.Divergence) as caught:
        replay(more_or_less, without, store=store)
    assert caught.value.code == "unrecorded_checkpoint"


def test_a_replay_of_a_run_that_has_not_ended_ends_where_it_does(store: Any) -> None:
    dies_at[0] = 12
    run_id = broken_off(plain, 4, store=store)
    with pytest.raises(reenact.ReenactError) as caught:
        replay(plain, run_id, store=store)
    assert caught.value.code == "record_ended"
    assert resume(plain, run_id, store=store)[0]["turn"] == 4


def test_children_behind_a_checkpoint(store: Any) -> None:
    @reenact.agent(name="checkpointed_child", store=store)
    def child(number: int) -> Any:
        state = reenact.restored() or 0
        while state < 3:
            ask(f"{number}.{state}")
            state += 1
            reenact.checkpoint(state)
        return number

    @reenact.agent(name="checkpointed_parent", policy=reenact.Policy(budget=reenact.Budget(calls=100)))
    def parent() -> Any:
        state = reenact.restored() or []
        while len(state) < 3:
            state = [*state, child(len(state))]
            reenact.checkpoint(state)
        return state

    for step in (4, 8, 12, 16):
        done.clear()
        ticks[0], dies_at[0] = 0, step
        run_id = broken_off(parent, store=store)
        assert resume(parent, run_id, store=store) == [0, 1, 2]
        assert [done.count(f"{number}.{turn}") for number in range(3) for turn in range(3)].count(1) >= 8
        assert is_sound(parent, run_id, [0, 1, 2], store)


def test_streams_behind_a_checkpoint(store: Any) -> None:
    @reenact.step
    async def words(text: str) -> Any:
        for word in text.split():
            tick()
            yield word

    @reenact.agent(name="reading")
    async def reading() -> Any:
        state = reenact.restored() or []
        while len(state) < 3:
            heard = []
            async for word in words(f"turn {len(state)} said"):
                heard.append(word)
                if len(heard) == 1:
                    with _Coded("checkpoint_not_alone"):
                        reenact.checkpoint(heard)
            state = [*state, heard]
            reenact.checkpoint(state)
        return state

    expected = [["turn", str(number), "said"] for number in range(3)]
    for step in (3, 4, 7):
        ticks[0], dies_at[0] = 0, step
        run_id = broken_off(reading, store=store)
        if step == 4:  # the first word of the second was not acted upon
            assert resume(reading, run_id, store=store) == expected
            assert is_sound(reading, run_id, expected, store)


@pytest.mark.parametrize("snapshots", ["kept", "deleted"])
def test_a_cancellation_that_was_heard_and_not_heeded(store: Any, snapshots: str) -> None:
    """Told before a checkpoint, a process that begins there has been told."""

    @reenact.agent(name="stubborn")
    def stubborn() -> Any:
        state = reenact.restored() or "first"
        if state == "first":
            try:
                ask("told")
                told.wait(10)
                reenact.checkpoint("never")
            except asyncio.CancelledError:
                reenact.checkpoint("told")
        return [reenact.restored(), ask("last")]

    told = threading.Event()
    run_id = new_id()
    dies_at[0] = 3
    handle = stubborn.start(run_id=run_id, store=store)
    while "told" not in done:
        threading.Event().wait(0.005)
    reenact.cancel(store, run_id)
    while "SignalReceived" not in kinds(store, run_id):
        threading.Event().wait(0.01)
    told.set()
    with pytest.raises(BaseException):  # noqa: B017
        handle.result(timeout=20)
    assert [one.event.payload for one in checkpoints(store, run_id)] == ["told"]
    with pytest.raises(reenact.ReenactError) as caught:
        replay(stubborn, run_id, store=store)
    assert caught.value.code == "record_ended"


def test_a_recorded_block_may_have_checkpoints(store: Any) -> None:
    with reenact.record("nightly", run_id="nightly", store=store):
        ask(1)
        reenact.checkpoint({"at": 1})
        ask(2)
        assert reenact.restored() == {"at": 1}
    assert reenact.verify_run(store, "nightly", deep=True).valid
    assert [one.lane for one in reenact.JournalReader(store, "nightly").scan() if one.kind == "ActionRequested"] == [
        "0",
        "0.1",
    ]


def test_the_past_behind_a_checkpoint_is_part_of_the_whole(store: Any) -> None:
    dies_at[0] = 13
    run_id = broken_off(plain, 4, store=store)
    whole = Past.read(reenact.JournalReader(store, run_id))
    assert [one.lane for one in whole.lanes["0"].requests] == ["0", "0"]
    assert whole.last_number("0") == len(checkpoints(store, run_id))
    assert all(whole.lanes[one.lane].main for one in checkpoints(store, run_id))
