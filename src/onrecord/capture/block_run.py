"""Block of code as a run, without a function that could be called again: a test, or a cassette that is imported.

1. The caller marks where a block begins and ends. A block can be left and entered again; code in between does not
   belong to the run.
2. A block is never resumed, so redacted values are not sealed: a replay continues with placeholders.
3. The end of a block is an event. A replay that reaches it has done everything that was recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from onrecord.core.events import Completed
from onrecord.journal.journal import Journal
from onrecord.journal.reader import JournalReader
from onrecord.runtime.engine.context import current_lane
from onrecord.runtime.engine.execution import adopted, end_run
from onrecord.runtime.engine.run import LiveRun
from onrecord.runtime.replay.history import History
from onrecord.runtime.scheduler.drivers import threads
from onrecord.runtime.scheduler.drivers.strands import CURRENT
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
        threads.install()
        self.run = run
        run.calls_agents_inline = True
        if isinstance(run.secrets, RedactingSecrets):
            run.secrets.seals = NoSeals()
        self._is_here = False
        self._has_begun = False

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
        return cls(LiveRun(reader, history=History(reader)))

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

    @contextmanager
    def in_task(self) -> Iterator[None]:
        """Record or replay the block in the running task as part of the run, also in a task that is no lane of it."""
        lane = current_lane()
        task = asyncio.current_task()
        if task is None or (lane is not None and lane.run is self.run):
            yield
            return
        with adopted(self.run.coordinator.main, task):
            yield

    def _enter(self) -> None:
        self._is_here = True
        self._outside = CURRENT.strand, CURRENT.depth
        strand = self.run.coordinator.main
        if not self._has_begun:
            self._has_begun = True
            with self.run.lock:
                self.run.coordinator.start()
        strand.is_left = False
        CURRENT.strand, CURRENT.depth = strand, 0

    def leave(self) -> None:
        """Leave the block before its `with` statement ends."""
        if self._is_here:
            self._is_here = False
            self.run.coordinator.main.is_left = True
            CURRENT.strand, CURRENT.depth = self._outside

    def end(self) -> None:
        """Record the end of the run, or compare it with the recorded end."""
        if self.run.stopped is not None:
            raise self.run.stopped
        end_run(self.run, Completed())

    def close(self) -> None:
        """Release the run, whether or not it has ended."""
        if self.run.journal is not None:
            self.run.journal.release()
