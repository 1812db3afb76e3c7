"""Implement `onrecord ls`."""

from __future__ import annotations

import sys
from collections import Counter
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from onrecord.cli.render.output import Column, note, on_terminal, say_json, suggest, table, terminal_width
from onrecord.cli.render.progress import Progress
from onrecord.cli.render.text import cost_text, count_text, fit, inert, local_time, status_text, tokens_text
from onrecord.cli.results import command_for
from onrecord.cli.selection import RunSelection, filter_options
from onrecord.cli.settings import Settings, shared_options
from onrecord.cli.stores import reading
from onrecord.errors import InvalidInput

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.store.contract import Store

AGENT_CELLS = 200
_COLOURS = {
    "completed": "green",
    "failed": "red",
    "cancelled": "dim",
    "running": "cyan",
    "interrupted": "yellow",
    "waiting": "magenta",
    "blocked": "magenta",
    "in": "red",
    "stopped": "yellow",
}


def _colour_of_status(status: str) -> str:
    return _COLOURS.get(status.partition(" ")[0], "")


COLUMNS = (
    Column("run", "bold"),
    Column("status", _colour_of_status, flexible=True),
    Column("agent", flexible=True),
    Column("events", drop=1, right=True),
    Column("tokens", drop=1, right=True),
    Column("cost", "green", right=True),
    Column("created", "dim", drop=3),
    Column("origin", "yellow", drop=4, flexible=True, least=8),
)
WITHOUT_USAGE = [0, 1, 2, 3, 6, 7]


@click.command()
@shared_options
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Show at most this many runs."
)
@filter_options
@click.option("--usage", is_flag=True, help="Show tokens and cost of each run; reads its events.")
@click.option("--min-cost", type=click.FloatRange(0), metavar="DOLLARS", help="Only runs that cost at least this.")
@click.option("--min-tokens", type=click.IntRange(0), metavar="N", help="Only runs that used at least N tokens.")
@click.option("--all-kinds", is_flag=True, help="Include processes of runs, stored differences and receipts.")
@click.pass_obj
def ls(settings: Settings, /, limit: int, chosen: RunSelection, all_kinds: bool, **usage: Any) -> None:
    """List the runs of the store, newest first.

    \b
    running      a process executes it
    interrupted  its process has ended; `onrecord resume` continues it
    waiting      it waits for what is named
    blocked      an interrupt needs a decision
    in_doubt     an effect may have happened; `onrecord settle` decides
    stopped      a fork or live replay reached an effect that it may not execute
    completed, failed, cancelled

    `imported` runs were recorded elsewhere. Costs are list prices (with the extra `prices`).

    \b
    onrecord ls
    onrecord ls --status failed --status in_doubt --since 7d
    onrecord ls --agent support --usage
    onrecord ls --min-cost 0.50
    """
    if usage["min_cost"] is not None and not isfinite(usage["min_cost"]):
        raise InvalidInput("--min-cost needs an amount in dollars", hint="For example: --min-cost 0.50", code="usage")
    asks_usage = usage["usage"] or usage["min_cost"] is not None or usage["min_tokens"] is not None
    with reading(settings) as store, Progress("reading") as progress:
        wanted = chosen._replace(every_kind=all_kinds)
        runs, next_page = _list_runs(store, settings.namespace, wanted, limit, usage if asks_usage else None, progress)
        none = "" if runs else chosen.explain_empty(store, settings.namespace)
    if settings.json:
        say_json({"runs": runs, "more": next_page is not None, "next": next_page})
        return
    shown = list(range(len(COLUMNS))) if asks_usage else WITHOUT_USAGE
    rows = [_row_of_run(one) for one in runs]
    if on_terminal():  # an empty last column is left out
        shown = [n for n in shown if n != len(COLUMNS) - 1 or any(row[n] for row in rows)]
    table([COLUMNS[n] for n in shown], [[row[n] for n in shown] for row in rows])
    if not runs:
        note(none + (" that used as much" if asks_usage and not chosen.agents else ""))
        return
    if asks_usage or (sys.stderr is not None and sys.stderr.isatty()):
        note(fit(_summarise(runs), terminal_width()))
    if next_page is not None:
        note(f"the {limit} newest are shown; see more with --limit {limit * 10}")
    suggest(settings, (command_for(settings, "show", runs[0]["short"]), "show what happened"))


def _list_runs(
    store: Store, namespace: str, chosen: RunSelection, limit: int, usage: dict[str, Any] | None, progress: Progress
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the runs and the cursor of the next page, or None on the last page."""
    from onrecord.reports.runs import runs_page

    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = runs_page(store, namespace, chosen, cursor=cursor, limit=limit - len(found))
        cursor = page.next
        for line in page.runs if usage is None else _with_usage(store, namespace, page.runs, usage):
            found.append(line)
            progress.step(len(found), 0)
        if cursor is None or len(found) >= limit:
            return found, cursor


def _with_usage(store: Store, namespace: str, runs: list[dict[str, Any]], usage: dict[str, Any]) -> Any:
    from onrecord.capture.usage import usage_of
    from onrecord.cli.commands.stats import with_processes
    from onrecord.reports.statistics import used_runs

    def readers(run: str) -> Any:
        return with_processes(store, namespace, run)

    min_cost, min_tokens = usage["min_cost"] or 0.0, usage["min_tokens"] or 0
    return used_runs(runs, readers, usage_of, min_cost=min_cost, min_tokens=min_tokens)


def _row_of_run(one: dict[str, Any]) -> list[str]:
    kind, used = one.get("kind", "run"), one.get("usage") or {}
    return [
        inert(one["short"]),
        status_text(one["status"], one["about"]),
        fit(inert(one["agent"] or ("-" if kind == "run" else f"({kind})")), AGENT_CELLS),
        f"{one['events']:,}",
        tokens_text(used["tokens"]) if used.get("tokens") else "",
        cost_text(used.get("cost")),
        _local(one["created"]),
        _describe_origin(one),
    ]


def _describe_origin(one: dict[str, Any]) -> str:
    parent = one["parent"]
    relation = "" if parent is None else f"{parent['relation']} of {inert(parent['run'])}"
    return ", ".join(part for part in ("imported" if one["imported"] else "", relation) if part)


def _local(time: str | None) -> str:
    """Return a report's time in the local time zone."""
    from datetime import datetime

    return "?" if time is None else local_time(int(datetime.fromisoformat(time).timestamp() * 1_000_000))


def _summarise(runs: list[dict[str, Any]]) -> str:
    statuses = Counter(one["status"].replace("_", " ") for one in runs)
    parts = [count_text(len(runs), "run")]
    parts.append(", ".join(f"{number:,} {status}" for status, number in statuses.most_common()))
    parts.append(count_text(sum(one["events"] for one in runs), "event"))
    used = [one["usage"] for one in runs if "usage" in one]
    if used:
        costs = [one["cost"] for one in used if one["cost"] is not None]
        parts.append(f"{tokens_text(sum(one['tokens'] for one in used))} tokens")
        parts += [cost_text(sum(costs))] if costs else []
    return " · ".join(parts)
