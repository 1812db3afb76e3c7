"""Implement `onrecord stats`: show tokens, cost and latency by model and by tool, of one run or of many."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import click

from onrecord.cli.commands.completion import complete_run
from onrecord.cli.render.output import Column, fields, has_signs, note, say, say_json, suggest, table
from onrecord.cli.render.progress import Progress
from onrecord.cli.render.text import cost_text, count_text, duration_text, fit, inert, tokens_text
from onrecord.cli.results import command_for
from onrecord.cli.selection import RunSelection, filter_options
from onrecord.cli.settings import Settings, shared_options
from onrecord.cli.stores import reading
from onrecord.errors import InvalidInput
from onrecord.reports.runs import select_runs

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.journal.reader import JournalReader
    from onrecord.store.contract import Store

BARS, PLAIN_BARS = "▁▂▃▄▅▆▇█", "_.-=+*%#"
PLOT_CELLS = 24
NAME_CELLS = 60
_NUMBERS = (
    Column("calls", right=True),
    Column("failed", "red", right=True, drop=4),
    Column("p50", "magenta", right=True),
    Column("p95", "magenta", right=True, drop=1),
    Column("most", "dim", right=True, drop=6),
    Column("latency", "blue", drop=3),
)
_USAGE = (
    Column("tokens in", right=True, drop=5),
    Column("out", right=True, drop=5),
    Column("tokens", right=True, drop=2),
    Column("cost", "green", right=True, drop=2),
)
MODEL_COLUMNS = (Column("model", "bold", flexible=True), *_NUMBERS, *_USAGE)
TOOL_COLUMNS = (Column("tool", "bold", flexible=True), Column("kind", "dim", drop=7), *_NUMBERS)


@click.command()
@shared_options
@click.argument("run", required=False, shell_complete=complete_run)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=1_000,
    show_default=True,
    help="Without RUN: count at most this many runs.",
)
@filter_options
@click.pass_obj
def stats(settings: Settings, run: str | None, limit: int, chosen: RunSelection) -> None:
    """Show tokens, cost and latency by model and by tool, of RUN or of all selected runs.

    Latency is the recorded time from request to answer: half of the calls took at most p50, 95 of 100 at most p95. The
    plot shows the calls in order. The processes of a program are counted with it; child runs of an agent are not. Costs
    are list prices (with the extra `prices`).

    \b
    onrecord stats @last
    onrecord stats --since 7d --agent support
    onrecord stats --json --status failed
    """
    if run is not None and not chosen.selects_all:
        raise InvalidInput(
            "RUN and the filter options exclude each other", hint="Give RUN or the options.", code="usage"
        )
    with reading(settings) as store, Progress("counting") as progress:
        if run is not None:
            report, more = _count_run(store, settings.namespace, run, progress), False
        else:
            report, more = _count_runs(store, settings.namespace, chosen, limit, progress)
        none = "" if report["runs"] else chosen.explain_empty(store, settings.namespace)
    if settings.json:
        say_json(report)
        return
    if not report["runs"]:
        note(none)
        return
    _print_report(report)
    if more:
        note(f"the {limit:,} newest runs are counted; count more with --limit {limit * 10}")
    context = command_for(settings, "show", report.get("run", "@last"), "--context")
    suggest(
        settings, (context, "show what the model saw"), (command_for(settings, "ls", "--usage"), "list usage by run")
    )


def _count_run(store: Store, namespace: str, run: str, progress: Progress) -> dict[str, Any]:
    from onrecord.capture.usage import usage_of
    from onrecord.cli.selection import selected_run
    from onrecord.reports.statistics import statistics_of_run

    reader, *processes = with_processes(store, namespace, selected_run(store, namespace, run))
    return statistics_of_run(reader, usage_of, processes=processes, step=progress.step)


def with_processes(store: Store, namespace: str, run: str) -> Iterator[JournalReader]:
    """Yield readers of a run and of all processes below it: lists leave those out, so they count with the run."""
    from onrecord.capture.processes.run_tree import descendants_of
    from onrecord.journal.reader import JournalReader

    yield JournalReader(store, run, namespace)
    for child in descendants_of(store, namespace, run):
        yield JournalReader(store, child.run, namespace)


def _count_runs(
    store: Store, namespace: str, chosen: RunSelection, limit: int, progress: Progress
) -> tuple[dict[str, Any], bool]:
    from onrecord.capture.usage import usage_of
    from onrecord.reports.statistics import statistics_of_runs

    found = [one.row.header.run for one in islice(select_runs(store, namespace, chosen), limit + 1)]
    return statistics_of_runs(_open_readers(store, namespace, found[:limit], progress), usage_of), len(found) > limit


def _open_readers(store: Store, namespace: str, runs: Sequence[str], progress: Progress) -> Iterator[JournalReader]:
    for number, run in enumerate(runs):
        progress.step(number, len(runs))
        yield from with_processes(store, namespace, run)


def _print_report(report: dict[str, Any]) -> None:
    total = report["total"]
    lines = [("run", inert(report["run"]))] if "run" in report else []
    if "run" not in report or report["runs"] > 1:
        lines.append(("runs", f"{report['runs']:,}{' with its processes' if 'run' in report else ''}"))
    lines.append(("events", f"{report['events']:,}"))
    lines.append(("effects", f"{total['calls']:,}{_describe_failures(total)}"))
    if total["tokens"]:
        used = f"{total['tokens']:,} tokens: {total['input_tokens']:,} in, {total['output_tokens']:,} out"
        lines.append(
            ("used", used + (f", {total['cached_tokens']:,} of them cached" if total["cached_tokens"] else ""))
        )
    if total["cost"] is not None:
        unknown = total["tokens_told_by"] - total["cost_known_of"]
        lines.append(
            (
                "cost",
                cost_text(total["cost"]) + (f", and {count_text(unknown, 'call')} of unknown price" if unknown else ""),
            )
        )
    lines.append(("waited", duration_text(total["latency_us"]["total"])))
    lines += [("besides", f"{number:,} x {kind}") for kind, number in report["resting"].items()]
    fields(lines)
    for columns, groups, row in (
        (MODEL_COLUMNS, report["models"], _model_row),
        (TOOL_COLUMNS, report["tools"], _tool_row),
    ):
        if groups:
            say()
            _print_table(columns, [row(one) for one in groups])
    if report["unreadable"]:
        listed = ", ".join(map(inert, report["unreadable"][:5]))
        note(f"{count_text(len(report['unreadable']), 'run')} could not be read in full: {listed}")


def _print_table(columns: Sequence[Column], rows: list[list[str]]) -> None:
    """Print a table without its empty columns."""
    wanted = [n for n in range(len(columns)) if any(row[n] for row in rows)]
    table([columns[n] for n in wanted], [[row[n] for n in wanted] for row in rows])


def _describe_failures(group: dict[str, Any]) -> str:
    parts = [f"{group[name]:,} {name}" for name in ("failed", "denied", "open") if group[name]]
    return f" ({', '.join(parts)})" if parts else ""


def _number_cells(group: dict[str, Any]) -> list[str]:
    latency = group["latency_us"]
    bad = group["failed"] + group["denied"]
    return [
        f"{group['calls']:,}",
        f"{bad:,}" if bad else "",
        duration_text(latency["p50"]),
        duration_text(latency["p95"]),
        duration_text(latency["most"]),
        sparkline(latency["series"]) if len(latency["series"]) > 1 else "",
    ]


def _model_row(group: dict[str, Any]) -> list[str]:
    usage = [tokens_text(group[name]) if group[name] else "" for name in ("input_tokens", "output_tokens", "tokens")]
    return [fit(inert(group["model"]), NAME_CELLS), *_number_cells(group), *usage, cost_text(group["cost"])]


def _tool_row(group: dict[str, Any]) -> list[str]:
    return [fit(inert(group["name"]), NAME_CELLS), inert(group["kind"]), *_number_cells(group)]


def sparkline(series: Sequence[float], width: int = PLOT_CELLS) -> str:
    """Return one bar for each stretch of the series, scaled to the highest value."""
    bars = BARS if has_signs(sys.stdout) else PLAIN_BARS
    count = min(width, len(series))
    bounds = [len(series) * number // count for number in range(count + 1)]
    values = [max(series[a:b]) for a, b in pairwise(bounds)]
    most = max(values) or 1
    return "".join(bars[min(len(bars) - 1, int(value / most * len(bars)))] for value in values)
