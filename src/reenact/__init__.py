"""Reenact: record what an agent did, once, in one tamper-evident log.

The names below are the public ones; everything else may move.
"""

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
from reenact.store.contract import Head, Store
from reenact.store.opening import open_store

__version__ = "0.1.0"

__all__ = [
    "ActionDenied",
    "ActionFailed",
    "ActionRequested",
    "ActionSucceeded",
    "AtMarkedPoints",
    "AttemptRecorded",
    "Cancelled",
    "Completed",
    "Draft",
    "Event",
    "EveryEvents",
    "ExecutionLog",
    "Failed",
    "Head",
    "Interrupted",
    "Journal",
    "JournalReader",
    "KernelTraceEvent",
    "OperationsJournal",
    "Reducer",
    "ReenactError",
    "Resumed",
    "SequencedEvent",
    "SnapshotManager",
    "StateFold",
    "StateUpdated",
    "StateUpdatedOnlyReducer",
    "Store",
    "VerificationReport",
    "WaitCreated",
    "WaitResolved",
    "WhenStateReaches",
    "export_run",
    "import_file",
    "open_store",
    "register_type",
    "scan_execution_log",
    "scan_execution_log_with_state_hashes",
    "scan_execution_trace",
    "state_hash",
    "verify_file",
    "verify_run",
]
