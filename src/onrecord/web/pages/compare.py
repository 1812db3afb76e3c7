"""Two runs side by side, and the page on which the second one is chosen."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from onrecord.errors import Damaged, OnrecordError
from onrecord.journal.reader import JournalReader
from onrecord.reports.runs import RunFilter, run_report, runs_page
from onrecord.reports.side_by_side import event_difference
from onrecord.web.comparison_endpoints import compare
from onrecord.web.pages.render import page
from onrecord.web.query import RequestQuery
from onrecord.web.stores import Stores

PARAMETERS = ("at", "seq", "limit")
OFFERED = 50
PATCH_ROOM = 100_000


def compare_page(stores: Stores, asked: RequestQuery) -> Response:
    runs = [stores.run(asked.path[name]) for name in ("run", "other")]
    address = _address(*runs)
    if runs != [asked.path["run"], asked.path["other"]]:  # beginnings, or @last: the addresses of the runs are kept
        return RedirectResponse(address, 303)
    about = [run_report(JournalReader(stores.reading, run, stores.namespace)) for run in runs]
    try:
        told, damage = compare(stores, asked), None
    except Damaged as found:
        told, damage = None, found.message
    at = 0 if told is None else asked.number("at", 0) or _number_at(told, asked.number("seq", 0))
    return page(
        "compare.html",
        expected=about[0],
        actual=about[1],
        told=told,
        damage=damage,
        at=at,
        other_way=_address(*reversed(runs)),
        detail=_detail(stores, told, at),
        given={"at": at},
    )


def _number_at(told: dict[str, Any], seq: int) -> int:
    """The first difference at or behind an event of the first run; without one, where they part."""
    places = ((row["number"], row["expected"]) for row in told["rows"] if row["row"] == "change")
    found = (number for number, place in places if seq and place is not None and place["seq"] >= seq)
    return next(found, told["first_number"] or 0)


def _address(run: str, other: str) -> str:
    return f"/runs/{quote(run, safe='')}/compare/{quote(other, safe='')}"


def _detail(stores: Stores, told: dict[str, Any] | None, at: int) -> dict[str, Any] | None:
    """Of the difference that is in view at once; the others are asked for when somebody opens them."""
    row = next((one for one in (told or {}).get("rows", ()) if one.get("number") == at), None)
    if row is None or row["expected"] is None or row["actual"] is None:
        return None
    sides = [(JournalReader(stores.reading, one["run"], stores.namespace), one["seq"]) for one in _both(row)]
    try:
        found = event_difference(*sides[0], *sides[1])
    except OnrecordError:
        return None  # the script asks again, and shows what is the matter
    return {**found, "patch_text": json.dumps(found["patch"], indent=2, ensure_ascii=False)[:PATCH_ROOM]}


def _both(row: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    return row["expected"], row["actual"]


def choose_page(stores: Stores, asked: RequestQuery) -> Response:
    """The runs that this one can be compared with, newest first."""
    run = stores.run(asked.path["run"])
    wanted = asked.text("other")
    if wanted:
        return RedirectResponse(_address(run, stores.run(wanted.strip())), 303)
    found = runs_page(stores.reading, stores.namespace, RunFilter(), cursor=asked.text("cursor"), limit=OFFERED)
    others = [one for one in found.runs if one["run"] != run]
    return page("compare_choose.html", run=run, others=others, next=found.next)
