"""Implement `onrecord scan`: report every recorded value that looks like a secret.

A hit is reported by its path and kind, never by its value.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from onrecord.cli.commands.completion import complete_run_or_file
from onrecord.cli.render.output import Column, note, say, say_json, table
from onrecord.cli.render.progress import Progress, Watched
from onrecord.cli.render.text import count_text, inert
from onrecord.cli.settings import Settings, shared_options
from onrecord.cli.stores import reading
from onrecord.errors import InvalidInput, NotFound

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.core.redaction.finder import Finder
    from onrecord.journal.reader import JournalReader
    from onrecord.store.contract import Store

FOUND_SOMETHING = 1
SHOWN = 100
LINE_BYTES = 64 * 1024 * 1024
COLUMNS = (Column("run", "bold"), Column("where", "cyan"), Column("path", flexible=True), Column("kind", "yellow"))


class ScanHit(NamedTuple):
    run: str
    """The run id, or the path of the scanned file."""
    where: str
    path: str
    kind: str


class ScanResult:
    """Count the scanned runs and contents, and collect the hits."""

    def __init__(self) -> None:
        self.runs = self.contents = 0
        self.found: list[ScanHit] = []

    def scan(self, run: str, where: str, tree: Any, finder: Finder) -> None:
        from onrecord.core.redaction.scan import scan_tree

        self.contents += 1
        self.found += [ScanHit(run, where, path or "/", kind) for path, kind in scan_tree(tree, finder)]


@click.command()
@shared_options
@click.argument("target", metavar="RUN|FILE", required=False, shell_complete=complete_run_or_file)
@click.option("--all", "everything", is_flag=True, help="Scan every run of the store, in all namespaces.")
@click.option("--env/--no-env", default=True, help="Also search for the secrets of this environment.")
@click.pass_obj
def scan(settings: Settings, target: str | None, everything: bool, env: bool) -> int:
    """Find secrets in a run, in any file, or in the whole store. Exit status 0 if there are none.

    Finds API keys, tokens, private keys, card numbers, values under names like `password`, and the values of
    environment variables that look secret: plain, in JSON inside strings, base64, hexadecimal and URL-encoded.

    \b
    onrecord scan @last
    onrecord scan run.jsonl
    onrecord scan --all
    """
    from onrecord.core.redaction import Finder, secrets_of_environment

    if (target is None) != everything:
        raise InvalidInput(
            "scan needs exactly one of RUN, FILE and --all",
            hint="For example: `onrecord scan @last`, `onrecord scan run.jsonl` or `onrecord scan --all`.",
            code="usage",
        )
    finder = Finder((), secrets_of_environment(os.environ) if env else ())
    result = ScanResult()
    with Progress("scanning") as progress:
        if target is not None and (os.sep in target or os.path.isfile(target)):
            _scan_file(target, finder, result, progress)
        else:
            with reading(settings) as store:
                watched = Watched(store, progress, _count_events(store, settings.namespace, target))
                _scan_store(cast("Store", watched), settings.namespace, target, finder, result)
    return _print_result(settings, result)


def _count_events(store: Store, namespace: str, target: str | None) -> int:
    """Return the number of events to scan."""
    from onrecord.cli.selection import selected_run
    from onrecord.journal.reader import each_run

    if target is not None:
        last = store.last_event(namespace, selected_run(store, namespace, target))
        return 0 if last is None else last.seq
    return sum(row.last.seq for space in store.namespaces() for row in each_run(store, space) if row.last is not None)


def _scan_store(store: Store, namespace: str, target: str | None, finder: Finder, result: ScanResult) -> None:
    from onrecord.cli.selection import selected_run
    from onrecord.journal.reader import JournalReader, each_run

    if target is not None:
        scan_run(JournalReader(store, selected_run(store, namespace, target), namespace), finder, result)
        return
    for space in store.namespaces():
        for row in each_run(store, space):
            scan_run(JournalReader(store, row.header.run, space), finder, result)


def scan_run(reader: JournalReader, finder: Finder, result: ScanResult) -> None:
    from onrecord.core.canonical import parse_stored

    result.runs += 1
    facts = reader.facts_tree()
    if facts is not None:
        result.scan(reader.run, "facts", _inline_artifacts(facts, reader), finder)
    for row in reader.store.scan(reader.namespace, reader.run):
        tree = reader.content_tree(row, reader.link(row))
        if tree is not None:
            result.scan(reader.run, f"seq {row.seq}", _inline_artifacts(tree, reader), finder)
    for message in reader.store.inbox(reader.namespace, reader.run):
        if not message.key.startswith("seal/"):
            result.scan(reader.run, f"inbox {message.number}", parse_stored(message.payload), finder)


def _inline_artifacts(tree: Any, reader: JournalReader) -> Any:
    """Replace each artifact reference in the value by the text of the artifact."""
    if type(tree) is list:
        return [_inline_artifacts(item, reader) for item in tree]
    if type(tree) is not dict:
        return tree
    if len(tree) == 1 and "$artifact" in tree:
        return reader.decoded(tree).decode("utf-8", "replace")
    return {name: _inline_artifacts(item, reader) for name, item in tree.items()}


def _scan_file(path: str, finder: Finder, result: ScanResult, progress: Progress) -> None:
    try:
        with open(path, "rb") as file:
            result.runs = 1
            size = os.fstat(file.fileno()).st_size
            for number, line in enumerate(iter(lambda: file.readline(LINE_BYTES), b""), 1):
                progress.step(file.tell(), size)
                result.scan(path, f"line {number}", _parse_line(line), finder)
    except OSError as error:
        raise NotFound(f"cannot read {inert(path)}: {error.strerror}", hint="Name a run or a readable file.") from None


def _parse_line(line: bytes) -> Any:
    """Parse a line of an exported file as JSON, or return it as text if it is anything else."""
    from onrecord.core.strict_json import read_strict
    from onrecord.errors import InvalidValue

    try:
        return read_strict(line, max_bytes=LINE_BYTES)
    except InvalidValue:
        return line.decode("utf-8", "surrogateescape")


def _print_result(settings: Settings, result: ScanResult) -> int:
    clean = not result.found and result.contents > 0
    if settings.json:
        found = [one._asdict() for one in result.found]
        say_json({"clean": clean, "runs": result.runs, "contents": result.contents, "found": found})
        return 0 if clean else FOUND_SOMETHING
    table(COLUMNS, [[inert(cell) for cell in one] for one in result.found[:SHOWN]])
    if len(result.found) > SHOWN:
        note(f"and {len(result.found) - SHOWN:,} more")
    scanned = count_text(result.contents, "content")
    if clean:
        say(f"Scan: nothing in {scanned} looks like a secret - CLEAN")
    elif result.found:
        say(f"Scan: {count_text(len(result.found), 'place')} in {scanned} may hold a secret - FOUND")
        note("Erase a value with `onrecord erase`; redact it in later runs: docs/guides/secrets.md.")
    else:
        say("Scan: nothing to scan")
    return 0 if clean else FOUND_SOMETHING
