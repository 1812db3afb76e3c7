"""Receipts: one for every effect, that anybody can check by itself (docs/tokens.md)."""

from reenact.effect.invokers import EffectInvoker
from reenact.tokens.building import ReplayTokenBuilder
from reenact.tokens.chain import ChainProblem, ChainReport, check_chain
from reenact.tokens.journal_log import JournalReplayLog
from reenact.tokens.log import InMemoryReplayLog, ReplayLog
from reenact.tokens.minting import check_place, mint
from reenact.tokens.replaying import (
    replay_flow,
    replay_flow_async,
    replay_token,
    replay_token_async,
)
from reenact.tokens.results import FlowBroken, FlowReplay, TokenReplay, Verdict
from reenact.tokens.sampling import SamplingParams
from reenact.tokens.token import Place, ReplayToken, TokenProblem

__all__ = [
    "ChainProblem",
    "ChainReport",
    "EffectInvoker",
    "FlowBroken",
    "FlowReplay",
    "InMemoryReplayLog",
    "JournalReplayLog",
    "Place",
    "ReplayLog",
    "ReplayToken",
    "ReplayTokenBuilder",
    "SamplingParams",
    "TokenProblem",
    "TokenReplay",
    "Verdict",
    "check_chain",
    "check_place",
    "mint",
    "replay_flow",
    "replay_flow_async",
    "replay_token",
    "replay_token_async",
]
