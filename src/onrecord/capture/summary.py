"""The one line at the end: what was recorded, what it cost, and what nobody has seen. Of a program with all processes
that it started."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from reenact.capture.guard import Hole, guard
from reenact.capture.processes.family import family_of
from reenact.capture.processes.session import Report
from reenact.capture.processes.starting import DRAWN
from reenact.core.events import OPENING_KINDS, ValuesDrawn
from reenact.effect.open_stores import store_of
from reenact.journal.reader import JournalReader

if TYPE_CHECKING:
    from reenact.capture.programs import ProgramAgent
    from reenact.store.contract import Store

MOST_SHOWN = 3
_NO_VALUES = ("seed", DRAWN)
"""With the first every program begins; the second only says that a process was started."""


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
    processes: int = 0
    """Runs of processes below this one."""
    remarks: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        parts = [f"reenact: run {self.run}", _counted(self.effects, "effect")]
        parts += [_counted(self.processes, "process")] if self.processes else []
        parts += [f"{self.tokens:,.0f} tokens"] if self.tokens else []
        parts += [f"cost {self.cost:,.4f}"] if self.cost else []
        parts.append(f"{self.seconds:,.1f} s")
        parts += [f"secrets kept out of {_counted(self.redacted, 'event')}"] if self.redacted else []
        parts += self.remarks
        if self.holes:
            named = [f"{hole.what} at {hole.where}" for hole in list(self.holes)[:MOST_SHOWN]]
            more = ["…"] if len(self.holes) > MOST_SHOWN else []
            parts.append(f"{sum(self.holes.values()):,} unseen: {'; '.join([*named, *more])}")
        return " · ".join(parts)


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 'es' if what.endswith('s') else 's'}"


class Stopwatch:
    def __init__(self) -> None:
        self._since = time.monotonic()

    def summary(self, agent: ProgramAgent, run: str, store: str | None, reports: Iterable[Report] = ()) -> Summary:
        """Of a run and of the processes below it, whose reports these are."""
        seconds, opened = time.monotonic() - self._since, store_of(store)
        spent = agent.spending.spent() if agent.spending is not None else {}
        tokens, cost = spent.get("tokens", 0.0), spent.get("cost", 0.0)
        redacted = getattr(agent.live.secrets, "redacted", 0) if agent.live is not None else 0
        holes = Counter(guard.holes)
        for report in reports:
            tokens, cost, redacted = tokens + report.tokens, cost + report.cost, redacted + report.redacted
            holes.update({Hole(what, where): count for what, where, count in report.holes})
        below = [child.run for child in family_of(opened, agent.namespace, run)]
        counts = [_count(opened, agent.namespace, one) for one in [run, *below]]
        effects, events = sum(one.effects for one in counts), sum(one.events for one in counts)
        draws = any(one.has_draws for one in counts)
        remarks = tuple(guard.remarks)
        return Summary(run, effects, events, draws, tokens, cost, seconds, redacted, dict(holes), len(below), remarks)


class _Counts(NamedTuple):
    effects: int
    events: int
    has_draws: bool


def _count(store: Store, namespace: str, run: str) -> _Counts:
    kinds = [row.kind for row in store.scan(namespace, run, contents=False)]
    effects = sum(kind in OPENING_KINDS for kind in kinds)
    return _Counts(effects, len(kinds), _has_draws(JournalReader(store, run, namespace), kinds))


def _has_draws(reader: JournalReader, kinds: list[str]) -> bool:
    """Something was drawn that a replay can compare."""
    for seq, kind in enumerate(kinds, start=1):
        event = reader.event(seq).event if kind == "ValuesDrawn" else None
        if isinstance(event, ValuesDrawn) and any(draw[1] not in _NO_VALUES for draw in event.draws):
            return True
    return False
