"""`reenact diff`: where two runs part, and what became of everything behind that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from reenact.cli.completing import complete_run
from reenact.cli.output import Column, note, paint, say, say_json, table
from reenact.cli.settings import Settings, shared_options
from reenact.cli.stores import other_store, reading
from reenact.cli.text import brief, inert

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.replays.divergence.results import EventPlace, FirstDivergence, RunChange, RunComparison
    from reenact.store.contract import Store

FOUND_SOMETHING = 1
COLOURS = {"same": "green", "reordered": "yellow", "unknown": "yellow", "empty": "yellow", "diverged": "red"}
COLUMNS = (
    Column("what", "bold"),
    Column("first run"),
    Column("second run"),
    Column("lane", "dim", drop=3),
    Column("why", flexible=True),
)


@click.command()
@shared_options
@click.argument("first", shell_complete=complete_run)
@click.argument("second", shell_complete=complete_run)
@click.option("--against", "other", metavar="URL", help="The store of the second run, if it is another one.")
@click.option("--first-only", is_flag=True, help="Find where they part and leave the rest alone: quick for any length.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="At most so many changes.")
@click.pass_obj
def diff(settings: Settings, first: str, second: str, other: str | None, first_only: bool, limit: int) -> int | None:
    """Compare what two runs did. Run ids and times never count.

    \b
    reenact diff @last~1 @last                the last two runs
    reenact diff @last~1 @last --first-only   only where they part
    reenact diff --json A B                   everything, for a program

    Exit status 1 if they did not do the same.
    """
    with reading(settings) as store:
        if other is None:
            return _compare(settings, (store, first), (store, second), first_only, limit)
        with other_store(other) as found:
            return _compare(settings, (store, first), (found, second), first_only, limit)


def _compare(
    settings: Settings, first: tuple[Store, str], second: tuple[Store, str], first_only: bool, limit: int
) -> int | None:
    from reenact.cli.selection import selected_run
    from reenact.replays.divergence.comparing_runs import compare_runs
    from reenact.reports.comparisons import comparison_report

    namespace = settings.namespace
    names = [selected_run(store, namespace, run) for store, run in (first, second)]
    comparison = compare_runs(
        first[0],
        names[0],
        second[0],
        names[1],
        namespace_a=namespace,
        namespace_b=namespace,
        align=not first_only,
        most_shown=limit,
    )
    if settings.json:
        say_json(comparison_report(comparison, first[0], second[0]))
    else:
        _show(comparison)
    return None if comparison.same else FOUND_SOMETHING


def _show(comparison: RunComparison) -> None:
    say(paint(comparison.verdict, fg=COLOURS[comparison.verdict], bold=True) + "  " + inert(comparison.message))
    if comparison.begun_differently:
        say(f"they began with another {inert(', '.join(comparison.begun_differently))}")
    if comparison.first is not None:
        _show_first(comparison.first)
    if comparison.aligned and not comparison.same:
        say()
        say(" · ".join(f"{number:,} {status}" for status, number in comparison.counts.items() if number))
        table(COLUMNS, [_cells(change) for change in comparison.changes])
        left = comparison.changes_in_all - len(comparison.changes)
        if left:
            note(f"{left:,} more; show them with --limit {min(10_000, comparison.changes_in_all)}")


def _show_first(first: FirstDivergence) -> None:
    for side, place, digest in (
        ("first run", first.expected, first.expected_hash),
        ("second run", first.actual, first.actual_hash),
    ):
        say(f"  {side:<10}  {_place(place)}{'' if digest is None else '  ' + digest}")
    for line in _difference_lines(first.differences):
        say(f"    {line}")


def _difference_lines(found: dict[str, Any] | None) -> list[str]:
    """One line for each path that differs."""
    if found is None:
        return []
    lines = []
    for one in found.get("differences", ()):
        path = inert(one["path"] or "(all of it)")
        before, after = brief(one.get("expected"), 60), brief(one.get("actual"), 60)
        text = {"added": f"+ {path}: {after}", "removed": f"- {path}: {before}"}
        lines.append(text.get(one["kind"], f"~ {path}: {before} → {after}"))
    left = found.get("total", len(lines)) - len(lines)
    return [*lines, f"… and {left:,} more"] if left > 0 else lines


def _place(place: EventPlace | None) -> str:
    return "nothing" if place is None else f"{inert(place.kind)} at seq {place.seq}, {inert(place.key or place.id)}"


def _cells(change: RunChange) -> list[str]:
    from reenact.replays.divergence.reasons import WORDS

    lane = next(one.lane for one in (change.expected, change.actual) if one is not None)
    return [change.status, _short(change.expected), _short(change.actual), inert(lane), _why(change, WORDS)]


def _short(place: EventPlace | None) -> str:
    return "-" if place is None else f"{place.seq} {inert(place.kind)}"


def _why(change: RunChange, words: Any) -> str:
    paths = [one["path"] for one in (change.differences or {}).get("differences", ())]
    return f"{words[change.reason]}{': ' + inert(', '.join(paths[:3])) if paths else ''}"
