"""One request, one result, any number of attempts: each of them on record, the pauses too."""

from __future__ import annotations

import asyncio
import threading
from math import inf, nan
from typing import Any

import pytest

import onrecord
from kit.policies import Broken, RateLimited, attempts, awaited, kinds
from kit.runtime import Died, events
from onrecord import Budget, Policy, Retry
from onrecord.errors import InvalidInput
from onrecord.runtime.engine import attempts as attempts_module
from onrecord.store.memory import MemoryStore

AT_ONCE = Retry(delay_seconds=0)


class Pauses:
    """A clock of the test's own: pauses pass at once, and are written down."""

    def __init__(self) -> None:
        self.now_us = 1_700_000_000_000_000
        self.slept: list[float] = []
        self.dies_in: int | None = None

    def time_ns(self) -> int:
        return self.now_us * 1000

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if self.dies_in == len(self.slept):
            raise Died
        self.now_us += int(seconds * 1_000_000)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    clock = Pauses()
    monkeypatch.setattr(attempts_module, "time", clock)
    return clock


def failing(times: int, error: type[Exception] = RateLimited) -> Any:
    """A function that fails so often before it succeeds, and counts."""
    made: list[int] = []

    def call(what: str = "x") -> str:
        made.append(len(made) + 1)
        if len(made) <= times:
            raise error(f"attempt {len(made)}")
        return f"{what} after {len(made)}"

    call.made = made  # type: ignore[attr-defined]
    return call


def agent_of(effect: Any, **options: Any) -> Any:
    @onrecord.agent(**options)
    def trying() -> Any:
        return effect()

    return trying


# When there is another attempt


@pytest.mark.parametrize(
    ("retry", "error", "again"),
    [
        (Retry(), RateLimited("…"), True),
        (Retry(on=(RateLimited,)), RateLimited("…"), True),
        (Retry(on=(RateLimited,)), Broken("…"), False),
        (Retry(on=("RateLimited",)), RateLimited("…"), True),
        (Retry(on=("RateLimited",)), Broken("…"), False),
        (Retry(on=("OSError",)), ConnectionResetError("…"), True),
        (Retry(never_on=(Broken,)), Broken("…"), False),
        (Retry(never_on=("OSError",)), ConnectionResetError("…"), False),
        (Retry(on=("Broken", RateLimited)), RateLimited("…"), True),
        (Retry(attempts=1), RateLimited("…"), False),
        (Retry(max_seconds=0.1), RateLimited("…"), False),
    ],
)
def test_by_kind_of_error(retry: Retry, error: Exception, again: bool) -> None:
    assert (retry.delay_after(1, error, "effect") is not None) == again


def test_pauses_grow_to_their_limit_and_differ_by_effect_not_by_chance() -> None:
    plain = Retry(attempts=5000, delay_seconds=1, factor=2, max_delay_seconds=10, jitter=0)
    error = RateLimited()
    assert [plain.delay_after(number, error, "e") for number in (1, 2, 3, 4, 5, 4000)] == [1, 2, 4, 8, 10, 10]
    jittered = Retry(attempts=9, delay_seconds=1, factor=1, jitter=0.5)
    found = [jittered.delay_after(number, error, "e") for number in range(1, 9)]
    assert found == [jittered.delay_after(number, error, "e") for number in range(1, 9)]
    assert all(pause is not None and 0.5 <= pause <= 1 for pause in found)
    assert len(set(found)) == 8
    assert jittered.delay_after(1, error, "other") != found[0]


