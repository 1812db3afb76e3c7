"""The records of a scope's run by replay key, built from links: contents are read when they are needed."""

from __future__ import annotations

from onrecord.hosts.decision import Record
from onrecord.journal.reader import JournalReader

OUTCOMES = {"ActionSucceeded": Record.COMPLETED, "ActionFailed": Record.FAILED, "ActionDenied": Record.FAILED}


class Entry:
    """A request and its later events."""

    __slots__ = ("abandoned", "damaged", "key", "match", "outcome_kind", "outcome_seq", "request_seq", "settlements")

    def __init__(self, key: str, request_seq: int, match: bytes | None) -> None:
        self.key = key
        self.request_seq = request_seq
        self.match = match
        self.damaged = match is None
        self.outcome_seq: int | None = None
        self.outcome_kind = ""
        self.abandoned = 0
        """Attempts that were begun and not finished."""
        self.settlements = 0

    @property
    def record(self) -> Record:
        if self.damaged:
            return Record.UNKNOWN
        return Record.REQUESTED if self.outcome_seq is None else OUTCOMES[self.outcome_kind]


class RecordIndex:
    def __init__(self) -> None:
        self._by_key: dict[str, Entry] = {}
        self._by_seq: dict[int, Entry] = {}
        self._read_to = 0

    def get(self, key: str) -> Entry | None:
        return self._by_key.get(key)

    def unanswered(self) -> list[Entry]:
        return [entry for entry in self._by_key.values() if entry.record is Record.REQUESTED]

    def read_on(self, reader: JournalReader) -> None:
        """Take in the events that were appended since."""
        for row in reader.store.scan(reader.namespace, reader.run, self._read_to + 1, contents=False):
            link = reader.link(row)
            self.take_in(row.seq, row.kind, link.key, link.parent, row.match)

    def take_in(self, seq: int, kind: str, key: str | None, parent: int | None, match: bytes | None) -> None:
        self._read_to = seq
        if kind == "ActionRequested" and key is not None:
            known = self._by_key.get(key)
            if known is not None:
                known.damaged = True  # no writer of this project requests twice under one key
                return
            self._by_key[key] = self._by_seq[seq] = Entry(key, seq, match)
            return
        entry = self._by_seq.get(parent) if parent is not None else None
        if entry is None:
            return
        if kind in OUTCOMES:
            entry.outcome_seq, entry.outcome_kind = seq, kind
        elif kind == "EffectSettled":
            entry.settlements += 1
        elif kind == "AttemptRecorded":
            entry.abandoned += 1
