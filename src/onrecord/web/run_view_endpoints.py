"""Endpoints of the run page: rows of a timeline, conversations, families, one event in detail.

None of them reads more of a run than it is asked for, however long the run is.
"""

from __future__ import annotations

from typing import Any

from onrecord.capture.usage import usage_of
from onrecord.reports.chats import chat_page, chat_start
from onrecord.reports.contexts import context_report
from onrecord.reports.gists import trimmed
from onrecord.reports.inspections import difference_to_call_before, event_details
from onrecord.reports.run_tree import family_report
from onrecord.reports.spans import overview_report, spans_page, standing_report, usage_page
from onrecord.web.query import RequestQuery, event_in_path
from onrecord.web.read_endpoints import page_size
from onrecord.web.stores import Stores

BUCKETS, MOST_BUCKETS = 120, 400
USAGE_EVENTS, MOST_USAGE_EVENTS = 2_000, 10_000
CALLS, MOST_CALLS = 20, 100


def show_spans(stores: Stores, asked: RequestQuery) -> Any:
    return spans_page(stores.reader(asked.path["run"]), usage_of, asked.start(), page_size(asked))


def show_standing(stores: Stores, asked: RequestQuery) -> Any:
    return standing_report(stores.reader(asked.path["run"]))


def show_overview(stores: Stores, asked: RequestQuery) -> Any:
    buckets = asked.number("buckets", BUCKETS, least=1, most=MOST_BUCKETS)
    return overview_report(stores.reader(asked.path["run"]), buckets)


def show_usage(stores: Stores, asked: RequestQuery) -> Any:
    limit = asked.number("limit", USAGE_EVENTS, least=1, most=MOST_USAGE_EVENTS)
    return usage_page(stores.reader(asked.path["run"]), usage_of, asked.number("after", 0), limit)


def show_conversation(stores: Stores, asked: RequestQuery) -> Any:
    """From an event on; `at` an event, which is the last call up to there; or those `before` an event."""
    limit = asked.number("limit", CALLS, least=1, most=MOST_CALLS)
    reader = stores.reader(asked.path["run"])
    at, before = asked.number("at", 0), asked.number("before", 0)
    start = asked.start()
    if at:
        start = chat_start(reader, at + 1, 1)
    elif before:
        start = chat_start(reader, before, limit)
    return chat_page(reader, usage_of, start, limit)


def show_context(stores: Stores, asked: RequestQuery) -> Any:
    """As `onrecord show --context --json`; with `cut` long parts are cut short."""
    with event_in_path():
        told = context_report(stores.reader(asked.path["run"]), asked.seq()).to_json()
    if not asked.flag("cut"):
        return told
    shown = trimmed(told)
    return {**shown.value, "cut": shown.cut}


def show_family(stores: Stores, asked: RequestQuery) -> Any:
    return family_report(stores.reader(asked.path["run"]))


def show_details(stores: Stores, asked: RequestQuery) -> Any:
    with event_in_path():
        return event_details(stores.reader(asked.path["run"]), asked.seq())


def show_difference(stores: Stores, asked: RequestQuery) -> Any:
    to = asked.number("to", 0)
    with event_in_path():
        return difference_to_call_before(stores.reader(asked.path["run"]), asked.seq(), to or None)
