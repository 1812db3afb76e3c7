"""Commits of a run: items of the scheduler become events of the journal, in one append.

Notes about the run (`ProcessAttached`) wait for the next commit and come first in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from onrecord.core.codec import encode
from onrecord.core.events import Event, ProcessAttached, TurnTaken, ValuesDrawn, read_event
from onrecord.errors import InvalidValue, OnrecordError, StaleEpoch
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.runtime.engine.client_retries import CLIENT_KINDS
from onrecord.runtime.engine.open_effect import MadeOutcome, OpenEffect
from onrecord.runtime.engine.stops import CUT, Superseded
from onrecord.runtime.replay.delivery_marks import make_mark
from onrecord.runtime.replay.history import ITEMS_IN_EVENT
from onrecord.runtime.replay.records import RecordedChunk, RecordedOutcome
from onrecord.runtime.scheduler.drivers.strands import CURRENT
from onrecord.runtime.scheduler.items import (
    APART,
    Away,
    Began,
    CheckpointTaken,
    Chunk,
    Cut,
    Drawn,
    Dropped,
    EffectCancelled,
    EffectOutcome,
    Ended,
    Item,
    Noted,
    Requested,
    Turn,
)

if TYPE_CHECKING:
    from asyncio import CancelledError

    from onrecord.runtime.api.checkpoint import CheckpointAsked
    from onrecord.runtime.engine.run import LiveRun

_TURNS = (Turn, Away, Began)


class Commits:
    """The one writer of a run in this process. Every method is called with the run's lock held."""

    def __init__(self, run: LiveRun, journal: Journal) -> None:
        self._run = run
        self._journal = journal
        self._created = run.created
        self.notes: list[Draft] = []
        """Events that are written with the next commit."""

    def commit(self, items: list[Item], sync: bool) -> int:
        """Append the items. Return the time of the commit, in microseconds of the run's clock."""
        run = self._run
        batch = _Batch(run, self._journal.position + len(self.notes) + 1)
        for item in items:
            batch.add(item)
        if batch.turns or batch.draws:
            batch.close()
        if not self.append(batch.drafts, sync=sync or batch.needs_sync):
            return run.kernel.time
        for seq, target in batch.made:
            if isinstance(target, OpenEffect):
                target.request_seq = seq
            else:
                target.seq = seq
        for checkpoint in batch.checkpoints:
            checkpoint.keep()
        return run.last_commit_us - self._created

    def append(self, drafts: list[Draft], *, sync: bool) -> bool:
        """Append notes and drafts. Return False if the run was stopped because of it."""
        if self.notes:
            drafts, self.notes = [*self.notes, *drafts], []
        if not drafts:
            return True
        run = self._run
        CURRENT.depth += 1  # a wait of the store is none of the agent's
        try:
            if run.secrets.active:
                drafts = run.secrets.redact_batch(drafts, self._journal)
            run.last_commit_us = self._append(drafts, sync)
        except StaleEpoch:
            run.stop(Superseded(f"run {run.name} was taken over by another process"))
            return False
        except OnrecordError as error:
            run.stop(error)
            return False
        finally:
            CURRENT.depth -= 1
        return True

    def _append(self, batch: list[Draft], sync: bool) -> int:
        journal = self._journal
        try:
            return journal.append_surely(batch, sync).time
        except InvalidValue as refused:
            raise _name_refused(batch, journal.run, refused) from None


