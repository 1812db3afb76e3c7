"""Which run is meant: an id, a unique beginning of one, `@last`, `@last~1`; and which runs, by a filter.

The filter is the same for `ls`, `replay --all` and `verify --all`. Differences that were kept and receipts that were
logged are runs of their own, so that they can be erased and retired. Nobody who asks for runs means those.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import click

from reenact.cli.text import fit, inert
from reenact.core.links import OPERATIONS_RUN
from reenact.errors import InvalidInput, NotFound
from reenact.store.contract import RunRow, Store

SHORTEST_ID = 8
CANDIDATES = 5
PAGE = 200

STATUSES = ("running", "interrupted", "waiting", "blocked", "in_doubt", "completed", "failed", "cancelled")

_LAST = re.compile(r"@last(?:~([0-9]{1,9}))?\Z")
_BEGINNING = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}\Z")


def selected_run(store: Store, namespace: str, text: str) -> str:
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
    if match is None:
        raise InvalidInput(
            f"not a run: {fit(inert(text), 80)}", hint="Use @last, @last~1, an id or its beginning.", code="bad_run"
        )
    back = int(match[1] or 0)
    for number, one in enumerate(chosen_runs(store, namespace, RunFilter(), page=min(PAGE, back + 1))):
        if number == back:
            return one.row.header.run
    raise NotFound(
        f"there is no {text}: namespace {namespace!r} has too few runs",
        hint="`reenact ls` lists the runs, `reenact demo` records one.",
        code="unknown_run",
    )


def _unknown(text: str, namespace: str) -> NotFound:
    return NotFound(f"no run '{fit(inert(text), 80)}' in namespace {namespace!r}", code="unknown_run")


def short_id(store: Store, namespace: str, run: str) -> str:
    """The shortest beginning of the id, of at least 8 characters, that names this run alone."""
    low, high = min(SHORTEST_ID, len(run)), len(run)
    while low < high:
        middle = (low + high) // 2
        if len(store.find_runs(namespace, run[:middle], 2)) > 1:
            low = middle + 1
        else:
            high = middle
    return run[:low]


# Many runs


class RunFilter(NamedTuple):
    """Which runs; nothing given means all of them."""

    statuses: frozenset[str] = frozenset()
    agents: frozenset[str] = frozenset()
    since: int | None = None
    until: int | None = None
    """Microseconds: begun not before the one, and before the other."""
    every_kind: bool = False
    """Kept differences and logged receipts too."""

    @property
    def takes_all(self) -> bool:
        return self[:-1] == RunFilter()[:-1]

    def __str__(self) -> str:
        """In words, in front of the noun: `failed or cancelled `."""
        return f"{' or '.join(sorted(self.statuses))} " if self.statuses else ""


class Chosen(NamedTuple):
    row: RunRow
    facts: dict[str, Any] | None
    """As they are stored; None when they are erased or damaged."""
    status: str

    @property
    def agent(self) -> str | None:
        agent = (self.facts or {}).get("agent")
        return agent if isinstance(agent, str) else None

    @property
    def kind(self) -> str:
        return kind_of_run(self.facts)


def kind_of_run(facts: dict[str, Any] | None) -> str:
    """`run`, or what is kept in the shape of one: `difference`, `receipts`."""
    if not facts or "agent" in facts:
        return "run"
    return "difference" if facts.get("kind") == "difference" else "receipts" if "receipts" in facts else "run"


def chosen_runs(store: Store, namespace: str, chosen: RunFilter, *, page: int = PAGE) -> Iterator[Chosen]:
    """The runs that the filter lets through, newest first."""
    from reenact.cli.standing import standing_of
    from reenact.cli.summaries import facts_of

    before: tuple[int, str] | None = None
    while rows := store.list_runs(namespace, before=before, limit=page):
        for row in rows:
            if chosen.since is not None and row.header.created < chosen.since:
                return
            if chosen.until is not None and row.header.created >= chosen.until:
                continue
            one = Chosen(row, facts_of(store, namespace, row.header.run), "")
            if not chosen.every_kind and one.kind != "run":
                continue
            if chosen.agents and one.agent not in chosen.agents:
                continue
            one = one._replace(status=standing_of(store, namespace, row).status)
            if not chosen.statuses or one.status in chosen.statuses:
                yield one
        before = rows[-1].header.created, rows[-1].header.run


Command = TypeVar("Command", bound=Callable[..., Any])


def filter_options(function: Command) -> Command:
    """The options of the filter; the command is given it as `chosen`."""

    @wraps(function)
    def with_filter(
        *args: Any, status: tuple[str, ...], agent: tuple[str, ...], since: str | None, until: str | None, **more: Any
    ) -> Any:
        chosen = RunFilter(frozenset(one.lower() for one in status), frozenset(agent), _moment(since), _moment(until))
        return function(*args, chosen=chosen, **more)

    made: Any = with_filter
    for name, about in (
        ("--until", {"metavar": "TIME", "help": "Begun before that time."}),
        ("--since", {"metavar": "TIME", "help": "Begun since: 2026-01-31, 2026-01-31T12:00Z, or 12h or 30d ago."}),
        ("--agent", {"metavar": "NAME", "multiple": True, "help": "Only runs of that agent; repeatable."}),
        (
            "--status",
            {
                "type": click.Choice(STATUSES, case_sensitive=False),
                "multiple": True,
                "help": "Only runs that are so; repeatable.",
            },
        ),
    ):
        made = click.option(name, **about)(made)
    wrapped: Command = made
    return wrapped


def _moment(text: str | None) -> int | None:
    """A time, or how long ago, in microseconds."""
    from reenact.cli.removing import age_microseconds

    if text is None:
        return None
    try:
        if text[-1:] in "smhdw":
            return time.time_ns() // 1000 - age_microseconds(text)
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1_000_000)
    except (InvalidInput, ValueError, OverflowError):
        raise InvalidInput(
            f"not a time: {fit(inert(text), 40)}",
            hint="Write 2026-01-31, 2026-01-31T12:00Z, or how long ago: 90s, 15m, 12h, 30d, 8w.",
            code="bad_time",
        ) from None
