"""`reenact verify`: a run, a file, or everything there is. The last line of the output is the verdict."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from reenact.cli.output import paint, say, say_json
from reenact.cli.progress import Progress
from reenact.cli.settings import Settings, shared_options
from reenact.cli.stores import reading, store_exists
from reenact.cli.text import count_text, fit, inert
from reenact.errors import Damaged, InvalidInput, InvalidValue, NotFound, ReenactError

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.journal.verify import VerificationReport
    from reenact.store.contract import Head, Store

INTEGRITY_BROKEN = 4
CHECK_FOUND_SOMETHING = 1
PROBLEMS_SHOWN = 20
LISTED_SEQS = 10


@click.command()
@shared_options
@click.argument("target", metavar="RUN|FILE", required=False)
@click.option("--all", "everything", is_flag=True, help="Verify all runs of the namespace.")
@click.option("--deep", is_flag=True, help="Recompute the match digests too.")
@click.option("--expect", metavar="SEQ:HASH", help="A head that must be in the run: finds a cut-off end.")
@click.option(
    "--processes", type=click.IntRange(1, 64), default=1, show_default=True, help="For runs of 50,000 events and more."
)
@click.pass_obj
def verify(
    settings: Settings, target: str | None, everything: bool, deep: bool, expect: str | None, processes: int
) -> int:
    """Check that a run or an exported file is as it was written.

    Whatever is damaged ends with status 4. A file needs no store. A name that is both is refused: write ./NAME for the
    file.

    \b
    reenact verify @last
    reenact verify run.jsonl --deep
    reenact verify @last --expect 12:sha256:…
    """
    if (target is None) != everything:
        raise InvalidInput(
            "verify needs a RUN, a FILE or --all, and one of them only",
            hint="For example: `reenact verify @last`, `reenact verify run.jsonl` or `reenact verify --all`.",
            code="usage",
        )
    expected = _head(expect) if expect is not None else None
    if everything:
        if expected is not None:
            raise InvalidInput("--expect is about one run, not --all", code="usage")
        return _verify_all(settings, deep, processes)
    assert target is not None
    if _is_file(settings, target):
        report = _verify_file(target, deep, expected)
    else:
        report = _verify_run(settings, target, deep, expected, processes)
    if settings.json:
        say_json(_as_json(report))
    else:
        _say_report(report)
    if not report.valid:
        return INTEGRITY_BROKEN
    return 0 if report.events else CHECK_FOUND_SOMETHING


def _head(text: str) -> Head:
    from reenact.core.hashing import parse_hash
    from reenact.store.contract import Head

    seq, _, written = text.partition(":")
    try:
        if not (seq.isascii() and seq.isdecimal() and len(seq) <= 16):
            raise InvalidValue("not a seq")
        return Head(int(seq), parse_hash(written if written.startswith("sha256:") else f"sha256:{written}"))
    except InvalidValue:
        raise InvalidInput(
            f"not a head: {fit(inert(text), 100)}",
            hint="Write SEQ:HASH as `reenact verify` prints it.",
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
            hint=f"Write ./{target} for the file; a longer or shorter name of the run for the run.",
            code="ambiguous_target",
        )
    return True


def _is_run(settings: Settings, target: str) -> bool:
    try:
        if not store_exists(settings):
            return False
        with reading(settings) as store:
            return store.run_row(settings.namespace, target) is not None
    except (ReenactError, UnicodeError):
        return False  # a file is verified without a store, so one that cannot be opened does not matter


def _verify_file(path: str, deep: bool, expected: Head | None) -> VerificationReport:
    from reenact.journal.importing import verify_file

    with Progress("verifying the file"):
        return verify_file(path, deep=deep, expected=expected)


def _verify_run(
    settings: Settings, target: str, deep: bool, expected: Head | None, processes: int
) -> VerificationReport:
    from reenact.cli.selection import selected_run
    from reenact.journal.verify import verify_run

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
        # Who mistyped a file's name is not helped by hearing about runs alone.
        raise NotFound(f"no file of that name, and {missing.message}", hint=missing.hint, code=missing.code) from None


def _verify_all(settings: Settings, deep: bool, processes: int) -> int:
    from reenact.core.links import OPERATIONS_RUN
    from reenact.journal.reach import all_runs

    reports: list[VerificationReport] = []
    with reading(settings) as store:
        for row in all_runs(store, settings.namespace):
            report = _one_of_all(store, settings.namespace, row.header.run, deep, processes)
            if report is None:
                continue
            reports.append(report)
            if not settings.json:
                _say_one_of_all(report)
    total = _total(reports)
    runs = sum(report.run != OPERATIONS_RUN for report in reports)
    if total.valid and runs == 0:
        raise NotFound(
            f"there is no run to verify in namespace {settings.namespace!r}",
            hint="Nothing was checked, so nothing is proven. `reenact demo` records a run.",
            code="no_runs",
        )
    if settings.json:
        say_json({**_as_json(total), "runs": [_as_json(report) for report in reports]})
    else:
        bad = sum(not report.valid for report in reports)
        say(f"{count_text(runs, 'run')} verified, {bad} damaged")
        say(_verdict(total))
    return 0 if total.valid else INTEGRITY_BROKEN


def _one_of_all(store: Store, namespace: str, run: str, deep: bool, processes: int) -> VerificationReport | None:
    """The report of one run; None when it was removed meanwhile. An unreadable one must not hide the others."""
    from reenact.journal.verify import VerificationReport, verify_run
    from reenact.journal.verifying import Problem

    try:
        with Progress(f"verifying {inert(run)}") as progress:
            return verify_run(store, run, namespace, deep=deep, processes=processes, progress=progress.step)
    except NotFound:
        return None
    except Damaged as damage:
        problem = Problem(0, "failure", damage.code, damage.message)
        return VerificationReport(run, 0, 0, 1, 0, problems=[problem])


def _total(reports: list[VerificationReport]) -> VerificationReport:
    from reenact.journal.verify import VerificationReport

    return VerificationReport(
        run="*",
        events=sum(report.events for report in reports),
        verified=sum(report.verified for report in reports),
        failures=sum(report.failures for report in reports),
        mismatches=sum(report.mismatches for report in reports),
    )


def _say_one_of_all(report: VerificationReport) -> None:
    mark = paint("valid  ", fg="green") if report.valid else paint("INVALID", fg="red", bold=True)
    say(f"{mark}  {inert(report.run)}  {report.verified}/{report.events}")
    _say_problems(report)


def _say_report(report: VerificationReport) -> None:
    say(f"run       {inert(report.run)}")
    deep = ", match digests recomputed" if report.deep else ""
    say(f"events    {report.events:,}, {report.verified:,} verified{deep}")
    say(f"head      {report.events}:{report.head}")
    say(f"ended     {report.terminal or 'no'}")
    parts = f"{report.nodes:,} shared values, {report.artifacts:,} artifacts, {report.snapshots:,} snapshots"
    say(f"parts     {parts}")
    for name, seqs in (
        ("erased", report.erased),
        ("orphaned", report.orphans),
        ("open", sorted([*report.open_interrupts, *report.open_waits])),
    ):
        if seqs:
            say(f"{name.ljust(10)}{_seqs(seqs)}")
    for seq, reason in report.rejected_snapshots[:PROBLEMS_SHOWN]:
        say(f"note      the snapshot at {seq} is not used: {inert(reason)}")
    for text in report.notes:
        say(f"note      {inert(text)}")
    _say_problems(report)
    say(_verdict(report))


def _say_problems(report: VerificationReport) -> None:
    for problem in report.problems[:PROBLEMS_SHOWN]:
        where = f"event {problem.seq}" if problem.seq else "header"
        say(f"  {where}: {inert(problem.message)} [{problem.code}, {problem.sort}]")
    hidden = report.failures + report.mismatches - min(len(report.problems), PROBLEMS_SHOWN)
    if hidden > 0:
        say(f"  … and {count_text(hidden, 'more problem')}")


def _verdict(report: VerificationReport) -> str:
    return paint(report.line, fg={"VALID": "green", "EMPTY": "yellow"}.get(report.verdict, "red"), bold=True)


def _seqs(seqs: list[int]) -> str:
    more = f" and {len(seqs) - LISTED_SEQS:,} more" if len(seqs) > LISTED_SEQS else ""
    return ("event " if len(seqs) == 1 else "events ") + ", ".join(map(str, seqs[:LISTED_SEQS])) + more


def _as_json(report: VerificationReport) -> dict[str, Any]:
    import msgspec

    members: dict[str, Any] = msgspec.to_builtins(report)
    problems = [problem._asdict() for problem in report.problems]
    return {
        **members,
        "problems": problems,
        "valid": report.valid,
        "first_bad_seq": report.first_bad_seq,
        "line": report.line,
    }
