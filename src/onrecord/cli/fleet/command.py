"""Judge many runs for `replay --all` and `verify --all`: select them, judge them in processes, and report."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from onrecord.cli.render.output import note
from onrecord.cli.render.progress import Progress
from onrecord.cli.render.text import count_text, inert, iso_time
from onrecord.cli.selection import RunSelection
from onrecord.cli.stores import reading
from onrecord.errors import InvalidInput, NotFound, Refused
from onrecord.reports.runs import SelectedRun, select_runs

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.analysis.fleet.results import Finding, FleetReport, RunResult
    from onrecord.analysis.fleet.shard import Shard
    from onrecord.cli.settings import Settings
    from onrecord.store.contract import Store

MOST_JOBS = 256
Rule = Callable[[SelectedRun], "Finding | None"]
"""Returns the reason to skip a run before it is judged, or None."""


class FleetOptions(NamedTuple):
    """Options of a command that judges many runs."""

    jobs: int | None = None
    shard: str | None = None
    junit: str | None = None
    time_limit: float | None = None
    isolate: bool = False

    def refuse_for_one(self, chosen: RunSelection, *, but_jobs: bool = False) -> None:
        """Refuse options for many runs when one run is named."""
        given = [name for name, value in self._asdict().items() if value and not (but_jobs and name == "jobs")]
        given += ["status, --agent, --since or --until"] * (not chosen.selects_all)
        if given:
            raise InvalidInput(
                f"--{given[0].replace('_', '-')} needs --all", hint="Name a run, or give --all.", code="usage"
            )


def fleet_options(*names_of_jobs: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options for many runs to a command, which receives them as `how`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @click.option(
            *names_of_jobs,
            "jobs",
            type=click.IntRange(1, MOST_JOBS),
            metavar="N",
            help="Number of processes; by default one for every core.",
        )
        @click.option("--shard", metavar="NUMBER/TOTAL", help="Judge only this shard of the runs, such as 2/4.")
        @click.option("--junit", metavar="FILE", help="Write the results as JUnit XML too.")
        @click.option(
            "--time-limit",
            type=click.FloatRange(0, 86_400, min_open=True),
            metavar="SECONDS",
            help="Stop a run that takes longer, and continue with the others.",
        )
        @click.option(
            "--isolate", is_flag=True, help="Use a process for every run, for code that keeps state in globals."
        )
        @wraps(function)
        def run_with_options(*args: Any, **given: Any) -> Any:
            how = FleetOptions(**{name: given.pop(name) for name in FleetOptions._fields})
            if how.time_limit is not None and math.isnan(how.time_limit):
                raise InvalidInput("--time-limit is not a number of seconds", code="usage")
            return function(*args, how=how, **given)

        return run_with_options

    return decorate


class FleetMember(NamedTuple):
    """A run to judge, without its events."""

    run: str
    agent: str | None
    created: int
    events: int
    skipped: Finding | None


class Plan(NamedTuple):
    """Plan of a check: the runs and the judge. `options` are plain data for the judge in the other process."""

    command: str
    chosen: RunSelection
    how: FleetOptions
    options: dict[str, Any]
    rule: Rule
    runs_code: bool
    """True if the agents' code runs: only in other processes, unless the store is in memory."""
    with_operations: bool = False
    time_limit: float | None = None
    """The default time limit."""
    for_members: Callable[[dict[str, Any], Sequence[FleetMember]], dict[str, Any]] | None = None
    """Returns the options for the selected runs."""


class FleetStopped(KeyboardInterrupt):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def judge_fleet(settings: Settings, plan: Plan) -> FleetReport:
    """Judge all runs. A failure of one does not affect the others; an interrupt reports what was found so far."""
    from onrecord.analysis.fleet.results import Finding, FleetReport
    from onrecord.analysis.fleet.shard import Shard
    from onrecord.cli.fleet.pool import WorkersFailed
    from onrecord.core.links import OPERATIONS_RUN

    shard = Shard.parse(plan.how.shard) if plan.how.shard is not None else None
    if plan.how.junit is not None:
        _check_junit(Path(plan.how.junit))
    started = time.monotonic()
    found: dict[str, Finding] = {}
    interrupted = 0
    unjudged = Finding(verdict="not_judged", code="interrupted", message="interrupted before its turn", status=1)
    with reading(settings) as store:
        all_members = _select_members(store, settings.namespace, plan)
        shard_members = [one for one in all_members if shard is None or shard.holds(one.run)]
        to_judge = [one for one in shard_members if one.skipped is None]
        if plan.for_members is not None:
            plan = plan._replace(options=plan.for_members(plan.options, to_judge))
        try:
            with _catch_signals(), Progress(_label(plan.command, to_judge, shard)) as progress:
                for run, finding in _judge_members(store, settings.namespace, plan, to_judge):
                    found[run] = finding
                    progress.step(len(found), len(to_judge))
        except FleetStopped as stopped:
            interrupted = stopped.number
        except WorkersFailed as failed:
            if not found:
                raise
            unjudged = Finding(verdict="error", code=failed.code, message=failed.message, hint=failed.hint, status=1)
    results = [_result(one, one.skipped or found.get(one.run, unjudged)) for one in shard_members]
    report = FleetReport(
        command=plan.command,
        namespace=settings.namespace,
        results=results,
        selected=sum(one.run != OPERATIONS_RUN for one in all_members),
        to_judge=sum(one.skipped is None for one in all_members),
        to_judge_here=len(to_judge),
        shard=shard,
        interrupted=interrupted,
        seconds=time.monotonic() - started,
    )
    if plan.how.junit is not None:
        _write_junit(Path(plan.how.junit), report)
    if report.nothing_here and not settings.json:
        note(f"this shard has no run to {plan.command}; the other shards have")
    return report


