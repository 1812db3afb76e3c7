"""`replay --all` and `verify --all`: which runs, in how many processes, and what is made of the findings."""

from __future__ import annotations

import math
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from reenact.cli.output import note
from reenact.cli.progress import Progress
from reenact.cli.selection import Chosen, RunFilter, chosen_runs
from reenact.cli.stores import reading
from reenact.cli.text import count_text, inert, iso_time
from reenact.errors import InvalidInput, NotFound, Refused

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.cli.settings import Settings
    from reenact.replays.fleet.results import Finding, FleetReport, RunResult
    from reenact.replays.fleet.sharding import Shard
    from reenact.store.contract import Store

MOST_JOBS = 256
Rule = Callable[[Chosen], "Finding | None"]
"""Why a run is skipped before anybody looks into it, if it is."""


class How(NamedTuple):
    """How a fleet is judged."""

    jobs: int | None = None
    shard: str | None = None
    junit: str | None = None
    time_limit: float | None = None
    isolate: bool = False

    def refuse_for_one(self, chosen: RunFilter, *, but_jobs: bool = False) -> None:
        """What is said about many runs means nothing for one."""
        given = [name for name, value in self._asdict().items() if value and not (but_jobs and name == "jobs")]
        given += ["status, --agent, --since or --until"] * (not chosen.takes_all)
        if given:
            raise InvalidInput(
                f"--{given[0].replace('_', '-')} goes with --all", hint="Name a run, or give --all.", code="usage"
            )


Command = TypeVar("Command", bound=Callable[..., Any])


def fleet_options(*names_of_jobs: str) -> Callable[[Command], Command]:
    """The options of a command that judges many runs; it is given them as `how`."""

    def decorated(function: Command) -> Command:
        @wraps(function)
        def with_how(*args: Any, **given: Any) -> Any:
            how = How(**{name: given.pop(name) for name in How._fields})
            if how.time_limit is not None and math.isnan(how.time_limit):
                raise InvalidInput("--time-limit is not a number of seconds", code="usage")
            return function(*args, how=how, **given)

        made: Any = with_how
        for names, about in (
            (
                ("--isolate",),
                {"is_flag": True, "help": "A process for every run: for code that keeps things in globals."},
            ),
            (
                ("--time-limit",),
                {
                    "type": click.FloatRange(0, 86_400, min_open=True),
                    "metavar": "SECONDS",
                    "help": "End a run that takes longer, and go on with the others.",
                },
            ),
            (("--junit",), {"metavar": "FILE", "help": "Write the results as JUnit XML too."}),
            (("--shard",), {"metavar": "NUMBER/TOTAL", "help": "Only that share of the runs, as 2/4; by their ids."}),
            (
                (*names_of_jobs, "jobs"),
                {"type": click.IntRange(1, MOST_JOBS), "metavar": "N", "help": "Processes; one for every core."},
            ),
        ):
            made = click.option(*names, **about)(made)
        wrapped: Command = made
        return wrapped

    return decorated


class Member(NamedTuple):
    """A run of the fleet, without what it holds."""

    run: str
    agent: str | None
    created: int
    events: int
    skipped: Finding | None


class Plan(NamedTuple):
    """What is asked about which runs. `options` are for the judge in the other process: plain data."""

    command: str
    chosen: RunFilter
    how: How
    options: dict[str, Any]
    rule: Rule
    runs_code: bool
    """The agents' own code: never in this process, unless the store is in its memory."""
    with_operations: bool = False
    time_limit: float | None = None
    """Where none is given."""
    for_members: Callable[[dict[str, Any], Sequence[Member]], dict[str, Any]] | None = None
    """The options once it is known which runs there are."""


class Stopped(KeyboardInterrupt):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def judge_fleet(settings: Settings, plan: Plan) -> FleetReport:
    """Judges them all. Whatever happens to one of them, the others are judged; interrupted, what there is is told."""
    from reenact.cli.fleet_pool import WorkersFailed
    from reenact.core.links import OPERATIONS_RUN
    from reenact.replays.fleet.results import Finding, FleetReport
    from reenact.replays.fleet.sharding import Shard

    shard = Shard.parse(plan.how.shard) if plan.how.shard is not None else None
    if plan.how.junit is not None:
        _check_junit(Path(plan.how.junit))
    began = time.monotonic()
    found: dict[str, Finding] = {}
    interrupted = 0
    unjudged = Finding(verdict="not_judged", code="interrupted", message="interrupted before its turn", status=1)
    with reading(settings) as store:
        everybody = _members(store, settings.namespace, plan)
        here = [one for one in everybody if shard is None or shard.holds(one.run)]
        to_judge = [one for one in here if one.skipped is None]
        if plan.for_members is not None:
            plan = plan._replace(options=plan.for_members(plan.options, to_judge))
        try:
            with _stoppable(), Progress(_label(plan.command, to_judge, shard)) as progress:
                for run, finding in _findings(store, settings.namespace, plan, to_judge):
                    found[run] = finding
                    progress.step(len(found), len(to_judge))
        except Stopped as stopped:
            interrupted = stopped.number
        except WorkersFailed as failed:
            if not found:
                raise
            unjudged = Finding(verdict="error", code=failed.code, message=failed.message, hint=failed.hint, status=1)
    results = [_result(one, one.skipped or found.get(one.run, unjudged)) for one in here]
    report = FleetReport(
        command=plan.command,
        namespace=settings.namespace,
        results=results,
        selected=sum(one.run != OPERATIONS_RUN for one in everybody),
        to_judge=sum(one.skipped is None for one in everybody),
        to_judge_here=len(to_judge),
        shard=shard,
        interrupted=interrupted,
        seconds=time.monotonic() - began,
    )
    if plan.how.junit is not None:
        _write_junit(Path(plan.how.junit), report)
    if report.nothing_here and not settings.json:
        note(f"this shard has nothing to {plan.command}; the others have")
    return report


