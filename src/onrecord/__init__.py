"""Onrecord: record what an agent did, once, in one tamper-evident log.

Only the names below are public; everything else may move. Each name is imported on first use, so that
`import onrecord` stays cheap for programs that need few of them. `__init__.pyi` has them for type checkers.
"""

from __future__ import annotations

from importlib import import_module

from onrecord import interception

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
__all__ = sorted(_MODULE_OF)


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
