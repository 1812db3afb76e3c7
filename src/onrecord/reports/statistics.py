"""Tokens, cost and latency, by model and by tool: of one run, or of many.

Latency is what a run waited for an effect, request to answer on record; percentiles are of the answers that came,
failed ones included, by the nearest rank. What is open has none. Sleeps, waits and interrupts are counted apart: how
long those take says nothing about the program.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from math import ceil
from typing import Any, NamedTuple

from onrecord.errors import OnrecordError
from onrecord.journal.reader import JournalReader
from onrecord.reports.effects import MODEL_CALL, ReportedEffect, effects_of
from onrecord.reports.usages import ReadAnswer

POINTS = 60
"""Parts that a plot over the calls has at most."""
_RESTING = frozenset({"wait", "interrupt", "sleep", "await_event"})
_SLOTS = 12
"""Of a histogram of latencies, each twice as long as the one before."""
_FIRST_SLOT_US = 1_000


class Spread(NamedTuple):
    """Of one number over many calls, in the order of the calls."""

    p50: int | None
    p95: int | None
    most: int | None
    total: int
    series: list[float]
    """Averages of at most 60 stretches of equal length: what a small plot shows."""
    slots: list[int]
    """Calls that took up to 1, 2, 4, … milliseconds; the last holds all that took longer."""

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


class _Group:
    def __init__(self) -> None:
        self.calls = self.failed = self.denied = self.open = self.told = self.priced = 0
        self.tokens = self.input_tokens = self.output_tokens = self.cached_tokens = 0
        self.cost = 0.0
        self.took = array("q")
        self.used = array("q")

    def add(self, effect: ReportedEffect) -> None:
        self.calls += 1
        self.failed += effect.outcome == "failed"
        self.denied += effect.outcome == "denied"
        self.open += effect.outcome == "open"
        if effect.took_us is not None:
            self.took.append(min(effect.took_us, 2**62))
        if (used := effect.used) is None:
            return
        self.told += 1
        self.tokens += used.tokens
        self.used.append(min(used.tokens, 2**62))
        self.input_tokens += used.input_tokens or 0
        self.output_tokens += used.output_tokens or 0
        self.cached_tokens += used.cached_tokens or 0
        if used.cost is not None:
            self.priced += 1
            self.cost += used.cost

    def to_json(self) -> dict[str, Any]:
        return {
            "calls": self.calls,
            "failed": self.failed,
            "denied": self.denied,
            "open": self.open,
            "latency_us": _spread(self.took).to_json(),
            "tokens": self.tokens,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
            "tokens_told_by": self.told,
            "tokens_series": _series(self.used),
            "cost": self.cost if self.priced else None,
            "cost_known_of": self.priced,
        }


class Statistics:
    """Takes runs one by one. Kept are a few numbers for each call, and no contents."""

    def __init__(self, read: ReadAnswer) -> None:
        self._read = read
        self._models: dict[str, _Group] = {}
        self._tools: dict[tuple[str, str], _Group] = {}
        self._resting: Counter[str] = Counter()
        self._total = _Group()
        self.runs = self.events = 0
        self.unreadable: list[str] = []
        """Runs of which a part could not be read; `verify` says why."""

    def add(self, reader: JournalReader, step: Callable[[int, int], None] | None = None) -> None:
        self.runs += 1
        events = reader.head().seq
        self.events += events
        try:
            for effect in effects_of(reader, self._read):
                self._count(effect)
                if step is not None:
                    step(effect.answer or effect.seq, events)
        except OnrecordError:
            self.unreadable.append(reader.run)

    def _count(self, effect: ReportedEffect) -> None:
        if effect.kind in _RESTING:
            self._resting[effect.kind] += 1
            return
        self._total.add(effect)
        if effect.kind == MODEL_CALL:
            self._models.setdefault(effect.model or effect.name or "?", _Group()).add(effect)
        else:
            self._tools.setdefault((effect.kind, effect.name or "?"), _Group()).add(effect)

    def to_json(self) -> dict[str, Any]:
        models = [{"model": name, **group.to_json()} for name, group in self._models.items()]
        tools = [{"kind": kind, "name": name, **group.to_json()} for (kind, name), group in self._tools.items()]
        return {
            "runs": self.runs,
            "events": self.events,
            "models": _most_first(models),
            "tools": _most_first(tools),
            "resting": dict(self._resting),
            "total": self._total.to_json(),
            "unreadable": self.unreadable,
        }


def statistics_of_run(
    reader: JournalReader,
    read: ReadAnswer,
    *,
    processes: Iterable[JournalReader] = (),
    step: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """With the processes that it started, which are runs of their own: what those used, the run has used.

    `step` is told how many of the run's events are read.
    """
    statistics = Statistics(read)
    statistics.add(reader, step)
    for process in processes:
        statistics.add(process)
    return {"run": reader.run, **statistics.to_json()}


def statistics_of_runs(readers: Iterable[JournalReader], read: ReadAnswer) -> dict[str, Any]:
    statistics = Statistics(read)
    for reader in readers:
        statistics.add(reader)
    return statistics.to_json()


def _most_first(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By the time that was waited for them: what is worth looking at stands first."""
    return sorted(groups, key=lambda one: -one["latency_us"]["total"])


