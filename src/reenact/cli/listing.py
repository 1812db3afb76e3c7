"""`reenact ls`"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import click

from reenact.cli.output import Column, note, say_json, table
from reenact.cli.settings import Settings, shared_options
from reenact.cli.stores import reading
from reenact.cli.text import inert, local_time, status_text

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.cli.summaries import Summary
    from reenact.store.contract import Store

PAGE = 200
STATUSES = ("running", "interrupted", "waiting", "blocked", "in_doubt", "completed", "failed", "cancelled")
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
@click.option("--status", type=click.Choice(STATUSES, case_sensitive=False), help="Only runs that are so.")
@click.pass_obj
def ls(settings: Settings, limit: int, status: str | None) -> None:
    """List the runs of the store, newest first.

    \b
    running      somebody holds it             interrupted  nobody does; `reenact resume` goes on
    waiting      for what is named             blocked      an interrupt waits for a decision
    in_doubt     an effect may have happened; `reenact settle` decides
    completed, failed, cancelled

    `imported` runs were recorded elsewhere.
    """
    from reenact.cli.selection import short_id

    with reading(settings) as store:
        found = list(islice(_summaries(store, settings.namespace, status), limit + 1))
        shown, more = found[:limit], len(found) > limit
        short = {one.run: short_id(store, settings.namespace, one.run) for one in shown}
    if settings.json:
        say_json({"runs": [{**one.to_json(), "short": short[one.run]} for one in shown], "more": more})
        return
    table(COLUMNS, [_cells(one, short[one.run]) for one in shown])
    if not shown:
        note(f"no {status + ' ' if status else ''}runs in namespace {settings.namespace!r}")
    elif more:
        note(f"the {limit} newest are shown; see more with --limit {limit * 10}")


def _summaries(store: Store, namespace: str, status: str | None) -> Iterator[Summary]:
    from reenact.cli.standing import standing_of
    from reenact.cli.summaries import summary_of

    before: tuple[int, str] | None = None
    while page := store.list_runs(namespace, before=before, limit=PAGE):
        for row in page:
            if status is None or standing_of(store, namespace, row).status == status.lower():
                yield summary_of(store, namespace, row)
        before = (page[-1].header.created, page[-1].header.run)


def _cells(one: Summary, short: str) -> list[str]:
    return [
        inert(short),
        status_text(one.status, one.about),
        inert(one.agent or "-")[:200],
        str(one.events),
        local_time(one.created),
        "imported" if one.imported else "",
    ]
