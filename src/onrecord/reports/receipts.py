"""Receipts of effects, one by one and page by page."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from onrecord.core.strict_json import read_strict
from onrecord.journal.reader import JournalReader
from onrecord.proof.receipts import ReplayToken, mint


def receipt_report(token: ReplayToken) -> Any:
    return read_strict(token.to_json())


def receipts_report(tokens: Iterable[ReplayToken]) -> dict[str, Any]:
    return {"receipts": [receipt_report(one) for one in tokens]}


def receipts_page(reader: JournalReader, after: int, limit: int, most_bytes: int) -> dict[str, Any]:
    """Receipts behind the first `after`. `next` is what to say as `after` for the page that follows, None at the end.

    Each names the one before it, so all of them up to there are made; no more than a page is kept.
    """
    page: list[Any] = []
    size, more = 0, False
    for token in islice(mint(reader), after, None):
        written = token.to_json()
        size += len(written)
        more = len(page) == limit or (bool(page) and size > most_bytes)
        if more:
            break
        page.append(read_strict(written))
    return {"receipts": page, "next": after + len(page) if more else None}
