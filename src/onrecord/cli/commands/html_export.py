"""Implement `export --html` and `diff --html`, and `verify` of the files that they write."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from onrecord.cli.render.output import note, say, say_json
from onrecord.cli.render.progress import Progress, Watched
from onrecord.cli.render.text import bytes_text, count_text, inert
from onrecord.cli.settings import Settings
from onrecord.cli.stores import other_store, reading
from onrecord.errors import InvalidInput, Refused

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.journal.reader import JournalReader
    from onrecord.journal.verify import VerificationReport
    from onrecord.store.contract import Head, Store

FOUND_SOMETHING = 1
INTEGRITY_BROKEN = 4
SHOWN_PLACES = 3
PASSES = 3
"""How often the events are read: to verify them, to write contents, to write links."""

OTHER_PAGE = "this version writes another page around the run: trust this check, not what the page shows"


def share_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --html and --allow-secrets to a command."""
    for option in (
        click.option("--allow-secrets", is_flag=True, help="With --html: write the file even if it may hold secrets."),
        click.option("--html", is_flag=True, help="Write one HTML file that shows the run and verifies itself."),
    ):
        command = option(command)
    return command


def _require_html(html: bool) -> None:
    if not html:
        raise InvalidInput("-o, --force and --allow-secrets need --html", hint="Add --html.", code="usage")


def share_run(settings: Settings, run: str, output: str, *, force: bool, html: bool, allow_secrets: bool) -> None:
    from onrecord.cli.selection import selected_run
    from onrecord.html_export.writer import shared_run, write_share
    from onrecord.journal.reader import JournalReader

    _require_html(html)
    path = _check_path(output, force)
    with reading(settings) as store:
        reader = JournalReader(store, selected_run(store, settings.namespace, run), settings.namespace)
        scanned = _refuse_secrets([reader]) if not allow_secrets else None
        heads: list[str] = []
        with Progress("writing") as progress:
            watched = cast("Store", Watched(store, progress, PASSES * reader.head().seq))
            size = write_share(shared_run(JournalReader(watched, reader.run, reader.namespace), heads), path)
        _refuse_later_secrets([reader], scanned, heads, path)
    _print_written(settings, [reader.run], heads, output, size)


def share_comparison(
    settings: Settings,
    runs: tuple[str, str],
    other: str | None,
    where: tuple[str | None, bool],
    *,
    html: bool,
    allow_secrets: bool,
) -> int | None:
    """Write a page of two compared runs. `where` is the file, and whether an existing one may be replaced."""
    _require_html(html)
    output, force = where
    if output is None:
        raise InvalidInput("--html needs a file to write", hint="Name it with -o FILE.", code="usage")
    path = _check_path(output, force)
    with reading(settings) as store:
        if other is None:
            return _write_comparison(settings, (store, store), runs, path, allow_secrets=allow_secrets)
        with other_store(other) as second_store:
            return _write_comparison(settings, (store, second_store), runs, path, allow_secrets=allow_secrets)


def _write_comparison(
    settings: Settings, stores: tuple[Store, Store], runs: tuple[str, str], path: Path, *, allow_secrets: bool
) -> int | None:
    from onrecord.cli.selection import selected_run
    from onrecord.html_export.comparison import comparison_of
    from onrecord.html_export.writer import shared_comparison, write_share
    from onrecord.journal.reader import JournalReader
    from onrecord.reports.side_by_side import Side

    space = settings.namespace
    sides = [Side(one, selected_run(one, space, run), space) for one, run in zip(stores, runs, strict=True)]
    expected, actual = (JournalReader(side.store, side.run, space) for side in sides)
    readers = [expected, actual]
    scanned = _refuse_secrets(readers) if not allow_secrets else None
    with Progress("comparing"):
        comparison = comparison_of(*sides)
    heads: list[str] = []
    with Progress("writing"):
        size = write_share(shared_comparison(expected, actual, comparison, heads), path)
    _refuse_later_secrets(readers, scanned, heads, path)
    verdict = comparison["comparison"]["verdict"]
    _print_written(settings, [side.run for side in sides], heads, str(path), size, verdict=verdict)
    return None if verdict == "same" else FOUND_SOMETHING


