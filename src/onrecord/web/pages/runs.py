"""The list of runs. Its filters are its address; times may be said as spans, which only a page knows."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from onrecord.errors import InvalidInput
from onrecord.index.lists import list_report
from onrecord.reports.runs import STATUSES
from onrecord.reports.times import iso_time
from onrecord.web.list_endpoints import wanted_lines
from onrecord.web.pages.render import page
from onrecord.web.query import RequestQuery
from onrecord.web.stores import Stores

PARAMETERS = ("status", "agent", "within", "since", "until", "min_cost", "max_cost", "cursor")
SPANS = {
    "1h": ("the last hour", 3_600),
    "24h": ("24 hours", 86_400),
    "7d": ("7 days", 604_800),
    "30d": ("30 days", 2_592_000),
}
LINES = 100
LONGEST_CHOICE = 200


def list_page(stores: Stores, asked: RequestQuery) -> Response:
    asked.drop_blanks()
    wanted = wanted_lines(asked)
    within = asked.text("within") or ""
    if within:
        if within not in SPANS:
            raise InvalidInput(f"within is one of {', '.join(SPANS)}, not {within[:20]!r}", code="bad_parameter")
        since = time.time_ns() // 1000 - SPANS[within][1] * 1_000_000
        wanted = wanted._replace(runs=wanted.runs._replace(since=since))
    cursor = asked.text("cursor")
    listed = list_report(stores.indexed.current(), wanted, cursor=cursor, limit=LINES)
    chosen = {
        "status": sorted(wanted.runs.statuses),
        "agent": sorted(wanted.runs.agents),
        **{name: asked.text(name) or "" for name in PARAMETERS[2:-1]},
    }
    filters = _query(chosen)
    return page(
        "runs.html",
        listed=listed,
        statuses=STATUSES,
        spans=[(name, words) for name, (words, _) in SPANS.items()],
        agents=sorted({*(name for name in listed["agents"] if len(name) <= LONGEST_CHOICE), *chosen["agent"]}),
        chosen=chosen,
        filtered=bool(filters),
        paged=cursor is not None,
        newest=f"/?{filters}" if filters else "/",
        older=None if listed["next"] is None else "/?" + _query({**chosen, "cursor": listed["next"]}),
        follow=_followed(chosen, wanted.runs.since, listed["place"]),
    )


def _query(chosen: dict[str, Any]) -> str:
    return urlencode({name: value for name, value in chosen.items() if value}, doseq=True)


def _followed(chosen: dict[str, Any], since: int | None, place: str | None) -> str:
    """The same filters as the interface takes them."""
    names = ("status", "agent", "until", "min_cost", "max_cost")
    asked = {name: chosen[name] for name in names} | {"since": "" if since is None else iso_time(since)}
    return _query({**asked, "after": place})
