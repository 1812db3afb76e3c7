"""A block of code as a run, where no function is there to be called again: a test, or a cassette that is read in.

1. A block is recorded or replayed by whoever knows where it begins and ends. It may be left and entered again: what
   happens between is not the run's.
2. Nobody resumes a block, so what was redacted in it is not sealed: a replay goes on with placeholders.
3. The end of a block is an event like any other. A replay that comes to it has done what was recorded, and all of it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from reenact.core.events import Completed
from reenact.effect import threads
from reenact.effect.boundary import replays
from reenact.effect.earlier import Carrier
from reenact.effect.live_run import LiveRun
from reenact.effect.past import Past
from reenact.effect.places import HERE, PLACE
from reenact.effect.redacting import RedactingSecrets, Redaction
from reenact.effect.running import end_run
from reenact.effect.sealing import Seals
from reenact.effect.secrets import FACT as REDACTION
from reenact.journal.journal import Journal
from reenact.journal.reader import JournalReader
from reenact.store.contract import Store


class Unsealed(Seals):
    """Nothing is kept of what was redacted."""

    def put(self, *_: Any, **__: Any) -> None: ...

    def find(self, *_: Any, **__: Any) -> None: ...


class OwnRecording(JournalReader):
    """A recording that lies beside the code that it is of: its values come back as what they were."""

    @cached_property
    def holds_foreign(self) -> bool:
        return False


class Block:
    """One run, and the thread that the block runs in."""

    def __init__(self, run: LiveRun) -> None:
        threads.install()
        self.run = run
        run.calls_agents_inline = True
        if isinstance(run.secrets, RedactingSecrets):
            run.secrets.seals = Unsealed()
        self._token: object = None
        """What turns know the thread by, kept while the block is left."""
        self._is_here = False

    @classmethod
    def recorded(
        cls,
        store: Store,
        run_id: str,
        facts: Mapping[str, Any],
        *,
        namespace: str = "default",
        redacts: bool = True,
    ) -> Block:
        """Begins a run. Secrets are kept out of it by default."""
        how = {REDACTION: Redaction().to_fact()} if redacts else {}
        return cls(LiveRun(Journal.create(store, run_id, namespace, facts={**facts, **how})))

    @classmethod
    def replayed(cls, store: Store, run_id: str, namespace: str = "default") -> Block:
        reader = OwnRecording(store, run_id, namespace)
        return cls(LiveRun(reader, past=Past.read(reader)))

    @property
    def is_replay(self) -> bool:
        return self.run.journal is None

    @contextmanager
    def here(self) -> Iterator[None]:
        """What happens inside is the run's."""
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
        """What happens inside is not the run's, wherever it happens."""
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
        self._place, self._outer = PLACE.get(), HERE.token
        self._around = replays.get(threading.get_ident())
        PLACE.set(self.run.main)
        HERE.token = self._token
        self.run.carrier = self.run.carrier or Carrier.here()
        if self.is_replay:
            replays[threading.get_ident()] = self.run

    def leave(self) -> None:
        """Before the end of a stretch, for whoever knows better."""
        if not self._is_here:
            return
        self._is_here = False
        self._token, HERE.token = HERE.token, self._outer
        PLACE.set(self._place)
        if self._around is not None:
            replays[threading.get_ident()] = self._around
        else:
            replays.pop(threading.get_ident(), None)

    def end(self) -> None:
        """Writes its end down, or compares it with the recorded one."""
        if self.run.stopped is not None:
            raise self.run.stopped
        end_run(self.run, Completed())

    def close(self) -> None:
        """Nothing of it goes on, whether or not it has come to its end."""
        run = self.run
        run.turns.rests(run.main_token)
        if run.journal is not None:
            run.journal.release()
