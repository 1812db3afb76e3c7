"""The index of a store: updated on request, within a time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import apsw

from onrecord.index.database import Database, IndexOutdated
from onrecord.index.sync import IndexSync
from onrecord.store.contract import Store

T = TypeVar("T")

RECHECK_SECONDS = 1.0
MOST_REBUILDS = 5
"""Most rebuilds in one call of `catch_up`, in case runs are removed faster than that."""


class Extent(NamedTuple):
    """The completeness of the index."""

    listed: bool
    """True if lists can be answered from the index."""
    runs: int
    unread: int
    """Runs with events that are not indexed yet."""

    @property
    def whole(self) -> bool:
        return self.listed and self.unread == 0


class Index:
    def __init__(self, store: Store, namespace: str = "default") -> None:
        self.store = store
        self.namespace = namespace
        self._database = Database(store, namespace)
        self._sync_lock = threading.Lock()
        self._rechecked_at = 0.0
        self._checked = False

    @property
    def path(self) -> str | None:
        """Return the path of the file, or None if the index is in memory."""
        return self._database.path

    def read(self, work: Callable[[apsw.Connection], T]) -> T:
        return self._database.read(work)

    def extent(self) -> Extent:
        def query(connection: apsw.Connection) -> Extent:
            listed = connection.execute("SELECT value FROM meta WHERE name = 'listed'").get == "all"
            unread = connection.execute("SELECT count(*) FROM runs WHERE texted < events").get
            return Extent(listed, int(connection.execute("SELECT count(*) FROM runs").get), int(unread))

        return self.read(query)

    def catch_up(
        self,
        seconds: float | None = None,
        *,
        words: bool = True,
        again: bool = True,
        stop: Callable[[], bool] | None = None,
    ) -> bool:
        """Update the index until nothing is new or the time is over. Return True if nothing is new.

        Without `words` only lists are updated. With `again` open runs are rechecked from time to time even if nothing
        changed. Return False if another thread or process is updating it.
        """
        deadline = None if seconds is None else time.monotonic() + seconds

        def is_over() -> bool:
            return (deadline is not None and time.monotonic() >= deadline) or (stop is not None and stop())

        if not self._sync_lock.acquire(timeout=-1 if seconds is None else seconds):
            return False
        try:
            return self._follow(words, again, is_over)
        finally:
            self._sync_lock.release()

    def _follow(self, words: bool, again: bool, is_over: Callable[[], bool]) -> bool:
        rebuilds = 0
        while True:
            try:
                if not self._sync_once(words, again, is_over):
                    return True
            except IndexOutdated:
                rebuilds += 1
                self._database.empty()
            except (apsw.BusyError, apsw.LockedError):
                return False
            except apsw.Error:
                rebuilds += 1
                self._database.rebuild()
            if rebuilds >= MOST_REBUILDS or is_over():
                return False

    def _sync_once(self, words: bool, again: bool, is_over: Callable[[], bool]) -> bool:
        with self._database.writing() as connection:
            sync = IndexSync(connection, self.store, self.namespace)
            if not self._checked:
                sync.check_store()
                self._checked = True
            if sync.follow():
                return True
            if again and time.monotonic() - self._rechecked_at >= RECHECK_SECONDS:
                sync.recheck_open_runs()
                self._rechecked_at = time.monotonic()
            return words and sync.read_words(is_over)

    def close(self) -> None:
        self._database.close()
