"""`reenact diff`: where two runs part, and what became of everything behind that."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import click

from reenact.cli.completing import complete_run
from reenact.cli.output import (
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
from reenact.cli.progress import Progress, Watched
from reenact.cli.results import command_for
from reenact.cli.settings import Settings, shared_options
from reenact.cli.sharing import share_comparison, share_options
from reenact.cli.stores import other_store, reading
from reenact.cli.text import brief, count_text, fit, inert

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.replays.divergence.results import EventPlace, FirstDivergence, RunChange, RunComparison
    from reenact.store.contract import Store

FOUND_SOMETHING = 1
COLOURS = {"same": "green", "reordered": "yellow", "unknown": "yellow", "empty": "yellow", "diverged": "red"}
LEAST_LINES, LINES_BELOW, PLAIN_LINES = 5, 5, 400
"""Of the contents: at least so many; so many stand below them, the prompt among these; where there is no terminal."""
PATHS_ON_TERMINAL = 3
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
@click.option("--against", "other", metavar="URL", help="The store of the second run, if it is another one.")
@click.option("--first-only", is_flag=True, help="Find where they part and leave the rest alone: quick for any length.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="At most so many changes.")
@click.option("--full", is_flag=True, help="Show all that differs at the first divergence.")
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
    """Compare what two runs did. Run ids and times never count.

    What they recorded where they part is shown beside each other on a terminal of 100 columns and more, one under the
    other on others, with the words that differ marked.

    \b
    reenact diff @last~1 @last                the last two runs
    reenact diff @last~1 @last --first-only   only where they part
    reenact diff --json A B                   everything, for a program
    reenact diff --html A B -o parts.html     both runs and where they part, in one page for a colleague

    Exit status 1 if they did not do the same.
    """
    if html or output is not None or force or allow_secrets:
        where = (output, force)
        return share_comparison(settings, (first, second), other, where, html=html, allow_secrets=allow_secrets)
    with reading(settings) as store:
        if other is None:
            return _compare(settings, (store, first), (store, second), first_only, limit, full)
        with other_store(other) as found:
            return _compare(settings, (store, first), (found, second), first_only, limit, full)


def _compare(
    settings: Settings, first: tuple[Store, str], second: tuple[Store, str], first_only: bool, limit: int, full: bool
) -> int | None:
    from reenact.cli.selection import selected_run
    from reenact.replays.divergence.comparing_runs import compare_runs
    from reenact.reports.comparisons import comparison_report

    namespace = settings.namespace
    names = [selected_run(store, namespace, run) for store, run in (first, second)]
    with Progress("comparing") as progress:
        total = sum(_events(store, namespace, name) for store, name in zip((first[0], second[0]), names, strict=True))
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
        _show(settings, comparison, (first[0], second[0]), full=full)
    return None if comparison.same else FOUND_SOMETHING


def _events(store: Store, namespace: str, run: str) -> int:
    last = store.last_event(namespace, run)
    return 0 if last is None else last.seq


def _show(settings: Settings, comparison: RunComparison, stores: tuple[Store, Store], *, full: bool) -> None:
    """The first divergence comes last: that is what stands above the prompt, however many changes there are."""
    say(paint(comparison.verdict, fg=COLOURS[comparison.verdict], bold=True) + "  " + inert(comparison.message))
    if comparison.begun_differently:
        say(f"they began with another {inert(', '.join(comparison.begun_differently))}")
    if comparison.aligned and not comparison.same:
        say()
        say(" · ".join(f"{number:,} {status}" for status, number in comparison.counts.items() if number))
        parting = _parting(comparison)
        table(COLUMNS, [_cells(change, number == parting) for number, change in enumerate(comparison.changes)])
        left = comparison.changes_in_all - len(comparison.changes)
        if left:
            note(f"{left:,} more; show them with --limit {min(10_000, comparison.changes_in_all)}")
    if comparison.first is not None:
        _show_first(comparison, comparison.first, stores, full=full)
        _suggest(settings, comparison.first)


def _show_first(comparison: RunComparison, first: FirstDivergence, stores: tuple[Store, Store], *, full: bool) -> None:
    from reenact.replays.divergence.reasons import WORDS

    lines = ["", f"▶ first divergence: {inert(first.where)}: {WORDS[first.reason]}"]
    for side, place, digest in (
        ("first run", first.expected, first.expected_hash),
        ("second run", first.actual, first.actual_hash),
    ):
        line = f"  {side:<10}  {_place(place)}"
        room = terminal_width() if on_terminal() else sys.maxsize
        lines.append(line if digest is None or len(line) + len(digest) + 2 > room else f"{line}  {digest}")
    paths = _difference_lines(first.differences)
    shown = PATHS_ON_TERMINAL if on_terminal() else len(paths)
    lines += [f"    {line}" for line in paths[:shown]]
    lines += [f"    … and {count_text(len(paths) - shown, 'more place')}"] if len(paths) > shown else []
    for number, line in enumerate(lines):
        say(painted(fit(line, terminal_width()) if on_terminal() else line, "bold" if number == 1 else ""))
    _show_contents(comparison, first, stores, None if full else _room(len(lines)))


def _room(taken: int) -> int:
    """Lines that are left for contents, so that all that is said of the first divergence stands in view."""
    return max(LEAST_LINES, terminal_height() - taken - LINES_BELOW) if on_terminal() else PLAIN_LINES


def _show_contents(
    comparison: RunComparison, first: FirstDivergence, stores: tuple[Store, Store], most: int | None
) -> None:
    """What either run recorded there, with the words that differ."""
    from reenact.cli.side_by_side import paired_lines, say_pairs

    sides = ((stores[0], comparison.expected, first.expected), (stores[1], comparison.actual, first.actual))
    contents = [_lines(store, run.namespace, place) for store, run, place in sides]
    titles = (_title(comparison.expected.run, first.expected), _title(comparison.actual.run, first.actual))
    say()
    left = say_pairs(paired_lines(*contents), titles, terminal_width(), most)
    if left:
        note(f"{count_text(left, 'more line')} of this event; show them with --full")


def _lines(store: Store, namespace: str, place: EventPlace | None) -> list[str]:
    """What was recorded there, without what never counts."""
    from reenact.cli.readable import readable_lines
    from reenact.core.matching import VOLATILE_MEMBERS
    from reenact.journal.reader import JournalReader
    from reenact.reports.timelines import one_event

    if place is None:
        return []
    event = one_event(JournalReader(store, place.run, namespace), place.seq)
    if event.erased:
        return ["(erased)"]
    members = event.content if isinstance(event.content, dict) else {}
    return readable_lines({name: value for name, value in members.items() if name not in VOLATILE_MEMBERS})


def _title(run: str, place: EventPlace | None) -> str:
    return f"{inert(run)}  " + ("nothing" if place is None else f"seq {place.seq} {inert(place.kind)}")


def _suggest(settings: Settings, first: FirstDivergence) -> None:
    steps = []
    for place in (first.actual, first.expected):
        if place is not None:
            shown = command_for(settings, "show", place.run, "--event", str(place.seq))
            steps.append((shown, "the whole event"))
    if first.actual is not None and first.actual.kind == "ActionRequested":
        seen = command_for(settings, "show", first.actual.run, "--context", "--event", str(first.actual.seq))
        steps.insert(0, (seen, "if a model was asked: what it saw"))
    suggest(settings, *steps[:2])


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


def _parting(comparison: RunComparison) -> int | None:
    """Which of the changes is the first divergence; where each did something else, the first that tells of it."""
    first = comparison.first
    if first is None:
        return None
    wanted = (first.expected, first.actual)
    alike: tuple[Callable[[RunChange], bool], ...] = (
        lambda change: (change.expected, change.actual) == wanted,
        lambda change: any(one is not None and one in wanted for one in (change.expected, change.actual)),
    )
    found = (number for is_it in alike for number, change in enumerate(comparison.changes) if is_it(change))
    return next(found, None)


def _cells(change: RunChange, is_first: bool) -> list[str]:
    from reenact.replays.divergence.reasons import WORDS

    lane = next(one.lane for one in (change.expected, change.actual) if one is not None)
    return [
        "▶" if is_first else "",
        change.status,
        _short(change.expected),
        _short(change.actual),
        inert(lane),
        _why(change, WORDS),
    ]


def _short(place: EventPlace | None) -> str:
    return "-" if place is None else f"{place.seq} {inert(place.kind)}"


def _why(change: RunChange, words: Any) -> str:
    paths = [one["path"] for one in (change.differences or {}).get("differences", ())]
    return f"{words[change.reason]}{': ' + inert(', '.join(paths[:3])) if paths else ''}"
