"""Endpoints behind the pages that compare. Each is called on a thread and returns plain JSON."""

from __future__ import annotations

from typing import Any

from onrecord.analysis.live import judge_runs
from onrecord.capture.usage import usage_of
from onrecord.reports.replay_measures import measured_replay
from onrecord.reports.side_by_side import CHANGES, Side, event_difference, side_by_side
from onrecord.web.query import RequestQuery, event_in_path
from onrecord.web.stores import Stores

MOST_CHANGES = 2_000
STEPS, MOST_STEPS = 500, 2_000


def compare(stores: Stores, asked: RequestQuery) -> Any:
    """What `/diff/OTHER` says, and row by row what is the same and what is not."""
    space = stores.namespace
    first, second = (Side(stores.reading, stores.run(asked.path[name]), space) for name in ("run", "other"))
    return side_by_side(first, second, limit=asked.number("limit", CHANGES, least=1, most=MOST_CHANGES))


def compare_events(stores: Stores, asked: RequestQuery) -> Any:
    seq, other_seq = asked.seq(), asked.seq("other_seq")
    with event_in_path():
        return event_difference(stores.reader(asked.path["run"]), seq, stores.reader(asked.path["other"]), other_seq)


def measure_replay(stores: Stores, asked: RequestQuery) -> Any:
    """A live replay and its run, step by step: what each took and used."""
    expected, actual = stores.reader(asked.path["run"]), stores.reader(asked.path["other"])
    judged = judge_runs(expected, actual)
    limit = asked.number("limit", STEPS, least=1, most=MOST_STEPS)
    return measured_replay(judged, expected, actual, usage_of, after=asked.number("after", 0), limit=limit)
