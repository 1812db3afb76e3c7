"""A step that writes to the store's own database, in the transaction that records its outcome: exactly once.

`@onrecord.step(transactional=True)` gives the function the database connection as its first argument: that of apsw
with SQLite, that of psycopg with Postgres. Its rows and its outcome are committed together or not at all, so a
crash at any instant leaves both or neither; neither means that the step is done again when the run comes back.

Rules:

1. The connection is no part of what is recorded. It is lent: it and its cursors are dead once the function has
   returned (`transaction_over`).
2. From the function's first line to the commit the run is locked, and with SQLite the store too: nothing else of the
   run goes on, and nobody else writes. Such a step is short, and waits for nothing but the database.
3. An `async` function runs in a loop and a thread of its own, since the agent's loop may have to wait for the commit.
   It must not wait for anything that lives in the agent's loop.
4. What the function raises undoes its rows, and is its outcome, as with any step; then retries, if there are any.
   A failure of the store is no outcome: the run stops, and goes on from here.
5. The outcome takes its place in the journal when it is committed, so what is waiting to be handed over is committed
   before it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import Parameter
from typing import TYPE_CHECKING, Any

from onrecord.errors import InvalidInput, OnrecordError, OutcomeUnknown, StaleEpoch
from onrecord.journal.chain import Draft
from onrecord.journal.transactions import append_in_transaction, require_transactions
from onrecord.runtime.engine.attempts import closing_draft
from onrecord.runtime.engine.context import HERE, PLACE, Inside
from onrecord.runtime.engine.stops import OutsideRun, RunStopped, Superseded
from onrecord.runtime.scheduler.lanes import Lane

if TYPE_CHECKING:
    from onrecord.core.events import Event
    from onrecord.journal.journal import Journal
Work = Callable[[Any], Any]
"""The user's function, given the connection."""


def check_place(name: str) -> None:
    """A transaction needs a run, for it is the run's, and a store that has them. Said before anything is recorded."""
    place = PLACE.get()
    if not isinstance(place, Lane):
        raise OutsideRun(f"{name} writes in the transaction of a run, and was called outside of any, or in an effect")
    if place.run.journal is not None:
        require_transactions(place.run.journal.store)


def without_connection(name: str, signature: inspect.Signature) -> inspect.Signature:
    """The parameters but for the first, which is the connection."""
    parameters = list(signature.parameters.values())
    if not parameters or parameters[0].kind not in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
        raise InvalidInput(
            f"{name} takes no database connection as its first argument",
            hint="A step with transactional=True is given one.",
            code="bad_transactional_step",
        )
    return signature.replace(parameters=parameters[1:])


def in_transaction(function: Callable[..., Any], args: Any, kwargs: Any, *, is_async: bool) -> Callable[[], Any]:
    """What the effect of such a step does."""

    async def awaited(connection: Any) -> Any:
        return await function(connection, *args, **kwargs)

    if is_async:
        return lambda: asyncio.to_thread(_carry_out, lambda connection: asyncio.run(awaited(connection)))
    return lambda: _carry_out(lambda connection: function(connection, *args, **kwargs))


def _carry_out(work: Work) -> Any:
    place = PLACE.get()
    assert isinstance(place, Inside)
    return _Transaction(place).carry_out(work)


class _Transaction:
    def __init__(self, place: Inside) -> None:
        self._place = place
        self._run = place.run
        self._ticket = place.ticket
        self._failure: BaseException | None = None
        """What the user's function raised."""
        self._value: Any = None

    def carry_out(self, work: Work) -> Any:
        run, ticket = self._run, self._ticket
        with run.lock, _at_work():
            run.check_going_on()
            if ticket not in run.waiting:
                raise asyncio.CancelledError  # the agent has cancelled it before it began
            self._write_ahead()
            try:
                answer = self._commit(work)
            except StaleEpoch:
                run.stop(Superseded(f"run {run.name} was taken over by another process"))
                run.check_going_on()
                raise
            except OnrecordError as error:
                if error is self._failure:
                    raise
                run.stop(error)
                raise RunStopped(run.stopped or error) from error
            self._arrive(answer)
            return self._value

    def _write_ahead(self) -> None:
        """What was asked for and answered before stands before it in the journal."""
        run = self._run
        waiting = [item for item in run.turns.pending if item.ticket and not item.committed and item.chunk is None]
        if not (run.commit_answers(waiting) if waiting else run.write((), sync=False)):
            run.check_going_on()

    def _commit(self, work: Work) -> Event:
        """The transaction. One whose result is unknown is looked up, and done again if it did not happen."""
        journal = self._run.journal
        assert journal is not None
        answers: list[Event] = []

        def inside(connection: Any) -> list[Draft]:
            try:
                self._value = work(connection)
            except BaseException as error:
                self._failure = error
                raise
            return self._drafts(answers, journal)

        before = journal.position
        try:
            self._run.now_us = append_in_transaction(journal, inside)[-1].time
        except OutcomeUnknown:
            journal.reopen()
            if journal.position == before:
                self._run.now_us = append_in_transaction(journal, inside)[-1].time
            else:
                journal.store.sync()
        self._run.secrets.end_transaction(journal)
        return answers[-1]

    def _drafts(self, answers: list[Event], journal: Journal) -> list[Draft]:
        ticket, lane = self._ticket, self._ticket.lane.path or "0"
        answer = self._run.secrets.redact_event(ticket.spec.answers.done(ticket.key, self._value))
        answers.append(answer)
        closing = closing_draft(self._place)
        drafts = [*([closing] if closing is not None else []), Draft(answer, lane=lane)]
        return self._run.secrets.redact_batch_in_transaction(drafts, journal) if self._run.secrets.active else drafts

    def _arrive(self, answer: Event) -> None:
        """Committed: from here it is handed over like any other answer, when its turn comes."""
        run, ticket = self._run, self._ticket
        assert run.journal is not None
        ticket.answer, ticket.answer_seq = answer, run.journal.position
        ticket.item.committed = True
        if getattr(ticket.waiter, "token", self) is not None:
            run.turns.arrive(ticket.item)  # otherwise it is a call that nobody else's turn can come before


@contextmanager
def _at_work() -> Iterator[None]:
    """Whatever the database waits for is no rest of the agent."""
    token, HERE.token = HERE.token, None
    try:
        yield
    finally:
        HERE.token = token
