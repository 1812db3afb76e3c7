"""What the tests of the index share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onrecord.core.events import ActionRequested, ActionSucceeded, Completed, Event, StateUpdated
from onrecord.index.index import Index
from onrecord.index.lists import ListFilter, list_report
from onrecord.index.searches import search_report
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.store.contract import Store

CANARY = b"naryword"
"""The end of `canaryword`: an index keeps a word without what it has in common with the one before."""


def record(store: Store, run: str, events: Sequence[Event | Draft] | None = None, **options: Any) -> str:
    options.setdefault("facts", {"agent": "tester"})
    with Journal.create(store, run, **options) as journal:
        if events is None or events:
            journal.append(list(said("hello") if events is None else events))
    return run


def said(answer: Any, question: Any = "2+2?") -> list[Event | Draft]:
    return [
        ActionRequested(action_id="a1", payload={"question": question}, name="ask", effect="model_call"),
        Draft(ActionSucceeded(action_id="a1", output=answer), parent=1),
        Completed(output=None),
    ]


def states(*texts: Any) -> list[Event | Draft]:
    return [StateUpdated(payload={"text": text}) for text in texts]


def found(index: Index, query: str, *, limit: int = 50) -> list[tuple[str, int]]:
    """Where it was found, once the index is up to date."""
    assert index.catch_up()
    return [(hit["run"], hit["seq"]) for hit in search_report(index, query, limit=limit)["hits"]]


def listed(index: Index, wanted: ListFilter | None = None, **options: Any) -> list[str]:
    assert index.catch_up()
    report = list_report(index, wanted or ListFilter(), cursor=None, **{"limit": 100, **options})
    return [line["run"] for line in report["runs"]]
