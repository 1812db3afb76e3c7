"""The report on a live replay: the verdict, and step by step what it took and used beside what its run did."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from reenact.errors import Damaged
from reenact.journal.reader import JournalReader
from reenact.reports.runs import run_report
from reenact.web.asked import Asked
from reenact.web.comparisons import measure_replay
from reenact.web.pages.rendering import page
from reenact.web.stores import Stores

PARAMETERS = ("after", "limit", "step")


def replay_page(stores: Stores, asked: Asked) -> Response:
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
