"""The page of a run. What is rendered here costs the same for a run of ten events and of a hundred thousand."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from starlette.responses import RedirectResponse, Response

from onrecord.capture.usage import usage_of
from onrecord.errors import OnrecordError
from onrecord.journal.reader import JournalReader
from onrecord.reports.gists import trimmed
from onrecord.reports.open_questions import doubts, open_waits
from onrecord.reports.runs import run_report
from onrecord.reports.spans import spans_page
from onrecord.reports.status import Standing, standing_of
from onrecord.web.pages.render import page
from onrecord.web.pages.waits import pretty
from onrecord.web.query import RequestQuery, row_of
from onrecord.web.stores import Stores

VIEWS = ("timeline", "conversation", "receipts", "family", "about")
PARAMETERS = ("seq", "view", "show")
FIRST_ROWS = 40
NEEDS_SHOWN = 20
ROWS_BEFORE = 6
"""That are shown above an event which a link leads to."""


def run_page(stores: Stores, asked: RequestQuery) -> Response:
    reader = stores.reader(asked.path["run"])
    if reader.run != asked.path["run"]:  # a beginning, or @last: the address of the run itself is the one to keep
        given = {name: asked.text(name) for name in PARAMETERS if asked.text(name) is not None}
        query = f"?{urlencode(given)}" if given else ""
        return RedirectResponse(f"/runs/{quote(reader.run, safe='')}{query}", 303)
    report = run_report(reader)
    seq = min(asked.number("seq", 0), report["events"])
    first = max(1, min(seq - ROWS_BEFORE, report["events"] - FIRST_ROWS + 1))
    rows = spans_page(reader, usage_of, first, FIRST_ROWS)
    standing = standing_of(stores.reading, stores.namespace, row_of(stores, reader.run))
    view = asked.text("view")
    return page(
        "run.html",
        run=report,
        facts=trimmed(report["facts"]),
        rows=rows["rows"],
        took_us=_duration(rows),
        view=view if view in VIEWS else VIEWS[0],
        waits=_waits(stores, reader, standing),
        doubts=_doubts(stores, reader, standing),
        stops=_stops(standing),
        given={**rows, "seq": seq or None, "first": first},
    )


def _duration(rows: dict[str, Any]) -> int | None:
    first, last = rows["first_us"], rows["last_us"]
    return None if first is None or last is None else max(0, last - first)


def _waits(stores: Stores, reader: JournalReader, standing: Standing) -> list[dict[str, Any]]:
    if standing.status not in ("waiting", "blocked", "running", "interrupted"):
        return []
    try:
        return open_waits(stores.reading, stores.namespace, reader.run, lambda _: False)[:NEEDS_SHOWN]
    except OnrecordError:
        return []  # what cannot be read is told by the verification


def _doubts(stores: Stores, reader: JournalReader, standing: Standing) -> list[dict[str, Any]]:
    if standing.status != "in_doubt":
        return []
    found = doubts(stores.reading, stores.namespace, reader.run)[:NEEDS_SHOWN]
    return [{**one, "asked": pretty(one["asked"])} for one in found]


def _stops(standing: Standing) -> list[dict[str, Any]]:
    """Before which effects a fork or a live replay stands."""
    if standing.status != "stopped":
        return []
    return [{"seq": seq, "name": name} for seq, name in zip(standing.seqs, standing.about, strict=False)][:NEEDS_SHOWN]
