"""Check the file before SQLite opens it.

The path is taken literally. Only a regular file with one name is a store: a symlink or hard link would give one
database two sets of -wal and -shm names, which corrupts it. The file is checked with lstat and never opened here while
a connection may exist: closing any descriptor of a file drops all POSIX locks of this process on it.
"""

from __future__ import annotations

import os
import stat
import threading
import warnings

from onrecord.errors import InvalidInput, StoreUnavailable
from onrecord.store.location import ELSEWHERE_HINT, absolute_path, sync_folder

NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "ncpfs", "9p", "afs", "auristorfs", "coda"}
    | {"ceph", "lustre", "gpfs", "glusterfs", "beegfs", "orangefs", "davfs"}
    | {"fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.glusterfs", "fuse.ceph", "fuse.davfs", "fuse.smbnetfs"}
)

creation_lock = threading.Lock()
"""Held while a file is created: closing it must not drop locks of another connection of this process."""


def resolve_path(path: str | os.PathLike[str]) -> str:
    name = os.fspath(path)
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidInput(f"not a usable path for a store: {name!r}")
    # Absolute, so that ':memory:' and 'file:…' are ordinary names and a later chdir() changes nothing.
    folder, base = os.path.split(absolute_path(name))
    return os.path.join(os.path.realpath(folder), base)


def check_kind(path: str) -> bool:
    """Return True if a usable file exists, False if nothing does."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreUnavailable(f"cannot inspect {path}: {error.strerror}", hint=ELSEWHERE_HINT) from error
    kinds = (
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISBLK, "a device"),
        (stat.S_ISCHR, "a device"),
    )
    for test, what in kinds:
        if test(found.st_mode):
            raise StoreUnavailable(f"{path} is {what}, not a store", hint="Name the database file itself.")
    if found.st_nlink > 1:
        raise StoreUnavailable(
            f"{path} has {found.st_nlink} names (hard links); SQLite would keep a log for each",
            hint="Copy the file instead of linking it.",
        )
    if found.st_mode & 0o077:
        warnings.warn(
            f"the store {path} can be read by others (mode {stat.S_IMODE(found.st_mode):04o}); chmod 600 it",
            stacklevel=4,
        )
    return True


def create(path: str) -> None:
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with creation_lock:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        sync_folder(folder)
    except FileExistsError:
        check_kind(path)
    except OSError as error:
        raise StoreUnavailable(f"cannot create {path}: {error.strerror}", hint=ELSEWHERE_HINT) from error


def file_system(path: str) -> str:
    """Return the type of the file system that holds `path`, e.g. 'ext4' or 'fuse.sshfs'; '' if unknown."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
            mounts = [line.split(" ") for line in lines]
    except OSError:
        return ""
    best, kind = "", ""
    for fields in mounts:
        point = fields[4].encode("utf-8", "surrogateescape").decode("unicode_escape")
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):  # the later of two mounts on one point covers the earlier
            best, kind = point, fields[fields.index("-") + 1]
    return kind


def refuse_network(path: str) -> None:
    kind = file_system(path)
    if kind in NETWORK_FILE_SYSTEMS:
        raise StoreUnavailable(
            f"{path} is on a network file system ({kind}), where SQLite's locks and shared memory are unreliable",
            hint="Use a local disk, or a PostgreSQL store.",
        )


def unlogged_version(path: str) -> tuple[int, int, int] | None:
    """Return the version of the file: inode, size and time. None while a log beside it may hold committed events."""
    try:
        if os.lstat(path + "-wal").st_size > 0:
            return None
    except FileNotFoundError:
        pass
    except OSError:
        return None
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns


def free_bytes(path: str) -> int | None:
    try:
        found = os.statvfs(os.path.dirname(path))
    except OSError:
        return None
    return found.f_bavail * found.f_frsize
