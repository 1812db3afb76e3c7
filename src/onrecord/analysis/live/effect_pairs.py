"""Pair the effects of a replay with those of the recorded run.

1. An effect that the replay served from the record names its request.
2. Lanes are paired as in a comparison (`analysis.diff.lane_pairs`), so tasks may begin in another order.
3. Equal keys with equal inputs are a pair. Then equal inputs of the same tool in the same lane: reordered calls. Then
   equal keys with different inputs. Explicit keys are compared without their lane.
4. An effect without a partner is missing or unexpected.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple

from onrecord.analysis.diff.lane_pairs import bind_lanes
from onrecord.analysis.live.run_effects import EffectPlace, RunEffects


class EffectPair(NamedTuple):
    """A pair of effects. An unexpected effect has no `expected`, a missing one no `actual`."""

    expected: EffectPlace | None
    actual: EffectPlace | None


class Pairing(NamedTuple):
    pairs: list[EffectPair]
    """The pairs in the order of the recorded run; an unexpected effect follows the one requested before it."""
    reordered: list[EffectPlace]
    """Recorded effects that the replay requested in another order within their lane."""


def pair_effects(expected: RunEffects, actual: RunEffects) -> Pairing:
    lanes = {pair.b: pair.a for pair in bind_lanes(expected.lanes, actual.lanes) if pair.b}
    partners = _Partners(expected.effects, actual.effects)
    kept = {(effect.kept_in, effect.seq): effect for effect in expected.effects}
    for effect in actual.effects:
        source = actual.served_from.get(effect.key)
        if source is not None and source in kept:
            partners.join(kept[source], effect)

    def lane_of(effect: EffectPlace, is_actual: bool) -> str | None:
        return lanes.get(effect.lane) if is_actual else effect.lane

    def key_of(effect: EffectPlace, is_actual: bool) -> Hashable:
        lane = lane_of(effect, is_actual)
        if not effect.is_derived:
            return effect.key
        return None if lane is None else (lane, effect.label, effect.key.rpartition("/")[2])

    def require_same_input(key: Callable[[EffectPlace, bool], Hashable]) -> Callable[[EffectPlace, bool], Hashable]:
        def key_with_input(effect: EffectPlace, is_actual: bool) -> Hashable:
            base = key(effect, is_actual)
            return None if base is None or effect.match is None else (base, effect.match)

        return key_with_input

    def tool_of(effect: EffectPlace, is_actual: bool) -> Hashable:
        lane = lane_of(effect, is_actual)
        return (lane, effect.label) if effect.is_derived and lane is not None else None

    partners.join_by(require_same_input(key_of))
    partners.join_by(require_same_input(tool_of))
    partners.join_by(key_of)
    return Pairing(list(partners.in_order()), list(partners.reordered()))


class _Partners:
    def __init__(self, expected: list[EffectPlace], actual: list[EffectPlace]) -> None:
        self._expected, self._actual = expected, actual
        self._actual_of: dict[int, EffectPlace] = {}
        self._expected_of: dict[int, EffectPlace] = {}

    def join(self, one: EffectPlace, other: EffectPlace) -> None:
        if one.position not in self._actual_of and other.position not in self._expected_of:
            self._actual_of[one.position] = other
            self._expected_of[other.position] = one

    def join_by(self, key: Callable[[EffectPlace, bool], Hashable]) -> None:
        """Pair the effects that have no partner yet, in order; a key of None is never paired."""
        free: dict[Hashable, list[EffectPlace]] = {}
        for effect in reversed(self._actual):
            if effect.position not in self._expected_of:
                free.setdefault(key(effect, True), []).append(effect)
        free.pop(None, None)
        for effect in self._expected:
            candidates = free.get(key(effect, False)) if effect.position not in self._actual_of else None
            if candidates:
                self.join(effect, candidates.pop())

    def in_order(self) -> Iterator[EffectPair]:
        following: dict[int, list[EffectPlace]] = {}
        last = 0
        for effect in self._actual:
            partner = self._expected_of.get(effect.position)
            if partner is None:
                following.setdefault(last, []).append(effect)
            else:
                last = partner.position
        yield from (EffectPair(None, effect) for effect in following.get(0, ()))
        for effect in self._expected:
            yield EffectPair(effect, self._actual_of.get(effect.position))
            yield from (EffectPair(None, other) for other in following.get(effect.position, ()))

    def reordered(self) -> Iterator[EffectPlace]:
        """Yield the effects that were requested after a later effect of their lane."""
        latest: dict[str, int] = {}
        for effect in self._actual:
            partner = self._expected_of.get(effect.position)
            if partner is None:
                continue
            if partner.position < latest.get(partner.lane, 0):
                yield partner
            latest[partner.lane] = max(latest.get(partner.lane, 0), partner.position)