class _Batch(msgspec.Struct):
    """The drafts of one commit."""

    run: LiveRun
    first: int
    """The seq of the first draft."""
    drafts: list[Draft] = []
    made: list[tuple[int, Any]] = []
    """Outcomes, chunks and effects that learn their seq."""
    needs_sync: bool = False
    checkpoints: list[CheckpointAsked] = []
    turns: list[Any] = []
    draws: list[Any] = []

    def close(self) -> None:
        """Write the turns or draws that were collected: their event keeps its place among the others."""
        if self.turns:
            self.drafts.append(Draft(TurnTaken(self.turns), lane=self.run.kernel.root))
            self.turns = []
        if self.draws:
            self.drafts.append(Draft(ValuesDrawn(self.draws), lane=self.run.kernel.root))
            self.draws = []

    def add(self, item: Item) -> None:
        kind = type(item)
        if kind is Drawn:
            if self.turns or len(self.draws) >= ITEMS_IN_EVENT:
                self.close()
            self.draws.append(list(item))
            return
        if kind in _TURNS:
            self._add_turn(item)
            return
        if self.turns or self.draws:
            self.close()
        if isinstance(item, Requested):
            self._add_request(self.run.effects[item.key], item.births)
        elif isinstance(item, EffectOutcome):
            self._add_outcome(item)
        elif isinstance(item, Chunk):
            self._add_chunk(item)
        elif isinstance(item, Noted):
            event = item.digest.original
            self.drafts.append(Draft(event, lane=item.lane, key=getattr(event, "action_id", None)))
        elif isinstance(item, CheckpointTaken):
            self.needs_sync = True
            self.checkpoints.append(item.digest)
            self.drafts += item.digest.make_drafts(item.lane, self.first + len(self.drafts))
        elif isinstance(item, Dropped):
            dropped = [list(divmod(position, ITEMS_IN_EVENT)) for position in item.positions]
            assert self.run.journal is not None
            self.run.journal.forget_requests(seq for seq, _ in dropped)
            self.drafts.append(Draft(ProcessAttached({"accepted": {"dropped": dropped}}), lane=self.run.kernel.root))
        else:
            assert isinstance(item, Ended)
            self.drafts.append(Draft(item.digest.original, lane=self.run.kernel.root))

    def _add_turn(self, item: Any) -> None:
        if type(item) is Began and self._request_again(item.key):
            history = self.run.history
            if history is None or item.key not in history.digest.anew:
                return  # the copy of the request says it, unless chunks are void
        elif type(item) is Began and not self._may_begin(item.key):
            return
        if self.draws or len(self.turns) >= ITEMS_IN_EVENT:
            self.close()
        if type(item) is Turn:
            forced = (item.forced,) if item.forced else ()
            self.turns.append([item.kind, item.lane, item.ordinal, item.time, *forced])
        elif type(item) is Away:
            self.turns.append(["away", item.lane, item.ordinal, item.draws])
        else:
            self.turns.append(["began", item.key])

    def _may_begin(self, key: str) -> bool:
        """Return False for an effect that the policy of a tail does not execute: nothing begins."""
        substitutes, history, effect = self.run.substitutes, self.run.history, self.run.effects.get(key)
        if substitutes is None or effect is None or (history is not None and key in history.digest.anew):
            return True
        return substitutes.may_begin(effect.spec)

    def _request_again(self, key: str) -> bool:
        """Request in the fork's own name what its parent had requested. Return False for the run's own requests."""
        effect = self.run.effects.get(key)
        if effect is None or effect.recorded is None or not effect.recorded.is_shared:
            return False
        self.close()
        effect.recorded.is_shared = False
        self._add_request(effect, 0)
        return True

    def _add_request(self, effect: OpenEffect, births: int) -> None:
        event = with_meta(effect.event, {"births": births}) if births else effect.event
        parent = self.run.client_retries.find_first(effect) if effect.spec.kind in CLIENT_KINDS else None
        self.made.append((self.first + len(self.drafts), effect))
        self.drafts.append(Draft(event, effect.lane, effect.key, parent))
        self.needs_sync |= effect.spec.durable

    def _add_outcome(self, item: EffectOutcome) -> None:
        value, is_cancelled = item.value, type(item.value) is EffectCancelled
        if item.key.startswith("!"):
            self.made.append((self.first + len(self.drafts), value))
            self.drafts.append(Draft(value.event, lane=self.run.kernel.root, key=make_mark(item.forced)))
            return
        effect = self.run.effects[item.key]
        if effect.token.recorded is not None:
            self._request_again(item.key)
        if isinstance(value, MadeOutcome):
            self.made.append((self.first + len(self.drafts), value))
            event = value.event
        else:
            event = self._make_event(effect, value)
        mark = make_mark(item.forced, is_cancelled=is_cancelled) if item.forced or is_cancelled else None
        self.drafts.append(Draft(event, effect.lane, mark))
        if item.forced == APART and effect.token.gone:
            self.run.delivered(effect)

    def _make_event(self, effect: OpenEffect, value: Any) -> Event:
        """Return the outcome that the scheduler made, or that was recorded for a request which changed code dropped."""
        answers = effect.spec.answers
        if isinstance(value, EffectCancelled):
            event = answers.cancelled(effect.key, _cancelled())
            return with_meta(event, {"unknown": True}) if value.unknown else event
        if isinstance(value, Cut):
            return answers.failed(effect.key, ConnectionError(CUT))
        assert isinstance(value, RecordedOutcome)
        history = self.run.history
        assert history is not None
        return with_key(read_event(value.kind, history.members(value.row)), effect.key)

    def _add_chunk(self, item: Chunk) -> None:
        self._request_again(item.key)
        effect, value = self.run.effects[item.key], item.value
        if isinstance(value, RecordedChunk):
            assert self.run.history is not None
            event: Event = read_event("ChunkReceived", self.run.history.members(value.row))
        else:
            self.made.append((self.first + len(self.drafts), value))
            event = value.event
        parent = effect.request_seq or None
        self.drafts.append(Draft(event, lane=effect.lane, key=make_mark(item.forced), parent=parent))


def with_key(event: Event, key: str) -> Event:
    """Return the event under its key."""
    return event if event.pair_id is None else msgspec.structs.replace(event, **{event.pair_id: key})


def with_meta(event: Event, meta: dict[str, Any]) -> Event:
    return msgspec.structs.replace(event, meta={**(event.meta or {}), **meta})


def _cancelled() -> CancelledError:
    import asyncio  # loaded by now, where an effect can be cancelled

    return asyncio.CancelledError()


_REFUSED_VALUES = {
    "ActionRequested": "the input of {}",
    "ActionSucceeded": "the result of {}",
    "ActionFailed": "the error of {}",
    "Completed": "the result of the agent",
    "Failed": "the error of the agent",
}


def _name_refused(batch: Sequence[Draft], run: str, refused: InvalidValue) -> InvalidValue:
    """Return an error that names the value which cannot be written."""
    event = next((draft.event for draft in batch if _is_refused(draft.event)), None)
    if event is None:
        return refused
    words = _REFUSED_VALUES.get(event.kind, f"a value of {event.kind}").format(event.content().get("action_id"))
    return InvalidValue(
        f"run {run}: {words} cannot be recorded: {refused.message}",
        hint="Nothing of it was written. Use plain data there instead; a resume continues the run from here.",
        code=refused.code,
    )


def _is_refused(event: Event) -> bool:
    try:
        encode(event.content())
    except InvalidValue:
        return True
    return False
