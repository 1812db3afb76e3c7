"""Live replay: the effects of a recorded run carried out again, each outcome judged against the recorded one.

Two ways lead there. An invoker carries the effects out one by one (`replay_with_invoker`); or the agent runs again,
which makes a run of its own, and the two runs are judged against each other (`judge_runs`). docs/live-replay.md.
"""

from reenact.effect.invokers import CameOfIt, EffectInvoker
from reenact.replays.live.attempts import (
    Attempt,
    AttemptComparison,
    compare_attempts,
    compare_run_attempts,
    replays_of,
)
from reenact.replays.live.invoking import (
    LIVE_KINDS,
    LiveCall,
    Minting,
    replay_with_invoker,
    replay_with_invoker_async,
)
from reenact.replays.live.keeping import keep_differences
from reenact.replays.live.results import ReplayBroken, RunReplay, StepReplay
from reenact.replays.live.runs import judge_runs
from reenact.replays.live.sampling import Sampling

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
