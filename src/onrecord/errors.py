"""The errors that Onrecord raises, grouped by who must act.

    OnrecordError
    ├── InvalidValue            the value cannot be written (the message names path and rule)
    ├── InvalidInput            the caller passed an invalid id, position or option
    │   └── BadPosition
    ├── NotFound                no such run, file, event
    │   └── UnknownOrRevoked    a wait key that opens nothing; the reason is never given
    ├── Refused                 the append was not accepted; nothing was written, the handle stays usable
    │   ├── WrongRun            the event belongs to another run
    │   ├── WrongSequence       the event claims a seq that is not the next one
    │   ├── MissingParent       the causal parent does not exist
    │   ├── MovedHead           another writer appended first
    │   ├── StaleEpoch          another process has taken the run over
    │   ├── ClosedRun           the run has ended
    │   ├── ConflictingDuplicate  the event id exists with other content
    │   ├── UnknownKind         an event kind that this version cannot write
    │   └── RunExists           another run has this id
    ├── Damaged                 recorded bytes are not what was written
    │   ├── BadRecording        an exported file that breaks the format
    │   └── SchemaMismatch      a store of another program or version
    └── StoreError              the store could not do it
        ├── StoreUnavailable    cannot be opened, reached or locked, or is full
        ├── OutcomeUnknown      an append may or may not have been committed: the handle is poisoned
        ├── Poisoned            the handle was used after that without being reopened
        └── KeysUnavailable     the file of secrets cannot be used, or lacks the requested one

Each error has a stable ``code``, a message that says what happened and where, and a ``hint`` that says what to do.
Messages never hold recorded values.
"""

from __future__ import annotations


class OnrecordError(Exception):
    """Base of all errors. `code` is stable; `exit_status` is the exit status of the command line."""

    code = "onrecord_error"
    exit_status = 70
    default_hint = ""

    def __init__(self, message: str, *, hint: str = "", code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint
        if code is not None:
            self.code = code
        if self.hint:
            self.add_note(self.hint)  # Python prints notes under an uncaught error; `str` stays one line

    def replace_hint(self, hint: str) -> None:
        self.__notes__ = [hint if note == self.hint else note for note in getattr(self, "__notes__", [])]
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions cross process boundaries in parallel verification; pickling would lose keyword arguments.
        return (_rebuild, (type(self), self.message, self.hint, self.code))


def _rebuild(cls: type[OnrecordError], message: str, hint: str, code: str) -> OnrecordError:
    return cls(message, hint=hint, code=code)


class InvalidValue(OnrecordError):
    code = "invalid_value"
    exit_status = 2


class InvalidInput(OnrecordError):
    code = "invalid_input"
    exit_status = 2


class BadPosition(InvalidInput):
    code = "bad_position"


class NotFound(OnrecordError):
    code = "not_found"
    exit_status = 3
    default_hint = "`onrecord ls` lists the runs of this store."


class Refused(OnrecordError):
    code = "append_refused"
    exit_status = 6


class WrongRun(Refused):
    code = "wrong_run"


class WrongSequence(Refused):
    code = "wrong_sequence"


class MissingParent(Refused):
    code = "missing_parent"


class MovedHead(Refused):
    code = "moved_head"
    default_hint = "Read the tail again and decide anew; another writer appended first."


class StaleEpoch(Refused):
    code = "stale_epoch"
    default_hint = "Another process has taken this run over; stop writing to it."


class ClosedRun(Refused):
    code = "closed_run"
    default_hint = "The run has ended; fork it to continue."


class ConflictingDuplicate(Refused):
    code = "conflicting_duplicate"


class UnknownKind(Refused):
    code = "unknown_kind"
    default_hint = "The store was written by a newer version; upgrade to write to it."


class RunExists(Refused):
    code = "run_exists"
    default_hint = "Continue that run (`resume`), or choose another id."


class Damaged(OnrecordError):
    code = "damaged"
    exit_status = 4
    default_hint = "`onrecord verify --all` names the damaged runs and events."


class BadRecording(Damaged):
    code = "bad_recording"
    default_hint = "The file is not a complete, unaltered recording; get it again from its source."


class SchemaMismatch(Damaged):
    code = "schema_mismatch"
    exit_status = 5
    default_hint = "This store was made by another version or program."


class StoreError(OnrecordError):
    code = "store_error"
    exit_status = 5


class StoreUnavailable(StoreError):
    code = "store_unavailable"


class OutcomeUnknown(StoreError):
    code = "outcome_unknown"
    default_hint = "Reopen the run: the tail is read again and shows whether the events arrived."


class Poisoned(StoreError):
    code = "poisoned"
    default_hint = "Call reopen() on the journal, then append again."


class UnknownOrRevoked(NotFound):
    code = "await_event_unknown_or_revoked"
    default_hint = "Ask the sender of the key for a new one."

    def __init__(self, message: str = "", *, hint: str = "", code: str | None = None) -> None:
        super().__init__(message or "this wait key is not known or was revoked", hint=hint, code=code)


class KeysUnavailable(StoreError):
    code = "keys_unavailable"
