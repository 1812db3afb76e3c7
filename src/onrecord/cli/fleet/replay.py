"""`onrecord replay --all`: select the runs that can be replayed, and print the report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onrecord.cli.fleet.command import FleetMember, FleetOptions, Plan, judge_fleet
from onrecord.cli.render.output import note, on_terminal, paint, say, say_json, terminal_width
from onrecord.cli.render.text import brief, cells, count_text, fit, inert
from onrecord.cli.selection import RunSelection
from onrecord.reports.runs import SelectedRun
from onrecord.store.location import absolute_path

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.analysis.fleet.results import Finding, FleetReport, RunResult
    from onrecord.cli.live_replay import LiveOptions
    from onrecord.cli.settings import Settings

TIME_LIMIT_SECONDS = 600.0
"""Longer than any replay should take, so that one that hangs does not block a build for ever."""
SHOWN_VALUE_CHARACTERS = 400
WIDEST_NAME = 40
PROGRAM, COMMAND = "program ", "command "
"""Prefixes of the agent name of a run that is a script or module, or any other command."""
_COLOURS = {"passed": "green", "failed": "red", "error": "red", "skipped": "yellow"}


def replay_all(
    settings: Settings,
    code: Sequence[tuple[str, bool]],
    strict: bool,
    chosen: RunSelection,
    how: FleetOptions,
    live: LiveOptions,
) -> int:
    live_options = {"live": live.to_data()} if live.live else {}
    plan = Plan(
        command="live replay" if live.live else "replay",
        chosen=chosen,
        how=how,
        options={"code": list(code), "strict": strict, **live_options},
        rule=lambda one: find_skip_reason(one, code_is_named=bool(code), live=live.live),
        runs_code=True,
        time_limit=TIME_LIMIT_SECONDS,
        for_members=separate_programs,
    )
    report = judge_fleet(settings, plan)
    if settings.json:
        say_json(report.to_data())
    else:
        _print_report(report)
    return report.exit_status


def separate_programs(options: dict[str, Any], members: Sequence[FleetMember]) -> dict[str, Any]:
    """Return the options with the named programs separated from agent code: importing a program would execute it."""
    names = {one.agent.removeprefix(PROGRAM) for one in members if one.agent and one.agent.startswith(PROGRAM)}
    programs = [
        (text, is_module)
        for text, is_module in options["code"]
        if (text if is_module else _program_name(text)) in names
    ]
    code = [one for one in options["code"] if one not in programs]
    scripts = {_program_name(text): absolute_path(text) for text, is_module in programs if not is_module}
    return {**options, "code": code, "programs": programs, "scripts": scripts}


def _program_name(path: str) -> str:
    """Return the name that a run records for a program."""
    return os.path.basename(path.rstrip("/"))


def find_skip_reason(one: SelectedRun, *, code_is_named: bool, live: bool = False) -> Finding | None:
    """Return the reason to skip a run that cannot be replayed, or not now."""
    from onrecord.analysis.fleet.results import skipped
    from onrecord.core.links import parse_header

    parent = parse_header(one.row.header.header).parent if live else None
    if parent is not None and parent.relation in ("replay", "child"):
        return skipped(parent.relation, f"it is a {parent.relation} of run {parent.run}, which is replayed itself")

    if one.facts is None:  # erased; or damaged, which the judge reports
        return skipped("erased", "its input is erased") if one.row.header.content is None else None
    if one.agent is None or "input" not in one.facts:
        return skipped("no_agent", "no agent recorded it, so there is no code to run again")
    if one.status == "running":
        return skipped("running", "it is still running")
    if one.status == "in_doubt":
        return skipped("in_doubt", "it has an effect in doubt: settle it first")
    if one.row.header.imported and "program" in one.facts:
        return skipped(
            "imported_run",
            "it was recorded elsewhere, so its command line is not run here",
            f"Name the command to run instead: onrecord replay {one.row.header.run} -- python agent.py",
        )
    if one.row.header.imported and not code_is_named:
        return skipped("imported_run", "it was recorded elsewhere, so its code has to be named")
    return None


def _print_report(report: FleetReport) -> None:
    verdicts = max((len(one.finding.verdict) for one in report.results), default=0)
    runs = max((cells(inert(one.run)) for one in report.results), default=0)
    agents = max((cells(_format_agent(one)) for one in report.results), default=0)
    for one in report.results:
        _print_result(one, verdicts, runs, agents)
    counts = ", ".join(f"{count:,} {verdict.replace('_', ' ')}" for verdict, count in report.counts.items())
    share = f" in shard {report.shard} of {report.selected:,} selected" if report.shard is not None else ""
    say(f"{count_text(len(report.results), 'run')}{share}: {counts or 'nothing to replay'}")
    if report.interrupted:
        note("interrupted: runs that were not judged are counted as not judged")
    elif report.exit_status and not any(one.finding.status for one in report.results):
        note("error: nothing was replayed, so nothing is proven [nothing_replayed]")
        note("The reason is printed after each run.")
    elif any(one.finding.verdict == "diverged" and not _has_own_process(one) for one in report.results):
        note("If the code keeps state in globals between runs, replay with --isolate.")


def _print_result(one: RunResult, verdicts: int, runs: int, agents: int) -> None:
    found = one.finding
    mark = paint(found.verdict.ljust(verdicts), fg=_COLOURS[found.outcome], bold=not found.passed)
    run, agent = inert(one.run), _format_agent(one)
    line = f"{run}{' ' * (runs - cells(run))}  {agent}{' ' * (agents - cells(agent))}  "
    if found.outcome == "skipped":
        say(f"{mark}  {line}{inert(found.message)} [{found.code}]")
        return
    say(f"{mark}  {line}{count_text(found.events, 'event')}, {found.seconds:.2f} s")
    if found.passed:
        return
    say(f"  {inert(found.message)} [{found.code}]")
    for name, value in found.where.items():
        say(f"  {name}: {_format_value(value)}")
    for text in filter(None, (found.hint, *found.output.splitlines()[-3:])):
        say(f"  {_fit_to_terminal(inert(text))}")


def _has_own_process(one: RunResult) -> bool:
    return (one.agent or "").startswith((PROGRAM, COMMAND))


def _format_agent(one: RunResult) -> str:
    return fit(inert(one.agent or "-"), WIDEST_NAME)


def _format_value(value: Any) -> str:
    return _fit_to_terminal(fit(inert(value), SHOWN_VALUE_CHARACTERS) if isinstance(value, str) else brief(value))


def _fit_to_terminal(text: str) -> str:
    return fit(text, max(8, terminal_width() - 4)) if on_terminal() else text
