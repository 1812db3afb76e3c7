"""Implement `onrecord diff`: find where two runs diverge, and list every change after that."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import click

from onrecord.cli.commands.completion import complete_run
from onrecord.cli.commands.html_export import share_comparison, share_options
from onrecord.cli.render.output import (
    Column,
    note,
    on_terminal,
    paint,
    painted,
    say,
    say_json,
    suggest,
    table,
    terminal_height,
    terminal_width,
)
from onrecord.cli.render.progress import Progress, Watched
from onrecord.cli.render.text import brief, count_text, fit, inert, lane_text
from onrecord.cli.results import command_for
from onrecord.cli.settings import Settings, shared_options
from onrecord.cli.stores import other_store, reading

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.analysis.diff.results import EventPlace, FirstDivergence, RunChange, RunComparison
    from onrecord.store.contract import Store

FOUND_SOMETHING = 1
COLOURS = {"same": "green", "reordered": "yellow", "unknown": "yellow", "empty": "yellow", "diverged": "red"}
LEAST_LINES, LINES_BELOW, PLAIN_LINES = 5, 5, 400
"""Lines of contents: at least, kept free below them for the prompt, and without a terminal."""
PATHS_ON_TERMINAL = 3
FACTS_IN_WORDS = {"standing_in": "how effects are answered", "change": "the change of the fork"}
COLUMNS = (
    Column("", "red"),
    Column("what", "bold"),
    Column("first run", drop=2),
    Column("second run", drop=1),
    Column("lane", "dim", drop=3),
    Column("why", flexible=True),
)


@click.command()
@shared_options
@click.argument("first", shell_complete=complete_run)
@click.argument("second", shell_complete=complete_run)
@click.option("--against", "other", metavar="URL", help="Read the second run from this store.")
@click.option("--first-only", is_flag=True, help="Find only the first divergence: fast for runs of any length.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Show at most this many changes."
)
@click.option("--full", is_flag=True, help="Show the first divergence in full.")
@click.option("-o", "--output", metavar="FILE", help="With --html: the file to write.")
@click.option("--force", is_flag=True, help="With --html: replace FILE if it exists.")
@share_options
@click.pass_obj
def diff(
    settings: Settings,
    first: str,
    second: str,
    other: str | None,
    first_only: bool,
    limit: int,
    full: bool,
    output: str | None,
    force: bool,
    html: bool,
    allow_secrets: bool,
) -> int | None:
    """Compare what two runs did. Run ids and times are not compared.

    The contents of the first divergence are shown with the changed words marked: side by side on a terminal of 100
    columns or more, else one below the other.

    \b
    onrecord diff @last~1 @last                the last two runs
    onrecord diff @last~1 @last --first-only   only the first divergence
    onrecord diff --json A B                   everything, for a program
    onrecord diff --html A B -o diff.html      both runs and their divergence, in one page

    Exit status 1 if the runs differ.
    """
    if html or output is not None or force or allow_secrets:
        where = (output, force)
        return share_comparison(settings, (first, second), other, where, html=html, allow_secrets=allow_secrets)
    with reading(settings) as store:
        if other is None:
            return _compare(settings, (store, first), (store, second), first_only, limit, full)
        with other_store(other) as second_store:
            return _compare(settings, (store, first), (second_store, second), first_only, limit, full)


def _compare(
    settings: Settings, first: tuple[Store, str], second: tuple[Store, str], first_only: bool, limit: int, full: bool
) -> int | None:
    from onrecord.analysis.diff.runs import compare_runs
    from onrecord.cli.selection import selected_run
    from onrecord.reports.comparisons import comparison_report

    namespace = settings.namespace
    names = [selected_run(store, namespace, run) for store, run in (first, second)]
    with Progress("comparing") as progress:
        total = sum(_last_seq(store, namespace, name) for store, name in zip((first[0], second[0]), names, strict=True))
        watched = Watched(first[0], progress, total)
        other = watched if second[0] is first[0] else Watched(second[0], progress, total)
        comparison = compare_runs(
            cast("Store", watched),
            names[0],
            cast("Store", other),
            names[1],
            namespace_a=namespace,
            namespace_b=namespace,
            align=not first_only,
            most_shown=limit,
        )
    if settings.json:
        say_json(comparison_report(comparison, first[0], second[0]))
    else:
        _print_comparison(settings, comparison, (first[0], second[0]), full=full)
    return None if comparison.same else FOUND_SOMETHING


def _last_seq(store: Store, namespace: str, run: str) -> int:
    last = store.last_event(namespace, run)
    return 0 if last is None else last.seq


def _print_comparison(
    settings: Settings, comparison: RunComparison, stores: tuple[Store, Store], *, full: bool
) -> None:
    """Print the changes, then the first divergence: it stays visible above the prompt."""
    say(paint(comparison.verdict, fg=COLOURS[comparison.verdict], bold=True) + "  " + inert(comparison.message))
    if comparison.begun_differently:
        names = [FACTS_IN_WORDS.get(name, name) for name in comparison.begun_differently]
        say(f"they began differently: {inert(', '.join(names))}")
    if comparison.aligned and not comparison.same:
        say()
        say(" · ".join(f"{number:,} {status}" for status, number in comparison.counts.items() if number))
        first_change = _index_of_first(comparison)
        table(
            COLUMNS,
            [_row_of_change(change, number == first_change) for number, change in enumerate(comparison.changes)],
        )
        hidden = comparison.changes_in_all - len(comparison.changes)
        if hidden:
            note(f"{hidden:,} more; show them with --limit {min(10_000, comparison.changes_in_all)}")
    if comparison.first is not None:
        _print_first(comparison, comparison.first, stores, full=full)
        _suggest(settings, comparison.first)


def _print_first(comparison: RunComparison, first: FirstDivergence, stores: tuple[Store, Store], *, full: bool) -> None:
    from onrecord.analysis.diff.reasons import WORDS

    lines = ["", f"▶ first divergence: {inert(first.where)}: {WORDS[first.reason]}"]
    for side, position, digest in (
        ("first run", first.expected, first.expected_hash),
        ("second run", first.actual, first.actual_hash),
    ):
        line = f"  {side:<10}  {_describe_event(position)}"
        room = terminal_width() if on_terminal() else sys.maxsize
        lines.append(line if digest is None or len(line) + len(digest) + 2 > room else f"{line}  {digest}")
    paths = _difference_lines(first.differences)
    shown = PATHS_ON_TERMINAL if on_terminal() else len(paths)
    lines += [f"    {line}" for line in paths[:shown]]
    lines += [f"    … and {count_text(len(paths) - shown, 'more path')}"] if len(paths) > shown else []
    for number, line in enumerate(lines):
        say(painted(fit(line, terminal_width()) if on_terminal() else line, "bold" if number == 1 else ""))
    _print_contents(comparison, first, stores, None if full else _lines_left(len(lines)))


def _lines_left(taken: int) -> int:
    """Return how many lines of contents fit, so that the whole first divergence is visible."""
    return max(LEAST_LINES, terminal_height() - taken - LINES_BELOW) if on_terminal() else PLAIN_LINES


def _print_contents(
    comparison: RunComparison, first: FirstDivergence, stores: tuple[Store, Store], most: int | None
) -> None:
    """Print what both runs recorded there, with the changed words marked."""
    from onrecord.cli.render.side_by_side import paired_lines, say_pairs

    sides = ((stores[0], comparison.expected, first.expected), (stores[1], comparison.actual, first.actual))
    contents = [_content_lines(store, run.namespace, position) for store, run, position in sides]
    titles = (_title(comparison.expected.run, first.expected), _title(comparison.actual.run, first.actual))
    say()
    hidden = say_pairs(paired_lines(*contents), titles, terminal_width(), most)
    if hidden:
        note(f"{count_text(hidden, 'more line')} of this event; show them with --full")


def _content_lines(store: Store, namespace: str, position: EventPlace | None) -> list[str]:
    """Return the content of an event in lines, without the members that are never compared."""
    from onrecord.cli.render.values import readable_lines
    from onrecord.core.matching import VOLATILE_MEMBERS
    from onrecord.journal.reader import JournalReader
    from onrecord.reports.timelines import one_event

    if position is None:
        return []
    event = one_event(JournalReader(store, position.run, namespace), position.seq)
    if event.erased:
        return ["(erased)"]
    members = event.content if isinstance(event.content, dict) else {}
    return readable_lines({name: value for name, value in members.items() if name not in VOLATILE_MEMBERS})


def _title(run: str, position: EventPlace | None) -> str:
    return f"{inert(run)}  " + ("nothing" if position is None else f"seq {position.seq} {inert(position.kind)}")


def _suggest(settings: Settings, first: FirstDivergence) -> None:
    steps = []
    for position in (first.actual, first.expected):
        if position is not None:
            shown = command_for(settings, "show", position.run, "--event", str(position.seq))
            steps.append((shown, "the whole event"))
    if first.actual is not None and first.actual.kind == "ActionRequested":
        seen = command_for(settings, "show", first.actual.run, "--context", "--event", str(first.actual.seq))
        steps.insert(0, (seen, "what the model saw, if this is a model call"))
    suggest(settings, *steps[:2])


def _difference_lines(found: dict[str, Any] | None) -> list[str]:
    """Return one line for each path that differs."""
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


def _describe_event(position: EventPlace | None) -> str:
    if position is None:
        return "nothing"
    return f"{inert(position.kind)} at seq {position.seq}, {inert(position.key or position.id)}"


def _index_of_first(comparison: RunComparison) -> int | None:
    """Return the index of the change that is the first divergence, else of the first change at one of its events."""
    first = comparison.first
    if first is None:
        return None
    wanted = (first.expected, first.actual)
    matches: tuple[Callable[[RunChange], bool], ...] = (
        lambda change: (change.expected, change.actual) == wanted,
        lambda change: any(one is not None and one in wanted for one in (change.expected, change.actual)),
    )
    found = (number for is_match in matches for number, change in enumerate(comparison.changes) if is_match(change))
    return next(found, None)


def _row_of_change(change: RunChange, is_first: bool) -> list[str]:
    from onrecord.analysis.diff.reasons import WORDS

    lane = next(one.lane for one in (change.expected, change.actual) if one is not None)
    return [
        "▶" if is_first else "",
        change.status,
        _event_cell(change.expected),
        _event_cell(change.actual),
        lane_text(lane),
        _reason_cell(change, WORDS),
    ]


def _event_cell(position: EventPlace | None) -> str:
    return "-" if position is None else f"{position.seq} {inert(position.kind)}"


def _reason_cell(change: RunChange, words: Any) -> str:
    paths = [one["path"] for one in (change.differences or {}).get("differences", ())]
    return f"{words[change.reason]}{': ' + inert(', '.join(paths[:3])) if paths else ''}"
