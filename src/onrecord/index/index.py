"""The index of a store as it is used: brought up to date when somebody asks, within the time that he has."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import apsw

from reenact.index.catching_up import CatchingUp
from reenact.index.database import Database, StartAnew
from reenact.store.contract import Store

T = TypeVar("T")

LOOK_AGAIN_SECONDS = 1.0
ANEW_MOST = 5
"""So often in one go: what is removed faster than that is caught up with later."""


class Extent(NamedTuple):
    """How far the index has come."""

    listed: bool
    """Lists can be answered from it."""
    runs: int
    unread: int
    """Runs of which some words are still missing."""

    @property
    def whole(self) -> bool:
        return self.listed and self.unread == 0


class Index:
    def __init__(self, store: Store, namespace: str = "default") -> None:
        self.store = store
        self.namespace = namespace
        self._database = Database(store, namespace)
        self._turn = threading.Lock()
        self._looked_again = 0.0
        self._checked = False

    @property
    def path(self) -> str | None:
        """None: it is kept in memory."""
        return self._database.path

    def read(self, work: Callable[[apsw.Connection], T]) -> T:
        return self._database.read(work)

    def extent(self) -> Extent:
        def look(connection: apsw.Connection) -> Extent:
            listed = connection.execute("SELECT value FROM meta WHERE name = 'listed'").get == "all"
            unread = connection.execute("SELECT count(*) FROM runs WHERE texted < events").get
            return Extent(listed, int(connection.execute("SELECT count(*) FROM runs").get), int(unread))

        return self.read(look)

    def catch_up(
        self,
        seconds: float | None = None,
        *,
        words: bool = True,
        again: bool = True,
        stop: Callable[[], bool] | None = None,
    ) -> bool:
        """Follows the log for so long at most, or until there is nothing new. True: there is nothing new.

        Without `words` only what lists show; with `again` open runs are looked at from time to time though nothing is
        new in them. What another thread or process is at is left to it.
        """
        deadline = None if seconds is None else time.monotonic() + seconds

        def is_over() -> bool:
            return (deadline is not None and time.monotonic() >= deadline) or (stop is not None and stop())

        if not self._turn.acquire(timeout=-1 if seconds is None else seconds):
            return False
        try:
            return self._follow(words, again, is_over)
        finally:
            self._turn.release()

    def _follow(self, words: bool, again: bool, is_over: Callable[[], bool]) -> bool:
        anew = 0
        while True:
            try:
                if not self._round(words, again, is_over):
                    return True
            except StartAnew:
                anew += 1
                self._database.empty()
            except (apsw.BusyError, apsw.LockedError):
                return False
            except apsw.Error:
                anew += 1
                self._database.make_anew()
            if anew >= ANEW_MOST or is_over():
                return False

    def _round(self, words: bool, again: bool, is_over: Callable[[], bool]) -> bool:
        with self._database.writing() as connection:
            at = CatchingUp(connection, self.store, self.namespace)
            if not self._checked:
                at.check_store()
                self._checked = True
            if at.follow():
                return True
            if again and time.monotonic() - self._looked_again >= LOOK_AGAIN_SECONDS:
                at.look_again()
                self._looked_again = time.monotonic()
            return words and at.read_words(is_over)

    def close(self) -> None:
        self._database.close()
