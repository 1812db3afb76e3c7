"""Implement `onrecord doctor`: list the parts of this installation, and what is wrong with it or its store."""

from __future__ import annotations

import os
import platform
import stat
from dataclasses import dataclass, field
from importlib import metadata
from itertools import islice
from typing import Any

import click

from onrecord.cli.programs.start import DashedCommand, command_words
from onrecord.cli.render.output import fields, paint, say, say_json
from onrecord.cli.render.text import bytes_text, inert, url_text
from onrecord.cli.settings import Settings, shared_options
from onrecord.cli.stores import reading, store_exists, store_url
from onrecord.errors import OnrecordError
from onrecord.journal.reader import each_run
from onrecord.store.location import ELSEWHERE_HINT, absolute_path, sqlite_path

FOUND_SOMETHING = 1
LITTLE_DISK_BYTES = 100 * 1024 * 1024
RUNS_COUNTED = 10_000
VOLATILE_FILE_SYSTEMS = frozenset(("tmpfs", "ramfs"))


@dataclass
class Examination:
    facts: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


@click.command(cls=DashedCommand)
@shared_options
@click.pass_obj
def doctor(settings: Settings) -> int:
    """Check this installation and its store, or, after --, a program. Exit status 1 if a problem was found.

    A missing store is not a problem. A program is run twice: recorded into a temporary store, then replayed. Each
    value that it depends on and that is not recorded is listed, with its source line and what to do.

    \b
    onrecord doctor
    onrecord doctor -- python agent.py --question "Where is my order?"
    """
    words = command_words()
    if words is not None:
        from onrecord.cli.programs.doctor import examine

        return examine(settings, words)
    seen = Examination()
    _check_libraries(seen)
    try:
        url = store_url(settings)
    except OnrecordError as error:
        seen.problems.append(error.message)
    else:
        seen.facts["store"] = url_text(url)
        path = sqlite_path(url)
        if path is not None:
            _check_file(seen, absolute_path(path))
        _check_contents(seen, settings)
    if settings.json:
        say_json({**seen.facts, "problems": seen.problems})
    else:
        fields([(_label(name), inert(_format_fact(name, value))) for name, value in seen.facts.items()])
        for problem in seen.problems:
            say(f"{paint('problem', fg='red', bold=True)}  {inert(problem)}")
        say(paint("no problems found", fg="green") if not seen.problems else f"problems found: {len(seen.problems)}")
    return FOUND_SOMETHING if seen.problems else 0


def _label(name: str) -> str:
    return name.removesuffix("_bytes").replace("_", " ")


def _format_fact(name: str, value: Any) -> str:
    if value is None:
        return "none"
    return bytes_text(value) if name == "free_disk_bytes" else str(value)


def _check_libraries(seen: Examination) -> None:
    import apsw

    from onrecord.store.sqlite.connection import check_library

    seen.facts["onrecord"] = _version("onrecord") or "unknown"
    seen.facts["python"] = f"{platform.python_version()} ({platform.system()} {platform.machine()})"
    origin = "apsw's own" if apsw.using_amalgamation else "the system's"
    seen.facts["sqlite"] = f"{apsw.sqlite_lib_version()} ({origin}, apsw {apsw.apsw_version()})"
    seen.facts["sqlite_source"] = apsw.sqlite3_sourceid()
    seen.facts["psycopg"] = _version("psycopg")
    try:
        check_library()
    except OnrecordError as error:
        seen.problems.append(f"{error.message}. {error.hint}")


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _check_file(seen: Examination, path: str) -> None:
    from onrecord.store.sqlite import file_checks

    kind = file_checks.file_system(os.path.realpath(os.path.dirname(path)))
    seen.facts["file_system"] = kind or "unknown"
    if kind in file_checks.NETWORK_FILE_SYSTEMS:
        seen.problems.append(f"the store is on a network file system ({kind}), where SQLite's locks do not hold")
    if kind in VOLATILE_FILE_SYSTEMS:
        seen.problems.append(f"the store is on {kind}: recorded runs are lost when the machine restarts")
    free = file_checks.free_bytes(_nearest_folder(path) + os.sep)
    seen.facts["free_disk_bytes"] = free
    if free is not None and free < LITTLE_DISK_BYTES:
        seen.problems.append(f"the disk of the store has only {bytes_text(free)} free")
    places = (_nearest_folder(path), *([path] if os.path.lexists(path) else []))
    if refused := [place for place in places if not os.access(place, os.W_OK)]:
        seen.problems.append(f"{refused[0]} cannot be written, so nothing can be recorded. {ELSEWHERE_HINT}")
    try:
        mode = stat.S_IMODE(os.lstat(path).st_mode)
    except OSError:
        return
    seen.facts["mode"] = f"{mode:04o}"
    if mode & 0o077:
        seen.problems.append(f"others can read the store (mode {mode:04o}): chmod 600 {path}")


def _nearest_folder(path: str) -> str:
    """Return the nearest existing folder above the path, where the store would be created."""
    folder = os.path.dirname(path)
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    return folder


def _check_contents(seen: Examination, settings: Settings) -> None:
    if not store_exists(settings):
        seen.facts["runs"] = None
        seen.facts["state"] = "no store yet; the first recording creates it: `onrecord run agent.py` or `onrecord demo`"
        return
    try:
        with reading(settings) as store:
            seen.facts["durability"] = store.durability
            seen.facts["namespaces"] = len(store.namespaces())
            runs = sum(1 for _ in islice(each_run(store, settings.namespace), RUNS_COUNTED))
            seen.facts["runs"] = runs if runs < RUNS_COUNTED else f"{RUNS_COUNTED} or more"
    except OnrecordError as error:
        seen.problems.append(f"the store cannot be used: {error.message}{'. ' + error.hint if error.hint else ''}")
