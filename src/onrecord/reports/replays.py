"""What can be replayed of a run, effect by effect, and what became of the replays that are on record.

Told from the record alone: no code of the agent is loaded or run. An effect is

    replayable       its answer is on record, with a value that can be handed over again
    not_replayable   it is answered, but of the value only the type was recorded, or it was erased
    open             it has no answer; a replay ends there
    in_doubt         the same, of an effect that may happen at most once, in a run that nobody holds
    damaged          request or answer are not what was written
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from onrecord.analysis.live import RunReplay, judge_runs
from onrecord.analysis.live.attempts import is_replay_of
from onrecord.core.events import ANSWERS, OPENING_KINDS, TERMINAL_KINDS
from onrecord.errors import Damaged, OnrecordError
from onrecord.journal.reader import JournalReader, each_run
from onrecord.reports.effects import OUTCOMES
from onrecord.reports.status import Standing, standing_of
from onrecord.reports.timelines import SeenEvent, seen
from onrecord.reports.times import iso_time
from onrecord.runtime.engine.outcomes import is_opaque
from onrecord.store.contract import RunRow

STATES = ("replayable", "not_replayable", "open", "in_doubt", "damaged")
LOOKED_AT_MOST = 5_000
LIVE_REPLAYS_SHOWN = 10
_VALUES = {"ActionSucceeded": "output", "WaitResolved": "resolution", "Resumed": "value"}


def replay_report(reader: JournalReader, row: RunRow, *, start: int, limit: int) -> dict[str, Any]:
    """Of all effects how many are what, and those requested from `start` on one by one."""
    reader.check_start(start)
    standing = standing_of(reader.store, reader.namespace, row)
    effects = _Effects(standing, start, limit)
    for event_row in reader.store.scan(reader.namespace, reader.run):
        if event_row.kind in OPENING_KINDS:
            effects.requested(_without_values(seen(reader, event_row)))
        elif event_row.kind in ANSWERS:
            effects.answered(_without_values(seen(reader, event_row)))
    effects.end()
    live_replays, more = _live_replays(reader, row)
    return {
        "run": reader.run,
        "status": standing.status,
        "events": row.last.seq if row.last is not None else 0,
        "verdict": _verdict(row, effects.counts),
        "counts": dict(effects.counts),
        "effects": list(effects.page.values()),
        "next": effects.next,
        "live_replays": live_replays,
        "more_live_replays": more,
    }


class _Effects:
    """Counts all effects and keeps a page of them. Besides that only those without an answer are remembered."""

    def __init__(self, standing: Standing, start: int, limit: int) -> None:
        self._standing = standing
        self._start = start
        self._limit = limit
        self._waiting: dict[int, SeenEvent] = {}
        self.counts: Counter[str] = Counter(dict.fromkeys(STATES, 0))
        self.page: dict[int, dict[str, Any]] = {}
        self.next: int | None = None

    def requested(self, request: SeenEvent) -> None:
        self._waiting[request.seq] = request
        if request.seq < self._start:
            return
        if len(self.page) < self._limit:
            self.page[request.seq] = {}
        elif self.next is None:
            self.next = request.seq

    def answered(self, answer: SeenEvent) -> None:
        request = self._waiting.pop(answer.parent or 0, None)
        if request is not None:
            self._is_known(request, answer)
        elif answer.damage is not None:
            self.counts["damaged"] += 1  # of which request it is the answer cannot be read

    def end(self) -> None:
        for request in self._waiting.values():
            self._is_known(request, None)

    def _is_known(self, request: SeenEvent, answer: SeenEvent | None) -> None:
        state = _state(request, answer, self._standing)
        self.counts[state] += 1
        if request.seq in self.page:
            self.page[request.seq] = _effect(request, answer, state)


def _verdict(row: RunRow, counts: Counter[str]) -> str:
    if row.last is None:
        return "empty"
    if counts["damaged"]:
        return "damaged"
    if counts["not_replayable"]:
        return "not_replayable"
    return "replayable" if row.last.kind in TERMINAL_KINDS else "unfinished"


def _without_values(one: SeenEvent) -> SeenEvent:
    """Name, sort and whether there is a value: a conversation must not be kept for each of its calls."""
    content = one.content if isinstance(one.content, dict) else {}
    kept = {name: content[name] for name in ("name", "effect") if isinstance(content.get(name), str)}
    value = content.get(_VALUES[one.kind]) if one.kind in _VALUES else None
    return one._replace(content={**kept, "opaque": is_opaque(value)})


def _state(request: SeenEvent, answer: SeenEvent | None, standing: Standing) -> str:
    if request.damage is not None or (answer is not None and answer.damage is not None):
        return "damaged"
    if answer is None:
        doubtful = standing.status == "in_doubt" and request.seq in standing.seqs
        return "in_doubt" if doubtful else "open"
    return "not_replayable" if answer.erased or request.erased or answer.content["opaque"] else "replayable"


def _effect(asked: SeenEvent, answer: SeenEvent | None, state: str) -> dict[str, Any]:
    took = None if answer is None or answer.time is None or asked.time is None else answer.time - asked.time
    return {
        "seq": asked.seq,
        "kind": asked.kind,
        "name": asked.content.get("name"),
        "effect": asked.content.get("effect"),
        "lane": asked.lane,
        "key": asked.key,
        "time": None if asked.time is None else iso_time(asked.time),
        "answer": None if answer is None else answer.seq,
        "outcome": None if answer is None else OUTCOMES.get(answer.kind, "succeeded"),
        "took_us": took,
        "replay": state,
        "damage": asked.damage or (None if answer is None else answer.damage),
    }


def _live_replays(reader: JournalReader, row: RunRow) -> tuple[list[dict[str, Any]], bool]:
    """Runs that say of themselves that they replay this one, newest first, each judged against it."""
    found: list[dict[str, Any]] = []
    for looked, other in enumerate(each_run(reader.store, reader.namespace)):
        if other.header.created < row.header.created:
            break
        if looked == LOOKED_AT_MOST:
            return found, True
        if _replays(other, reader):
            if len(found) == LIVE_REPLAYS_SHOWN:
                return found, True
            found.append(_live_replay(reader, other))
    return found, False


def _replays(other: RunRow, reader: JournalReader) -> bool:
    try:
        return is_replay_of(other, reader)
    except Damaged:
        return False


def _live_replay(reader: JournalReader, other: RunRow) -> dict[str, Any]:
    store, namespace, name = reader.store, reader.namespace, other.header.run
    about = {"run": name, "created": iso_time(other.header.created)}
    try:
        judged = judge_runs(reader, JournalReader(store, name, namespace))
    except OnrecordError as error:
        return {**about, "status": None, "verdict": None, "codes": [error.code], "message": error.message}
    status = standing_of(store, namespace, other).status
    return {
        **about,
        "status": status,
        "verdict": judged.verdict,
        "codes": list(judged.codes),
        "message": judged.message,
        "counts": judged.counts,
    }


def judged_page(judged: RunReplay, after: int, limit: int) -> dict[str, Any]:
    """A live replay judged, with its steps behind the first `after`; `next` is the `after` of the page that follows."""
    data = judged.to_data()
    steps = data["steps"]
    end = after + limit
    return {**data, "steps": steps[after:end], "next": end if end < len(steps) else None}
