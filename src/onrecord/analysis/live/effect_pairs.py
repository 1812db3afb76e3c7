"""Which effect of the replay is which effect of the recorded run.

1. What the replay took from the record says from which request.
2. Lanes are bound as everywhere (`divergence.binding`): tasks that began in another order are still themselves.
3. The same key with the same input is the same effect. Then, of what is left, the same input of the same tool in the
   same lane: calls that changed places. Then the same key, with another input. Explicit keys stand for themselves.
4. What has no partner is missing or unexpected.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple

from reenact.replays.divergence.binding import bind_lanes
from reenact.replays.live.reading import EffectPlace, RunEffects


class Pair(NamedTuple):
    """None on the expected side: unexpected; on the actual side: missing."""

    expected: EffectPlace | None
    actual: EffectPlace | None


class Pairing(NamedTuple):
    pairs: list[Pair]
    """In the order of the recorded run; what was unexpected comes behind what came before it."""
    reordered: list[EffectPlace]
    """Effects of the recorded run that the replay asked for earlier or later among those of their lane."""


def pair_effects(expected: RunEffects, actual: RunEffects) -> Pairing:
    lanes = {pair.b: pair.a for pair in bind_lanes(expected.lanes, actual.lanes) if pair.b}
    partners = _Partners(expected.effects, actual.effects)
    kept = {(effect.kept_in, effect.seq): effect for effect in expected.effects}
    for effect in actual.effects:
        stood_in = actual.stood_in.get(effect.key)
        if stood_in is not None and stood_in in kept:
            partners.join(kept[stood_in], effect)

    def lane_of(effect: EffectPlace, is_actual: bool) -> str | None:
        return lanes.get(effect.lane) if is_actual else effect.lane

    def key_of(effect: EffectPlace, is_actual: bool) -> Hashable:
        lane = lane_of(effect, is_actual)
        if not effect.is_derived:
            return effect.key
        return None if lane is None else (lane, effect.label, effect.key.rpartition("/")[2])

    def same_input(key: Callable[[EffectPlace, bool], Hashable]) -> Callable[[EffectPlace, bool], Hashable]:
        def with_input(effect: EffectPlace, is_actual: bool) -> Hashable:
            own = key(effect, is_actual)
            return None if own is None or effect.match is None else (own, effect.match)

        return with_input

    def tool_of(effect: EffectPlace, is_actual: bool) -> Hashable:
        lane = lane_of(effect, is_actual)
        return (lane, effect.label) if effect.is_derived and lane is not None else None

    partners.join_by(same_input(key_of))
    partners.join_by(same_input(tool_of))
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
        """Joins those that have no partner yet, in their order; a key of None belongs to nobody."""
        waiting: dict[Hashable, list[EffectPlace]] = {}
        for effect in reversed(self._actual):
            if effect.position not in self._expected_of:
                waiting.setdefault(key(effect, True), []).append(effect)
        waiting.pop(None, None)
        for effect in self._expected:
            candidates = waiting.get(key(effect, False)) if effect.position not in self._actual_of else None
            if candidates:
                self.join(effect, candidates.pop())

    def in_order(self) -> Iterator[Pair]:
        behind: dict[int, list[EffectPlace]] = {}
        last = 0
        for effect in self._actual:
            partner = self._expected_of.get(effect.position)
            if partner is None:
                behind.setdefault(last, []).append(effect)
            else:
                last = partner.position
        yield from (Pair(None, effect) for effect in behind.get(0, ()))
        for effect in self._expected:
            yield Pair(effect, self._actual_of.get(effect.position))
            yield from (Pair(None, other) for other in behind.get(effect.position, ()))

    def reordered(self) -> Iterator[EffectPlace]:
        """Those that were asked for when a later one of their lane had been asked for already."""
        latest: dict[str, int] = {}
        for effect in self._actual:
            partner = self._expected_of.get(effect.position)
            if partner is None:
                continue
            if partner.position < latest.get(partner.lane, 0):
                yield partner
            latest[partner.lane] = max(latest.get(partner.lane, 0), partner.position)
