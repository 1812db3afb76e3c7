"""Determine which store is meant. Every program start loads this module, so it imports little.

    memory://                  a new store in memory
    memory://name              the store of that name in this process
    sqlite:///folder/file.db   relative to the working folder (three slashes)
    sqlite:////folder/file.db  absolute (four slashes)
    postgresql://…             a PostgreSQL database
    folder/file.db             any other text without `://` is a path of an SQLite file, taken literally

The path of an SQLite store is never decoded: `?`, `#` and `%` are characters of the name.

Without a URL: ONRECORD_STORE, then `store` under [tool.onrecord] in the pyproject.toml found upwards from the working
folder (a relative path there is relative to that file), then `.onrecord/onrecord.db` in that project's folder or,
without one, in the working folder.
"""

from __future__ import annotations

import os

from onrecord.errors import InvalidInput, StoreUnavailable

PROJECT_FILE = "pyproject.toml"
DEFAULT_FOLDER = ".onrecord"
DEFAULT_FILE = "onrecord.db"
_SQLITE = "sqlite:///"
ELSEWHERE_HINT = "Allow yourself to use that folder, or record elsewhere: export ONRECORD_STORE=$HOME/onrecord.db"


def default_url(*, read_only: bool = False) -> str:
    """Return the URL of the default store. Create the default folder unless `read_only`."""
    named = os.environ.get("ONRECORD_STORE")
    if named:
        return named
    project = _find_project()
    if project is not None:
        configured = _read_configured(os.path.join(project, PROJECT_FILE))
        if configured is not None:
            return _resolve_url(project, configured)
    folder = os.path.join(working_folder() if project is None else project, DEFAULT_FOLDER)
    if not read_only:
        _make_folder(folder)
    return os.path.join(folder, DEFAULT_FILE)


def sqlite_path(url: str) -> str | None:
    """Return the file of an SQLite store, or None for another kind of store."""
    if url.startswith(_SQLITE):
        return url[len(_SQLITE) :]
    return None if "://" in url else url


def store_options(url: str, namespace: str) -> str:
    """Return the options that name a store in a command, each after a space; none for the default store."""
    path = sqlite_path(url)
    try:
        usual = default_url(read_only=True)
    except InvalidInput:
        usual = ""
    is_default = url == usual or (
        path is not None and os.path.realpath(path) == os.path.realpath(sqlite_path(usual) or "")
    )
    words = [] if is_default or "@" in url else ["--store", path or url]  # a URL with an @ may hold a password
    words += ["--namespace", namespace] if namespace != "default" else []
    if not words:
        return ""
    import shlex

    return f" {shlex.join(words)}"


def absolute_url(url: str) -> str:
    """Return a URL that names the same store from any folder."""
    path = sqlite_path(url)
    return url if path is None else f"{_SQLITE}{absolute_path(path)}"


def working_folder() -> str:
    """Return the working folder. Raise InvalidInput if it was removed."""
    try:
        return os.getcwd()
    except OSError:
        raise InvalidInput(
            "the working folder no longer exists",
            hint="Change to an existing folder (`cd`), and try again.",
            code="no_working_folder",
        ) from None


def absolute_path(path: str) -> str:
    return os.path.normpath(path if os.path.isabs(path) else os.path.join(working_folder(), path))


def named_file(url: str, rest: str) -> str:
    """Return the file that `sqlite://rest` names."""
    if not rest.startswith("/") or rest == "/":
        raise InvalidInput(
            f"{url!r} names no file",
            hint="sqlite:///relative/path.db has three slashes, sqlite:////absolute/path.db four.",
        )
    return rest[1:]


def _find_project() -> str | None:
    folder, below = working_folder(), ""
    while folder != below:
        if os.path.isfile(os.path.join(folder, PROJECT_FILE)):
            return folder
        folder, below = os.path.dirname(folder), folder
    return None


def _read_configured(project: str) -> str | None:
    import tomllib  # only if there is a project

    try:
        with open(project, "rb") as file:
            settings = tomllib.load(file).get("tool", {}).get("onrecord", {})
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{project} cannot be read: {error}") from error
    found = settings.get("store") if isinstance(settings, dict) else None
    if found is not None and (not isinstance(found, str) or not found):
        raise InvalidInput(f"{project}: `store` under [tool.onrecord] must be text")
    return found


def _resolve_url(project: str, url: str) -> str:
    from pathlib import Path  # only if a project names its store

    scheme, separator, rest = url.partition("://")
    if not separator:
        return str(Path(project, url))
    if scheme == "sqlite":
        return f"sqlite:///{Path(project, named_file(url, rest))}"
    return url


def _make_folder(folder: str) -> None:
    ignored = os.path.join(folder, ".gitignore")
    try:
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise
        if not os.path.exists(ignored):
            with open(ignored, "w") as file:
                file.write("*\n")
    except OSError as error:
        raise StoreUnavailable(f"cannot create {folder}: {error.strerror}", hint=ELSEWHERE_HINT) from error


def sync_folder(folder: str) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
