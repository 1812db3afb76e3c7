"""Summary line of a program and its processes: what was recorded, what it cost, and what was not recorded."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from onrecord.capture.processes.run_tree import descendants_of
from onrecord.capture.processes.session import Report
from onrecord.capture.processes.spawn import DRAWN
from onrecord.capture.unrecorded import Hole, guard
from onrecord.core.events import OPENING_KINDS, ValuesDrawn
from onrecord.core.lane_names import shown_lane
from onrecord.journal.reader import JournalReader
from onrecord.runtime.engine.stores import store_of

if TYPE_CHECKING:
    from onrecord.capture.program_agent import ProgramAgent
    from onrecord.store.contract import Store

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
    """Number of events from which secrets were redacted."""
    holes: dict[Hole, int]
    processes: int = 0
    """Runs of processes below this one."""
    remarks: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        parts = [f"onrecord: run {self.run}", _format_count(self.effects, "effect")]
        parts += [_format_count(self.processes, "process")] if self.processes else []
        parts += [f"{self.tokens:,.0f} tokens"] if self.tokens else []
        parts += [f"cost {self.cost:,.4f}"] if self.cost else []
        parts.append(f"{self.seconds:,.1f} s")
        parts += [f"secrets kept out of {_format_count(self.redacted, 'event')}"] if self.redacted else []
        parts += self.remarks
        if self.holes:
            named = [f"{hole.what} at {hole.where}" for hole in list(self.holes)[:MOST_SHOWN]]
            more = ["…"] if len(self.holes) > MOST_SHOWN else []
            parts.append(f"{sum(self.holes.values()):,} not recorded: {'; '.join([*named, *more])}")
        return " · ".join(parts)


def _format_count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 'es' if what.endswith('s') else 's'}"


class Stopwatch:
    def __init__(self) -> None:
        self._since = time.monotonic()

    def summary(self, agent: ProgramAgent, run: str, store: str | None, reports: Iterable[Report] = ()) -> Summary:
        """Return the summary of a run and of the processes below it, which wrote `reports`."""
        seconds, opened = time.monotonic() - self._since, store_of(store)
        spent = agent.spending.spent() if agent.spending is not None else {}
        tokens, cost = spent.get("tokens", 0.0), spent.get("cost", 0.0)
        redacted = getattr(agent.live.secrets, "redacted", 0) if agent.live is not None else 0
        holes = Counter(guard.holes)
        for report in reports:
            tokens, cost, redacted = tokens + report.tokens, cost + report.cost, redacted + report.redacted
            holes.update({Hole(what, where): count for what, where, count in report.holes})
        below = [child.run for child in descendants_of(opened, agent.namespace, run)]
        counts = [_count_run(opened, agent.namespace, one) for one in [run, *below]]
        effects, events = sum(one.effects for one in counts), sum(one.events for one in counts)
        draws = any(one.has_draws for one in counts)
        remarks = (*guard.remarks, *_outlived(agent))
        return Summary(run, effects, events, draws, tokens, cost, seconds, redacted, dict(holes), len(below), remarks)


def _outlived(agent: ProgramAgent) -> list[str]:
    """Name the threads that acted after the program's end. Their acts were refused."""
    lanes = [shown_lane(lane) for lane in agent.live.coordinator.outlived] if agent.live is not None else []
    named = ", ".join([*lanes[:MOST_SHOWN], *(["…"] if len(lanes) > MOST_SHOWN else [])])
    return [f"{_format_count(len(lanes), 'thread')} outlived it: {named}"] if lanes else []


class _RunCounts(NamedTuple):
    effects: int
    events: int
    has_draws: bool


def _count_run(store: Store, namespace: str, run: str) -> _RunCounts:
    kinds = [row.kind for row in store.scan(namespace, run, contents=False)]
    effects = sum(kind in OPENING_KINDS for kind in kinds)
    return _RunCounts(effects, len(kinds), _has_draws(JournalReader(store, run, namespace), kinds))


def _has_draws(reader: JournalReader, kinds: list[str]) -> bool:
    """Return True if the run has a draw that a replay can compare."""
    for seq, kind in enumerate(kinds, start=1):
        event = reader.event(seq).event if kind == "ValuesDrawn" else None
        if isinstance(event, ValuesDrawn) and any(draw[1] != DRAWN for draw in event.draws):
            return True
    return False
