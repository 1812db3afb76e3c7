"""Onrecord: record what an agent did, once, in one tamper-evident log.

Only the names below are public; everything else may move. Each name is imported on first use, so that
`import onrecord` stays cheap for programs that need few of them.
"""

from __future__ import annotations

from importlib import import_module

from onrecord import interception

TYPE_CHECKING = False  # not imported from `typing`, whose import takes longer than that of this module
if TYPE_CHECKING:
    from onrecord.analysis.compare.drift import Outcome, StepDrift, compare_outcomes
    from onrecord.analysis.compare.masks import Masks
    from onrecord.analysis.compare.tolerance import DriftTolerance, PathRule
    from onrecord.analysis.diff.results import RunComparison
    from onrecord.analysis.diff.runs import compare_runs
    from onrecord.analysis.fork import expected_tail, fork, patched_change
    from onrecord.analysis.timeline import ReplayEngine
    from onrecord.capture.unrecorded import UnrecordedWarning
    from onrecord.core.codec import register_type
    from onrecord.core.events import (
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
    from onrecord.core.state import Reducer, StateUpdatedOnlyReducer, state_hash
    from onrecord.errors import OnrecordError
    from onrecord.journal.execution_log import (
        ExecutionLog,
        KernelTraceEvent,
        scan_execution_log,
        scan_execution_log_with_state_hashes,
        scan_execution_trace,
    )
    from onrecord.journal.export import export_run
    from onrecord.journal.import_file import import_file, verify_file
    from onrecord.journal.journal import Draft, Journal
    from onrecord.journal.operations import OperationsJournal
    from onrecord.journal.reader import JournalReader, SequencedEvent
    from onrecord.journal.snapshots import AtMarkedPoints, EveryEvents, SnapshotManager, StateFold, WhenStateReaches
    from onrecord.journal.verify import VerificationReport, verify_run
    from onrecord.proof.evidence import check_bundle, make_bundle, write_bundle
    from onrecord.proof.receipts import EffectInvoker, ReplayLog, ReplayToken, mint, replay_flow, replay_token
    from onrecord.runtime.api.agent import Agent, agent, replay, resume
    from onrecord.runtime.api.checkpoint import checkpoint, restored
    from onrecord.runtime.api.policy import Budget, Policy
    from onrecord.runtime.api.primitives import now, random, set_state, sleep, state, uuid
    from onrecord.runtime.api.record import record
    from onrecord.runtime.api.retry import Retry
    from onrecord.runtime.api.settle import cancel, settle
    from onrecord.runtime.api.tool import idempotency_key, run_step, step, tool
    from onrecord.runtime.api.wait import WaitCancelled, WaitFailed, interrupt, wait_for, wait_for_first, wait_key
    from onrecord.runtime.api.worker import Worker, sweep
    from onrecord.runtime.engine.attempts import note_attempt
    from onrecord.runtime.engine.stops import (
        BudgetExceeded,
        Denied,
        Divergence,
        InDoubt,
        NotCarriedOut,
        NotReplayable,
        Suspended,
    )
    from onrecord.runtime.forks.fork import AnotherAnswer, AnotherInput, AnotherModel
    from onrecord.runtime.secrets.redaction import Redaction
    from onrecord.store.contract import Head, Store
    from onrecord.store.factory import open_store

__version__ = "0.1.0"

_NAMES_BY_MODULE = {
    "onrecord.capture.unrecorded": ("UnrecordedWarning",),
    "onrecord.core.codec": ("register_type",),
    "onrecord.core.events": (
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
    "onrecord.core.state": ("Reducer", "StateUpdatedOnlyReducer", "state_hash"),
    "onrecord.runtime.api.agent": ("Agent", "agent", "replay", "resume"),
    "onrecord.runtime.engine.attempts": ("note_attempt",),
    "onrecord.runtime.api.checkpoint": ("checkpoint", "restored"),
    "onrecord.runtime.api.policy": ("Budget", "Policy"),
    "onrecord.runtime.api.primitives": ("now", "random", "set_state", "sleep", "state", "uuid"),
    "onrecord.runtime.api.record": ("record",),
    "onrecord.runtime.secrets.redaction": ("Redaction",),
    "onrecord.runtime.api.retry": ("Retry",),
    "onrecord.runtime.api.settle": ("cancel", "settle"),
    "onrecord.runtime.engine.stops": (
        "BudgetExceeded",
        "Denied",
        "Divergence",
        "InDoubt",
        "NotCarriedOut",
        "NotReplayable",
        "Suspended",
    ),
    "onrecord.runtime.api.tool": ("idempotency_key", "run_step", "step", "tool"),
    "onrecord.runtime.api.wait": ("WaitCancelled", "WaitFailed", "interrupt", "wait_for", "wait_for_first", "wait_key"),
    "onrecord.runtime.api.worker": ("Worker", "sweep"),
    "onrecord.errors": ("OnrecordError",),
    "onrecord.journal.export": ("export_run",),
    "onrecord.journal.import_file": ("import_file", "verify_file"),
    "onrecord.journal.journal": ("Draft", "Journal"),
    "onrecord.journal.operations": ("OperationsJournal",),
    "onrecord.journal.reader": ("JournalReader", "SequencedEvent"),
    "onrecord.journal.snapshots": ("AtMarkedPoints", "EveryEvents", "SnapshotManager", "StateFold", "WhenStateReaches"),
    "onrecord.journal.verify": ("VerificationReport", "verify_run"),
    "onrecord.journal.execution_log": (
        "ExecutionLog",
        "KernelTraceEvent",
        "scan_execution_log",
        "scan_execution_log_with_state_hashes",
        "scan_execution_trace",
    ),
    "onrecord.runtime.forks.fork": ("AnotherAnswer", "AnotherInput", "AnotherModel"),
    "onrecord.analysis.compare.drift": ("Outcome", "StepDrift", "compare_outcomes"),
    "onrecord.analysis.compare.masks": ("Masks",),
    "onrecord.analysis.compare.tolerance": ("DriftTolerance", "PathRule"),
    "onrecord.analysis.diff.runs": ("compare_runs",),
    "onrecord.analysis.diff.results": ("RunComparison",),
    "onrecord.analysis.timeline": ("ReplayEngine",),
    "onrecord.analysis.fork": ("expected_tail", "fork", "patched_change"),
    "onrecord.proof.evidence": ("check_bundle", "make_bundle", "write_bundle"),
    "onrecord.proof.receipts": ("EffectInvoker", "ReplayLog", "ReplayToken", "mint", "replay_flow", "replay_token"),
    "onrecord.store.contract": ("Head", "Store"),
    "onrecord.store.factory": ("open_store",),
}
_MODULE_OF = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}

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
    "OnrecordError",
    "OperationsJournal",
    "Outcome",
    "PathRule",
    "Policy",
    "Redaction",
    "Reducer",
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
    "UnrecordedWarning",
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


def _install_interceptors() -> None:
    import_module("onrecord.capture.interceptors.late_install").install_for_good()


interception.install = _install_interceptors


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'onrecord' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
