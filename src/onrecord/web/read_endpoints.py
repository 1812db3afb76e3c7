"""Endpoints that show what was recorded. Each is called on a thread and returns plain JSON."""

from __future__ import annotations

from typing import Any

from onrecord.reports.gists import trimmed
from onrecord.reports.runs import run_report, runs_page
from onrecord.reports.states import state_at
from onrecord.reports.timelines import event_report, one_event, timeline_page
from onrecord.reports.waits import open_waits_page, waits_report
from onrecord.web.list_endpoints import wanted_runs
from onrecord.web.query import RequestQuery, event_in_path
from onrecord.web.stores import Stores

PAGE, LARGEST_PAGE = 100, 1_000
PAGE_BYTES = 4 * 1024 * 1024
"""A page of events ends when it has grown so large, and says where the next one begins."""


def page_size(asked: RequestQuery) -> int:
    return asked.number("limit", PAGE, least=1, most=LARGEST_PAGE)


def list_runs(stores: Stores, asked: RequestQuery) -> Any:
    wanted = wanted_runs(asked)
    page = runs_page(stores.reading, stores.namespace, wanted, cursor=asked.text("cursor"), limit=page_size(asked))
    return page.to_json()


def show_run(stores: Stores, asked: RequestQuery) -> Any:
    from onrecord.capture.processes.run_tree import processes_report  # loaded when it is asked for

    reader = stores.reader(asked.path["run"])
    return {**run_report(reader), "processes": processes_report(reader)}


def show_events(stores: Stores, asked: RequestQuery) -> Any:
    from onrecord.capture.processes.run_tree import processes_report

    reader = stores.reader(asked.path["run"])
    page = timeline_page(reader, asked.start(), page_size(asked), most_bytes=PAGE_BYTES).to_json()
    return {**page, "processes": processes_report(reader)}


def show_event(stores: Stores, asked: RequestQuery) -> Any:
    seq = asked.seq()
    reader = stores.reader(asked.path["run"])
    with event_in_path():
        return event_report(reader.run, one_event(reader, seq))


def show_state(stores: Stores, asked: RequestQuery) -> Any:
    reader = stores.reader(asked.path["run"])
    found = state_at(reader, asked.number("at", reader.head().seq))
    if not asked.flag("cut"):
        return found.to_json()
    shown = trimmed(found.state)
    return {**found._replace(state=shown.value).to_json(), "cut": shown.cut}


def list_waits_of_run(stores: Stores, asked: RequestQuery) -> Any:
    run = stores.run(asked.path["run"])
    return waits_report(stores.reading, stores.namespace, run, everything=asked.flag("all"))


def list_waits(stores: Stores, asked: RequestQuery) -> Any:
    return open_waits_page(stores.reading, stores.namespace, cursor=asked.text("cursor"), limit=page_size(asked))