def _select_members(store: Store, namespace: str, plan: Plan) -> list[FleetMember]:
    """Return the selected runs in the order in which they began; the operations journal comes last."""
    from onrecord.core.links import OPERATIONS_RUN

    found = [_make_member(one, plan.rule) for one in select_runs(store, namespace, plan.chosen)]
    if not found and not plan.with_operations:
        raise no_runs(plan.command, namespace)
    found.sort(key=lambda one: (one.created, one.run))
    operations = store.run_row(namespace, OPERATIONS_RUN) if plan.with_operations else None
    if operations is not None:
        found.append(_make_member(SelectedRun(operations, {}, ""), plan.rule))
    if not found:
        raise no_runs(plan.command, namespace)
    return found


def no_runs(command: str, namespace: str) -> NotFound:
    return NotFound(
        f"namespace {namespace!r} has no run to {command}, or the options select none",
        hint="Nothing was checked, so nothing is proven. `onrecord ls` lists the runs, with the same options.",
        code="no_runs",
    )


def _make_member(one: SelectedRun, rule: Rule) -> FleetMember:
    header, last = one.row.header, one.row.last
    return FleetMember(header.run, one.agent, header.created, last.seq if last is not None else 0, rule(one))


def _result(one: FleetMember, found: Finding) -> RunResult:
    from msgspec.structs import replace

    from onrecord.analysis.fleet.results import RunResult

    return RunResult(one.run, one.agent, iso_time(one.created), replace(found, events=found.events or one.events))


def _label(command: str, members: Sequence[FleetMember], shard: Shard | None) -> str:
    doing = {"replay": "replaying", "live replay": "replaying", "verify": "verifying"}[command]
    return f"{doing} {count_text(len(members), 'run')}{f' of shard {shard}' if shard is not None else ''}"


SMALL_EVENTS = 20_000
"""Fewer events than this are verified faster than another process starts."""


def _judge_members(
    store: Store, namespace: str, plan: Plan, members: Sequence[FleetMember]
) -> Iterator[tuple[str, Finding]]:
    from onrecord.cli.fleet.judges import JUDGES, judge_run
    from onrecord.cli.fleet.pool import ProcessPool

    if not members:
        return
    how, runs = plan.how, [one.run for one in members]
    if _is_judged_here(store, plan, sum(one.events for one in members)):
        judge = JUDGES[plan.command](store, namespace, plan.options)
        for run in runs:
            yield run, judge_run(judge, run)
        return
    settings = {"judge": plan.command, "store": store.private_url, "namespace": namespace, "options": plan.options}
    jobs = how.jobs or len(os.sched_getaffinity(0))
    with ProcessPool(settings, jobs, time_limit=how.time_limit or plan.time_limit, isolated=how.isolate) as pool:
        yield from pool.judge_runs(runs)


def _is_judged_here(store: Store, plan: Plan, events: int) -> bool:
    jobs, needs_process = plan.how.jobs, plan.how.time_limit is not None or plan.how.isolate
    if store.url.startswith("memory:"):
        if needs_process or (jobs or 1) > 1:
            raise Refused(
                "other processes cannot read a store in memory",
                hint="Omit --jobs, --time-limit and --isolate, or use a store on disk.",
                code="memory_store",
            )
        return True
    if plan.runs_code or needs_process:
        return False
    return jobs == 1 or (jobs is None and events < SMALL_EVENTS)


@contextmanager
def _catch_signals() -> Iterator[None]:
    """Raise FleetStopped on the first Ctrl-C or SIGTERM, and ignore later ones, so that the report is printed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)

    def stop(number: int, _: object) -> None:
        for one in numbers:
            signal.signal(one, signal.SIG_IGN)
        raise FleetStopped(number)

    previous_handlers = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


def _check_junit(path: Path) -> None:
    """Refuse a path that cannot be written, before the judging starts."""
    from onrecord.journal.atomic_files import resolve_target

    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise InvalidInput(
            f"cannot write to {inert(str(path))[:200]}", hint="Name a file in a folder that exists.", code="bad_output"
        )
    resolve_target(path)


def _write_junit(path: Path, report: FleetReport) -> None:
    """Write the report atomically."""
    from onrecord.analysis.fleet.junit import junit_xml
    from onrecord.journal.atomic_files import write_atomically

    with write_atomically(path, 0o644) as file:
        file.write(junit_xml(report).encode())
    note(f"wrote {count_text(len(report.results), 'result')} to {inert(str(path))}")
