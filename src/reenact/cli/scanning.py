"""`reenact scan`: proves that what was recorded holds nothing that looks like a secret, or says where it does.

What is found is told by its place and kind, never by its value.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from reenact.cli.completing import complete_run_or_file
from reenact.cli.output import Column, note, say, say_json, table
from reenact.cli.progress import Progress, Watched
from reenact.cli.settings import Settings, shared_options
from reenact.cli.stores import reading
from reenact.cli.text import count_text, inert
from reenact.errors import InvalidInput, NotFound

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.core.redaction.finding import Finder
    from reenact.journal.reader import JournalReader
    from reenact.store.contract import RunRow, Store

FOUND_SOMETHING = 1
SHOWN = 100
LINE_BYTES = 64 * 1024 * 1024
COLUMNS = (Column("run", "bold"), Column("where", "cyan"), Column("path", flexible=True), Column("kind", "yellow"))


class Found(NamedTuple):
    run: str
    """Or the file."""
    where: str
    path: str
    kind: str


class Looked:
    """What was looked at, and what was found."""

    def __init__(self) -> None:
        self.runs = self.parts = 0
        self.found: list[Found] = []

    def at(self, run: str, where: str, tree: Any, finder: Finder) -> None:
        from reenact.core.redaction.scanning import scan_tree

        self.parts += 1
        self.found += [Found(run, where, path or "/", kind) for path, kind in scan_tree(tree, finder)]


@click.command()
@shared_options
@click.argument("target", metavar="RUN|FILE", required=False, shell_complete=complete_run_or_file)
@click.option("--all", "everything", is_flag=True, help="Every run of the store, in all namespaces.")
@click.option("--env/--no-env", default=True, help="Look for the values of this environment's secrets, too.")
@click.pass_obj
def scan(settings: Settings, target: str | None, everything: bool, env: bool) -> int:
    """Look for secrets in a run, an exported file (or any other), or the whole store.

    Keys, tokens, private keys, card numbers, credentials by the names of their places, and the values of environment
    variables that look secret: plain, in JSON within strings, in base64, hexadecimal and URL-encoded. Status 0: clean.

    \b
    reenact scan @last
    reenact scan run.jsonl
    reenact scan --all
    """
    from reenact.core.redaction import Finder, secrets_of_environment

    if (target is None) != everything:
        raise InvalidInput(
            "scan needs a RUN, a FILE or --all, and one of them only",
            hint="For example: `reenact scan @last`, `reenact scan run.jsonl` or `reenact scan --all`.",
            code="usage",
        )
    finder = Finder((), secrets_of_environment(os.environ) if env else ())
    looked = Looked()
    with Progress("scanning") as progress:
        if target is not None and (os.sep in target or os.path.isfile(target)):
            _scan_file(target, finder, looked, progress)
        else:
            with reading(settings) as store:
                watched = Watched(store, progress, _events_in(store, settings.namespace, target))
                _scan_store(cast("Store", watched), settings.namespace, target, finder, looked)
    return _told(settings, looked)


def _events_in(store: Store, namespace: str, target: str | None) -> int:
    """How many there are to look through."""
    from reenact.cli.selection import selected_run

    if target is not None:
        last = store.last_event(namespace, selected_run(store, namespace, target))
        return 0 if last is None else last.seq
    return sum(row.last.seq for place in store.namespaces() for row in _all_runs(store, place) if row.last is not None)


def _all_runs(store: Store, namespace: str) -> Iterator[RunRow]:
    before = None
    while rows := store.list_runs(namespace, before=before):
        yield from rows
        before = (rows[-1].header.created, rows[-1].header.run)


def _scan_store(store: Store, namespace: str, target: str | None, finder: Finder, looked: Looked) -> None:
    from reenact.cli.selection import selected_run
    from reenact.journal.reader import JournalReader

    if target is not None:
        scan_run(JournalReader(store, selected_run(store, namespace, target), namespace), finder, looked)
        return
    for place in store.namespaces():
        for row in _all_runs(store, place):
            scan_run(JournalReader(store, row.header.run, place), finder, looked)


def scan_run(reader: JournalReader, finder: Finder, looked: Looked) -> None:
    from reenact.core.canonical import parse_stored

    looked.runs += 1
    facts = reader.facts_tree()
    if facts is not None:
        looked.at(reader.run, "facts", _with_artifacts(facts, reader), finder)
    for row in reader.store.scan(reader.namespace, reader.run):
        tree = reader.content_tree(row, reader.link(row))
        if tree is not None:
            looked.at(reader.run, f"seq {row.seq}", _with_artifacts(tree, reader), finder)
    for message in reader.store.inbox(reader.namespace, reader.run):
        if not message.key.startswith("seal/"):
            looked.at(reader.run, f"inbox {message.number}", parse_stored(message.payload), finder)


def _with_artifacts(tree: Any, reader: JournalReader) -> Any:
    """The value with the long bytes that are kept beside it."""
    if type(tree) is list:
        return [_with_artifacts(item, reader) for item in tree]
    if type(tree) is not dict:
        return tree
    if len(tree) == 1 and "$artifact" in tree:
        return reader.decoded(tree).decode("utf-8", "replace")
    return {name: _with_artifacts(item, reader) for name, item in tree.items()}


def _scan_file(path: str, finder: Finder, looked: Looked, progress: Progress) -> None:
    try:
        with open(path, "rb") as file:
            looked.runs = 1
            size = os.fstat(file.fileno()).st_size
            for number, line in enumerate(_lines(file), 1):
                progress.step(file.tell(), size)
                looked.at(path, f"line {number}", _tree_of(line), finder)
    except OSError as error:
        raise NotFound(f"cannot read {inert(path)}: {error.strerror}", hint="Name a run or a file.") from None


def _lines(file: Any) -> Iterator[bytes]:
    while line := file.readline(LINE_BYTES):
        yield line


def _tree_of(line: bytes) -> Any:
    """An exported file has one JSON object in each line; whatever else it is, is looked through as text."""
    from reenact.core.strict_json import read_strict
    from reenact.errors import InvalidValue

    try:
        return read_strict(line, max_bytes=LINE_BYTES)
    except InvalidValue:
        return line.decode("utf-8", "surrogateescape")


def _told(settings: Settings, looked: Looked) -> int:
    clean = not looked.found and looked.parts > 0
    if settings.json:
        found = [one._asdict() for one in looked.found]
        say_json({"clean": clean, "runs": looked.runs, "contents": looked.parts, "found": found})
        return 0 if clean else FOUND_SOMETHING
    table(COLUMNS, [[inert(cell) for cell in one] for one in looked.found[:SHOWN]])
    if len(looked.found) > SHOWN:
        note(f"and {len(looked.found) - SHOWN:,} more")
    at = count_text(looked.parts, "content")
    if clean:
        say(f"Scan: nothing in {at} looks like a secret - CLEAN")
    elif looked.found:
        say(f"Scan: {count_text(len(looked.found), 'place')} in {at} may hold a secret - FOUND")
        note("Erase a value with `reenact erase`; redact what is recorded next: docs/secrets.md.")
    else:
        say("Scan: there was nothing to look at")
    return 0 if clean else FOUND_SOMETHING
