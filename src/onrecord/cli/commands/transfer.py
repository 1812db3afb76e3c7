"""`reenact export`, `import` and `recover`: a run leaves the store, comes into one, or is saved from a damaged one."""

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

from reenact.cli.completing import complete_run
from reenact.cli.output import note, say, say_json, suggest
from reenact.cli.progress import Progress, Watched
from reenact.cli.results import command_for
from reenact.cli.settings import Settings, shared_options
from reenact.cli.sharing import share_options, share_run
from reenact.cli.stores import other_store, reading, store_exists, writing
from reenact.cli.text import bytes_text, count_text, inert, url_text
from reenact.errors import BadRecording, Damaged, InvalidInput, Refused, RunExists

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.journal.importing import Imported
    from reenact.journal.reader import JournalReader
    from reenact.store.contract import Store

SHOWN_RUNS = 8
EXPORT_PASSES, RECOVER_PASSES = 3, 2
"""How often the events are read: verified first, then written; links stand behind contents in a file."""


@click.command()
@shared_options
@click.argument("run", shell_complete=complete_run)
@click.option("-o", "--output", metavar="FILE", required=True, help="The file to write; - is stdout.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@share_options
@click.pass_obj
def export(settings: Settings, run: str, output: str, force: bool, html: bool, allow_secrets: bool) -> None:
    """Write RUN to one text file that anybody can verify.

    A damaged run is not exported. The file holds what was recorded: treat it like the data it came from. With --html it
    is a page to be looked at, which verifies itself; one that may hold secrets is not written unless you say so.

    \b
    reenact export @last -o run.jsonl
    reenact export @last -o - | gzip > run.jsonl.gz
    reenact export @last --html -o run.html   for a colleague, who needs nothing but a browser
    """
    if html or allow_secrets:
        share_run(settings, run, output, force=force, html=html, allow_secrets=allow_secrets)
        return
    from reenact.cli.selection import selected_run
    from reenact.journal.exporting import export_run
    from reenact.journal.reader import JournalReader

    if output == "-" and settings.json:
        raise InvalidInput("-o - and --json both want stdout", hint="Export to a file.", code="usage")
    path = Path(output)
    if output != "-":
        check_output(path, force)
    with reading(settings) as store:
        reader = JournalReader(store, selected_run(store, settings.namespace, run), settings.namespace)
        if output == "-":
            _to_stdout(reader)
            return
        with Progress("exporting") as progress:
            watched = Watched(store, progress, EXPORT_PASSES * reader.head().seq)
            size = export_run(JournalReader(cast("Store", watched), reader.run, settings.namespace), path)
        events, left_out = reader.head().seq, _runs_of_processes(reader)
    if settings.json:
        say_json({"run": reader.run, "file": output, "bytes": size, "events": events, "left_out": left_out})
        return
    say(f"exported {inert(reader.run)} to {inert(output)}: {count_text(events, 'event')}, {bytes_text(size)}")
    if left_out:
        listed = ", ".join(map(inert, left_out[:SHOWN_RUNS])) + (", …" if len(left_out) > SHOWN_RUNS else "")
        note(f"its processes are runs of their own and not in this file; a replay elsewhere needs them, too: {listed}")
    suggest(settings, (f"reenact verify {shlex.quote(os.path.join('.', output))}", "as a stranger does"))


def _runs_of_processes(reader: JournalReader) -> list[str]:
    from reenact.capture.processes.family import family_of

    return [child.run for child in family_of(reader.store, reader.namespace, reader.run)]


def check_output(path: Path, force: bool) -> None:
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder", hint="Name the file to write.", code="bad_output")
    if not path.parent.is_dir():
        raise InvalidInput(f"there is no folder {path.parent}", hint="Make it first.", code="bad_output")
    if os.path.lexists(path) and not force:
        raise Refused(f"{path} exists", hint="Give --force to replace it.", code="file_exists")


def _to_stdout(reader: JournalReader) -> None:
    from reenact.journal.exporting import export_lines

    sys.stdout.flush()
    for line in export_lines(reader):
        sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


@click.command("import")
@shared_options
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--from", "made_by", type=click.Choice(["vcr"]), help="What made the files, if it was not Reenact.")
@click.pass_obj
def import_(settings: Settings, files: tuple[str, ...], made_by: str | None) -> None:
    """Bring exported FILEs into the store.

    A whole file is verified before anything of it is written. The same file again changes nothing. Where another run
    has the id already, the newcomer is kept under an id of its own.

    \b
    reenact import run.jsonl
    reenact import run.html                            what a page of `export --html` or `diff --html` holds
    reenact import --from vcr tests/cassettes/*.yaml   cassettes of vcrpy, each as a run
    """
    done: list[Imported] = []
    for number, file in enumerate(files, 1):
        with Progress(f"importing {number} of {len(files)}" if len(files) > 1 else "importing") as progress:
            new = _all_of(settings, file, progress) if made_by is None else [_imported_cassette(settings, file)]
        done += new
        for one in new if not settings.json else ():
            _say_imported(one)
    if settings.json:
        say_json(done[0]._asdict() if len(files) == len(done) == 1 else [one._asdict() for one in done])
    suggest(settings, (command_for(settings, "show", done[-1].run), "what happened in it"))


def _all_of(settings: Settings, file: str, progress: Progress) -> list[Imported]:
    """A page may hold two recordings: both are verified before anything of them is written."""
    from reenact.journal.importing import verify_file
    from reenact.sharing.reading import is_shared_page, opened_share

    if not is_shared_page(file):
        return [_imported(settings, file, progress)]
    with opened_share(file) as share:
        with _blaming_the_file():
            for one in share.recordings:
                verify_file(one, deep=True).raise_if_invalid()
        return [_imported(settings, str(one), progress) for one in share.recordings]


def _imported(settings: Settings, file: str, progress: Progress) -> Imported:
    from reenact.journal.importing import import_file, verify_file

    if not store_exists(settings):
        with _blaming_the_file():
            verify_file(
                file, deep=True, progress=progress.step
            ).raise_if_invalid()  # a bad file must not leave an empty store behind
    with writing(settings) as store, _blaming_the_file():
        return import_file(store, file, settings.namespace, progress=progress.step)


def _imported_cassette(settings: Settings, file: str) -> Imported:
    """Made a run in memory first, and brought in as one that was recorded elsewhere: whole, or not at all."""
    from reenact.capture.cassettes.playing import read_as_run
    from reenact.journal.exporting import export_run
    from reenact.journal.importing import Imported, import_file
    from reenact.store.memory import MemoryStore

    reader = read_as_run(MemoryStore(), Path(file))
    with writing(settings) as store, tempfile.TemporaryDirectory() as folder:
        there = store.run_row(settings.namespace, reader.run)
        if there is not None:
            events = there.last.seq if there.last is not None else 0
            return Imported(reader.run, events, already_there=True, kept_apart=False)
        path = Path(folder) / "run.jsonl"
        export_run(reader, path)
        return import_file(store, path, settings.namespace)


def _say_imported(imported: Imported) -> None:
    if imported.already_there:
        say(f"{inert(imported.run)} is in the store already: {count_text(imported.events, 'event')}")
    else:
        say(f"imported {inert(imported.run)}: {count_text(imported.events, 'event')}")
    if imported.kept_apart:
        note("another run has the id it was recorded under, so it is kept under this one")


@contextmanager
def _blaming_the_file() -> Iterator[None]:
    """Damage met here is the file's: recovering from the store would not help."""
    try:
        yield
    except Damaged as damage:
        if damage.hint != Damaged.default_hint:
            raise
        raise BadRecording(damage.message, code=damage.code) from None


@click.command()
@shared_options
@click.argument("run", shell_complete=complete_run)
@click.option("--to", "target", metavar="URL", required=True, help="The store to copy to; made if there is none.")
@click.pass_obj
def recover(settings: Settings, run: str, target: str) -> None:
    """Copy the valid prefix of RUN, everything before the first damage, to another store.

    The damaged store is left as it is. A run that the target has already is not touched.

    \b
    reenact recover 3f2a --to saved.db
    """
    from reenact.cli.selection import selected_run
    from reenact.journal.reader import JournalReader
    from reenact.journal.recovery import recover_run

    with reading(settings) as store, Progress("recovering") as progress:
        chosen = selected_run(store, settings.namespace, run)
        reader = JournalReader(store, chosen, settings.namespace)
        reader.facts()  # a damaged header is found before a store is made
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
        say("nothing was damaged, nothing is lost")
    else:
        say(f"lost {count_text(recovered.lost, 'event')}, from event {first.seq} on: {inert(first.message)}")
    if "@" not in target:  # a password is nothing to be shown
        suggest(settings, (f"reenact verify {recovered.run} --store {shlex.quote(target)}", "the copy"))
