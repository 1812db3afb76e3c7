"""`reenact replay --all`: which runs can be replayed, and how it is told what came of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reenact.cli.fleet import How, Member, Plan, judge_fleet
from reenact.cli.output import note, on_terminal, paint, say, say_json, terminal_width
from reenact.cli.selection import Chosen, RunFilter
from reenact.cli.text import brief, cells, count_text, fit, inert
from reenact.store.locating import absolute_path

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.cli.live_replaying import LiveOptions
    from reenact.cli.settings import Settings
    from reenact.replays.fleet.results import Finding, FleetReport, RunResult

TIME_LIMIT_SECONDS = 600.0
"""Longer than any replay takes: one that hangs must not hold up a build for ever."""
SHOWN_VALUE_CHARACTERS = 400
WIDEST_NAME = 40
PROGRAM, COMMAND = "program ", "command "
"""What the name of a run's agent begins with, if it is a script or a module, or any other command."""
_COLOURS = {"passed": "green", "failed": "red", "error": "red", "skipped": "yellow"}


def replay_all(
    settings: Settings,
    code: Sequence[tuple[str, bool]],
    strict: bool,
    chosen: RunFilter,
    how: How,
    live: LiveOptions,
) -> int:
    carried_out = {"live": live.to_data()} if live.live else {}
    plan = Plan(
        command="live replay" if live.live else "replay",
        chosen=chosen,
        how=how,
        options={"code": list(code), "strict": strict, **carried_out},
        rule=lambda one: why_skipped(one, code_is_named=bool(code), live=live.live),
        runs_code=True,
        time_limit=TIME_LIMIT_SECONDS,
        for_members=programs_apart,
    )
    report = judge_fleet(settings, plan)
    if settings.json:
        say_json(report.to_data())
    else:
        _tell(report)
    return report.exit_status


def programs_apart(options: dict[str, Any], members: Sequence[Member]) -> dict[str, Any]:
    """Named programs are not loaded as the code of agents at once: a program does for real what it does."""
    names = {one.agent.removeprefix(PROGRAM) for one in members if one.agent and one.agent.startswith(PROGRAM)}
    programs = [
        (text, is_module) for text, is_module in options["code"] if (text if is_module else _name(text)) in names
    ]
    code = [one for one in options["code"] if one not in programs]
    scripts = {_name(text): absolute_path(text) for text, is_module in programs if not is_module}
    return {**options, "code": code, "programs": programs, "scripts": scripts}


def _name(path: str) -> str:
    """As the program of a run is called."""
    return os.path.basename(path.rstrip("/"))


def why_skipped(one: Chosen, *, code_is_named: bool, live: bool = False) -> Finding | None:
    """Runs of which nothing can be run again, or not now."""
    from reenact.core.links import parse_header
    from reenact.replays.fleet.results import skipped

    parent = parse_header(one.row.header.header).parent if live else None
    if parent is not None and parent.relation in ("replay", "child"):
        return skipped(parent.relation, f"it is a {parent.relation} of run {parent.run}, which is carried out again")

    if one.facts is None:  # damaged, if it is not erased: whoever reads it will say so
        return skipped("erased", "what it was called with is erased") if one.row.header.content is None else None
    if one.agent is None or "input" not in one.facts:
        return skipped("no_agent", "no agent recorded it, so there is no code to run again")
    if one.status == "running":
        return skipped("running", "it is still running")
    if one.status == "in_doubt":
        return skipped("in_doubt", "an effect of it is in doubt: settle it first")
    if one.row.header.imported and "program" in one.facts:
        return skipped(
            "imported_run",
            "it was recorded elsewhere: its command line is not run here",
            f"Say what is to be run in its place: reenact replay {one.row.header.run} -- python agent.py",
        )
    if one.row.header.imported and not code_is_named:
        return skipped("imported_run", "it was recorded elsewhere: its code has to be named")
    return None


def _tell(report: FleetReport) -> None:
    verdicts = max((len(one.finding.verdict) for one in report.results), default=0)
    runs = max((cells(inert(one.run)) for one in report.results), default=0)
    agents = max((cells(_agent(one)) for one in report.results), default=0)
    for one in report.results:
        _tell_one(one, verdicts, runs, agents)
    counts = ", ".join(f"{count:,} {verdict.replace('_', ' ')}" for verdict, count in report.counts.items())
    share = f" in shard {report.shard} of {report.selected:,} selected" if report.shard is not None else ""
    say(f"{count_text(len(report.results), 'run')}{share}: {counts or 'nothing to replay'}")
    if report.interrupted:
        note("interrupted: those that were not judged are counted as such")
    elif report.exit_status and not any(one.finding.status for one in report.results):
        note("error: nothing was replayed, so nothing is proven [nothing_replayed]")
        note("The reasons stand behind the runs.")
    elif any(one.finding.verdict == "diverged" and not _has_own_process(one) for one in report.results):
        note("Code that keeps things in globals from run to run is replayed with --isolate.")


def _tell_one(one: RunResult, verdicts: int, runs: int, agents: int) -> None:
    found = one.finding
    mark = paint(found.verdict.ljust(verdicts), fg=_COLOURS[found.outcome], bold=not found.passed)
    run, agent = inert(one.run), _agent(one)
    line = f"{run}{' ' * (runs - cells(run))}  {agent}{' ' * (agents - cells(agent))}  "
    if found.outcome == "skipped":
        say(f"{mark}  {line}{inert(found.message)} [{found.code}]")
        return
    say(f"{mark}  {line}{count_text(found.events, 'event')}, {found.seconds:.2f} s")
    if found.passed:
        return
    say(f"  {inert(found.message)} [{found.code}]")
    for name, value in found.where.items():
        say(f"  {name}: {_shown(value)}")
    for text in filter(None, (found.hint, *found.output.splitlines()[-3:])):
        say(f"  {_fitted(inert(text))}")


def _has_own_process(one: RunResult) -> bool:
    return (one.agent or "").startswith((PROGRAM, COMMAND))


def _agent(one: RunResult) -> str:
    return fit(inert(one.agent or "-"), WIDEST_NAME)


def _shown(value: Any) -> str:
    return _fitted(fit(inert(value), SHOWN_VALUE_CHARACTERS) if isinstance(value, str) else brief(value))


def _fitted(text: str) -> str:
    return fit(text, max(8, terminal_width() - 4)) if on_terminal() else text
