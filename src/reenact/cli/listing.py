"""`reenact ls`"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import click

from reenact.cli.output import Column, note, say_json, table
from reenact.cli.selection import RunFilter, chosen_runs, filter_options
from reenact.cli.settings import Settings, shared_options
from reenact.cli.stores import reading
from reenact.cli.text import inert, local_time, status_text

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.reports.summaries import Summary
    from reenact.store.contract import Store

PAGE = 200
COLUMNS = (
    Column("run", "bold"),
    Column("status", "cyan", flexible=True),
    Column("agent", flexible=True),
    Column("events", drop=1, right=True),
    Column("created", "dim", drop=3),
    Column("origin", "yellow", drop=2),
)


@click.command()
@shared_options
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
@filter_options
@click.option(
    "--all-kinds", is_flag=True, help="Also processes of runs, and what is kept beside them: differences, receipts."
)
@click.pass_obj
def ls(settings: Settings, limit: int, chosen: RunFilter, all_kinds: bool) -> None:
    """List the runs of the store, newest first.

    \b
    running      somebody holds it             interrupted  nobody does; `reenact resume` goes on
    waiting      for what is named             blocked      an interrupt waits for a decision
    in_doubt     an effect may have happened; `reenact settle` decides
    stopped      a fork or live replay stands before an effect that nobody has named
    completed, failed, cancelled

    `imported` runs were recorded elsewhere.
    """
    from reenact.cli.selection import short_id

    with reading(settings) as store:
        runs = _summaries(store, settings.namespace, chosen._replace(every_kind=all_kinds))
        found = list(islice(runs, limit + 1))
        shown, more = found[:limit], len(found) > limit
        short = {one.run: short_id(store, settings.namespace, one.run) for one, _ in shown}
    if settings.json:
        kinds = {one.run: {"kind": kind} if all_kinds else {} for one, kind in shown}
        listed = [{**one.to_json(), **kinds[one.run], "short": short[one.run]} for one, _ in shown]
        say_json({"runs": listed, "more": more})
        return
    table(COLUMNS, [_cells(one, kind, short[one.run]) for one, kind in shown])
    if not shown:
        note(f"no {chosen}runs in namespace {settings.namespace!r}")
    elif more:
        note(f"the {limit} newest are shown; see more with --limit {limit * 10}")


def _summaries(store: Store, namespace: str, chosen: RunFilter) -> Iterator[tuple[Summary, str]]:
    """Each with its kind."""
    from reenact.reports.summaries import summary_of

    for one in chosen_runs(store, namespace, chosen, page=PAGE):
        yield summary_of(store, namespace, one.row), one.kind


def _cells(one: Summary, kind: str, short: str) -> list[str]:
    return [
        inert(short),
        status_text(one.status, one.about),
        inert(one.agent or ("-" if kind == "run" else f"({kind})"))[:200],
        str(one.events),
        local_time(one.created),
        "imported" if one.imported else "",
    ]
