"""Reenact: record what an agent did, once, in one tamper-evident log.

The names below are the public ones; everything else may move. They are loaded when first used: `import reenact` has to
be cheap, since it stands at the top of programs that may need little of it.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # the name of `typing`, whose loading takes longer than that of this module
if TYPE_CHECKING:
    from reenact.core.codec import register_type
    from reenact.core.events import (
        ActionDenied,
        ActionFailed,
        ActionRequested,
        ActionSucceeded,
        AttemptRecorded,
        Cancelled,
        Completed,
        Event,
        Failed,
        Interrupted,
        Resumed,
        StateUpdated,
        WaitCreated,
        WaitResolved,
    )
    from reenact.core.state import Reducer, StateUpdatedOnlyReducer, state_hash
    from reenact.effect.agents import Agent, agent, replay, resume
    from reenact.effect.attempts import note_attempt
    from reenact.effect.checkpoints import checkpoint, restored
    from reenact.effect.forking import AnotherAnswer, AnotherInput, AnotherModel
    from reenact.effect.policy import Budget, Policy
    from reenact.effect.primitives import now, random, set_state, sleep, state, uuid
    from reenact.effect.recording import record
    from reenact.effect.redacting import Redaction
    from reenact.effect.retrying import Retry
    from reenact.effect.settling import cancel, settle
    from reenact.effect.stopping import (
        BudgetExceeded,
        Denied,
        Divergence,
        InDoubt,
        NotCarriedOut,
        NotReplayable,
        Suspended,
    )
    from reenact.effect.tools import idempotency_key, run_step, step, tool
    from reenact.effect.waiting_for import WaitCancelled, WaitFailed, interrupt, wait_for, wait_for_first, wait_key
    from reenact.effect.workers import Worker, sweep
    from reenact.errors import ReenactError
    from reenact.journal.exporting import export_run
    from reenact.journal.importing import import_file, verify_file
    from reenact.journal.journal import Draft, Journal
    from reenact.journal.operations import OperationsJournal
    from reenact.journal.reader import JournalReader, SequencedEvent
    from reenact.journal.snapshots import AtMarkedPoints, EveryEvents, SnapshotManager, StateFold, WhenStateReaches
    from reenact.journal.verify import VerificationReport, verify_run
    from reenact.journal.views import (
        ExecutionLog,
        KernelTraceEvent,
        scan_execution_log,
        scan_execution_log_with_state_hashes,
        scan_execution_trace,
    )
    from reenact.replays.comparing.drift import Outcome, StepDrift, compare_outcomes
    from reenact.replays.comparing.masks import Masks
    from reenact.replays.comparing.tolerance import DriftTolerance, PathRule
    from reenact.replays.divergence.comparing_runs import compare_runs
    from reenact.replays.divergence.results import RunComparison
    from reenact.replays.engine import ReplayEngine
    from reenact.replays.evidence import check_bundle, make_bundle, write_bundle
    from reenact.replays.forking import expected_tail, fork, patched_change
    from reenact.store.contract import Head, Store
    from reenact.store.opening import open_store
    from reenact.tokens import EffectInvoker, ReplayLog, ReplayToken, mint, replay_flow, replay_token

__version__ = "0.1.0"

_HOMES = {
    "reenact.core.codec": ("register_type",),
    "reenact.core.events": (
        "ActionDenied",
        "ActionFailed",
        "ActionRequested",
        "ActionSucceeded",
        "AttemptRecorded",
        "Cancelled",
        "Completed",
        "Event",
        "Failed",
        "Interrupted",
        "Resumed",
        "StateUpdated",
        "WaitCreated",
        "WaitResolved",
    ),
    "reenact.core.state": ("Reducer", "StateUpdatedOnlyReducer", "state_hash"),
    "reenact.effect.agents": ("Agent", "agent", "replay", "resume"),
    "reenact.effect.attempts": ("note_attempt",),
    "reenact.effect.checkpoints": ("checkpoint", "restored"),
    "reenact.effect.policy": ("Budget", "Policy"),
    "reenact.effect.primitives": ("now", "random", "set_state", "sleep", "state", "uuid"),
    "reenact.effect.recording": ("record",),
    "reenact.effect.redacting": ("Redaction",),
    "reenact.effect.retrying": ("Retry",),
    "reenact.effect.settling": ("cancel", "settle"),
    "reenact.effect.stopping": (
        "BudgetExceeded",
        "Denied",
        "Divergence",
        "InDoubt",
        "NotCarriedOut",
        "NotReplayable",
        "Suspended",
    ),
    "reenact.effect.tools": ("idempotency_key", "run_step", "step", "tool"),
    "reenact.effect.waiting_for": (
        "WaitCancelled",
        "WaitFailed",
        "interrupt",
        "wait_for",
        "wait_for_first",
        "wait_key",
    ),
    "reenact.effect.workers": ("Worker", "sweep"),
    "reenact.errors": ("ReenactError",),
    "reenact.journal.exporting": ("export_run",),
    "reenact.journal.importing": ("import_file", "verify_file"),
    "reenact.journal.journal": ("Draft", "Journal"),
    "reenact.journal.operations": ("OperationsJournal",),
    "reenact.journal.reader": ("JournalReader", "SequencedEvent"),
    "reenact.journal.snapshots": ("AtMarkedPoints", "EveryEvents", "SnapshotManager", "StateFold", "WhenStateReaches"),
    "reenact.journal.verify": ("VerificationReport", "verify_run"),
    "reenact.journal.views": (
        "ExecutionLog",
        "KernelTraceEvent",
        "scan_execution_log",
        "scan_execution_log_with_state_hashes",
        "scan_execution_trace",
    ),
    "reenact.effect.forking": ("AnotherAnswer", "AnotherInput", "AnotherModel"),
    "reenact.replays.comparing.drift": ("Outcome", "StepDrift", "compare_outcomes"),
    "reenact.replays.comparing.masks": ("Masks",),
    "reenact.replays.comparing.tolerance": ("DriftTolerance", "PathRule"),
    "reenact.replays.divergence.comparing_runs": ("compare_runs",),
    "reenact.replays.divergence.results": ("RunComparison",),
    "reenact.replays.engine": ("ReplayEngine",),
    "reenact.replays.forking": ("expected_tail", "fork", "patched_change"),
    "reenact.replays.evidence": ("check_bundle", "make_bundle", "write_bundle"),
    "reenact.tokens": ("EffectInvoker", "ReplayLog", "ReplayToken", "mint", "replay_flow", "replay_token"),
    "reenact.store.contract": ("Head", "Store"),
    "reenact.store.opening": ("open_store",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "ActionDenied",
    "ActionFailed",
    "ActionRequested",
    "ActionSucceeded",
    "Agent",
    "AnotherAnswer",
    "AnotherInput",
    "AnotherModel",
    "AtMarkedPoints",
    "AttemptRecorded",
    "Budget",
    "BudgetExceeded",
    "Cancelled",
    "Completed",
    "Denied",
    "Divergence",
    "Draft",
    "DriftTolerance",
    "EffectInvoker",
    "Event",
    "EveryEvents",
    "ExecutionLog",
    "Failed",
    "Head",
    "InDoubt",
    "Interrupted",
    "Journal",
    "JournalReader",
    "KernelTraceEvent",
    "Masks",
    "NotCarriedOut",
    "NotReplayable",
    "OperationsJournal",
    "Outcome",
    "PathRule",
    "Policy",
    "Redaction",
    "Reducer",
    "ReenactError",
    "ReplayEngine",
    "ReplayLog",
    "ReplayToken",
    "Resumed",
    "Retry",
    "RunComparison",
    "SequencedEvent",
    "SnapshotManager",
    "StateFold",
    "StateUpdated",
    "StateUpdatedOnlyReducer",
    "StepDrift",
    "Store",
    "Suspended",
    "VerificationReport",
    "WaitCancelled",
    "WaitCreated",
    "WaitFailed",
    "WaitResolved",
    "WhenStateReaches",
    "Worker",
    "agent",
    "cancel",
    "check_bundle",
    "checkpoint",
    "compare_outcomes",
    "compare_runs",
    "expected_tail",
    "export_run",
    "fork",
    "idempotency_key",
    "import_file",
    "interrupt",
    "make_bundle",
    "mint",
    "note_attempt",
    "now",
    "open_store",
    "patched_change",
    "random",
    "record",
    "register_type",
    "replay",
    "replay_flow",
    "replay_token",
    "restored",
    "resume",
    "run_step",
    "scan_execution_log",
    "scan_execution_log_with_state_hashes",
    "scan_execution_trace",
    "set_state",
    "settle",
    "sleep",
    "state",
    "state_hash",
    "step",
    "sweep",
    "tool",
    "uuid",
    "verify_file",
    "verify_run",
    "wait_for",
    "wait_for_first",
    "wait_key",
    "write_bundle",
]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'reenact' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
