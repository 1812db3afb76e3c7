"""The tests of axon's replay tokens, under their own names, asserting what they meant to assert.

There two of the three compare with `matches!(…)` and drop the result; here every verdict is asserted. `replay_token`
and `replay_flow` stand for its `ReplayExecutor`, `TokenReplay` for its `ReplayOutcome`. The flow is a member of the
receipt, not looked for in the inputs.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from onrecord.proof.receipts import (
    InMemoryReplayLog,
    ReplayToken,
    ReplayTokenBuilder,
    SamplingParams,
    Verdict,
    replay_flow,
    replay_token,
)

MOMENT = int(datetime(2026, 4, 22, 12, tzinfo=UTC).timestamp()) * 1_000_000


class FixedInvoker:
    def __init__(self, returns: Any) -> None:
        self.returns = returns
        self.invoked: list[str] = []

    def invoke(self, effect_name: str, inputs: Any, model_version: str, sampling: SamplingParams) -> Any:
        self.invoked.append(effect_name)
        return self.returns


def mk_token(effect: str, outputs: Any, after: ReplayToken | None = None) -> ReplayToken:
    return (
        ReplayTokenBuilder()
        .effect_name(effect)
        .inputs({"flow_id": "f1"})
        .outputs(outputs)
        .model_version("axon.builtin.test.v1")
        .sampling(SamplingParams())
        .time(MOMENT)
        .nonce(bytes(16))
        .flow("f1")
        .after(after)
        .mint()
    )


def test_match_when_outputs_are_bit_identical() -> None:
    log = InMemoryReplayLog()
    token = mk_token("call_tool:x", {"a": 1, "b": 2})
    log.append(token)
    invoker = FixedInvoker({"b": 2, "a": 1})  # keys reordered: the canonical hash does not depend on their order
    outcome = replay_token(token.token_hash, invoker, log=log)
    assert outcome.verdict is Verdict.MATCH
    assert outcome.token_hash == token.token_hash


def test_diverge_when_outputs_differ() -> None:
    log = InMemoryReplayLog()
    token = mk_token("call_tool:x", {"a": 1})
    log.append(token)
    outcome = replay_token(token.token_hash, FixedInvoker({"a": 999}), log=log)
    assert outcome.verdict is Verdict.DIVERGED
    assert outcome.expected_hash == token.outputs_hash
    assert outcome.actual_hash != token.outputs_hash
    assert outcome.actual_hash == mk_token("any", {"a": 999}).outputs_hash
    assert outcome.actual == {"a": 999}


def test_replay_flow_short_circuits_at_first_divergence() -> None:
    log = InMemoryReplayLog()
    first = mk_token("step1", {"x": 1})
    second = mk_token("step2", {"x": 2}, first)
    third = mk_token("step3", {"x": 3}, second)
    for token in (first, second, third):
        log.append(token)
    # A divergence on step2 is forced by an invoker that always gives the same.
    invoker = FixedInvoker({"x": 1})
    outcomes = replay_flow(log, "f1", invoker).results
    assert len(outcomes) == 2
    assert outcomes[0].verdict is Verdict.MATCH
    assert outcomes[1].verdict is Verdict.DIVERGED
    assert invoker.invoked == ["step1", "step2"], "step3 was never attempted"
