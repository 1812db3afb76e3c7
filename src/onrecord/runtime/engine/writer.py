"""Writing a run down: what the agent asked for, was handed and drew goes into the journal together.

Nothing is written on its own account that can wait for the next commit; what a commit has to carry comes first in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onrecord.core.codec import encode
from onrecord.core.events import Event, TurnTaken, ValuesDrawn
from onrecord.errors import InvalidValue, OutcomeUnknown
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.runtime.engine.context import HERE
from onrecord.runtime.secrets.run_secrets import Secrets


class RunWriter:
    """The one writer of a run in this process. Called with the run's lock held."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.waiting: list[Draft] = []
        """To be written with the next commit."""
        self.draws: list[list[Any]] = []
        self.last_time = 0

    def next_seq(self, turns: list[list[Any]]) -> int:
        """The seq of the first draft that is written next, as `write` puts the batch together."""
        return self.journal.position + 1 + bool(turns) + bool(self.draws) + len(self.waiting)

    def write(self, turns: list[list[Any]], drafts: Sequence[Draft], secrets: Secrets, *, sync: bool) -> None:
        """The turns taken, the values drawn, what waits, and the drafts, in one batch, without the secrets."""
        batch, self.waiting = self.waiting, []
        batch += drafts
        if self.draws:
            batch.insert(0, Draft(ValuesDrawn(self.draws)))
            self.draws = []
        if turns:
            batch.insert(0, Draft(TurnTaken(turns)))
        if not batch:
            return
        if secrets.active:
            batch = secrets.redact_batch(batch, self.journal)
        token = HERE.token
        if token is not None:
            HERE.token = None  # whatever the store waits for is no rest of the agent
        try:
            self.last_time = self.journal.append_new(batch, None, sync).time
        except OutcomeUnknown:
            self._find_out(batch, sync)
        except InvalidValue as refused:
            raise _in_words(batch, self.journal.run, refused) from None
        finally:
            if token is not None:
                HERE.token = token

    def _find_out(self, batch: list[Draft], sync: bool) -> None:
        """Looked up, never blindly repeated: nobody else can have appended under our epoch."""
        journal = self.journal
        before = journal.position
        journal.reopen()
        if journal.position == before:
            self.last_time = journal.append_new(batch, None, sync).time
        elif sync:
            journal.store.sync()


_HANDED_OVER = {
    "ActionRequested": "what {} was called with",
    "ActionSucceeded": "what {} returned",
    "ActionFailed": "the error of {}",
    "Completed": "what the agent returned",
    "Failed": "the error of the agent",
}


def _in_words(batch: Sequence[Draft], run: str, refused: InvalidValue) -> InvalidValue:
    """Whose value it is that cannot be written, and what that means for the run."""
    event = next((draft.event for draft in batch if _is_refused(draft.event)), None)
    if event is None:
        return refused
    words = _HANDED_OVER.get(event.kind, f"a value of {event.kind}").format(event.content().get("action_id"))
    return InvalidValue(
        f"run {run}: {words} cannot be recorded: {refused.message}",
        hint="Nothing of it was written. Hand over data there instead; the run goes on from here when it is resumed.",
        code=refused.code,
    )


def _is_refused(event: Event) -> bool:
    try:
        encode(event.content())
    except InvalidValue:
        return True
    return False
