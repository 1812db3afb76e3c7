"""Live replay against a real small language model: the same seed passes, another one breaks, and where is told."""

from __future__ import annotations

from typing import Any

import pytest

import onrecord
from kit.model_server import ModelServer, chat
from onrecord.analysis.compare.tolerance import DriftTolerance
from onrecord.analysis.live import RunReplay, compare_run_attempts, judge_runs, replay_with_invoker, replays_of
from onrecord.journal.reader import JournalReader
from onrecord.journal.verify import verify_run
from onrecord.store.memory import MemoryStore

TOKENS = 10


class World:
    """What it is like today: where the model is, and how it is asked otherwise than the agent says."""

    url = ""
    seed_shift = 0
    more_tokens = 0


@onrecord.tool(kind="model_call", idempotent=True)
def complete(model: str, prompt: str, temperature: float, seed: int, max_tokens: int) -> dict[str, Any]:
    return asked(prompt, temperature, seed, max_tokens)


def asked(prompt: str, temperature: float, seed: int, max_tokens: int) -> dict[str, Any]:
    seed, max_tokens = seed + World.seed_shift, max_tokens + World.more_tokens
    return chat(World.url, prompt, temperature=temperature, seed=seed, max_tokens=max_tokens)


def said(answer: dict[str, Any]) -> str:
    return str(answer["choices"][0]["message"]["content"])


@onrecord.agent(name="model_writer")
def writer(subject: str, temperature: float) -> str:
    first = said(complete("smollm2-135m", f"Name a {subject}.", temperature, 7, TOKENS))
    return said(complete("smollm2-135m", f"Describe: {first}", temperature, 8, TOKENS))


@pytest.fixture(scope="module")
def warm(model_server: ModelServer) -> MemoryStore:
    """A run of its name, in which the seed decides what the model says."""
    return recorded("warm", 1.0, model_server)


@pytest.fixture(scope="module")
def cold(model_server: ModelServer) -> MemoryStore:
    """A run of its name, in which the model says what is likeliest."""
    return recorded("cold", 0.0, model_server)


def recorded(run: str, temperature: float, server: ModelServer) -> MemoryStore:
    World.url, World.seed_shift, World.more_tokens = server.url, 0, 0
    store = MemoryStore()
    writer.run("colour", temperature, run_id=run, store=store)
    return store


class Invoker:
    """Asks the model as it was asked."""

    def invoke(self, effect_name: str, inputs: Any, model_version: str, sampling: Any) -> Any:
        assert (effect_name, model_version) == ("complete", "smollm2-135m")
        return asked(inputs["prompt"], sampling.temperature, sampling.seed, sampling.max_tokens)


def by_invoker(store: MemoryStore, run: str) -> RunReplay:
    return replay_with_invoker(JournalReader(store, run), Invoker())


def by_agent(store: MemoryStore, run: str, name: str) -> RunReplay:
    writer.replay_live(run, live_run_id=name, store=store)
    assert verify_run(store, name, deep=True).verdict == "VALID"
    return judged(store, run, name)


def judged(store: MemoryStore, run: str, name: str, tolerance: DriftTolerance | None = None) -> RunReplay:
    return judge_runs(JournalReader(store, run), JournalReader(store, name), tolerance or DriftTolerance())


@pytest.fixture(autouse=True)
def as_recorded() -> None:
    """Unless a test says otherwise, the model is asked as the agent says."""
    World.seed_shift = World.more_tokens = 0


def test_the_same_seed_says_the_same_again_to_an_invoker(warm: MemoryStore) -> None:
    replay = by_invoker(warm, "warm")
    assert replay.verdict == "pass", replay.message
    assert replay.counts["live"] == 2


def test_the_same_seed_says_the_same_again_to_the_agent(warm: MemoryStore) -> None:
    replay = by_agent(warm, "warm", "again")
    assert replay.verdict == "pass", replay.message
    assert [(step.name, step.how) for step in replay.steps] == [
        ("complete", "live"),
        ("complete", "live"),
        ("(end)", "live"),
    ]
    attempt = 2 + replays_of(warm, "warm").index("again")
    assert compare_run_attempts(warm, "warm", which=(1, attempt)).verdict == "pass"


def test_another_seed_breaks_an_invoker_and_says_where(warm: MemoryStore) -> None:
    World.seed_shift = 1000
    replay = by_invoker(warm, "warm")
    assert (replay.verdict, replay.exit_status) == ("broken", 1)
    assert "/choices/0/message/content" in [reason.path for reason in replay.steps[0].reasons]


def test_another_seed_breaks_the_agent_and_says_where(warm: MemoryStore) -> None:
    World.seed_shift = 1000
    replay = by_agent(warm, "warm", "otherwise")
    assert replay.verdict == "broken"
    first, second, end = replay.steps
    assert (first.name, first.seq, first.verdict) == ("complete", 1, "broken")
    assert "replay_content_diff" in [reason.code for reason in first.reasons]
    quoted = next(reason for reason in second.reasons if reason.code == "replay_input_diff")
    assert quoted.path == "/input/prompt"  # the second question quotes the first answer
    assert end.verdict == "broken"

    def never_mind(expected: str, actual: str) -> bool:
        return True

    loose = judged(warm, "warm", "otherwise", DriftTolerance(tokens_absolute=1000, content=never_mind))
    left = {reason.path for step in loose.steps for reason in step.reasons if not reason.tolerated}
    assert left <= {"/choices/0/finish_reason"}  # an answer that ended by itself is another behaviour


def test_one_more_token_is_drift_within_a_tolerance_and_broken_without(cold: MemoryStore) -> None:
    World.more_tokens = 1

    def alike(expected: str, actual: str) -> bool:
        return True

    replay = by_agent(cold, "cold", "longer")
    assert replay.verdict == "broken"
    assert "replay_token_drift" in replay.codes
    within = judged(cold, "cold", "longer", DriftTolerance(tokens=0.2, content=alike))
    assert within.verdict == "drift", within.message
    assert judged(cold, "cold", "longer", DriftTolerance(tokens=0.001, content=alike)).verdict == "broken"
