"""Replay keys of the caller's own: each means one effect of the run, however often it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onrecord.runtime.engine.open_effect import EffectSpec, OpenEffect
from onrecord.runtime.engine.stops import Denied, EffectConflict
from onrecord.runtime.replay.checkpoint_entry import EarlierKeys
from onrecord.runtime.replay.records import Asked
from onrecord.runtime.scheduler.items import Requested, Token

if TYPE_CHECKING:
    from onrecord.runtime.engine.context import Lane
    from onrecord.runtime.engine.run import LiveRun


class CallerKeys:
    """Called with the run's lock held."""

    def __init__(self, run: LiveRun) -> None:
        self._run = run
        self._used: dict[str, tuple[bytes | None, OpenEffect | Denied]] = {}
        history = run.history
        has_earlier = history is not None and history.beginning is not None
        self._earlier = EarlierKeys(run.reader, history.began_at) if history is not None and has_earlier else None

    def find(self, lane: Lane, spec: EffectSpec, key: str, asked: Asked) -> OpenEffect | None:
        """Return the effect that was asked for under this key before, with its outcome."""
        if key not in self._used and not self._find_earlier(lane, spec, key):
            return None
        match, effect = self._used[key]
        if match is not None and asked.match != match:
            raise EffectConflict(f"run {self._run.name} has used the replay key {key[:128]!r} for another input")
        if isinstance(effect, Denied):
            raise effect  # again, and recorded once
        if effect.outcome is None:
            raise EffectConflict(f"the effect with the replay key {key[:128]!r} of run {self._run.name} is under way")
        return effect

    def _find_earlier(self, lane: Lane, spec: EffectSpec, key: str) -> bool:
        """Look for the key before the checkpoint that this process began with."""
        found = self._earlier.find(key) if self._earlier is not None else None
        if found is None:
            return False
        request, outcome = found
        effect = OpenEffect(spec)
        effect.key, effect.lane, effect.outcome = key, lane.name, outcome
        effect.token = Token(lane.name, key)
        effect.token.recorded = Requested(key, lane.name, "", request)
        self._used[key] = request.match, effect
        return True

    def remember_denied(self, key: str, asked: Asked, denial: Denied) -> None:
        self._used[key] = (asked.match, denial)

    def remember(self, key: str, asked: Asked, effect: OpenEffect) -> None:
        self._used[key] = (asked.match, effect)
