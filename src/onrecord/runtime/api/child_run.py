"""The half of an agent that is called by another one: a linked run of its own, which is an effect of the caller's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from reenact.core.events import TERMINAL_KINDS, ActionRequested, ProcessAttached
from reenact.core.hashing import render
from reenact.core.links import ParentRun
from reenact.effect.boundary import perform, perform_blocking
from reenact.effect.lanes import Lane
from reenact.effect.live_run import LiveRun
from reenact.effect.open_stores import store_of
from reenact.effect.other_records import child_id
from reenact.effect.places import PLACE, Inside
from reenact.effect.policy import Guard
from reenact.effect.standing_in import stand_ins_of
from reenact.effect.stopping import Divergence, RunStopped, Suspended
from reenact.effect.tickets import EffectSpec
from reenact.errors import ReenactError, RunExists
from reenact.journal.journal import Journal
from reenact.journal.reader import JournalReader
from reenact.store.contract import EventRow, Store

if TYPE_CHECKING:
    from reenact.effect.redacting import Redaction
    from reenact.effect.secrets import Secrets


class CalledByAgents:
    """`Agent` is the other half, and has everything that is only named here."""

    name: str
    namespace: str
    is_async: bool
    redaction: Redaction | None
    _store: Store | str | None

    if TYPE_CHECKING:

        def begun(
            self,
            args: Any,
            kwargs: Any,
            run_id: str | None,
            store: Store | str | None,
            parent: ParentRun | None,
            further: Mapping[str, Any] | None = None,
        ) -> Journal: ...

        def taken_over(
            self, store: Store, run: str, namespace: str, *, accepts_code: bool = False, above: Guard | None = None
        ) -> LiveRun | None: ...

        def carried(self, live: LiveRun, args: Any, kwargs: Any) -> Any: ...

        def outcome(self, reader: JournalReader, last: EventRow, asked_by: Secrets | None = None) -> Any: ...

        def guard(self, above: Guard | None = None) -> Guard | None: ...

        def resume(self, run_id: str, *, store: Store | str | None = None) -> Any: ...

    def as_child(self, args: Any, kwargs: Any) -> Any:
        spec = EffectSpec(self.name, "process", once=False)

        def make(key: str) -> ActionRequested:
            return ActionRequested(key, {"args": list(args), "kwargs": dict(kwargs)}, self.name, "process")

        if self.is_async:
            return perform(spec, make, lambda: self._child(args, kwargs))
        return perform_blocking(spec, make, lambda: self._child(args, kwargs))

    def as_own_run(
        self, args: Any, kwargs: Any, begin: Callable[[], Any], run_id: str | None, store: Store | str | None
    ) -> Any:
        """A run that is the caller's own by its id or store: what came of it is on the caller's record."""
        spec = EffectSpec(self.name, "process", once=run_id is None)

        def make(key: str) -> ActionRequested:
            asked = {"args": list(args), "kwargs": dict(kwargs), "run_id": run_id}
            return ActionRequested(key, asked, self.name, "process", {"once": True} if spec.once else None)

        def go_on() -> Any:
            place = PLACE.get()
            assert isinstance(place, Inside)
            opened = store_of(store if store is not None else self._store)
            was_begun = run_id is not None and opened.run_row(self.namespace, run_id) is not None
            if place.ticket.recorded is not None and was_begun and run_id is not None:
                return self.resume(run_id, store=opened)  # by a process that has died
            return begin()

        return perform(spec, make, go_on) if self.is_async else perform_blocking(spec, make, go_on)

    def refuse_in_replay(self) -> None:
        """What would go on beside a replay, live, is not begun."""
        place = PLACE.get()
        if type(place) is Lane and place.run.touches_nothing:
            place.run.stop_here(
                Divergence(
                    f"the replay of {place.run.name} would begin a run of the agent {self.name}, or go on with one",
                    hint="Call the agent, or use its run(): that is an effect. Runs in the background are none.",
                    code="run_in_replay",
                    lane=place.identity,
                )
            )

    def _child(self, args: Any, kwargs: Any) -> Any:
        """Begins the child's run, or goes on with it: its id follows from the parent's request."""
        place = PLACE.get()
        assert isinstance(place, Inside)
        assert place.run.journal is not None
        child = child_id(place.idempotency_key)
        if self.is_async:
            return self._child_in_task(place, child, args, kwargs)
        live = None
        try:
            live = self._child_run(place, child, args, kwargs)
            return self.carried(live, args, kwargs) if live is not None else self._outcome_of(place.run, child)
        except Exception as error:
            self._stop_unless_ended(place.run, child, live, error)
        finally:
            self._note_spending(place.run, child, live)
        return self._outcome_of(place.run, child)

    async def _child_in_task(self, place: Inside, child: str, args: Any, kwargs: Any) -> Any:
        live, parent = None, place.run
        try:
            live = self._child_run(place, child, args, kwargs)
            return await (self.carried(live, args, kwargs) if live is not None else self._outcome_of(parent, child))
        except Exception as error:
            self._stop_unless_ended(parent, child, live, error)
        finally:
            self._note_spending(parent, child, live)
        return await self._outcome_of(parent, child)

    def _child_run(self, place: Inside, child: str, args: Any, kwargs: Any) -> LiveRun | None:
        """The child's run, held by this process; None when it has ended. With what the parent gives it: the facts may
        have stand-ins for its secrets."""
        parent, journal = place.run, place.run.journal
        assert journal is not None
        last = journal.store.last_event(self.namespace, child)
        if last is not None and last.kind in TERMINAL_KINDS:
            return None
        live = None
        if journal.store.run_row(self.namespace, child) is None:
            head = journal.known_head
            link = ParentRun(head=render(head.hash), relation="child", run=journal.run, seq=head.seq)
            known = parent.secrets.value_for_child
            further = dict(parent.secrets.facts_for_child()) if self.redaction is None else {}
            if parent.stand_ins is not None:
                further.update(parent.stand_ins.fact_for_child(place.ticket) or {})
            with suppress(RunExists):  # a process that died had begun it, and that has reached the store only now
                begun = self.begun(known(args), known(kwargs), child, journal.store, link, further)
                live = LiveRun(begun, guard=self.guard(parent.guard))
                live.stand_ins = stand_ins_of(live)
        if live is None:
            live = self.taken_over(
                journal.store, child, self.namespace, accepts_code=parent.accepts_code, above=parent.guard
            )
        if live is not None:
            live.secrets.adopt(parent.secrets)
        return live

    def _note_spending(self, parent: LiveRun, child: str, live: LiveRun | None) -> None:
        """What a child that has ended has spent of its parent's budget is part of the parent's record."""
        if parent.guard is None or parent.is_stopped:
            return
        last = parent.reader.store.last_event(self.namespace, child)
        if last is None or last.kind not in TERMINAL_KINDS:
            return
        with parent.lock:
            spent = parent.guard.child_ended(
                child,
                live.guard if live is not None else None,
                lambda: JournalReader(parent.reader.store, child, self.namespace),
            )
            if spent is not None:
                parent.note(ProcessAttached({"child": child, "spent": spent}))

    def _outcome_of(self, parent: LiveRun, child: str) -> Any:
        reader = JournalReader(parent.reader.store, child, self.namespace)
        return self.outcome(reader, last_event(reader), parent.secrets)

    def _stop_unless_ended(self, parent: LiveRun, child: str, live: LiveRun | None, error: Exception) -> None:
        """Only what the child's record ends with has come of it. Until then it has merely stopped: that is no outcome,
        and its parent stops with it. Returns when somebody else has brought it to its end."""
        row = parent.reader.store.run_row(self.namespace, child)
        if row is None or (live is not None and live.ended and row.last is not None and row.last.kind == "Failed"):
            raise error
        if row.last is not None and row.last.kind in TERMINAL_KINDS:
            return
        reason = error if isinstance(error, ReenactError) else Suspended(f"run {child} stopped: {error}")
        parent.stop(reason)
        raise RunStopped(reason) from error


def last_event(reader: JournalReader) -> EventRow:
    last = reader.store.last_event(reader.namespace, reader.run)
    assert last is not None
    return last
