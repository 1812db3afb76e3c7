"""Which run is meant: an id, a unique beginning of one, `@last`, `@last~1`."""

from __future__ import annotations

import re

from onrecord.core.links import OPERATIONS_RUN
from onrecord.errors import InvalidInput, NotFound, OnrecordError
from onrecord.journal.reader import JournalReader, each_run
from onrecord.reports.summaries import facts_of, kind_of_run
from onrecord.store.contract import Store

CANDIDATES = 5
MOST_BACK = 10_000
SHORTEST_ID = 8
LONGEST_WHOLE_ID = 16
"""An id as long as this is a name that somebody gave: it is not cut short."""

_LAST = re.compile(r"@last(?:~([0-9]{1,6}))?\Z")
_BEGINNING = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}\Z")


def select_run(store: Store, namespace: str, text: str) -> str:
    """The id of the run that `text` names. The whole id wins over a longer one that begins with it."""
    if text.startswith("@"):
        return _by_position(store, namespace, text)
    if not _BEGINNING.match(text):
        raise _unknown(text, namespace)
    if store.run_row(namespace, text) is not None:
        return text
    found = store.find_runs(namespace, text, CANDIDATES + 2)
    matching = [run for run in found if run != OPERATIONS_RUN]  # that one is asked for by its whole name
    if not matching:
        raise _unknown(text, namespace)
    if len(matching) > 1:
        names = ", ".join(matching[:CANDIDATES]) + (", …" if len(matching) > CANDIDATES else "")
        raise InvalidInput(
            f"{text!r} begins the id of more than one run", hint=f"Write more of it: {names}", code="ambiguous_run"
        )
    return matching[0]


def _by_position(store: Store, namespace: str, text: str) -> str:
    match = _LAST.match(text)
    back = int(match[1] or 0) if match is not None else MOST_BACK + 1
    if back > MOST_BACK:
        raise InvalidInput(
            f"not a run: {text[:80]!r}", hint="Use @last, @last~1, an id or its beginning.", code="bad_run"
        )
    for row in each_run(store, namespace, at_once=back + 1):
        run = row.header.run
        if kind_of_run(facts_of(store, namespace, run)) != "run" or _was_called(store, namespace, run):
            continue  # a stored difference, a receipt or a called run
        if back == 0:
            return run
        back -= 1
    raise NotFound(
        f"there is no {text}: namespace {namespace!r} has too few runs",
        hint="`onrecord ls` lists the runs; `onrecord run agent.py` records one.",
        code="unknown_run",
    )


def _unknown(text: str, namespace: str) -> NotFound:
    return NotFound(f"no run {text[:80]!r} in namespace {namespace!r}", code="unknown_run")


def short_id(store: Store, namespace: str, run: str) -> str:
    """The shortest beginning of the id, of at least 8 characters, that names this run alone. Short ids are whole."""
    if len(run) <= LONGEST_WHOLE_ID:
        return run
    low, high = SHORTEST_ID, len(run)
    while low < high:
        middle = (low + high) // 2
        if len(store.find_runs(namespace, run[:middle], 2)) > 1:
            low = middle + 1
        else:
            high = middle
    return run[:low]


def _was_called(store: Store, namespace: str, run: str) -> bool:
    """By another run, which is the one that is meant."""
    try:
        parent = JournalReader(store, run, namespace).header.parent
    except OnrecordError:
        return False  # what is the matter with it is told by whoever reads it
    return parent is not None and parent.relation == "child"
