"""Artifacts: large bytes as files beside the database, `<db>.artifacts/<namespace>/<2 hex>/<64 hex>`.

A file appears under its address complete and synced, or not at all (temporary file in the same folder, fsync, rename,
fsync of the folder). An existing file is unchanged. A symlink is never followed. The name of a namespace is hashed, so
it cannot lead out of the folder. A temporary file older than an hour belongs to a dead process and is removed when the
store is opened for writing.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import suppress

from onrecord.core.lazy_regex import Pattern
from onrecord.errors import Damaged, InvalidInput, StoreUnavailable
from onrecord.store.location import sync_folder
from onrecord.store.sqlite.file_checks import free_bytes

ORPHAN_SECONDS = 3600
_NAME = Pattern(r"[0-9a-f]{64}")
_TEMPORARY = ".tmp-"


class Artifacts:
    def __init__(self, root: str) -> None:
        self.root = root

    def _folder(self, namespace: str) -> str:
        return os.path.join(self.root, hashlib.sha256(namespace.encode()).hexdigest()[:16])

    def _path(self, namespace: str, address: bytes) -> str:
        if len(address) != 32:
            raise InvalidInput(f"an artifact address has 32 bytes, not {len(address)}")
        name = address.hex()
        return os.path.join(self._folder(namespace), name[:2], name)

    def put(self, namespace: str, address: bytes, data: bytes) -> None:
        path = self._path(namespace, address)
        try:
            if _is_file(path):
                # Its writer may not have synced the name yet, and this caller relies on it.
                sync_folder(os.path.dirname(path))
                return
            self._make_folders(os.path.dirname(path))
            _write_file(path, data)
        except OSError as error:
            raise _make_unavailable(path, error) from error

    def _make_folders(self, folder: str) -> None:
        missing = []
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for new in reversed(missing):
            with suppress(FileExistsError):
                os.mkdir(new, 0o700)
            sync_folder(os.path.dirname(new))

    def get(self, namespace: str, address: bytes) -> bytes | None:
        path = self._path(namespace, address)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise Damaged(f"the artifact {path} is a symbolic link") from error
            raise _make_unavailable(path, error) from error
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Damaged(f"the artifact {path} is not a plain file")
            return file.read()

    def addresses(self, namespace: str) -> Iterator[bytes]:
        folder = self._folder(namespace)
        for part in _list_names(folder):
            for name in _list_names(os.path.join(folder, part)):
                if _NAME.fullmatch(name):
                    yield bytes.fromhex(name)

    def remove(self, namespace: str, address: bytes) -> None:
        path = self._path(namespace, address)
        try:
            os.unlink(path)
            sync_folder(os.path.dirname(path))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _make_unavailable(path, error) from error

    def sweep(self) -> None:
        oldest = time.time() - ORPHAN_SECONDS
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    if name.startswith(_TEMPORARY) and os.lstat(path).st_mtime < oldest:
                        os.unlink(path)
                except OSError:
                    continue  # another process removed it, or this one may not: neither matters


def _write_file(path: str, data: bytes) -> None:
    folder = os.path.dirname(path)
    temporary = os.path.join(folder, _TEMPORARY + secrets.token_hex(8))
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
            os.fsync(descriptor)
        os.rename(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(folder)


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False


def _list_names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _make_unavailable(path: str, error: OSError) -> StoreUnavailable:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreUnavailable(f"{path}: the disk is full ({free_bytes(path)} bytes free)", code="disk_full")
    return StoreUnavailable(f"{path}: {error.strerror}")
