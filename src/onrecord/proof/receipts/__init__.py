"""Receipts: one for every effect, each of which can be checked alone (docs/guides/receipts.md)."""

from onrecord.proof.receipts.builder import ReplayTokenBuilder
from onrecord.proof.receipts.chain import ChainProblem, ChainReport, check_chain
from onrecord.proof.receipts.journal_log import JournalReplayLog
from onrecord.proof.receipts.log import InMemoryReplayLog, ReplayLog
from onrecord.proof.receipts.mint import check_place, mint
from onrecord.proof.receipts.replay import replay_flow, replay_flow_async, replay_token, replay_token_async
from onrecord.proof.receipts.results import FlowBroken, FlowReplay, TokenReplay, Verdict
from onrecord.proof.receipts.sampling_params import SamplingParams
from onrecord.proof.receipts.token import JournalPosition, ReplayToken, TokenProblem
from onrecord.runtime.engine.invokers import EffectInvoker

__all__ = [
    "ChainProblem",
    "ChainReport",
    "EffectInvoker",
    "FlowBroken",
    "FlowReplay",
    "InMemoryReplayLog",
    "JournalPosition",
    "JournalReplayLog",
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
