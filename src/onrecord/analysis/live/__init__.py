"""Replay runs live: execute recorded effects again and judge each outcome against the recorded one.

An invoker executes the effects one by one (`replay_with_invoker`), or the agent runs again and `judge_runs` judges its
new run against the recorded one. See docs/guides/live-replay.md.
"""

from onrecord.analysis.live.attempts import (
    Attempt,
    AttemptComparison,
    compare_attempts,
    compare_run_attempts,
    replays_of,
)
from onrecord.analysis.live.differences import keep_differences
from onrecord.analysis.live.invoker_replay import (
    LIVE_KINDS,
    LiveCall,
    Minting,
    replay_with_invoker,
    replay_with_invoker_async,
)
from onrecord.analysis.live.model_parameters import Sampling
from onrecord.analysis.live.results import ReplayBroken, RunReplay, StepReplay
from onrecord.analysis.live.runs import judge_runs
from onrecord.runtime.engine.invokers import CameOfIt, EffectInvoker

__all__ = [
    "LIVE_KINDS",
    "Attempt",
    "AttemptComparison",
    "CameOfIt",
    "EffectInvoker",
    "LiveCall",
    "Minting",
    "ReplayBroken",
    "RunReplay",
    "Sampling",
    "StepReplay",
    "compare_attempts",
    "compare_run_attempts",
    "judge_runs",
    "keep_differences",
    "replay_with_invoker",
    "replay_with_invoker_async",
    "replays_of",
]
