"""Agents that are replayed live by their own code: what is carried out, what stands in, and what is said of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import onrecord
from onrecord.analysis.compare.tolerance import DriftTolerance
from onrecord.analysis.live import RunReplay, compare_run_attempts, judge_runs, replays_of
from onrecord.journal.reader import JournalReader
from onrecord.journal.verify import verify_run
from onrecord.runtime.engine.stops import NotCarriedOut
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore


class World:
    """What the effects do, and what they are told."""

    calls: list[str]
    tokens: int
    tail: str
    names: list[str]


world = World()


@pytest.fixture(autouse=True)
def fresh_world() -> None:
    world.calls, world.tokens, world.tail, world.names = [], 1000, "", []


@onrecord.tool(kind="model_call", idempotent=True)
def ask(model: str, question: str) -> dict[str, Any]:
    world.calls.append(f"ask {model}")
    answer = f"about {question}{world.tail}"
    return {"id": f"answer-{len(world.calls)}", "model": model, "text": answer, "usage": {"tokens": world.tokens}}


@onrecord.tool
def mail(text: str) -> str:
    world.calls.append("mail")
    return "sent"


@onrecord.agent
def support(question: str) -> str:
    told = ask("small", question)["text"]
    again = ask("small", told)["text"]
    return mail(again)


@onrecord.agent
def office(question: str) -> str:
    return support(question) + "!"


@onrecord.agent
def messenger(text: str) -> str:
    return mail(text)


@onrecord.agent
def post_office(text: str) -> str:
    return messenger(text)


@onrecord.agent
async def team(questions: list[str]) -> list[str]:
    async def one(question: str) -> str:
        return str((await ask_slowly(question))["text"])

    return await asyncio.gather(*(one(question) for question in questions))


@onrecord.step
async def ask_slowly(question: str) -> dict[str, str]:
    await asyncio.sleep(0.01 if question in world.names else 0)
    return {"text": question + world.tail}


def replayed(
    store: Store, agent: Any = support, *, tolerance: DriftTolerance | None = None, **options: Any
) -> RunReplay:
    agent.replay_live("a", live_run_id="c", store=store, **options)
    replay = judge_runs(JournalReader(store, "a"), JournalReader(store, "c"), tolerance or DriftTolerance())
    assert verify_run(store, "c", deep=True).verdict == "VALID"
    return replay


def test_the_models_are_asked_again_and_the_mail_is_not_sent(store: Store) -> None:
    support.run("x", run_id="a", store=store)
    assert world.calls == ["ask small", "ask small", "mail"]
    replay = replayed(store)
    assert world.calls[3:] == ["ask small", "ask small"]
    assert [(step.name, step.how, step.verdict) for step in replay.steps] == [
        ("ask", "live", "pass"),
        ("ask", "live", "pass"),
        ("mail", "recorded", "recorded"),
        ("(end)", "live", "pass"),
    ]
    assert replay.verdict == "pass"


def test_a_named_tool_is_carried_out(memory: MemoryStore) -> None:
    support.run("x", run_id="a", store=memory)
    replay = replayed(memory, live_tools=["mail", "fax"])
    assert world.calls[3:] == ["ask small", "ask small", "mail"]
    assert replay.counts["live"] == 3
    assert replay.unused_live_tools == ("fax",)


def test_tokens_may_drift(memory: MemoryStore) -> None:
    support.run("x", run_id="a", store=memory)
    world.tokens = 1005
    replay = replayed(memory, tolerance=DriftTolerance(tokens=0.01))
    assert (replay.verdict, replay.codes) == ("drift", ("replay_token_drift",))


def test_another_answer_leads_to_an_input_that_nobody_may_act_on(memory: MemoryStore) -> None:
    support.run("x", run_id="a", store=memory)
    world.tail = "?"
    with pytest.raises(NotCarriedOut):
        support.replay_live("a", live_run_id="c", store=memory)
    assert world.calls.count("mail") == 1
    replay = judge_runs(JournalReader(memory, "a"), JournalReader(memory, "c"))
    assert [(step.name, step.verdict) for step in replay.steps] == [
        ("ask", "broken"),
        ("ask", "broken"),
        ("mail", "broken"),
        ("(end)", "missing"),
    ]
    assert replay.steps[1].reasons[0].code == "replay_input_diff"
    assert replay.steps[2].how == "none"
    assert [reason.code for reason in replay.steps[2].reasons] == ["replay_not_carried_out", "replay_input_diff"]


def test_another_model_is_no_difference_by_itself(memory: MemoryStore) -> None:
    support.run("x", run_id="a", store=memory)
    replay = replayed(memory, model="large")
    assert world.calls[3:] == ["ask large", "ask large"]
    assert (replay.verdict, replay.model) == ("pass", "large")


def test_an_agent_that_is_called_is_judged_by_what_it_did(memory: MemoryStore) -> None:
    office.run("x", run_id="a", store=memory)
    replay = replayed(memory, office)
    (called, end) = replay.steps
    assert (called.name, called.how, end.verdict) == ("support", "live", "pass")
    assert called.inner is not None
    assert [step.how for step in called.inner.steps] == ["live", "live", "recorded", "live"]
    assert replay.verdict == "pass"
    assert replay.to_data()["steps"][0]["inner"]["counts"]["live"] == 2


def test_calling_an_agent_that_only_repeats_the_record_is_no_evidence(memory: MemoryStore) -> None:
    post_office.run("x", run_id="a", store=memory)
    replay = replayed(memory, post_office)
    assert replay.steps[0].how == "live"
    assert (replay.verdict, replay.codes) == ("broken", ("replay_nothing_live",))
    assert world.calls == ["mail"]


def test_what_breaks_in_an_agent_that_is_called_breaks_the_caller(memory: MemoryStore) -> None:
    office.run("x", run_id="a", store=memory)
    world.tokens = 9
    replay = replayed(memory, office)
    assert replay.steps[0].verdict == "broken"
    assert replay.codes == ("replay_inner_diff",)
    within = compare_run_attempts(memory, "a", tolerance=DriftTolerance(tokens=1.0))
    assert within.verdict == "drift"


def test_tasks_that_answer_in_another_order_are_the_same(memory: MemoryStore) -> None:
    world.names = ["x"]
    asyncio.run(team.run(["x", "y", "z"], run_id="a", store=memory))
    world.names = ["z"]

    async def again() -> None:
        await team.replay_live("a", live_run_id="c", store=memory)

    asyncio.run(again())
    replay = judge_runs(JournalReader(memory, "a"), JournalReader(memory, "c"))
    assert (replay.verdict, replay.counts["live"]) == ("pass", 3)


def test_a_fork_is_replayed_with_what_it_shares(memory: MemoryStore) -> None:
    support.run("x", run_id="original", store=memory)
    support.fork("original", 2, fork_id="a", store=memory)
    replay = replayed(memory)
    assert [(step.name, step.how) for step in replay.steps] == [
        ("ask", "live"),
        ("ask", "live"),
        ("mail", "recorded"),
        ("(end)", "live"),
    ]
    assert replay.verdict == "pass"
    assert (replay.steps[0].kept_in, replay.steps[1].kept_in) == ("original", None)


def test_the_replays_of_a_run_are_found(memory: MemoryStore) -> None:
    support.run("x", run_id="a", store=memory)
    for name in ("c1", "c2"):
        support.replay_live("a", live_run_id=name, store=memory)
    assert set(replays_of(memory, "a")) == {"c1", "c2"}
    assert compare_run_attempts(memory, "a", which="last_two").verdict == "pass"
