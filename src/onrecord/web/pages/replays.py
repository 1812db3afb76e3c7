"""The report on a live replay: the verdict, and step by step what it took and used beside what its run did."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from onrecord.errors import Damaged
from onrecord.journal.reader import JournalReader
from onrecord.reports.runs import run_report
from onrecord.web.comparison_endpoints import measure_replay
from onrecord.web.pages.render import page
from onrecord.web.query import RequestQuery
from onrecord.web.stores import Stores

PARAMETERS = ("after", "limit", "step")


def replay_page(stores: Stores, asked: RequestQuery) -> Response:
    runs = [stores.run(asked.path[name]) for name in ("run", "other")]
    if runs != [asked.path["run"], asked.path["other"]]:
        return RedirectResponse(f"/runs/{quote(runs[0], safe='')}/replay/{quote(runs[1], safe='')}", 303)
    expected, actual = (run_report(JournalReader(stores.reading, run, stores.namespace)) for run in runs)
    try:
        told, damage = measure_replay(stores, asked), None
    except Damaged as found:
        told, damage = None, found.message
    after = asked.number("after", 0)
    steps = None if told is None else told["steps"]
    return page(
        "replay.html", expected=expected, actual=actual, told=told, damage=damage, after=after, given={"steps": steps}
    )