def _spread(values: array[int]) -> Spread:
    ordered = sorted(values)
    slots = [0] * _SLOTS
    for value in ordered:
        slots[min(_SLOTS - 1, max(0, (value // _FIRST_SLOT_US).bit_length()))] += 1
    return Spread(
        p50=_rank(ordered, 50),
        p95=_rank(ordered, 95),
        most=ordered[-1] if ordered else None,
        total=sum(ordered),
        series=_series(values),
        slots=slots,
    )


def _rank(ordered: list[int], percent: int) -> int | None:
    return ordered[ceil(len(ordered) * percent / 100) - 1] if ordered else None


def _series(values: array[int]) -> list[float]:
    """The values in order, in at most so many stretches as a plot has."""
    count = min(POINTS, len(values))
    bounds = [len(values) * number // count for number in range(count + 1)] if count else []
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(bounds)]


class RunTotals(NamedTuple):
    """What a run used in all; for listings."""

    calls: int
    tokens: int
    cost: float | None

    def and_also(self, other: RunTotals) -> RunTotals:
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return RunTotals(self.calls + other.calls, self.tokens + other.tokens, sum(costs) if costs else None)

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


def run_totals(reader: JournalReader, read: ReadAnswer) -> RunTotals:
    """Reads the answers of the whole run."""
    calls = tokens = 0
    cost: float | None = None
    for effect in effects_of(reader, read, open_too=False):
        if effect.used is not None:
            calls += effect.kind == MODEL_CALL
            tokens += effect.used.tokens
            cost = cost if effect.used.cost is None else (cost or 0.0) + effect.used.cost
    return RunTotals(calls, tokens, cost)


def used_runs(
    lines: Iterable[dict[str, Any]],
    readers: Callable[[str], Iterable[JournalReader]],
    read: ReadAnswer,
    *,
    min_cost: float = 0.0,
    min_tokens: int = 0,
) -> Iterator[dict[str, Any]]:
    """Lines of a list of runs, each with the `usage` of its run; those are left out that used less.

    `readers` gives the run of an id and what belongs to it: its processes. What cannot be read is not counted.
    """
    for line in lines:
        used = RunTotals(0, 0, None)
        try:
            for reader in readers(line["run"]):
                used = used.and_also(run_totals(reader, read))
        except OnrecordError:
            pass  # as far as it goes; `verify` says what is the matter
        if used.tokens >= min_tokens and (used.cost or 0.0) >= min_cost:
            yield {**line, "usage": used.to_json()}
