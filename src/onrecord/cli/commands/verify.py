"""Implement `onrecord verify`: check a run, a file or all runs. The last line of the output is the verdict."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from onrecord.cli.commands.completion import complete_run_or_file
from onrecord.cli.fleet.command import FleetOptions, Plan, fleet_options, judge_fleet, no_runs
from onrecord.cli.render.output import paint, say, say_json, suggest
from onrecord.cli.render.progress import Progress
from onrecord.cli.render.text import count_text, fit, inert
from onrecord.cli.results import command_for
from onrecord.cli.selection import RunSelection, filter_options
from onrecord.cli.settings import Settings, shared_options
from onrecord.cli.stores import reading, store_exists
from onrecord.errors import InvalidInput, InvalidValue, NotFound, OnrecordError

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.analysis.fleet.results import RunResult
    from onrecord.journal.verify import VerificationReport
    from onrecord.store.contract import Head

INTEGRITY_BROKEN = 4
CHECK_FOUND_SOMETHING = 1
PROBLEMS_SHOWN = 20
LISTED_SEQS = 10


@click.command()
@shared_options
@click.argument("target", metavar="RUN|FILE", required=False, shell_complete=complete_run_or_file)
@click.option("--deep", is_flag=True, help="Recompute the match digests too.")
@click.option("--expect", metavar="SEQ:HASH", help="Require this head in the run: detects a truncated end.")
@click.option("--all", "everything", is_flag=True, help="Verify all runs, or those that the options below select.")
@filter_options
@fleet_options("--jobs", "--processes")
@click.pass_obj
def verify(
    settings: Settings,
    target: str | None,
    deep: bool,
    expect: str | None,
    everything: bool,
    chosen: RunSelection,
    how: FleetOptions,
) -> int:
    """Check that a run or an exported file is unaltered.

    Damage gives exit status 4. A file needs no store. If a run and a file have the same name, write ./NAME for the
    file. With --jobs, several processes verify a run of 50,000 events or more.

    \b
    onrecord verify @last
    onrecord verify run.jsonl --deep
    onrecord verify run.html                the runs in a page of `export --html` or `diff --html`
    onrecord verify @last --expect 12:sha256:…
    onrecord verify --all --since 7d --junit results.xml
    """
    if (target is None) != everything:
        raise InvalidInput(
            "verify needs exactly one of RUN, FILE and --all",
            hint="For example: `onrecord verify @last`, `onrecord verify run.jsonl` or `onrecord verify --all`.",
            code="usage",
        )
    expected = _parse_head(expect) if expect is not None else None
    if everything:
        if expected is not None:
            raise InvalidInput("--expect names the head of one run and cannot be used with --all", code="usage")
        return _verify_all(settings, deep, chosen, how)
    from onrecord.cli.commands.html_export import verify_shared
    from onrecord.html_export.reader import is_shared_page

    assert target is not None
    how.refuse_for_one(chosen, but_jobs=True)
    is_file = _is_file(settings, target)
    if is_file:
        if is_shared_page(target):
            return verify_shared(settings, target, deep, expected)
        report = _verify_file(target, deep, expected)
    else:
        report = _verify_run(settings, target, deep, expected, how.jobs or 1)
    if settings.json:
        from onrecord.reports.verifications import verification_report

        say_json(verification_report(report))
    else:
        say_report(report)
        _suggest(settings, report, is_file=is_file)
    if not report.valid:
        return INTEGRITY_BROKEN
    return 0 if report.events else CHECK_FOUND_SOMETHING


def _suggest(settings: Settings, report: VerificationReport, *, is_file: bool) -> None:
    if is_file:
        return
    if report.valid:
        step = command_for(settings, "export", report.run, "-o", "run.jsonl"), "export it for others to verify"
    else:
        step = command_for(settings, "recover", report.run, "--to", "recovered.db"), "copy the events before the damage"
    suggest(settings, step)


def _parse_head(text: str) -> Head:
    from onrecord.core.hashing import parse_hash
    from onrecord.store.contract import Head

    seq, _, written = text.partition(":")
    try:
        if not (seq.isascii() and seq.isdecimal() and len(seq) <= 16):
            raise InvalidValue("not a seq")
        return Head(int(seq), parse_hash(written if written.startswith("sha256:") else f"sha256:{written}"))
    except InvalidValue:
        raise InvalidInput(
            f"not a head: {fit(inert(text), 100)}",
            hint="Write SEQ:HASH as `onrecord verify` prints it.",
            code="bad_head",
        ) from None


def _is_file(settings: Settings, target: str) -> bool:
    if target.startswith("@"):
        return False
    if os.sep in target or not os.path.lexists(target):
        return os.sep in target
    if _is_run(settings, target):
        raise InvalidInput(
            f"there is a run {target!r} and a file of that name",
            hint=f"Write ./{target} for the file; a longer or shorter part of its id for the run.",
            code="ambiguous_target",
        )
    return True


def _is_run(settings: Settings, target: str) -> bool:
    try:
        if not store_exists(settings):
            return False
        with reading(settings) as store:
            return store.run_row(settings.namespace, target) is not None
    except (OnrecordError, UnicodeError):
        return False  # verifying a file needs no store


def _verify_file(path: str, deep: bool, expected: Head | None) -> VerificationReport:
    from onrecord.journal.import_file import verify_file

    with Progress("verifying the file") as progress:
        return verify_file(path, deep=deep, expected=expected, progress=progress.step)


def _verify_run(
    settings: Settings, target: str, deep: bool, expected: Head | None, processes: int
) -> VerificationReport:
    from onrecord.cli.selection import selected_run
    from onrecord.journal.verify import verify_run

    namespace = settings.namespace
    try:
        with reading(settings) as store, Progress("verifying") as progress:
            run = selected_run(store, namespace, target)
            return verify_run(
                store, run, namespace, deep=deep, expected=expected, processes=processes, progress=progress.step
            )
    except NotFound as missing:
        if target.startswith("@"):
            raise
        # The name may be a mistyped file.
        message = f"there is no file {inert(target)}, and {missing.message}"
        raise NotFound(message, hint=missing.hint, code=missing.code) from None


def _verify_all(settings: Settings, deep: bool, chosen: RunSelection, how: FleetOptions) -> int:
    from onrecord.analysis.fleet.results import ERROR
    from onrecord.core.links import OPERATIONS_RUN

    plan = Plan(
        command="verify",
        chosen=chosen._replace(every_kind=True),  # every kind of run can be damaged
        how=how,
        options={"deep": deep},
        rule=lambda _: None,
        runs_code=False,
        with_operations=chosen.selects_all,
    )
    report = judge_fleet(settings, plan)
    total = _sum_reports(report.results)
    runs = [one for one in report.results if one.run != OPERATIONS_RUN]
    if total.valid and report.selected == 0:
        raise no_runs("verify", settings.namespace)  # the operations journal alone proves nothing about runs
    missing = report.outcomes(ERROR)
    line = total.line if not missing else f"{total.line.rpartition(' - ')[0]} - INCOMPLETE"
    if settings.json:
        from onrecord.reports.verifications import verification_report

        document = {**verification_report(total), "valid": total.valid and not missing, "line": line}
        say_json({**document, **report.to_data()})
        return report.exit_status
    for result in report.results:
        _print_result(result)
    incomplete = f", {missing} incomplete" if missing else ""
    say(f"{count_text(len(runs), 'run')} verified, {report.counts.get('damaged', 0)} damaged{incomplete}")
    say(_colour_verdict(line))
    return report.exit_status


def _sum_reports(results: Sequence[RunResult]) -> VerificationReport:
    from onrecord.journal.verify import VerificationReport

    found = [result.finding.report for result in results if result.finding.report is not None]
    sums = {name: sum(one[name] for one in found) for name in ("events", "verified", "failures", "mismatches")}
    return VerificationReport(run="*", **sums)


def _print_result(result: RunResult) -> None:
    found = result.finding
    report = found.report
    if report is None:
        say(f"{paint(found.verdict.upper(), fg='red', bold=True)}  {inert(result.run)}")
        say(f"  {inert(found.message)} [{found.code}]")
        return
    word = {"valid": "valid  ", "damaged": "INVALID"}.get(found.verdict, "empty  ")
    mark = paint(word, fg={"valid": "green", "damaged": "red"}.get(found.verdict, "yellow"))
    say(f"{mark}  {inert(result.run)}  {report['verified']}/{report['events']}")
    _print_problems(report["problems"], report["failures"] + report["mismatches"])


def say_report(report: VerificationReport) -> None:
    say(f"run       {inert(report.run)}")
    deep = ", match digests recomputed" if report.deep else ""
    say(f"events    {report.events:,}, {report.verified:,} verified{deep}")
    say(f"head      {report.events}:{report.head}")
    say(f"ended     {report.terminal or 'no'}")
    parts = ((report.nodes, "shared value"), (report.artifacts, "artifact"), (report.snapshots, "snapshot"))
    say(f"parts     {', '.join(count_text(*one) for one in parts)}")
    for name, seqs in (
        ("erased", report.erased),
        ("orphaned", report.orphans),
        ("open", sorted([*report.open_interrupts, *report.open_waits])),
    ):
        if seqs:
            say(f"{name.ljust(10)}{_list_seqs(seqs)}")
    for seq, reason in report.rejected_snapshots[:PROBLEMS_SHOWN]:
        say(f"note      the snapshot at {seq} is not used: {inert(reason)}")
    for text in report.notes:
        say(f"note      {inert(text)}")
    _print_problems([problem._asdict() for problem in report.problems], report.failures + report.mismatches)
    say(_colour_verdict(report.line))


def _print_problems(problems: Sequence[dict[str, Any]], total: int) -> None:
    for problem in problems[:PROBLEMS_SHOWN]:
        where = f"event {problem['seq']}" if problem["seq"] else "header"
        say(f"  {where}: {inert(problem['message'])} [{problem['code']}, {problem['sort']}]")
    hidden = total - min(len(problems), PROBLEMS_SHOWN)
    if hidden > 0:
        say(f"  … and {count_text(hidden, 'more problem')}")


def _colour_verdict(line: str) -> str:
    """Colour a line by the verdict at its end."""
    return paint(line, fg={"VALID": "green", "EMPTY": "yellow"}.get(line.rpartition(" ")[2], "red"), bold=True)


def _list_seqs(seqs: list[int]) -> str:
    more = f" and {len(seqs) - LISTED_SEQS:,} more" if len(seqs) > LISTED_SEQS else ""
    return ("event " if len(seqs) == 1 else "events ") + ", ".join(map(str, seqs[:LISTED_SEQS])) + more