@pytest.mark.parametrize(
    "options",
    [
        {"attempts": 0},
        {"delay_seconds": -1},
        {"delay_seconds": nan},
        {"max_delay_seconds": inf},
        {"max_delay_seconds": -1},
        {"factor": 0.5},
        {"factor": nan},
        {"jitter": 1.5},
        {"jitter": nan},
        {"max_seconds": 0},
        {"max_seconds": -1},
        {"max_seconds": nan},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Retry(**options)
    assert refusal.value.code == "bad_retry"


# What is recorded


@pytest.mark.parametrize("is_async", [False, True])
def test_one_request_and_one_result(store: MemoryStore, is_async: bool) -> None:
    call = failing(2)

    async def call_async(what: str = "x") -> str:
        found: str = call(what)
        return found

    effect: Any = onrecord.tool(call_async if is_async else call, name="call", idempotent=True, retry=AT_ONCE)

    @onrecord.agent
    async def trying_async() -> Any:
        return await effect("mail")

    @onrecord.agent
    def trying() -> Any:
        return effect("mail")

    agent: Any = trying_async if is_async else trying
    made = agent.run(run_id="r", store=store)
    assert (awaited(made) if is_async else made) == "mail after 3"
    assert kinds(store, "r") == ["ActionRequested", *["AttemptRecorded"] * 3, "ActionSucceeded", "Completed"]
    assert [(one.attempt, one.status) for one in attempts(store, "r")] == [
        (1, "retried"),
        (2, "retried"),
        (3, "succeeded"),
    ]
    made = agent.replay("r", store=store)
    assert (awaited(made) if is_async else made) == "mail after 3"
    assert len(call.made) == 3


def test_the_last_failure_is_the_result(store: MemoryStore) -> None:
    call = failing(9)
    trying = agent_of(onrecord.tool(call, name="call", retry=AT_ONCE))
    with pytest.raises(RateLimited, match="attempt 3"):
        trying.run(run_id="r", store=store)
    assert [one.status for one in attempts(store, "r")] == ["retried", "retried", "failed"]
    assert kinds(store, "r")[-2:] == ["ActionFailed", "Failed"]
    with pytest.raises(RateLimited, match="attempt 3"):
        trying.replay("r", store=store)


def test_without_a_policy_or_without_a_failure_there_is_nothing_to_record(store: MemoryStore) -> None:
    agent_of(onrecord.tool(failing(0), name="call", retry=AT_ONCE)).run(run_id="r1", store=store)
    with pytest.raises(Broken):
        agent_of(onrecord.tool(failing(1, Broken), name="call")).run(run_id="r2", store=store)
    assert attempts(store, "r1") == attempts(store, "r2") == []


def test_what_an_attempt_keeps(store: MemoryStore) -> None:
    @onrecord.step
    def look_up(what: str) -> str:
        return what

    made: list[int] = []

    @onrecord.tool(retry=Retry(attempts=2, delay_seconds=0, on=(RateLimited, "OSError")))
    def mail(to: str) -> str:
        made.append(1)
        look_up("address")
        onrecord.note_attempt("guardrail", {"checked": to})
        onrecord.note_attempt("artifact", b"\0letter")
        if len(made) == 1:
            raise RateLimited("slow down")
        return "sent"

    @onrecord.agent(policy=Policy(allow=["mail", "chat"], budget=Budget(tokens=100)))
    def mailing() -> Any:
        onrecord.set_state({"step": 1})
        try:
            look_up("denied")
        except onrecord.Denied:
            chat()
        return mail("someone@example.org")

    assert mailing.run(run_id="r", store=store) == "sent"
    failed, succeeded = attempts(store, "r")
    spec = failed.snapshots["spec"]
    assert (spec["name"], spec["kind"], spec["timeout_seconds"]) == ("mail", "tool_call", None)
    assert spec["retry"]["on"] == ["RateLimited", "OSError"]
    assert spec["retry"]["attempts"] == 2
    assert failed.action_id == succeeded.action_id == "main/mail/0"
    assert failed.snapshots["input"] == {"action": "main/mail/0"}
    assert isinstance(failed.snapshots["error"], RateLimited)
    assert "output" not in failed.snapshots
    assert succeeded.snapshots["output"] == {"action": "main/mail/0"}
    assert "error" not in succeeded.snapshots
    assert failed.snapshots["budget"]["tokens"] == 7
    assert failed.snapshots["budget"]["calls"] == 2
    assert failed.snapshots["guardrails"] == ["main/look_up/0"]
    expected = [["tool", "look_up"], ["guardrail", {"checked": "someone@example.org"}], ["artifact", b"\0letter"]]
    assert failed.snapshots["events"] == succeeded.snapshots["events"] == expected
    rows = {one.seq: one for one in onrecord.JournalReader(store, "r").scan()}
    request = next(seq for seq, row in rows.items() if getattr(row.event, "name", "") == "mail")
    assert failed.snapshots["checkpoint"] == {"seq": request}
    assert succeeded.snapshots["checkpoint"] == {"seq": request + 1}


@onrecord.tool
def chat() -> dict[str, Any]:
    return {"usage": {"total_tokens": 7}}


def test_notes_belong_to_an_attempt() -> None:
    with pytest.raises(InvalidInput) as refusal:
        onrecord.note_attempt("tool", "x")
    assert refusal.value.code == "outside_effect"


def test_the_input_is_not_stored_again(store: MemoryStore) -> None:
    call = failing(2)
    effect: Any = onrecord.tool(call, name="call", retry=AT_ONCE)

    @onrecord.agent
    def trying() -> Any:
        return effect("a very particular sentence")[:1]

    trying.run(run_id="r", store=store)
    assert all("particular" not in str(one) for one in attempts(store, "r"))


# Pauses


def test_a_pause_survives_the_process(store: MemoryStore, pauses: Pauses) -> None:
    call = failing(3)
    retry = Retry(attempts=5, delay_seconds=100, factor=2, jitter=0, max_delay_seconds=1000)
    trying = agent_of(onrecord.tool(call, name="call", idempotent=True, retry=retry))
    pauses.dies_in = 2
    with pytest.raises(Died):
        trying.run(run_id="r", store=store)
    assert pauses.slept == [100, 200]
    pauses.now_us += 50_000_000
    assert trying.resume("r", store=store) == "x after 4"
    assert pauses.slept[2] == 150  # what was left of it
    assert pauses.slept[3] == 400
    assert [(one.attempt, one.status) for one in attempts(store, "r")] == [
        (1, "retried"),
        (2, "retried"),
        (3, "retried"),
        (4, "succeeded"),
    ]
    assert kinds(store, "r").count("ActionRequested") == 1


def test_a_pause_that_is_over_is_not_waited_for(store: MemoryStore, pauses: Pauses) -> None:
    trying = agent_of(onrecord.tool(failing(1), name="call", idempotent=True, retry=Retry(delay_seconds=50, jitter=0)))
    pauses.dies_in = 1
    with pytest.raises(Died):
        trying.run(run_id="r", store=store)
    pauses.now_us += 1_000_000_000
    assert trying.resume("r", store=store) == "x after 2"
    assert pauses.slept == [50]


def test_a_clock_that_was_set_back_makes_no_pause_longer(store: MemoryStore, pauses: Pauses) -> None:
    trying = agent_of(onrecord.tool(failing(1), name="call", idempotent=True, retry=Retry(delay_seconds=50, jitter=0)))
    pauses.dies_in = 1
    with pytest.raises(Died):
        trying.run(run_id="r", store=store)
    pauses.now_us -= 10**12
    assert trying.resume("r", store=store) == "x after 2"
    assert pauses.slept == [50, 50]


def test_the_count_goes_on_across_processes(store: MemoryStore, pauses: Pauses) -> None:
    call = failing(99)
    retry = Retry(attempts=4, delay_seconds=1, jitter=0)
    trying = agent_of(onrecord.tool(call, name="call", idempotent=True, retry=retry))
    for pause in (1, 3):
        pauses.dies_in = pause
        with pytest.raises(Died):
            (trying.run if pause == 1 else trying.resume)(**({"run_id": "r"}), store=store)
    pauses.dies_in = None
    with pytest.raises(RateLimited, match="attempt 4"):
        trying.resume("r", store=store)
    assert len(call.made) == 4


def test_the_time_for_all_attempts_is_limited_across_processes(store: MemoryStore, pauses: Pauses) -> None:
    call = failing(99)
    retry = Retry(attempts=99, delay_seconds=10, factor=1, jitter=0, max_seconds=35)
    trying = agent_of(onrecord.tool(call, name="call", idempotent=True, retry=retry))
    with pytest.raises(RateLimited, match="attempt 4"):
        trying.run(run_id="r", store=store)
    assert pauses.slept == [10, 10, 10]


def test_a_run_that_is_stopped_in_a_pause_makes_no_further_attempt(store: MemoryStore, pauses: Pauses) -> None:
    call = failing(5)
    trying = agent_of(onrecord.tool(call, name="call", idempotent=True, retry=Retry(delay_seconds=1)))
    sleep = pauses.sleep

    def lose(seconds: float) -> None:
        sleep(seconds)
        epoch = store.run_row("default", "r").epoch  # type: ignore[union-attr]
        store.release("default", "r", epoch)
        store.claim("default", "r", "somebody else", 60)
        onrecord.runtime.engine.lease_keeper.keeper.find(store, "r", "default").stop(  # type: ignore[attr-defined]
            onrecord.Suspended("told to stop")
        )

    pauses.sleep = lose  # type: ignore[method-assign]
    with pytest.raises(onrecord.OnrecordError):
        trying.run(run_id="r", store=store)
    assert len(call.made) == 1


# Time limits


def test_a_task_that_takes_too_long_is_cancelled(store: MemoryStore) -> None:
    ended: list[str] = []

    @onrecord.tool(timeout=0.05, retry=Retry(attempts=2, delay_seconds=0))
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    @onrecord.agent
    async def waiting() -> str:
        try:
            await slow()
        except TimeoutError:
            return "too slow"
        return "done"

    assert awaited(waiting.run(run_id="r", store=store)) == "too slow"
    assert ended == ["cancelled"] * 2
    assert [one.status for one in attempts(store, "r")] == ["retried", "failed"]
    assert awaited(waiting.replay("r", store=store)) == "too slow"


def test_a_thread_that_takes_too_long_is_left_to_itself(store: MemoryStore) -> None:
    go_on, over = threading.Event(), threading.Event()
    calls: list[int] = []

    @onrecord.tool(timeout=0.05, idempotent=True, retry=Retry(attempts=2, delay_seconds=0))
    def slow() -> str:
        calls.append(1)
        if len(calls) == 1:
            go_on.wait(60)
            over.set()
            return "nobody listens"
        return "second"

    trying = agent_of(slow)
    assert trying.run(run_id="r", store=store) == "second"
    go_on.set()
    assert over.wait(60)
    assert kinds(store, "r").count("ActionSucceeded") == 1
    assert [one.status for one in attempts(store, "r")] == ["retried", "succeeded"]
    assert isinstance(attempts(store, "r")[0].snapshots["error"], TimeoutError)


def test_a_thread_with_a_limit_belongs_to_the_effect(store: MemoryStore) -> None:
    @onrecord.tool(timeout=60)
    def quick() -> str:
        return onrecord.idempotency_key()

    @onrecord.tool(timeout=60)
    def broken() -> None:
        raise Broken("mine")

    @onrecord.agent
    def trying() -> Any:
        try:
            broken()
        except Broken:
            return quick()

    assert trying.run(run_id="r", store=store) == "r/main/quick/0"
    assert kinds(store, "r")[-1] == "Completed"
    assert len(events(store, "r")) == 5


def test_the_limit_for_all_attempts_ends_the_one_under_way(store: MemoryStore) -> None:
    release = threading.Event()

    @onrecord.tool(retry=Retry(attempts=9, delay_seconds=0, max_seconds=0.05))
    def slow() -> None:
        release.wait(60)

    with pytest.raises(TimeoutError):
        agent_of(slow).run(run_id="r", store=store)
    release.set()
    assert [one.status for one in attempts(store, "r")] == ["failed"]
