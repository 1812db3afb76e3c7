"""Block of code as a run, without a function that could be called again: a test, or a cassette that is imported.

1. The caller marks where a block begins and ends. A block can be left and entered again; code in between does not
   belong to the run.
2. A block is never resumed, so redacted values are not sealed: a replay continues with placeholders.
3. The end of a block is an event. A replay that reaches it has done everything that was recorded.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from onrecord.core.events import Completed
from onrecord.journal.journal import Journal
from onrecord.journal.reader import JournalReader
from onrecord.runtime.engine.boundary import replays
from onrecord.runtime.engine.context import HERE, PLACE
from onrecord.runtime.engine.execution import end_run
from onrecord.runtime.engine.run import LiveRun
from onrecord.runtime.replay.checkpoint_entry import Carrier
from onrecord.runtime.replay.history import History
from onrecord.runtime.scheduler import thread_driver
from onrecord.runtime.secrets.redaction import RedactingSecrets, Redaction
from onrecord.runtime.secrets.run_secrets import FACT as REDACTION
from onrecord.runtime.secrets.seals import Seals
from onrecord.store.contract import Store


class NoSeals(Seals):
    """Seals that keep nothing of what was redacted."""

    def put(self, *_: Any, **__: Any) -> None: ...

    def find(self, *_: Any, **__: Any) -> None: ...


class OwnRecording(JournalReader):
    """Recording kept beside its own code: its values are restored as objects, not as plain data."""

    @cached_property
    def holds_foreign(self) -> bool:
        return False


class BlockRun:
    """Run of one block, executed in one thread."""

    def __init__(self, run: LiveRun) -> None:
        thread_driver.install()
        self.run = run
        run.calls_agents_inline = True
        if isinstance(run.secrets, RedactingSecrets):
            run.secrets.seals = NoSeals()
        self._token: object = None
        """Thread token for the scheduler, kept while the block is left."""
        self._is_here = False

    @classmethod
    def recorded(
        cls, store: Store, run_id: str, facts: Mapping[str, Any], *, namespace: str = "default", redacts: bool = True
    ) -> BlockRun:
        """Begin a run. Secrets are redacted by default."""
        redaction_fact = {REDACTION: Redaction().to_fact()} if redacts else {}
        return cls(LiveRun(Journal.create(store, run_id, namespace, facts={**facts, **redaction_fact})))

    @classmethod
    def replayed(cls, store: Store, run_id: str, namespace: str = "default") -> BlockRun:
        reader = OwnRecording(store, run_id, namespace)
        return cls(LiveRun(reader, past=History.read(reader)))

    @property
    def is_replay(self) -> bool:
        return self.run.journal is None

    @contextmanager
    def here(self) -> Iterator[None]:
        """Record or replay what happens inside as part of the run."""
        if self._is_here:
            yield
            return
        self._enter()
        try:
            yield
        finally:
            self.leave()

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """Exclude what happens inside from the run."""
        if not self._is_here:
            yield
            return
        self.leave()
        try:
            yield
        finally:
            self._enter()

    def _enter(self) -> None:
        self._is_here = True
        self._outer_place, self._outer_token = PLACE.get(), HERE.token
        self._outer_replay = replays.get(threading.get_ident())
        PLACE.set(self.run.main)
        HERE.token = self._token
        self.run.carrier = self.run.carrier or Carrier.here()
        if self.is_replay:
            replays[threading.get_ident()] = self.run

    def leave(self) -> None:
        """Leave the block before its `with` statement ends."""
        if not self._is_here:
            return
        self._is_here = False
        self._token, HERE.token = HERE.token, self._outer_token
        PLACE.set(self._outer_place)
        if self._outer_replay is not None:
            replays[threading.get_ident()] = self._outer_replay
        else:
            replays.pop(threading.get_ident(), None)

    def end(self) -> None:
        """Record the end of the run, or compare it with the recorded end."""
        if self.run.stopped is not None:
            raise self.run.stopped
        end_run(self.run, Completed())

    def close(self) -> None:
        """Release the run, whether or not it has ended."""
        run = self.run
        run.turns.rests(run.main_token)
        if run.journal is not None:
            run.journal.release()
