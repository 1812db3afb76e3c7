"""`reenact ls`"""

from __future__ import annotations

import sys
from collections import Counter
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from reenact.cli.output import Column, note, on_terminal, say_json, suggest, table, terminal_width
from reenact.cli.progress import Progress
from reenact.cli.results import command_for
from reenact.cli.selection import RunFilter, filter_options
from reenact.cli.settings import Settings, shared_options
from reenact.cli.stores import reading
from reenact.cli.text import cost_text, count_text, fit, inert, local_time, status_text, tokens_text
from reenact.errors import InvalidInput

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.store.contract import Store

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
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
@filter_options
@click.option("--usage", is_flag=True, help="Tell tokens and cost of each run; their events are read for that.")
@click.option("--min-cost", type=click.FloatRange(0), metavar="DOLLARS", help="Only runs that cost as much.")
@click.option("--min-tokens", type=click.IntRange(0), metavar="N", help="Only runs that used as many.")
@click.option(
    "--all-kinds", is_flag=True, help="Also processes of runs, and what is kept beside them: differences, receipts."
)
@click.pass_obj
def ls(settings: Settings, /, limit: int, chosen: RunFilter, all_kinds: bool, **usage: Any) -> None:
    """List the runs of the store, newest first.

    \b
    running      somebody holds it             interrupted  nobody does; `reenact resume` goes on
    waiting      for what is named             blocked      an interrupt waits for a decision
    in_doubt     an effect may have happened; `reenact settle` decides
    stopped      a fork or live replay stands before an effect that nobody has named
    completed, failed, cancelled

    `imported` runs were recorded elsewhere. Costs are list prices, where they are known (the extra `prices`).

    \b
    reenact ls
    reenact ls --status failed --status in_doubt --since 7d
    reenact ls --agent support --usage
    reenact ls --min-cost 0.50
    """
    if usage["min_cost"] is not None and not isfinite(usage["min_cost"]):
        raise InvalidInput("--min-cost is an amount of dollars", hint="For example: --min-cost 0.50", code="usage")
    asks_usage = usage["usage"] or usage["min_cost"] is not None or usage["min_tokens"] is not None
    with reading(settings) as store, Progress("reading") as progress:
        wanted = chosen._replace(every_kind=all_kinds)
        runs, place = _listed(store, settings.namespace, wanted, limit, usage if asks_usage else None, progress)
        none = "" if runs else chosen.found_none(store, settings.namespace)
    if settings.json:
        say_json({"runs": runs, "more": place is not None, "next": place})
        return
    shown = list(range(len(COLUMNS))) if asks_usage else WITHOUT_USAGE
    rows = [_cells(one) for one in runs]
    if on_terminal():  # where it would be empty, others have its room
        shown = [n for n in shown if n != len(COLUMNS) - 1 or any(row[n] for row in rows)]
    table([COLUMNS[n] for n in shown], [[row[n] for n in shown] for row in rows])
    if not runs:
        note(none + (" that used as much" if asks_usage and not chosen.agents else ""))
        return
    if asks_usage or (sys.stderr is not None and sys.stderr.isatty()):
        note(fit(_summed_up(runs), terminal_width()))
    if place is not None:
        note(f"the {limit} newest are shown; see more with --limit {limit * 10}")
    suggest(settings, (command_for(settings, "show", runs[0]["short"]), "what happened in it"))


def _listed(
    store: Store, namespace: str, chosen: RunFilter, limit: int, usage: dict[str, Any] | None, progress: Progress
) -> tuple[list[dict[str, Any]], str | None]:
    """The runs, and where the list goes on; None where it does not."""
    from reenact.reports.runs import RunFilter as Wanted
    from reenact.reports.runs import runs_page

    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = runs_page(store, namespace, Wanted(*chosen), cursor=cursor, limit=limit - len(found))
        cursor = page.next
        for line in page.runs if usage is None else _used(store, namespace, page.runs, usage):
            found.append(line)
            progress.step(len(found), 0)
        if cursor is None or len(found) >= limit:
            return found, cursor


def _used(store: Store, namespace: str, runs: list[dict[str, Any]], usage: dict[str, Any]) -> Any:
    from reenact.capture.usage import usage_of
    from reenact.cli.statistics import with_processes
    from reenact.reports.statistics import used_runs

    def readers(run: str) -> Any:
        return with_processes(store, namespace, run)

    min_cost, min_tokens = usage["min_cost"] or 0.0, usage["min_tokens"] or 0
    return used_runs(runs, readers, usage_of, min_cost=min_cost, min_tokens=min_tokens)


def _cells(one: dict[str, Any]) -> list[str]:
    kind, used = one.get("kind", "run"), one.get("usage") or {}
    return [
        inert(one["short"]),
        status_text(one["status"], one["about"]),
        fit(inert(one["agent"] or ("-" if kind == "run" else f"({kind})")), AGENT_CELLS),
        f"{one['events']:,}",
        tokens_text(used["tokens"]) if used.get("tokens") else "",
        cost_text(used.get("cost")),
        _local(one["created"]),
        _origin(one),
    ]


def _origin(one: dict[str, Any]) -> str:
    parent = one["parent"]
    comes_from = "" if parent is None else f"{parent['relation']} of {inert(parent['run'])}"
    return ", ".join(part for part in ("imported" if one["imported"] else "", comes_from) if part)


def _local(time: str | None) -> str:
    """A report's time where the reader is."""
    from datetime import datetime

    return "?" if time is None else local_time(int(datetime.fromisoformat(time).timestamp() * 1_000_000))


def _summed_up(runs: list[dict[str, Any]]) -> str:
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
