"""Folder in which the processes of one program report to the first process.

A process writes a report when it takes its run, and replaces it when the run has ended. A killed process leaves its
first report. If the folder is gone, because the first process has ended, reports are dropped without an error.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from contextlib import suppress
from time import time
from typing import Any, Literal

import msgspec

_MAX_REPORT_BYTES = 1_000_000
_ISOLATED = "isolated"
_PREFIX = "onrecord-processes-"
_ABANDONED_SECONDS = 3600.0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    run: str
    name: str = ""
    parent: str = ""
    state: Literal["begun", "ended", "record_ended", "stopped", "unrecorded"] = "begun"
    code: str = ""
    message: str = ""
    hint: str = ""
    exit_status: int = 0
    where: dict[str, Any] = {}
    tokens: float = 0.0
    cost: float = 0.0
    redacted: int = 0
    holes: tuple[tuple[str, str, int], ...] = ()
    pid: int = 0


class Session:
    def __init__(self, folder: str = "", *, isolated: bool = False) -> None:
        self._folder = folder
        self._isolated = isolated
        self._lock = allocate_lock()
        self.has_ended = False

    @property
    def folder(self) -> str:
        """Return the folder. Create it on first use, when the first process is started."""
        with self._lock:
            if not self._folder:
                _remove_old_folders()
                self._folder = _new_folder()
                if self._isolated:
                    with open(os.path.join(self._folder, _ISOLATED), "wb"):
                        pass
            return self._folder

    @property
    def is_isolated(self) -> bool:
        """Return True if the processes have no network."""
        return self._isolated or os.path.exists(os.path.join(self.folder, _ISOLATED))

    def take(self, run: str, **fields: Any) -> bool:
        """Take a run for this process. Return False if another process of the program has it."""
        report = Report(run=run, pid=os.getpid(), **fields)
        try:
            descriptor = os.open(self._path(run), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            return False
        except OSError:
            return True
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(report))
        return True

    def write(self, report: Report) -> None:
        path = self._path(report.run)
        try:
            with open(f"{path}.{os.getpid()}", "wb") as file:
                file.write(msgspec.json.encode(report))
            os.replace(f"{path}.{os.getpid()}", path)
        except OSError:
            return

    def report(self, run: str) -> Report | None:
        try:
            with open(self._path(run), "rb") as file:
                return msgspec.json.decode(file.read(_MAX_REPORT_BYTES), type=Report)
        except (OSError, msgspec.MsgspecError):
            return None

    def reports(self) -> list[Report]:
        if not self._folder:
            return []
        try:
            names = sorted(name for name in os.listdir(self._folder) if name.endswith(".json"))
        except OSError:
            return []
        found = (self.report(name.removesuffix(".json")) for name in names)
        return [one for one in found if one is not None]

    def end(self) -> None:
        self.has_ended = True
        if self._folder:
            import shutil  # only needed here

            shutil.rmtree(self._folder, ignore_errors=True)

    def _path(self, run: str) -> str:
        return os.path.join(self.folder, f"{run}.json")


def _new_folder() -> str:
    """Create the folder without `tempfile.mkdtemp`, whose random generator the program may use."""
    import tempfile  # loaded with the first process

    folder = os.path.join(tempfile.gettempdir(), f"{_PREFIX}{os.getpid()}-{os.urandom(8).hex()}")
    os.mkdir(folder, 0o700)
    return folder


def _remove_old_folders() -> None:
    """Remove folders that killed processes have left."""
    import shutil
    import tempfile

    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            pid = entry.name.removeprefix(_PREFIX).partition("-")[0] if entry.name.startswith(_PREFIX) else ""
            if pid.isdecimal() and _is_abandoned(entry, pid):
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_abandoned(entry: os.DirEntry[str], pid: str) -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    is_old = time() - status.st_mtime > _ABANDONED_SECONDS
    return is_old and status.st_uid == os.geteuid() and not os.path.exists(f"/proc/{pid}")
