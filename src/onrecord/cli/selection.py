"""Which run is meant: an id, a unique beginning of one, `@last`, `@last~1`; and which runs, by a filter.

The filter is the same for `ls`, `replay --all` and `verify --all`. Differences that were kept and receipts that were
logged are runs of their own, so that they can be erased and retired. Nobody who asks for runs means those.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import click

from reenact.cli.completing import complete_agent
from reenact.cli.text import fit, inert
from reenact.errors import InvalidInput, NotFound
from reenact.reports.selecting import select_run, short_id
from reenact.reports.summaries import agent_of, kind_of_run
from reenact.store.contract import RunRow, Store

PAGE = 200
RUNS_LOOKED_AT = 1_000
LONGEST_ID = 128

STATUSES = ("running", "interrupted", "waiting", "blocked", "in_doubt", "stopped", "completed", "failed", "cancelled")


# One run


def selected_run(store: Store, namespace: str, text: str) -> str:
    """The id of the run that is meant. Where there is none, those are named that are nearly called so."""
    try:
        return select_run(store, namespace, text)
    except NotFound as missing:
        close = [] if text.startswith("@") else _nearly(store, namespace, text)
        if not close:
            raise
        raise NotFound(missing.message, hint=f"Did you mean {' or '.join(close)}?", code=missing.code) from None


def _nearly(store: Store, namespace: str, text: str) -> list[str]:
    """Of the newest runs those whose ids, or their beginnings, are like it."""
    from difflib import get_close_matches

    wanted = text[:LONGEST_ID].lower()
    known: dict[str, str] = {}
    for row in store.list_runs(namespace, limit=RUNS_LOOKED_AT):
        run = row.header.run
        for name in (run.lower(), run[: len(wanted)].lower()):
            known.setdefault(name, run)
    return list(dict.fromkeys(known[name] for name in get_close_matches(wanted, known, n=3, cutoff=0.7)))


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

    def found_none(self, store: Store, namespace: str) -> str:
        """That there are none, and which agents of the newest runs are nearly called so."""
        from difflib import get_close_matches

        if not self.agents:
            return f"no {self}runs in namespace {namespace!r}"
        rows = store.list_runs(namespace, limit=RUNS_LOOKED_AT)
        known = {agent_of(store, namespace, row.header.run) or "" for row in rows} - self.agents
        close = [name for one in sorted(self.agents) for name in get_close_matches(one[:LONGEST_ID], known, n=2)]
        said = f"no {self}runs of {inert(' or '.join(sorted(self.agents)))} in namespace {namespace!r}"
        return f"{said}; did you mean {inert(' or '.join(dict.fromkeys(close)))}?" if close else said


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


def chosen_runs(store: Store, namespace: str, chosen: RunFilter, *, page: int = PAGE) -> Iterator[Chosen]:
    """The runs that the filter lets through, newest first."""
    from reenact.reports.standing import standing_of
    from reenact.reports.summaries import facts_of

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


class StatusType(click.Choice):  # type: ignore[type-arg]  # older versions of click have no argument there
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from difflib import get_close_matches

        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            if close := get_close_matches(str(value).lower(), STATUSES, n=2):
                vars(error)["hint"] = f"Did you mean {' or '.join(close)}?"
            raise


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
        (
            "--agent",
            {
                "metavar": "NAME",
                "multiple": True,
                "shell_complete": complete_agent,
                "help": "Only runs of that agent; repeatable.",
            },
        ),
        (
            "--status",
            {
                "type": StatusType(STATUSES, case_sensitive=False),
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


__all__ = ["Chosen", "RunFilter", "chosen_runs", "filter_options", "kind_of_run", "selected_run", "short_id"]
