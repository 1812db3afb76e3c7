"""Differences that a replay may tolerate, if they were named: a call that has moved, or one whose content drifted.

- `moved`: the same request, made in another lane or at another position of its lane. Its outcome is delivered as soon
  as nothing else can be.
- `content`: the same operation (and model), requested with another input: the recorded call that is most like it
  answers.

Each such match is reported. Nothing is tolerated where an effect may be executed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from onrecord.core.codec import encode
from onrecord.errors import InvalidInput
from onrecord.runtime.replay.divergence import compared, first_difference, nearest_of, source_line
from onrecord.runtime.replay.source_lines import shown_line

if TYPE_CHECKING:
    from onrecord.core.events import Event
    from onrecord.runtime.engine.run import LiveRun
    from onrecord.runtime.replay.records import Asked, RecordedRequest
    from onrecord.runtime.scheduler.items import Requested

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
    """The tolerance of one replay. Without tiers it tolerates nothing."""

    def __init__(self, run: LiveRun, tiers: frozenset[str] = frozenset()) -> None:
        self._run = run
        self.tiers = tiers if run.journal is None else frozenset()
        self.matches: list[Inexact] = []
        if self.tiers:
            run.kernel.tolerate(self._choose)

    def _choose(self, request: Requested, unmade: list[tuple[int, Requested]]) -> int | None:
        """Return the position of the recorded request that answers one which the record does not have there."""
        asked: Asked = request.digest
        if MOVED in self.tiers:
            for position, one in unmade:
                if one.digest == asked:
                    self._note(MOVED, request.name, one.digest)
                    return position
        if CONTENT not in self.tiers:
            return None
        alike = {
            id(one.digest): position
            for position, one in unmade
            if f"/{request.name}/" in one.key and self._is_same_operation(one.digest, asked.event)
        }
        candidates = [one.digest for _, one in unmade if id(one.digest) in alike]
        nearest = nearest_of(self._run, candidates, request.name, asked.event)
        if nearest is None:
            return None
        path = first_difference(self._recorded(nearest), compared(encode(asked.event.content()).tree))
        if path is None:
            return None  # it has moved, which is another difference
        self._note(CONTENT, request.name, nearest, path)
        return alike[id(nearest)]

    def _is_same_operation(self, recorded: RecordedRequest, event: Event) -> bool:
        """Return True if a call goes to the same model, and is answered in the same form."""
        return _operation(self._recorded(recorded)) == _operation(compared(encode(event.content()).tree))

    def _recorded(self, recorded: RecordedRequest) -> Any:
        assert self._run.history is not None
        return compared(encode(self._run.history.members(recorded.row)).tree)

    def _note(self, tier: str, name: str, recorded: RecordedRequest, path: str | None = None) -> None:
        assert self._run.history is not None
        seq = self._run.history.own_row(recorded.row).seq
        if any(one.seq == seq for one in self.matches):
            return  # it is reported once
        self.matches.append(Inexact(tier, name, seq, shown_line(source_line()), path))


def _operation(tree: Any) -> tuple[Any, bool]:
    for name in ("payload", "body", "json"):
        tree = tree.get(name) if isinstance(tree, dict) else None
    return (tree.get("model"), bool(tree.get("stream"))) if isinstance(tree, dict) else (None, False)
