"""The stores behind the server: one that only reads, and one that writes once somebody resolves or settles."""

from __future__ import annotations

import threading
from collections.abc import Callable

from onrecord.journal.reader import JournalReader
from onrecord.proof.receipts import JournalReplayLog
from onrecord.reports.run_selector import select_run
from onrecord.runtime.waits.registry import WaitRegistry
from onrecord.store.contract import Store
from onrecord.web.index_access import IndexAccess


class Stores:
    def __init__(self, reading: Store, open_writing: Callable[[], Store], namespace: str = "default") -> None:
        self.reading = reading
        self.namespace = namespace
        self.receipts = JournalReplayLog(reading, namespace)
        self.indexed = IndexAccess(reading, namespace)
        self._open_writing = open_writing
        self._writing: Store | None = None
        self._desk: WaitRegistry | None = None
        self._lock = threading.Lock()

    def run(self, text: str) -> str:
        """The id of the run that is meant."""
        return select_run(self.reading, self.namespace, text)

    def reader(self, text: str) -> JournalReader:
        return JournalReader(self.reading, self.run(text), self.namespace)

    @property
    def opened_for_writing(self) -> bool:
        return self._writing is not None

    def writing(self) -> Store:
        with self._lock:
            if self._writing is None:
                self._writing = self._open_writing()
            return self._writing

    def desk(self) -> WaitRegistry:
        store = self.writing()
        with self._lock:
            if self._desk is None:
                self._desk = WaitRegistry(store, self.namespace)
            return self._desk

    def close(self) -> None:
        self.indexed.close()
        with self._lock:
            if self._writing is not None and self._writing is not self.reading:
                self._writing.close()
            self.reading.close()
