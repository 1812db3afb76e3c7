"""The one line at the end: what was recorded, what it cost, and what nobody has seen."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from reenact.capture.guard import Hole, guard
from reenact.core.events import OPENING_KINDS, ValuesDrawn
from reenact.effect.agents import store_of
from reenact.journal.reader import JournalReader

if TYPE_CHECKING:
    from reenact.capture.programs import ProgramAgent

MOST_SHOWN = 3


class Summary(NamedTuple):
    run: str
    effects: int
    events: int
    has_draws: bool
    tokens: float
    cost: float
    seconds: float
    redacted: int
    """Events that had secrets in them, which are in no file."""
    holes: dict[Hole, int]

    @property
    def line(self) -> str:
        parts = [f"reenact: run {self.run}", _counted(self.effects, "effect")]
        parts += [f"{self.tokens:,.0f} tokens"] if self.tokens else []
        parts += [f"cost {self.cost:,.4f}"] if self.cost else []
        parts.append(f"{self.seconds:,.1f} s")
        parts += [f"secrets kept out of {_counted(self.redacted, 'event')}"] if self.redacted else []
        if self.holes:
            named = [f"{hole.what} at {hole.where}" for hole in list(self.holes)[:MOST_SHOWN]]
            more = ["…"] if len(self.holes) > MOST_SHOWN else []
            parts.append(f"{sum(self.holes.values()):,} unseen: {'; '.join([*named, *more])}")
        return " · ".join(parts)


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


class Stopwatch:
    def __init__(self) -> None:
        self._since = time.monotonic()

    def summary(self, agent: ProgramAgent, run: str, store: str | None) -> Summary:
        seconds = time.monotonic() - self._since
        rows = store_of(store).scan(agent.namespace, run, contents=False)
        kinds = [row.kind for row in rows]
        effects = sum(kind in OPENING_KINDS for kind in kinds)
        spent = agent.spending.spent() if agent.spending is not None else {}
        redacted = getattr(agent.live.secrets, "redacted", 0) if agent.live is not None else 0
        tokens, cost = spent.get("tokens", 0.0), spent.get("cost", 0.0)
        has_draws = _has_draws(JournalReader(store_of(store), run, agent.namespace), kinds)
        return Summary(run, effects, len(kinds), has_draws, tokens, cost, seconds, redacted, dict(guard.holes))


def _has_draws(reader: JournalReader, kinds: list[str]) -> bool:
    """Something was drawn besides the seed with which every program begins."""
    for seq, kind in enumerate(kinds, start=1):
        event = reader.event(seq).event if kind == "ValuesDrawn" else None
        if isinstance(event, ValuesDrawn) and any(draw[1] != "seed" for draw in event.draws):
            return True
    return False
