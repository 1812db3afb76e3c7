"""Runs as a whole: children, background runs, cancelling, sweeping, policy, retries, doubt."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import onrecord
from kit.runtime import Died, broken_off, divergence_of, events, kinds, new_id, replay, requests, resume, run

calls: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    calls.clear()


@onrecord.step
def look(what: Any) -> Any:
    calls.append(what)
    return what


@onrecord.step
async def look_async(what: Any) -> Any:
    calls.append(what)
    return what


@onrecord.tool
def pay(amount: int) -> str:
    calls.append(("pay", amount))
    return f"paid {amount}"


def children(store: Any, parent: str) -> list[str]:
    found = []
    for row in store.list_runs("default", limit=1000):
        header = onrecord.JournalReader(store, row.header.run).header
        if header.parent is not None and header.parent.run == parent:
            found.append(row.header.run)
    return found


# Children


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_an_agent_called_by_an_agent_is_a_linked_run_of_its_own(memory: Any, is_async: bool) -> None:
    @onrecord.agent
    def child(number: int) -> Any:
        return [look(number), look(number + 1)]

    @onrecord.agent
    def parent() -> Any:
        return [child(1), look("parent"), child(10)]

    @onrecord.agent
    async def child_async(number: int) -> Any:
        return [await look_async(number), await look_async(number + 1)]

    @onrecord.agent
    async def parent_async() -> Any:
        both = await asyncio.gather(child_async(1), child_async(10))
        return [both[0], await look_async("parent"), both[1]]

    agent = parent_async if is_async else parent
    run_id = new_id()
    assert run(agent, store=memory, run_id=run_id) == [[1, 2], "parent", [10, 11]]
    assert [one.effect for one in requests(memory, run_id)].count("process") == 2
    linked = children(memory, run_id)
    assert len(linked) == 2
    for one in linked:
        assert kinds(memory, one) == ["ActionRequested", "ActionSucceeded"] * 2 + ["Completed"]
    before = len(calls)
    assert replay(agent, run_id, store=memory) == [[1, 2], "parent", [10, 11]]
    assert len(calls) == before
    assert children(memory, run_id) == linked


def test_resuming_the_parent_resumes_the_child(memory: Any) -> None:
    alive = [False]

    @onrecord.agent
    def dying_child() -> Any:
        first = look("first")
        if not alive[0]:
            raise Died
        return [first, look("second")]

    @onrecord.agent
    def parent_of_dying() -> Any:
        return [look("parent"), dying_child()]

    run_id = broken_off(parent_of_dying, store=memory)
    alive[0] = True
    assert resume(parent_of_dying, run_id, store=memory) == ["parent", ["first", "second"]]
    assert calls == ["parent", "first", "second"]
    assert len(children(memory, run_id)) == 1
    assert replay(parent_of_dying, run_id, store=memory) == ["parent", ["first", "second"]]


def test_the_error_of_a_child_is_the_outcome_for_its_parent(memory: Any) -> None:
    @onrecord.agent
    def failing_child() -> Any:
        look("x")
        raise LookupError("lost")

    @onrecord.agent
    def catching_parent() -> Any:
        try:
            return failing_child()
        except LookupError as error:
            return str(error)

    run_id = new_id()
    assert run(catching_parent, store=memory, run_id=run_id) == "lost"
    assert replay(catching_parent, run_id, store=memory) == "lost"
    assert kinds(memory, children(memory, run_id)[0])[-1] == "Failed"


def test_a_child_that_diverges_on_resume_stops_its_parent_and_burns_neither(memory: Any) -> None:
    text, alive = ["old"], [False]

    @onrecord.agent
    def changed_child() -> Any:
        look(text[0])
        if not alive[0]:
            raise Died
        return "done"

    @onrecord.agent
    def parent_of_changed() -> Any:
        try:
            return changed_child()
        except Exception:
            return "swallowed"

    run_id = broken_off(parent_of_changed, store=memory)
    text[0], alive[0] = "new", True
    divergence_of(lambda: resume(parent_of_changed, run_id, store=memory))
    text[0] = "old"
    assert resume(parent_of_changed, run_id, store=memory) == "done"


# In the background


def test_a_run_in_the_background_is_on_record_when_it_has_begun(memory: Any) -> None:
    release = threading.Event()

    @onrecord.step
    def held() -> str:
        release.wait(10)
        return "released"

    @onrecord.agent
    def background() -> Any:
        return held()

    handle = background.start(run_id=new_id(), store=memory)
    assert memory.run_row("default", handle.run_id) is not None
    assert not handle.done()
    with pytest.raises(TimeoutError):
        handle.result(0.01)
    release.set()
    assert handle.result(10) == "released"
    assert handle.done()


def test_a_background_run_gives_its_error(memory: Any) -> None:
    @onrecord.agent
    async def failing_background() -> Any:
        await look_async(1)
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        failing_background.start(run_id=new_id(), store=memory).result(10)


def test_a_background_run_that_an_agent_starts_is_a_run_of_its_own(memory: Any) -> None:
    @onrecord.agent
    def started() -> Any:
        return look("started")

    @onrecord.agent
    def starting() -> Any:
        handle = started.start(run_id=other, store=memory)
        return [handle.result(10), look("own")]

    other, run_id = new_id(), new_id()
    assert run(starting, store=memory, run_id=run_id) == ["started", "own"]
    assert [one.payload["what"] for one in requests(memory, run_id)] == ["own"]
    assert [one.payload["what"] for one in requests(memory, other)] == ["started"]


def test_a_run_that_is_cancelled_cleans_up_and_ends_as_cancelled(memory: Any) -> None:
    begun = threading.Event()
    cleaned: list[str] = []

    @onrecord.step
    async def for_ever() -> None:
        begun.set()
        await asyncio.Event().wait()

    @onrecord.agent
    async def cancelled_run() -> Any:
        try:
            await for_ever()
        finally:
            cleaned.append(await look_async("cleaned"))

    handle = cancelled_run.start(run_id=new_id(), store=memory)
    assert begun.wait(10)
    handle.cancel()
    with pytest.raises(asyncio.CancelledError):
        handle.result(10)
    assert kinds(memory, handle.run_id)[-1] == "Cancelled"
    assert cleaned == ["cleaned"]
    with pytest.raises(asyncio.CancelledError):
        replay(cancelled_run, handle.run_id, store=memory)
    assert cleaned == ["cleaned", "cleaned"]
    assert calls == ["cleaned"]


def test_a_run_that_nobody_carries_is_cancelled_at_once(memory: Any) -> None:
    @onrecord.agent
    def left_alone() -> Any:
        look(1)
        raise Died

    run_id = broken_off(left_alone, store=memory)
    assert onrecord.cancel(memory, run_id, reason="not needed") is True
    assert events(memory, run_id)[-1].reason == "not needed"
    with pytest.raises(onrecord.OnrecordError) as caught:
        onrecord.cancel(memory, run_id)
    assert caught.value.code == "closed_run"
    with pytest.raises(onrecord.OnrecordError) as caught:
        resume(left_alone, run_id, store=memory)
    assert caught.value.code == "no_result"


# Sweeping


def test_a_sweep_carries_on_what_nobody_carries(memory: Any) -> None:
    alive = [False]

    @onrecord.agent(store=memory)
    def swept_agent(number: int) -> Any:
        first = look(number)
        if not alive[0]:
            raise Died
        return [first, look(-number)]

    @onrecord.agent(store=memory)
    async def swept_async(number: int) -> Any:
        first = await look_async(number)
        if not alive[0]:
            raise Died
        return [first, await look_async(-number)]

    ids = [broken_off(swept_agent, 1, store=memory), broken_off(swept_async, 2, store=memory)]
    alive[0] = True
    swept = {one.run: one for one in onrecord.sweep(memory)}
    assert {run_id: swept[run_id].outcome for run_id in ids} == dict.fromkeys(ids, "completed")
    assert swept[ids[0]].result == [1, -1]
    assert onrecord.sweep(memory) == []
    assert sorted(calls) == [-2, -1, 1, 2]


def until_completed(store: Any, run_id: str) -> None:
    """What a worker carries goes on when it has stopped."""
    deadline = time.monotonic() + 30
    while store.last_event("default", run_id).kind != "Completed":
        assert time.monotonic() < deadline, "the run has not come to its end"
        time.sleep(0.01)


def test_a_worker_sweeps_until_it_is_stopped(memory: Any) -> None:
    alive, ended = [False], threading.Event()

    @onrecord.agent(store=memory)
    def worked_on() -> Any:
        look("x")
        if not alive[0]:
            raise Died
        ended.set()
        return "done"

    run_id = broken_off(worked_on, store=memory)
    alive[0] = True
    worker = onrecord.Worker(memory, seconds=0.01)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        assert ended.wait(10)
    finally:
        worker.stop()
        thread.join()
    until_completed(memory, run_id)
    assert resume(worked_on, run_id, store=memory) == "done"
    assert calls == ["x"]


def test_a_long_run_keeps_a_worker_from_nothing(memory: Any) -> None:
    go_on, ended = threading.Event(), threading.Event()

    def work(name: str) -> None:
        look(name)
        if threading.current_thread() is threading.main_thread():
            raise Died

    @onrecord.agent(store=memory)
    def takes_long() -> Any:
        work("long")
        return onrecord.run_step("wait", lambda: go_on.wait(30))

    @onrecord.agent(store=memory)
    def comes_later() -> None:
        work("short")
        ended.set()

    first = broken_off(takes_long, store=memory)
    worker = onrecord.Worker(memory, seconds=0.01)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        broken_off(comes_later, store=memory)
        assert ended.wait(20)
    finally:
        go_on.set()
        worker.stop()
        thread.join()
    until_completed(memory, first)


# Policy


def test_what_is_not_allowed_is_denied_and_leaves_a_denial_only(memory: Any) -> None:
    @onrecord.agent(policy=onrecord.Policy(allow=["look"]))
    def restricted() -> Any:
        look(1)
        try:
            pay(5)
        except onrecord.Denied as denied:
            return [denied.code, look(2)]

    run_id = new_id()
    assert run(restricted, store=memory, run_id=run_id) == ["denied", 2]
    assert kinds(memory, run_id) == [
        *("ActionRequested", "ActionSucceeded"),
        "ActionDenied",
        *("ActionRequested", "ActionSucceeded"),
        "Completed",
    ]
    assert calls == [1, 2]
    denial = next(event for event in events(memory, run_id) if event.kind == "ActionDenied")
    assert denial.payload == {"amount": 5}
    assert denial.reason["name"] == "pay"
    assert replay(restricted, run_id, store=memory) == ["denied", 2]


def test_a_check_sees_name_kind_and_input_and_says_why(memory: Any) -> None:
    asked: list[Any] = []

    def check(name: str, kind: str, payload: Any) -> str | None:
        asked.append((name, kind, payload))
        return "too much" if name == "pay" and payload["amount"] > 100 else None

    @onrecord.agent(policy=onrecord.Policy(check=check))
    async def checked() -> Any:
        first = pay(5)
        try:
            pay(500)
        except onrecord.Denied as denied:
            return [first, denied.message]

    run_id = new_id()
    first, message = run(checked, store=memory, run_id=run_id)
    assert first == "paid 5"
    assert "too much" in message
    assert asked == [("pay", "tool_call", {"amount": 5}), ("pay", "tool_call", {"amount": 500})]
    assert calls == [("pay", 5)]
    assert replay(checked, run_id, store=memory) == [first, message]


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(onrecord.Policy(check=lambda *_: "no"), id="check"),
        pytest.param(onrecord.Policy(allow=[]), id="allow"),
        pytest.param(onrecord.Policy(budget=onrecord.Budget(calls=0)), id="budget"),
    ],
)
def test_an_uncaught_denial_ends_the_run_as_failed(memory: Any, policy: onrecord.Policy) -> None:
    @onrecord.agent(policy=policy)
    def denied_agent() -> Any:
        return pay(1)

    run_id = new_id()
    with pytest.raises(onrecord.Denied):
        run(denied_agent, store=memory, run_id=run_id)
    assert kinds(memory, run_id) == ["ActionDenied", "Failed"]
    with pytest.raises(onrecord.Denied):
        replay(denied_agent, run_id, store=memory)


def test_a_denial_among_concurrent_calls_comes_back(memory: Any) -> None:
    @onrecord.agent(policy=onrecord.Policy(allow=["look_async"]))
    async def partly_denied() -> Any:
        async def one(number: int) -> Any:
            try:
                return pay(number) if number % 2 else await look_async(number)
            except onrecord.Denied:
                return "denied"

        return await asyncio.gather(*map(one, range(4)))

    run_id = new_id()
    assert run(partly_denied, store=memory, run_id=run_id) == [0, "denied", 2, "denied"]
    assert replay(partly_denied, run_id, store=memory) == [0, "denied", 2, "denied"]


def test_a_budget_of_calls_stops_the_run_and_cannot_be_ignored(memory: Any) -> None:
    @onrecord.agent(policy=onrecord.Policy(budget=onrecord.Budget(calls=3)))
    def spending() -> Any:
        denied = 0
        for number in range(10):
            try:
                look(number)
            except onrecord.BudgetExceeded:
                denied += 1
        return denied

    run_id = new_id()
    assert run(spending, store=memory, run_id=run_id) == 7
    assert calls == [0, 1, 2]
    assert replay(spending, run_id, store=memory) == 7


def test_a_budget_counts_what_was_done_before_a_resume(memory: Any) -> None:
    alive = [False]

    @onrecord.agent(policy=onrecord.Policy(budget=onrecord.Budget(calls=3)))
    def spending_on() -> Any:
        look(1)
        look(2)
        if not alive[0]:
            raise Died
        look(3)
        return look(4)

    run_id = broken_off(spending_on, store=memory)
    alive[0] = True
    with pytest.raises(onrecord.BudgetExceeded):
        resume(spending_on, run_id, store=memory)
    assert calls == [1, 2, 3]


# Retries


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_retries_are_one_request_some_attempts_and_one_result(memory: Any, is_async: bool) -> None:
    retry = onrecord.Retry(attempts=5, delay_seconds=0, on=(ConnectionError,))

    def flaky_body() -> str:
        calls.append("try")
        if len(calls) < 3:
            raise ConnectionError("again")
        return "at last"

    @onrecord.tool(retry=retry)
    def flaky() -> str:
        return flaky_body()

    @onrecord.tool(retry=retry)
    async def flaky_async() -> str:
        return flaky_body()

    @onrecord.agent
    async def retrying() -> Any:
        return await flaky_async() if is_async else flaky()

    run_id = new_id()
    assert run(retrying, store=memory, run_id=run_id) == "at last"
    found = kinds(memory, run_id)
    assert found.count("ActionRequested") == found.count("ActionSucceeded") == 1
    attempts = [event for event in events(memory, run_id) if event.kind == "AttemptRecorded"]
    assert [one.attempt for one in attempts] == [1, 2, 3]
    assert replay(retrying, run_id, store=memory) == "at last"
    assert len(calls) == 3


def test_retries_go_by_the_kind_of_error(memory: Any) -> None:
    @onrecord.tool(retry=onrecord.Retry(attempts=5, delay_seconds=0, on=(OSError,), never_on=(PermissionError,)))
    def picky(error: str) -> None:
        calls.append(error)
        raise {"perm": PermissionError("no"), "os": OSError("try"), "value": ValueError("no")}[error]

    @onrecord.agent
    def trying_all() -> Any:
        found = []
        for name in ("perm", "os", "value"):
            try:
                picky(name)
            except (OSError, ValueError) as error:
                found.append(type(error).__name__)
        return found

    run_id = new_id()
    assert run(trying_all, store=memory, run_id=run_id) == ["PermissionError", "OSError", "ValueError"]
    assert [calls.count(name) for name in ("perm", "os", "value")] == [1, 5, 1]
    assert kinds(memory, run_id).count("ActionFailed") == 3
    assert replay(trying_all, run_id, store=memory) == ["PermissionError", "OSError", "ValueError"]


def test_pauses_grow_and_their_jitter_follows_from_the_effect() -> None:
    retry = onrecord.Retry(attempts=6, delay_seconds=1, factor=2, max_delay_seconds=5, jitter=0.5)
    pauses = [retry.delay_after(attempt, ValueError(), "run/0/x/0") for attempt in range(1, 7)]
    assert pauses == [retry.delay_after(attempt, ValueError(), "run/0/x/0") for attempt in range(1, 7)]
    assert pauses[-1] is None
    for attempt, pause in enumerate(pauses[:-1]):
        whole = min(2**attempt, 5)
        assert pause is not None
        assert whole / 2 <= pause <= whole
    assert pauses[0] != retry.delay_after(1, ValueError(), "run/0/x/1")


# Doubt


@pytest.mark.parametrize("decision", ["done", "retry", "fail"])
def test_an_effect_in_doubt_is_not_repeated_until_it_is_settled(memory: Any, decision: str) -> None:
    alive = [False]

    @onrecord.tool
    def transfer() -> str:
        calls.append("transfer")
        if not alive[0]:
            raise Died
        return "transferred"

    @onrecord.agent
    def transferring() -> Any:
        try:
            return transfer()
        except onrecord.OnrecordError as error:
            return error.code

    run_id = broken_off(transferring, store=memory)
    alive[0] = True
    with pytest.raises(onrecord.InDoubt) as caught:
        resume(transferring, run_id, store=memory)
    assert "settle" in caught.value.hint
    assert calls == ["transfer"]
    onrecord.settle(memory, run_id, decision=decision, value="by hand")
    result = resume(transferring, run_id, store=memory)
    assert result == {"done": "by hand", "retry": "transferred", "fail": "settled_as_failed"}[decision]
    assert len(calls) == (2 if decision == "retry" else 1)
    assert "EffectSettled" in kinds(memory, run_id)
    assert replay(transferring, run_id, store=memory) == result


def test_a_step_in_doubt_is_done_again(memory: Any) -> None:
    alive = [False]

    @onrecord.step
    def reading() -> str:
        calls.append("reading")
        if not alive[0]:
            raise Died
        return "read"

    @onrecord.agent
    def reader() -> Any:
        return reading()

    run_id = broken_off(reader, store=memory)
    alive[0] = True
    assert resume(reader, run_id, store=memory) == "read"
    assert calls == ["reading", "reading"]


# What an agent hands to an effect and changes meanwhile


def test_what_the_agent_changes_after_asking_is_not_part_of_the_request(memory: Any) -> None:
    @onrecord.agent
    async def changing_input() -> Any:
        messages = ["first"]
        task = asyncio.create_task(look_async(messages))
        await asyncio.sleep(0)
        messages.append("second")
        return len(await task) > 0

    run_id = new_id()
    assert run(changing_input, store=memory, run_id=run_id) is True
    assert replay(changing_input, run_id, store=memory) is True