def _members(store: Store, namespace: str, plan: Plan) -> list[Member]:
    """In the order in which they were begun; the operations journal, which is about all of them, comes last."""
    from reenact.core.links import OPERATIONS_RUN

    found = [_member(one, plan.rule) for one in chosen_runs(store, namespace, plan.chosen)]
    if not found and not plan.with_operations:
        raise no_runs(plan.command, namespace)
    found.sort(key=lambda one: (one.created, one.run))
    operations = store.run_row(namespace, OPERATIONS_RUN) if plan.with_operations else None
    if operations is not None:
        found.append(_member(Chosen(operations, {}, ""), plan.rule))
    if not found:
        raise no_runs(plan.command, namespace)
    return found


def no_runs(command: str, namespace: str) -> NotFound:
    return NotFound(
        f"there is no run to {command} in namespace {namespace!r}, or none that was chosen",
        hint="Nothing was checked, so nothing is proven. `reenact ls` lists what there is, with the same options.",
        code="no_runs",
    )


def _member(one: Chosen, rule: Rule) -> Member:
    header, last = one.row.header, one.row.last
    return Member(header.run, one.agent, header.created, last.seq if last is not None else 0, rule(one))


def _result(one: Member, found: Finding) -> RunResult:
    from msgspec.structs import replace

    from reenact.replays.fleet.results import RunResult

    return RunResult(one.run, one.agent, iso_time(one.created), replace(found, events=found.events or one.events))


def _label(command: str, members: Sequence[Member], shard: Shard | None) -> str:
    doing = {"replay": "replaying", "live replay": "replaying", "verify": "verifying"}[command]
    return f"{doing} {count_text(len(members), 'run')}{f' of shard {shard}' if shard is not None else ''}"


SMALL_EVENTS = 20_000
"""What is verified before another process has begun."""


def _findings(store: Store, namespace: str, plan: Plan, members: Sequence[Member]) -> Iterator[tuple[str, Finding]]:
    from reenact.cli.fleet_judges import JUDGES, judged
    from reenact.cli.fleet_pool import Pool

    if not members:
        return
    how, runs = plan.how, [one.run for one in members]
    if _in_this_process(store, plan, sum(one.events for one in members)):
        judge = JUDGES[plan.command](store, namespace, plan.options)
        for run in runs:
            yield run, judged(judge, run)
        return
    settings = {"judge": plan.command, "store": store.private_url, "namespace": namespace, "options": plan.options}
    jobs = how.jobs or len(os.sched_getaffinity(0))
    with Pool(settings, jobs, time_limit=how.time_limit or plan.time_limit, isolated=how.isolate) as pool:
        yield from pool.judged(runs)


def _in_this_process(store: Store, plan: Plan, events: int) -> bool:
    jobs, apart = plan.how.jobs, plan.how.time_limit is not None or plan.how.isolate
    if store.url.startswith("memory:"):
        if apart or (jobs or 1) > 1:
            raise Refused(
                "a store in memory is not seen by other processes",
                hint="Leave --jobs, --time-limit and --isolate out, or use a store on disk.",
                code="memory_store",
            )
        return True
    if plan.runs_code or apart:
        return False
    return jobs == 1 or (jobs is None and events < SMALL_EVENTS)


@contextmanager
def _stoppable() -> Iterator[None]:
    """Ctrl-C and SIGTERM end it in good order; once: what follows is telling what was found."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)

    def heard(number: int, _: object) -> None:
        for one in numbers:
            signal.signal(one, signal.SIG_IGN)
        raise Stopped(number)

    before = {number: signal.signal(number, heard) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# The file for a build server


def _check_junit(path: Path) -> None:
    """Before anything is judged: an hour later is late."""
    from reenact.journal.output_files import place_for

    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise InvalidInput(
            f"cannot write to {inert(str(path))[:200]}", hint="Name a file in a folder that exists.", code="bad_output"
        )
    place_for(path)


def _write_junit(path: Path, report: FleetReport) -> None:
    """Whole or not at all: whoever reads the file never sees half of one."""
    from reenact.journal.output_files import place_for
    from reenact.replays.fleet.junit import junit_xml

    path = place_for(path)
    descriptor, name = tempfile.mkstemp(prefix=".junit-", dir=path.parent)
    try:
        with open(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(junit_xml(report))
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    note(f"wrote {count_text(len(report.results), 'result')} to {inert(str(path))}")
