"""`reenact doctor`: what this installation is made of, and what is wrong with it or its store."""

from __future__ import annotations

import os
import platform
import stat
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import click

from reenact.cli.output import fields, paint, say, say_json
from reenact.cli.programs import WithCommand, command_words
from reenact.cli.settings import Settings, shared_options
from reenact.cli.stores import reading, store_exists, store_url
from reenact.cli.text import bytes_text, inert, url_text
from reenact.errors import ReenactError
from reenact.store.locating import absolute_path, sqlite_path

FOUND_SOMETHING = 1
LITTLE_DISK_BYTES = 100 * 1024 * 1024
RUNS_COUNTED = 10_000
FORGETFUL_FILE_SYSTEMS = frozenset(("tmpfs", "ramfs"))


@dataclass
class Examination:
    facts: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


@click.command(cls=WithCommand)
@shared_options
@click.pass_obj
def doctor(settings: Settings) -> int:
    """Look at this installation and its store, or with -- at a program. Ends with 1 when something is wrong.

    Having no store yet is not. A program is run twice: recorded, into a store that is thrown away, and replayed. What
    it depends on that is not recorded is listed with its line, and with what to do about it.

    \b
    reenact doctor
    reenact doctor -- python agent.py --question "Where is my order?"
    """
    words = command_words()
    if words is not None:
        from reenact.cli.program_doctor import examine

        return examine(settings, words)
    seen = Examination()
    _look_at_libraries(seen)
    try:
        url = store_url(settings)
    except ReenactError as error:
        seen.problems.append(error.message)
    else:
        seen.facts["store"] = url_text(url)
        path = sqlite_path(url)
        if path is not None:
            _look_at_file(seen, absolute_path(path))
        _look_inside(seen, settings)
    if settings.json:
        say_json({**seen.facts, "problems": seen.problems})
    else:
        fields([(_title(name), inert(_text(name, value))) for name, value in seen.facts.items()])
        for problem in seen.problems:
            say(f"{paint('problem', fg='red', bold=True)}  {inert(problem)}")
        say(paint("no problems found", fg="green") if not seen.problems else f"problems found: {len(seen.problems)}")
    return FOUND_SOMETHING if seen.problems else 0


def _title(name: str) -> str:
    return name.removesuffix("_bytes").replace("_", " ")


def _text(name: str, value: Any) -> str:
    if value is None:
        return "none"
    return bytes_text(value) if name == "free_disk_bytes" else str(value)


def _look_at_libraries(seen: Examination) -> None:
    import apsw

    from reenact.store.sqlite.connection import check_library

    seen.facts["reenact"] = _version("reenact") or "unknown"
    seen.facts["python"] = f"{platform.python_version()} ({platform.system()} {platform.machine()})"
    origin = "apsw's own" if apsw.using_amalgamation else "the system's"
    seen.facts["sqlite"] = f"{apsw.sqlite_lib_version()} ({origin}, apsw {apsw.apsw_version()})"
    seen.facts["sqlite_source"] = apsw.sqlite3_sourceid()
    seen.facts["psycopg"] = _version("psycopg")
    try:
        check_library()
    except ReenactError as error:
        seen.problems.append(f"{error.message}. {error.hint}")


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _look_at_file(seen: Examination, path: str) -> None:
    from reenact.store.sqlite import files

    kind = files.file_system(os.path.realpath(os.path.dirname(path)))
    seen.facts["file_system"] = kind or "unknown"
    if kind in files.NETWORK_FILE_SYSTEMS:
        seen.problems.append(f"the store is on a network file system ({kind}), where SQLite's locks do not hold")
    if kind in FORGETFUL_FILE_SYSTEMS:
        seen.problems.append(f"the store is on {kind}: what is recorded is lost when the machine restarts")
    free = files.free_bytes(_existing(path) + os.sep)
    seen.facts["free_disk_bytes"] = free
    if free is not None and free < LITTLE_DISK_BYTES:
        seen.problems.append(f"only {bytes_text(free)} of disk are free where the store is")
    try:
        mode = stat.S_IMODE(os.lstat(path).st_mode)
    except OSError:
        return
    seen.facts["mode"] = f"{mode:04o}"
    if mode & 0o077:
        seen.problems.append(f"others can read the store (mode {mode:04o}): chmod 600 {path}")


def _existing(path: str) -> str:
    """The nearest folder above that exists: where the store would be made."""
    folder = os.path.dirname(path)
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    return folder


def _look_inside(seen: Examination, settings: Settings) -> None:
    if not store_exists(settings):
        seen.facts["runs"] = None
        seen.facts["state"] = "no store yet; it is made by the first recording (`reenact demo`)"
        return
    try:
        with reading(settings) as store:
            seen.facts["durability"] = store.durability
            seen.facts["namespaces"] = len(store.namespaces())
            runs, before = 0, None
            while runs < RUNS_COUNTED and (page := store.list_runs(settings.namespace, before=before, limit=200)):
                runs += len(page)
                before = (page[-1].header.created, page[-1].header.run)
            seen.facts["runs"] = runs if runs < RUNS_COUNTED else f"{RUNS_COUNTED} or more"
    except ReenactError as error:
        seen.problems.append(f"the store cannot be used: {error.message}{' ' + error.hint if error.hint else ''}")
