"""The stores behind the server: one that only reads, and one that writes once somebody resolves or settles."""

from __future__ import annotations

import threading
from collections.abc import Callable

from reenact.effect.waits.desk import WaitDesk
from reenact.journal.reader import JournalReader
from reenact.reports.selecting import select_run
from reenact.store.contract import Store
from reenact.tokens import JournalReplayLog
from reenact.web.indexed import Indexed


class Stores:
    def __init__(self, reading: Store, open_writing: Callable[[], Store], namespace: str = "default") -> None:
        self.reading = reading
        self.namespace = namespace
        self.receipts = JournalReplayLog(reading, namespace)
        self.indexed = Indexed(reading, namespace)
        self._open_writing = open_writing
        self._writing: Store | None = None
        self._desk: WaitDesk | None = None
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

    def desk(self) -> WaitDesk:
        store = self.writing()
        with self._lock:
            if self._desk is None:
                self._desk = WaitDesk(store, self.namespace)
            return self._desk

    def close(self) -> None:
        self.indexed.close()
        with self._lock:
            if self._writing is not None and self._writing is not self.reading:
                self._writing.close()
            self.reading.close()
