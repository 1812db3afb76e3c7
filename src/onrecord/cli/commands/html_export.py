"""`export --html` and `diff --html`: one file for a colleague; and `verify` and `import` of such a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from reenact.cli.output import note, say, say_json
from reenact.cli.progress import Progress, Watched
from reenact.cli.settings import Settings
from reenact.cli.stores import other_store, reading
from reenact.cli.text import bytes_text, count_text, inert
from reenact.errors import InvalidInput, Refused

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.journal.reader import JournalReader
    from reenact.journal.verify import VerificationReport
    from reenact.store.contract import Head, Store

FOUND_SOMETHING = 1
INTEGRITY_BROKEN = 4
SHOWN_PLACES = 3
PASSES = 3
"""How often the events are read: verified first, then written; links stand behind contents."""

OTHER_PAGE = "the page around it is not the one that this version writes: go by this check, not by what the page says"


def share_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """For the commands that can write a page."""
    for option in (
        click.option("--allow-secrets", is_flag=True, help="With --html: write it though it may hold secrets."),
        click.option("--html", is_flag=True, help="Write one HTML file that shows and verifies itself."),
    ):
        command = option(command)
    return command


def _check_html(html: bool) -> None:
    if not html:
        raise InvalidInput("-o, --force and --allow-secrets are about a page", hint="Give --html, too.", code="usage")


def share_run(settings: Settings, run: str, output: str, *, force: bool, html: bool, allow_secrets: bool) -> None:
    from reenact.cli.selection import selected_run
    from reenact.journal.reader import JournalReader
    from reenact.sharing.writing import shared_run, write_share

    _check_html(html)
    path = _place(output, force)
    with reading(settings) as store:
        reader = JournalReader(store, selected_run(store, settings.namespace, run), settings.namespace)
        scanned = _refuse_secrets([reader]) if not allow_secrets else None
        heads: list[str] = []
        with Progress("writing") as progress:
            watched = cast("Store", Watched(store, progress, PASSES * reader.head().seq))
            size = write_share(shared_run(JournalReader(watched, reader.run, reader.namespace), heads), path)
        _refuse_what_came_since([reader], scanned, heads, path)
    _told(settings, [reader.run], heads, output, size)


def share_comparison(
    settings: Settings,
    runs: tuple[str, str],
    other: str | None,
    where: tuple[str | None, bool],
    *,
    html: bool,
    allow_secrets: bool,
) -> int | None:
    """`where`: the file to write, and whether one that is there may be replaced."""
    _check_html(html)
    output, force = where
    if output is None:
        raise InvalidInput("--html needs a file to write", hint="Name it with -o FILE.", code="usage")
    path = _place(output, force)
    with reading(settings) as store:
        if other is None:
            return _compared(settings, (store, store), runs, path, allow_secrets=allow_secrets)
        with other_store(other) as found:
            return _compared(settings, (store, found), runs, path, allow_secrets=allow_secrets)


def _compared(
    settings: Settings, stores: tuple[Store, Store], runs: tuple[str, str], path: Path, *, allow_secrets: bool
) -> int | None:
    from reenact.cli.selection import selected_run
    from reenact.journal.reader import JournalReader
    from reenact.reports.side_by_side import Side
    from reenact.sharing.comparing import comparison_of
    from reenact.sharing.writing import shared_comparison, write_share

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
    _refuse_what_came_since(readers, scanned, heads, path)
    verdict = comparison["comparison"]["verdict"]
    _told(settings, [side.run for side in sides], heads, str(path), size, verdict=verdict)
    return None if verdict == "same" else FOUND_SOMETHING


def _place(output: str, force: bool) -> Path:
    from reenact.cli.copying import check_output

    if output == "-":
        raise InvalidInput("a page is written to a file, not to stdout", hint="Name it with -o FILE.", code="usage")
    path = Path(output)
    check_output(path, force)
    return path


def _refuse_secrets(readers: list[JournalReader]) -> list[int]:
    """What leaves the house is looked through first; what is found is told by its place, never by its value.

    Returns up to which event each run was looked through, at least.
    """
    from reenact.cli.scanning import Looked, scan_run
    from reenact.core.redaction import Finder, secrets_of_environment

    scanned = [reader.head().seq for reader in readers]
    finder, looked = Finder((), secrets_of_environment(os.environ)), Looked()
    with Progress("scanning"):
        for reader in readers:
            scan_run(reader, finder, looked)
    if not looked.found:
        return scanned
    places = ", ".join(f"{inert(one.where)} {inert(one.path)} ({one.kind})" for one in looked.found[:SHOWN_PLACES])
    more = ", …" if len(looked.found) > SHOWN_PLACES else ""
    name = inert(looked.found[0].run)
    raise Refused(
        f"{count_text(len(looked.found), 'place')} may hold a secret: {places}{more} of run {name}",
        hint=f"`reenact scan {name}` lists them, `reenact erase` removes a value; --allow-secrets writes it as it is.",
        code="secrets_found",
    )


def _refuse_what_came_since(
    readers: list[JournalReader], scanned: list[int] | None, heads: list[str], path: Path
) -> None:
    """A run that goes on may have recorded more since it was looked through: then the file goes again."""
    if scanned is None or [int(head.partition(":")[0]) for head in heads] == scanned:
        return
    try:
        _refuse_secrets(readers)
    except Refused:
        path.unlink(missing_ok=True)
        raise


def _told(
    settings: Settings, runs: list[str], heads: list[str], output: str, size: int, *, verdict: str | None = None
) -> None:
    if settings.json:
        about = {} if verdict is None else {"verdict": verdict}
        say_json({"runs": runs, "heads": heads, "file": output, "bytes": size, **about})
        return
    say(f"wrote {' and '.join(map(inert, runs))} to {inert(output)}: {bytes_text(size)}")
    for run, head in zip(runs, heads, strict=True):
        say(f"head of {inert(run)}  {head}")
    note("Tell the reader the head by another way than the file: with it, nobody in between can have altered the run.")


def verify_shared(settings: Settings, path: str, deep: bool, expected: Head | None) -> int:
    from reenact.cli.verifying import say_report
    from reenact.journal.importing import verify_file
    from reenact.reports.verifications import verification_report
    from reenact.sharing.reading import opened_share

    with opened_share(path) as share, Progress("verifying the file"):
        if expected is not None and len(share.recordings) > 1:
            raise InvalidInput("--expect is about one run, and this file has two", code="usage")
        reports = [verify_file(one, deep=deep, expected=expected) for one in share.recordings]
    for report in reports:
        report.notes += [] if share.own_page else [OTHER_PAGE]
    if settings.json:
        told = [{**verification_report(report), "own_page": share.own_page} for report in reports]
        say_json(told[0] if len(told) == 1 else told)
    else:
        for report in reports:
            say_report(report)
    return _status(reports)


def _status(reports: list[VerificationReport]) -> int:
    if not all(report.valid for report in reports):
        return INTEGRITY_BROKEN
    return 0 if all(report.events for report in reports) else FOUND_SOMETHING
