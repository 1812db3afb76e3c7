"""Endpoints that read whole runs and judge them. They have threads of their own: who only looks waits for none."""

from __future__ import annotations

from typing import Any

from onrecord.analysis.diff.runs import compare_runs
from onrecord.analysis.live import judge_runs
from onrecord.core.hashing import artifact_address, parse_hash
from onrecord.errors import Damaged, InvalidValue, NotFound
from onrecord.journal.verify import verify_run
from onrecord.reports.comparisons import comparison_report
from onrecord.reports.receipts import receipt_report, receipts_page
from onrecord.reports.replays import judged_page, replay_report
from onrecord.reports.verifications import verification_report
from onrecord.web.query import RequestQuery, row_of
from onrecord.web.read_endpoints import PAGE_BYTES, page_size
from onrecord.web.stores import Stores

CHANGES, MOST_CHANGES = 20, 10_000


def verify(stores: Stores, asked: RequestQuery) -> Any:
    run = stores.run(asked.path["run"])
    return verification_report(verify_run(stores.reading, run, stores.namespace, deep=asked.flag("deep")))


def diff(stores: Stores, asked: RequestQuery) -> Any:
    space = stores.namespace
    first, second = stores.run(asked.path["run"]), stores.run(asked.path["other"])
    comparison = compare_runs(
        stores.reading,
        first,
        stores.reading,
        second,
        namespace_a=space,
        namespace_b=space,
        align=not asked.flag("first_only"),
        most_shown=asked.number("limit", CHANGES, least=1, most=MOST_CHANGES),
    )
    return comparison_report(comparison, stores.reading, stores.reading)


def replay(stores: Stores, asked: RequestQuery) -> Any:
    reader = stores.reader(asked.path["run"])
    return replay_report(reader, row_of(stores, reader.run), start=asked.start(), limit=page_size(asked))


def replay_by(stores: Stores, asked: RequestQuery) -> Any:
    """A run and one that replayed it live, effect by effect; exact, since a tolerance is the reader's choice."""
    judged = judge_runs(stores.reader(asked.path["run"]), stores.reader(asked.path["other"]))
    return judged_page(judged, asked.number("after", 0), page_size(asked))


def list_receipts(stores: Stores, asked: RequestQuery) -> Any:
    reader = stores.reader(asked.path["run"])
    return receipts_page(reader, asked.number("after", 0), page_size(asked), PAGE_BYTES)


def show_receipt(stores: Stores, asked: RequestQuery) -> Any:
    digest = _digest(asked.path["receipt"], "receipt")
    return receipt_report(stores.receipts.get(digest))


def artifact(stores: Stores, asked: RequestQuery) -> bytes:
    """Its bytes, checked against their address."""
    digest = _digest(asked.path["digest"], "artifact")
    address = parse_hash(digest)
    data = stores.reading.artifact(stores.namespace, address)
    if data is None:
        raise _nothing("artifact")
    if artifact_address(data) != address:
        raise Damaged(f"an artifact does not match its address: {digest}", code="bad_artifact")
    return data


def _digest(text: str, what: str) -> str:
    """Whatever is no digest names nothing, so it never becomes part of a path or a query."""
    try:
        parse_hash(text)
    except InvalidValue:
        raise _nothing(what) from None
    return text


def _nothing(what: str) -> NotFound:
    return NotFound(f"there is no such {what}", hint="It is named by sha256: and 64 digits.", code=f"no_{what}")
