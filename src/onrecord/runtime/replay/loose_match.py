"""What a replay may tolerate, and only if it was named: a call that has moved, or one whose content has drifted.

- `moved`: the same request, asked for in another lane or at another place of its lane. Its answer is handed over as
  soon as nothing else can be.
- `content`: the same operation (and model), asked for with another input: the recorded call that is most like it
  answers.

Each such match is kept, to be told. Nothing is ever tolerated where something may run live.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from onrecord.core.codec import encode
from onrecord.errors import InvalidInput
from onrecord.runtime.replay.divergence import compared, first_difference, moved_request, nearest_of, source_line
from onrecord.runtime.replay.source_lines import shown_line
from onrecord.runtime.scheduler.delivery_item import CHUNK

if TYPE_CHECKING:
    from onrecord.core.events import Event
    from onrecord.runtime.engine.open_effect import EffectSpec
    from onrecord.runtime.engine.run import LiveRun
    from onrecord.runtime.replay.records import RecordedRequest
    from onrecord.runtime.scheduler.delivery_item import Item
    from onrecord.runtime.scheduler.lanes import Lane

MOVED, CONTENT = "moved", "content"
TIERS = (MOVED, CONTENT)


class Inexact(NamedTuple):
    """A call that was answered by one that is not exactly it."""

    tier: str
    name: str
    seq: int
    """Of the recorded request."""
    line: str
    path: str | None = None
    """The first place where they differ."""

    def __str__(self) -> str:
        how = f"{self.path} differs" if self.path else "it was asked for at another place"
        return f"{self.tier}: {self.name} at {self.line or 'an unknown line'}, answered by seq {self.seq}: {how}"


def tiers_of(text: str) -> frozenset[str]:
    named = frozenset(filter(None, (part.strip() for part in text.split(","))))
    unknown = sorted(named.difference(TIERS))
    if unknown or not named:
        raise InvalidInput(
            f"there is no {unknown[0][:40]!r} to be loose about" if unknown else "--loose needs a name",
            hint=f"Name what is to be tolerated: {', '.join(TIERS)}.",
            code="bad_loose",
        )
    return named


class LooseMatch:
    """Of one replay. Without tiers it tolerates nothing, and finds calls that moved within the agent's own lane."""

    def __init__(self, run: LiveRun, tiers: frozenset[str] = frozenset()) -> None:
        self._run = run
        self.tiers = tiers if run.journal is None else frozenset()
        self.matches: list[Inexact] = []
        self._unmade_at: dict[str, int] = {}

    def instead(self, spec: EffectSpec, event: Event, match: bytes) -> RecordedRequest | None:
        """What answers a request that the record does not have here; None: nothing may."""
        past = self._run.past
        if not self.tiers or past is None:
            return None
        unmade = [one for one in past.by_key.values() if not one.made and one.answer is not None]
        if MOVED in self.tiers:
            same = min((one for one in unmade if one.match == match), key=lambda one: one.seq, default=None)
            if same is not None:
                self._note(MOVED, spec.name, same)
                return same
        if CONTENT not in self.tiers:
            return None
        alike = [one for one in unmade if f"/{spec.name}/" in one.key and self._is_same_operation(one, event)]
        nearest = nearest_of(self._run, alike, spec.name, event)
        if nearest is not None:
            path = first_difference(self._recorded(nearest), compared(encode(event.content()).tree))
            self._note(CONTENT, spec.name, nearest, path)
        return nearest

    def check_order(self, lane: Lane, recorded: RecordedRequest) -> None:
        """The agent's own code asks in the order in which it asked; other lanes are held to theirs by their turns."""
        past = self._run.past
        if not lane.main or past is None:
            return
        requests, at = past.lane(recorded.lane).requests, self._unmade_at.get(recorded.lane, 0)
        while at < len(requests) and requests[at].made:
            at += 1
        self._unmade_at[recorded.lane] = at
        if at >= len(requests) or requests[at].seq >= recorded.seq:
            return
        if MOVED not in self.tiers:
            self._run.stop_here(moved_request(self._run, recorded, requests[at]))
        self._note(MOVED, recorded.key.partition("/")[2].rpartition("/")[0], recorded)

    def relaxed(self) -> bool:
        """The record cannot go on: somebody who waits is handed his answer although others had theirs before."""
        run = self._run
        if MOVED not in self.tiers:
            return False
        wanted = self._wanted_parts()
        waiting = [
            (one.recorded.seq, one, one.recorded)
            for one in run.waiting
            if one.recorded is not None and one.recorded.answer is not None and not one.recorded.answer.handed
            if not one.recorded.chunks or one.key in wanted
        ]
        if not waiting:
            return False
        _, first, recorded = min(waiting, key=lambda one: one[0])
        self._note(MOVED, first.spec.name, recorded)
        part = wanted.get(first.key)
        if part is not None and part.ordinal < len(recorded.chunks):
            run.turns.hand_chunk_out_of_order(part, recorded.chunks[part.ordinal])
        else:
            run.turns.hand_out_of_order(first.item, recorded)
        return True

    def _wanted_parts(self) -> dict[str, Item]:
        """By the key of its stream, the part that somebody waits for. A stream ends after its parts, and nobody waits
        for it while he is at something else."""
        order = self._run.turns.order
        expected = order.expected.values() if order is not None else ()
        return {one.ticket.key: one for one in expected if one.kind == CHUNK and one.ticket is not None}

    def _is_same_operation(self, recorded: RecordedRequest, event: Event) -> bool:
        """What a request is called says where it goes; a model call goes to its model, and says in what form it is
        answered."""
        return _operation(self._recorded(recorded)) == _operation(compared(encode(event.content()).tree))

    def _recorded(self, recorded: RecordedRequest) -> Any:
        assert self._run.past is not None
        return compared(encode(self._run.past.members(recorded.row)).tree)

    def _note(self, tier: str, name: str, recorded: RecordedRequest, path: str | None = None) -> None:
        assert self._run.past is not None
        seq = self._run.past.own_row(recorded.row).seq
        if any(one.seq == seq for one in self.matches):
            return  # it is told once
        self.matches.append(Inexact(tier, name, seq, shown_line(source_line()), path))


def _operation(tree: Any) -> tuple[Any, bool]:
    for name in ("payload", "body", "json"):
        tree = tree.get(name) if isinstance(tree, dict) else None
    return (tree.get("model"), bool(tree.get("stream"))) if isinstance(tree, dict) else (None, False)