def _check_path(output: str, force: bool) -> Path:
    from onrecord.cli.commands.transfer import check_output

    if output == "-":
        raise InvalidInput("a page is written to a file, not to stdout", hint="Name it with -o FILE.", code="usage")
    path = Path(output)
    check_output(path, force)
    return path


def _refuse_secrets(readers: list[JournalReader]) -> list[int]:
    """Scan runs before they are exported, and raise `Refused` if a secret is found. Values are never shown.

    Return the seq up to which each run was scanned.
    """
    from onrecord.cli.commands.scan import ScanResult, scan_run
    from onrecord.core.redaction import Finder, secrets_of_environment

    scanned = [reader.head().seq for reader in readers]
    finder, result = Finder((), secrets_of_environment(os.environ)), ScanResult()
    with Progress("scanning"):
        for reader in readers:
            scan_run(reader, finder, result)
    if not result.found:
        return scanned
    places = ", ".join(f"{inert(one.where)} {inert(one.path)} ({one.kind})" for one in result.found[:SHOWN_PLACES])
    more = ", …" if len(result.found) > SHOWN_PLACES else ""
    name = inert(result.found[0].run)
    raise Refused(
        f"{count_text(len(result.found), 'place')} may hold a secret: {places}{more} of run {name}",
        hint=f"`onrecord scan {name}` lists them; `onrecord erase` removes a value; --allow-secrets writes anyway.",
        code="secrets_found",
    )


def _refuse_later_secrets(
    readers: list[JournalReader], scanned: list[int] | None, heads: list[str], path: Path
) -> None:
    """Scan again if a run has grown since its scan, and delete the file if a secret is found."""
    if scanned is None or [int(head.partition(":")[0]) for head in heads] == scanned:
        return
    try:
        _refuse_secrets(readers)
    except Refused:
        path.unlink(missing_ok=True)
        raise


def _print_written(
    settings: Settings, runs: list[str], heads: list[str], output: str, size: int, *, verdict: str | None = None
) -> None:
    if settings.json:
        about = {} if verdict is None else {"verdict": verdict}
        say_json({"runs": runs, "heads": heads, "file": output, "bytes": size, **about})
        return
    say(f"wrote {' and '.join(map(inert, runs))} to {inert(output)}: {bytes_text(size)}")
    for run, head in zip(runs, heads, strict=True):
        say(f"head of {inert(run)}  {head}")
    note("Send the head to the reader by another way than the file: it proves that the run was not altered in between.")


def verify_shared(settings: Settings, path: str, deep: bool, expected: Head | None) -> int:
    """Verify the runs inside an HTML file and return the exit status."""
    from onrecord.cli.commands.verify import say_report
    from onrecord.html_export.reader import opened_share
    from onrecord.journal.import_file import verify_file
    from onrecord.reports.verifications import verification_report

    with opened_share(path) as share, Progress("verifying the file"):
        if expected is not None and len(share.recordings) > 1:
            raise InvalidInput("--expect names the head of one run, and this file has two", code="usage")
        reports = [verify_file(one, deep=deep, expected=expected) for one in share.recordings]
    for report in reports:
        report.notes += [] if share.own_page else [OTHER_PAGE]
    if settings.json:
        documents = [{**verification_report(report), "own_page": share.own_page} for report in reports]
        say_json(documents[0] if len(documents) == 1 else documents)
    else:
        for report in reports:
            say_report(report)
    return _exit_status(reports)


def _exit_status(reports: list[VerificationReport]) -> int:
    if not all(report.valid for report in reports):
        return INTEGRITY_BROKEN
    return 0 if all(report.events for report in reports) else FOUND_SOMETHING
