"""The index behind lists and searches: opened when somebody asks for one, and kept up to date while somebody does."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from onrecord.errors import OnrecordError
from onrecord.store.contract import Store

if TYPE_CHECKING:  # loaded with the first list
    from onrecord.index.index import Index

FOLLOW_SECONDS = 0.5
"""So long a request waits for the index at most; then it answers with what is there."""
PIECE_SECONDS = 0.5
REST_SECONDS = 1.0
IDLE_SECONDS = 60.0


class IndexAccess:
    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._lock = threading.Lock()
        self._index: Index | None = None
        self._thread: threading.Thread | None = None
        self._asked = 0.0
        self._closing = threading.Event()

    def current(self, *, words: bool = False) -> Index:
        """The index, as far as it could be brought up to date meanwhile; the rest is done in the background."""
        index = self.as_it_is()
        index.catch_up(FOLLOW_SECONDS, words=words, again=False, stop=self._closing.is_set)
        with self._lock:
            self._asked = time.monotonic()
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._keep, args=(index,), name="onrecord-index", daemon=True)
                self._thread.start()
        return index

    def as_it_is(self) -> Index:
        """For those who know that somebody else brings it up to date."""
        with self._lock:
            if self._index is None:
                from onrecord.index.index import Index

                self._index = Index(self._store, self._namespace)
            return self._index

    def _keep(self, index: Index) -> None:
        """Until nobody has asked for a while."""
        while not self._closing.is_set():
            with self._lock:
                if time.monotonic() - self._asked > IDLE_SECONDS:
                    self._thread = None
                    return
            try:
                whole = index.catch_up(PIECE_SECONDS, stop=self._closing.is_set)
            except OnrecordError:
                whole = True  # the store is away: whoever asks is told so
            # Those who ask have a turn between the pieces.
            self._closing.wait(REST_SECONDS if whole else 0.02)

    def close(self) -> None:
        self._closing.set()
        thread = self._thread
        if thread is not None:
            thread.join(5)
        with self._lock:
            if self._index is not None:
                self._index.close()
