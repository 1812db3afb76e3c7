"""Endpoints over all runs: the list with what each run used, the search, and what waits for somebody."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from onrecord.errors import InvalidInput
from onrecord.reports.open_questions import signs_here
from onrecord.reports.runs import STATUSES, RunFilter
from onrecord.reports.times import microseconds_of
from onrecord.web.query import RequestQuery
from onrecord.web.stores import Stores

if TYPE_CHECKING:  # loaded with the first list
    from onrecord.index.lists import ListFilter

FILTERS = ("status", "agent", "since", "until", "min_cost", "max_cost", "all_kinds")
HITS, MOST_HITS = 20, 100
LINES, MOST_LINES = 100, 1_000
NEEDS, MOST_NEEDS = 50, 200


def wanted_runs(asked: RequestQuery) -> RunFilter:
    statuses = asked.several("status")
    for status in statuses - set(STATUSES):
        raise InvalidInput(
            f"no run is {status[:80]!r}", hint=f"A status is one of {', '.join(STATUSES)}.", code="bad_status"
        )
    since, until = asked.text("since"), asked.text("until")
    return RunFilter(
        statuses,
        asked.several("agent"),
        None if since is None else microseconds_of(since),
        None if until is None else microseconds_of(until),
        asked.flag("all_kinds"),
    )


def wanted_lines(asked: RequestQuery) -> ListFilter:
    from onrecord.index.lists import ListFilter

    return ListFilter(wanted_runs(asked), _dollars(asked, "min_cost"), _dollars(asked, "max_cost"))


def _dollars(asked: RequestQuery, name: str) -> float | None:
    text = asked.text(name)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1e12 or len(text) > 40:
        raise InvalidInput(f"{name} is an amount of dollars, not {text[:40]!r}", code="bad_parameter")
    return value


def overview(stores: Stores, asked: RequestQuery) -> Any:
    from onrecord.index.lists import list_report

    limit = asked.number("limit", LINES, least=1, most=MOST_LINES)
    wanted = wanted_lines(asked)
    return list_report(stores.indexed.current(), wanted, cursor=asked.text("cursor"), limit=limit)


def search(stores: Stores, asked: RequestQuery) -> Any:
    from onrecord.index.queries import parse_query
    from onrecord.index.searches import search_report

    text, limit = asked.text("q") or "", asked.number("limit", HITS, least=1, most=MOST_HITS)
    parse_query(text)  # what cannot be asked is refused before anything is looked for
    return search_report(stores.indexed.current(words=True), text, cursor=asked.text("cursor"), limit=limit)


def attention(stores: Stores, asked: RequestQuery) -> Any:
    from onrecord.index.attention import attention_report

    limit = asked.number("limit", NEEDS, least=1, most=MOST_NEEDS)
    cursor = asked.text("cursor")
    return attention_report(stores.indexed.current(), cursor=cursor, limit=limit, signs=signs_here)
