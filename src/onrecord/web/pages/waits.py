"""What waits for somebody, over all runs: waits to be answered, effects in doubt to be settled."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from onrecord.index.attention import attention_report
from onrecord.index.lists import place_of
from onrecord.reports.gists import trimmed
from onrecord.reports.open_questions import signs_here
from onrecord.web.list_endpoints import NEEDS
from onrecord.web.pages.render import page
from onrecord.web.query import RequestQuery
from onrecord.web.stores import Stores

PARAMETERS = ("cursor",)
ROOM = 4_000


def waits_page(stores: Stores, asked: RequestQuery) -> Response:
    index = stores.indexed.current()
    place = place_of(index)  # before the look: what changes meanwhile is told
    report = attention_report(index, cursor=asked.text("cursor"), limit=NEEDS, signs=signs_here)
    runs = [_trimmed(one) for one in report["runs"]]
    older = None if report["next"] is None else f"/waits?cursor={report['next']}"
    return page("waits.html", runs=runs, count=report["count"], older=older, paged=asked.text("cursor"), place=place)


def _trimmed(run: dict[str, Any]) -> dict[str, Any]:
    """A question may be as large as anybody likes; a page is not."""
    waits = [{**one, "question": pretty(one["question"])} for one in run["waits"]]
    doubts = [{**one, "asked": pretty(one["asked"])} for one in run["doubts"]]
    return {**run, "waits": waits, "doubts": doubts}


def pretty(value: Any) -> str:
    """A value as people read it: a text as it is, anything else as JSON; nothing for nothing."""
    shown = trimmed(value).value
    if shown is None:
        return ""
    text = shown if isinstance(shown, str) else json.dumps(shown, indent=2, ensure_ascii=False)
    return text if len(text) <= ROOM else text[:ROOM] + " …"
