"""Implement `onrecord export`, `import` and `recover`."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from onrecord.cli.commands.completion import complete_run
from onrecord.cli.commands.html_export import share_options, share_run
from onrecord.cli.render.output import note, say, say_json, suggest
from onrecord.cli.render.progress import Progress, Watched
from onrecord.cli.render.text import bytes_text, count_text, inert, url_text
from onrecord.cli.results import command_for
from onrecord.cli.settings import Settings, shared_options
from onrecord.cli.stores import other_store, reading, store_exists, writing
from onrecord.errors import BadRecording, Damaged, InvalidInput, Refused, RunExists

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.journal.import_file import Imported
    from onrecord.journal.reader import JournalReader
    from onrecord.store.contract import Store

SHOWN_RUNS = 8
EXPORT_PASSES, RECOVER_PASSES = 3, 2
"""How often the events are read: to verify them, then to write them (an export writes contents, then links)."""


@click.command()
@shared_options
@click.argument("run", shell_complete=complete_run)
@click.option("-o", "--output", metavar="FILE", required=True, help="Write this file; - is stdout.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@share_options
@click.pass_obj
def export(settings: Settings, run: str, output: str, force: bool, html: bool, allow_secrets: bool) -> None:
    """Write RUN to one text file that anyone can verify.

    A damaged run is not exported. The file holds all recorded data: protect it like that data. With --html the file is
    a page that shows the run and verifies itself; a run that may hold secrets needs --allow-secrets.

    \b
    onrecord export @last -o run.jsonl
    onrecord export @last -o - | gzip > run.jsonl.gz
    onrecord export @last --html -o run.html   opens in any browser
    """
    if html or allow_secrets:
        share_run(settings, run, output, force=force, html=html, allow_secrets=allow_secrets)
        return
    from onrecord.cli.selection import selected_run
    from onrecord.journal.export import export_run
    from onrecord.journal.reader import JournalReader

    if output == "-" and settings.json:
        raise InvalidInput("-o - and --json both write to stdout", hint="Export to a file.", code="usage")
    path = Path(output)
    if output != "-":
        check_output(path, force)
    with reading(settings) as store:
        reader = JournalReader(store, selected_run(store, settings.namespace, run), settings.namespace)
        if output == "-":
            _export_to_stdout(reader)
            return
        with Progress("exporting") as progress:
            watched = Watched(store, progress, EXPORT_PASSES * reader.head().seq)
            size = export_run(JournalReader(cast("Store", watched), reader.run, settings.namespace), path)
        events, left_out = reader.head().seq, _process_runs(reader)
    if settings.json:
        say_json({"run": reader.run, "file": output, "bytes": size, "events": events, "left_out": left_out})
        return
    say(f"exported {inert(reader.run)} to {inert(output)}: {count_text(events, 'event')}, {bytes_text(size)}")
    if left_out:
        listed = ", ".join(map(inert, left_out[:SHOWN_RUNS])) + (", …" if len(left_out) > SHOWN_RUNS else "")
        note(f"the runs of its processes are not in this file; a replay elsewhere needs them too: {listed}")
    suggest(
        settings, (f"onrecord verify {shlex.quote(os.path.join('.', output))}", "verify the file without the store")
    )


def _process_runs(reader: JournalReader) -> list[str]:
    from onrecord.capture.processes.run_tree import descendants_of

    return [child.run for child in descendants_of(reader.store, reader.namespace, reader.run)]


def check_output(path: Path, force: bool) -> None:
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder", hint="Name the file to write.", code="bad_output")
    if not path.parent.is_dir():
        raise InvalidInput(f"there is no folder {path.parent}", hint="Create it first.", code="bad_output")
    if os.path.lexists(path) and not force:
        raise Refused(f"{path} exists", hint="Give --force to replace it.", code="file_exists")


def _export_to_stdout(reader: JournalReader) -> None:
    from onrecord.journal.export import export_lines

    sys.stdout.flush()
    for line in export_lines(reader):
        sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


@click.command("import")
@shared_options
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--from", "made_by", type=click.Choice(["vcr"]), help="Read files of another tool.")
@click.pass_obj
def import_(settings: Settings, files: tuple[str, ...], made_by: str | None) -> None:
    """Read exported FILEs into the store.

    A file is verified before it is imported. Importing it again changes nothing. If another run has its id, the
    imported run gets a new id.

    \b
    onrecord import run.jsonl
    onrecord import run.html                            the runs in a page of `export --html` or `diff --html`
    onrecord import --from vcr tests/cassettes/*.yaml   vcrpy cassettes, one run for each
    """
    done: list[Imported] = []
    for number, file in enumerate(files, 1):
        with Progress(f"importing {number} of {len(files)}" if len(files) > 1 else "importing") as progress:
            new = _import_runs(settings, file, progress) if made_by is None else [_import_cassette(settings, file)]
        done += new
        for one in new if not settings.json else ():
            _print_imported(one)
    if settings.json:
        say_json(done[0]._asdict() if len(files) == len(done) == 1 else [one._asdict() for one in done])
    suggest(settings, (command_for(settings, "show", done[-1].run), "show what happened"))


def _import_runs(settings: Settings, file: str, progress: Progress) -> list[Imported]:
    """Import the run of a file, or both runs of a page. Both are verified before one is written."""
    from onrecord.html_export.reader import is_shared_page, opened_share
    from onrecord.journal.import_file import verify_file

    if not is_shared_page(file):
        return [_import_run(settings, file, progress)]
    with opened_share(file) as share:
        with _blame_file():
            for one in share.recordings:
                verify_file(one, deep=True).raise_if_invalid()
        return [_import_run(settings, str(one), progress) for one in share.recordings]


def _import_run(settings: Settings, file: str, progress: Progress) -> Imported:
    from onrecord.journal.import_file import import_file, verify_file

    if not store_exists(settings):
        with _blame_file():
            # A bad file must not create an empty store.
            verify_file(file, deep=True, progress=progress.step).raise_if_invalid()
    with writing(settings) as store, _blame_file():
        return import_file(store, file, settings.namespace, progress=progress.step)


def _import_cassette(settings: Settings, file: str) -> Imported:
    """Read a cassette into a run in memory, then import that run: all of it, or nothing."""
    from onrecord.capture.cassettes.player import read_as_run
    from onrecord.journal.export import export_run
    from onrecord.journal.import_file import Imported, import_file
    from onrecord.store.memory import MemoryStore

    reader = read_as_run(MemoryStore(), Path(file))
    with writing(settings) as store, tempfile.TemporaryDirectory() as folder:
        existing = store.run_row(settings.namespace, reader.run)
        if existing is not None:
            events = existing.last.seq if existing.last is not None else 0
            return Imported(reader.run, events, already_there=True, kept_apart=False)
        path = Path(folder) / "run.jsonl"
        export_run(reader, path)
        return import_file(store, path, settings.namespace)


def _print_imported(imported: Imported) -> None:
    if imported.already_there:
        say(f"{inert(imported.run)} is in the store already: {count_text(imported.events, 'event')}")
    else:
        say(f"imported {inert(imported.run)}: {count_text(imported.events, 'event')}")
    if imported.kept_apart:
        note("another run has its recorded id, so this run got a new id")


@contextmanager
def _blame_file() -> Iterator[None]:
    """Turn `Damaged` into `BadRecording`: the file is damaged, so `onrecord recover` would not help."""
    try:
        yield
    except Damaged as damage:
        if damage.hint != Damaged.default_hint:
            raise
        raise BadRecording(damage.message, code=damage.code) from None


@click.command()
@shared_options
@click.argument("run", shell_complete=complete_run)
@click.option("--to", "target", metavar="URL", required=True, help="Copy to this store; created if there is none.")
@click.pass_obj
def recover(settings: Settings, run: str, target: str) -> None:
    """Copy the valid prefix of RUN, all events before the first damage, to another store.

    The damaged store is not changed. A run that the other store already has is refused.

    \b
    onrecord recover 3f2a --to saved.db
    """
    from onrecord.cli.selection import selected_run
    from onrecord.journal.reader import JournalReader
    from onrecord.journal.recovery import recover_run

    with reading(settings) as store, Progress("recovering") as progress:
        chosen = selected_run(store, settings.namespace, run)
        reader = JournalReader(store, chosen, settings.namespace)
        reader.facts()  # raise for a damaged header before a store is created
        with other_store(target, to_write=True) as copy:
            if copy.run_row(settings.namespace, chosen) is not None:
                raise RunExists(
                    f"run {chosen} is in {url_text(target)} already", hint="Recover into another store with --to."
                )
            watched = Watched(store, progress, RECOVER_PASSES * reader.head().seq)
            recovered = recover_run(cast("Store", watched), chosen, copy, settings.namespace)
    first = recovered.report.problems[0] if recovered.report.problems else None
    if settings.json:
        say_json(
            {
                "run": recovered.run,
                "to": url_text(target),
                "copied": recovered.events,
                "lost": recovered.lost,
                "first_problem": None if first is None else first._asdict(),
            }
        )
        return
    say(f"copied {count_text(recovered.events, 'event')} of {inert(recovered.run)} to {url_text(target)}")
    if first is None:
        say("no damage, no event lost")
    else:
        say(f"lost {count_text(recovered.lost, 'event')}, from event {first.seq} on: {inert(first.message)}")
    if "@" not in target:  # the URL may hold a password
        suggest(settings, (f"onrecord verify {recovered.run} --store {shlex.quote(target)}", "verify the copy"))
