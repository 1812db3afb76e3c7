"""Select one run by an id, a unique beginning of one, `@last` or `@last~1`, or many runs by filter options.

The filter options are the same for `ls`, `replay --all` and `verify --all`. Stored differences and logged receipts are
runs too, so that they can be erased and retired; a selection leaves them out unless `every_kind` is set.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any

import click

from onrecord.cli.commands.completion import complete_agent
from onrecord.cli.render.text import fit, inert
from onrecord.cli.settings import Settings
from onrecord.errors import InvalidInput, NotFound
from onrecord.reports.run_selector import select_run
from onrecord.reports.runs import STATUSES, RunFilter
from onrecord.reports.summaries import agent_of
from onrecord.store.contract import Store

RUNS_LOOKED_AT = 1_000
LONGEST_ID = 128


def selected_run(store: Store, namespace: str, text: str) -> str:
    """Return the id of the run that the text names. If there is none, the error suggests similar ids."""
    try:
        run = select_run(store, namespace, text)
        if (context := click.get_current_context(silent=True)) is not None:
            context.ensure_object(Settings).selected_run = run
        return run
    except NotFound as missing:
        close = [] if text.startswith("@") else _similar_ids(store, namespace, text)
        if not close:
            raise
        raise NotFound(missing.message, hint=f"Did you mean {' or '.join(close)}?", code=missing.code) from None


def _similar_ids(store: Store, namespace: str, text: str) -> list[str]:
    """Return the ids of newest runs that are similar to the text, in full or at their beginning."""
    from difflib import get_close_matches

    wanted = text[:LONGEST_ID].lower()
    known: dict[str, str] = {}
    for row in store.list_runs(namespace, limit=RUNS_LOOKED_AT):
        run = row.header.run
        for name in (run.lower(), run[: len(wanted)].lower()):
            known.setdefault(name, run)
    return list(dict.fromkeys(known[name] for name in get_close_matches(wanted, known, n=3, cutoff=0.7)))


class RunSelection(RunFilter):
    """Select runs by status, agent and time."""

    __slots__ = ()

    @property
    def selects_all(self) -> bool:
        return self[:-1] == RunSelection()[:-1]

    def __str__(self) -> str:
        """Return the statuses as an adjective with a space after it: `failed or cancelled `."""
        return f"{' or '.join(sorted(self.statuses))} " if self.statuses else ""

    def explain_empty(self, store: Store, namespace: str) -> str:
        """Return a message that no run was selected, with similar agent names among the newest runs."""
        from difflib import get_close_matches

        if not self.agents:
            return f"no {self}runs in namespace {namespace!r}"
        rows = store.list_runs(namespace, limit=RUNS_LOOKED_AT)
        known = {agent_of(store, namespace, row.header.run) or "" for row in rows} - self.agents
        close = [name for one in sorted(self.agents) for name in get_close_matches(one[:LONGEST_ID], known, n=2)]
        message = f"no {self}runs of {inert(' or '.join(sorted(self.agents)))} in namespace {namespace!r}"
        return f"{message}; did you mean {inert(' or '.join(dict.fromkeys(close)))}?" if close else message


class StatusType(click.Choice):  # type: ignore[type-arg]  # older versions of click have no argument there
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from difflib import get_close_matches

        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            if close := get_close_matches(str(value).lower(), STATUSES, n=2):
                vars(error)["hint"] = f"Did you mean {' or '.join(close)}?"
            raise


def filter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the filter options to a command, which receives a `RunSelection` as `chosen`."""

    @click.option(
        "--status",
        type=StatusType(STATUSES, case_sensitive=False),
        multiple=True,
        help="Only runs with this status; repeatable.",
    )
    @click.option(
        "--agent",
        metavar="NAME",
        multiple=True,
        shell_complete=complete_agent,
        help="Only runs of this agent; repeatable.",
    )
    @click.option(
        "--since", metavar="TIME", help="Only runs since this time (2026-01-31, 2026-01-31T12:00Z) or age (12h, 30d)."
    )
    @click.option("--until", metavar="TIME", help="Only runs before this time or age.")
    @wraps(function)
    def with_filter(
        *args: Any, status: tuple[str, ...], agent: tuple[str, ...], since: str | None, until: str | None, **more: Any
    ) -> Any:
        statuses = frozenset(one.lower() for one in status)
        chosen = RunSelection(statuses, frozenset(agent), parse_time(since), parse_time(until))
        return function(*args, chosen=chosen, **more)

    return with_filter


def parse_time(text: str | None) -> int | None:
    """Parse a time or an age into microseconds since the epoch."""
    from onrecord.cli.commands.remove import age_microseconds

    if text is None:
        return None
    try:
        if text[-1:] in "smhdw":
            return time.time_ns() // 1000 - age_microseconds(text)
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1_000_000)
    except (InvalidInput, ValueError, OverflowError):
        raise InvalidInput(
            f"not a time: {fit(inert(text), 40)}",
            hint="Write 2026-01-31, 2026-01-31T12:00Z, or an age: 90s, 15m, 12h, 30d, 8w.",
            code="bad_time",
        ) from None
