"""A step that writes to the store's own database, in the transaction that records its outcome: exactly once.

`@onrecord.step(transactional=True)` gives the function the database connection as its first argument: that of apsw
with SQLite, that of psycopg with Postgres. Its rows and its outcome are committed together or not at all. So a crash at
any instant leaves both or neither; after neither, the step is executed again when the run is resumed.

Rules:

1. The connection is no part of what is recorded. It is lent: it and its cursors are dead once the function has
   returned (`transaction_over`).
2. From the function's first line to the commit the run is locked, and with SQLite the store too: nothing else of the
   run continues, and no other process writes. Such a step is short, and waits for nothing but the database.
3. An `async` function runs in a loop and a thread of its own, since the agent's loop may have to wait for the commit.
   It must not wait for anything that lives in the agent's loop.
4. What the function raises undoes its rows, and is its outcome, as with any step; then retries, if there are any.
   A failure of the store is no outcome: the run stops, and a resume continues it from here.
5. The outcome is written where the transaction ends, which may be while the agent runs. The turn `taken` says where it
   is delivered.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import TYPE_CHECKING, Any

from onrecord.errors import InvalidInput, OnrecordError, OutcomeUnknown, StaleEpoch
from onrecord.journal.chain import Draft
from onrecord.journal.transactions import append_in_transaction, require_transactions
from onrecord.runtime.engine.attempts import closing_draft
from onrecord.runtime.engine.context import Inside, current_effect, current_lane, inside
from onrecord.runtime.engine.open_effect import MadeOutcome
from onrecord.runtime.engine.stops import OutsideRun, RunStopped, Superseded
from onrecord.runtime.replay.delivery_marks import make_mark
from onrecord.runtime.scheduler.items import APART

if TYPE_CHECKING:
    from onrecord.core.events import Event
    from onrecord.journal.journal import Journal
Work = Callable[[Any], Any]
"""The user's function, given the connection."""


def check_place(name: str) -> None:
    """Refuse a transaction outside of a run, or in a store that has none, before anything is recorded."""
    lane = current_lane()
    if lane is None:
        raise OutsideRun(f"{name} writes in the transaction of a run, and was called outside of any, or in an effect")
    if lane.run.journal is not None:
        require_transactions(lane.run.journal.store)


def without_connection(name: str, signature: inspect.Signature) -> inspect.Signature:
    """Return the parameters without the first one, which is the connection."""
    parameters = list(signature.parameters.values())
    if not parameters or parameters[0].kind not in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
        raise InvalidInput(
            f"{name} takes no database connection as its first argument",
            hint="A step with transactional=True is given one.",
            code="bad_transactional_step",
        )
    return signature.replace(parameters=parameters[1:])


def in_transaction(function: Callable[..., Any], args: Any, kwargs: Any, *, is_async: bool) -> Callable[[], Any]:
    """Return the call that executes the effect of such a step."""

    async def awaited(connection: Any) -> Any:
        return await function(connection, *args, **kwargs)

    if is_async:
        return lambda: asyncio.to_thread(_execute, lambda connection: asyncio.run(awaited(connection)))
    return lambda: _execute(lambda connection: function(connection, *args, **kwargs))


def _execute(work: Work) -> Any:
    place = current_effect()
    assert place is not None
    return _Transaction(place).execute(work)


class _Transaction:
    def __init__(self, place: Inside) -> None:
        self._place = place
        self._run = place.run
        self._effect = place.effect
        self._failure: BaseException | None = None
        """What the user's function raised."""
        self._value: Any = None

    def execute(self, work: Work) -> Any:
        run, token = self._run, self._effect.token
        with inside(), run.lock:
            run.check_going_on()
            if token.cancelled or token.gone or token.done or token.here:
                raise asyncio.CancelledError  # it has another outcome, or is to get one
            try:
                outcome = self._commit(work)
            except StaleEpoch:
                run.stop(Superseded(f"run {run.name} was taken over by another process"))
                run.check_going_on()
                raise
            except OnrecordError as error:
                if error is self._failure:
                    raise
                run.stop(error)
                raise RunStopped(run.stopped or error) from error
            run.coordinator.arrived(token, outcome, is_written=True)
            return self._value

    def _commit(self, work: Work) -> MadeOutcome:
        """Commit the transaction. One with an unknown result is looked up, and repeated if it did not happen."""
        run, journal = self._run, self._run.journal
        assert journal is not None
        answers: list[Event] = []

        def work_and_answer(connection: Any) -> list[Draft]:
            try:
                self._value = work(connection)
            except BaseException as error:
                self._failure = error
                raise
            return self._make_drafts(answers, journal)

        try:
            run.last_commit_us = append_in_transaction(journal, work_and_answer)[-1].time
        except OutcomeUnknown:
            committed = journal.reopen()
            run.last_commit_us = (
                committed.time if committed is not None else append_in_transaction(journal, work_and_answer)[-1].time
            )
        run.secrets.end_transaction(journal)
        outcome = MadeOutcome(answers[-1])
        outcome.seq = journal.position
        return outcome

    def _make_drafts(self, answers: list[Event], journal: Journal) -> list[Draft]:
        effect, secrets = self._effect, self._run.secrets
        answer = secrets.redact_event(effect.spec.answers.done(effect.key, self._value))
        answers.append(answer)
        closing = closing_draft(self._place)
        drafts = [*([closing] if closing is not None else []), Draft(answer, lane=effect.lane, key=make_mark(APART))]
        return secrets.redact_batch_in_transaction(drafts, journal) if secrets.active else drafts
