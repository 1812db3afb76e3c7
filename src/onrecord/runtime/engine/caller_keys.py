"""Replay keys that the caller brought: each means one effect of the run, however often it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onrecord.core.codec import encode
from onrecord.runtime.engine.open_effect import EffectSpec, MakeEvent, NoWaiter, OpenEffect
from onrecord.runtime.engine.stops import Denied, EffectConflict
from onrecord.runtime.replay.checkpoint_entry import EarlierKeys

if TYPE_CHECKING:
    from onrecord.runtime.engine.run import LiveRun
    from onrecord.runtime.scheduler.lanes import Lane


class CallerKeys:
    """The run's lock is held by whoever calls."""

    def __init__(self, run: LiveRun) -> None:
        self._run = run
        self._used: dict[str, tuple[bytes | None, OpenEffect]] = {}
        past = run.past
        self._earlier = (
            EarlierKeys(run.reader, past.began_at) if past is not None and past.beginning is not None else None
        )

    def used_before(self, lane: Lane, spec: EffectSpec, key: str, make: MakeEvent) -> OpenEffect | None:
        """Asked for again it is answered with what came of it."""
        if key not in self._used and not self._find_earlier(lane, spec, key, make):
            return None
        match, ticket = self._used[key]
        if match is not None and self._match_of(make) != match:
            raise EffectConflict(f"run {self._run.name} has used the replay key {key[:128]!r} for another input")
        if isinstance(ticket.error, Denied) and ticket.answer is None:
            raise ticket.error  # once more, and on record once
        if not ticket.has_answer:
            raise EffectConflict(f"the effect with the replay key {key[:128]!r} of run {self._run.name} is under way")
        return ticket

    def _find_earlier(self, lane: Lane, spec: EffectSpec, key: str, make: MakeEvent) -> bool:
        """Before the checkpoint that this process began with."""
        past = self._run.past
        if self._earlier is None or past is None or key in past.by_key:
            return False
        earlier = self._earlier.find(key)
        if earlier is None:
            return False
        found = OpenEffect(lane, spec, key, make(key), NoWaiter())
        found.recorded, found.request_seq = earlier, earlier.seq
        self._used[key] = earlier.match, found
        return True

    def remember(self, key: str, make: MakeEvent, ticket: OpenEffect) -> None:
        self._used[key] = (self._match_of(make), ticket)

    def remember_denied(self, lane: Lane, spec: EffectSpec, key: str, make: MakeEvent, denial: Denied) -> None:
        ticket = OpenEffect(lane, spec, key, make(key), NoWaiter())
        ticket.error = denial
        self.remember(key, make, ticket)

    def _match_of(self, make: MakeEvent) -> bytes:
        event = self._run.secrets.redact_event(make(""))
        return self._run.rules.match(event.kind, encode(event.content()).tree)
