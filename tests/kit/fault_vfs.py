"""Disks that fail: SQLite file layers (VFS) written in Python, and the same faults for the files of artifacts.

`Disk` counts every write, sync and truncate, and makes one of them fail or be the last thing the process does.
`Power` remembers what was not synced yet, and says what a power cut at this very moment could leave behind.

Rules of the model: a sync makes a file's content durable, and with the first sync of a new file its name (SQLite syncs
the folder then); a removal is durable with the next sync of the folder; a write that was not synced may be lost, kept,
or kept in part, in pieces of 512 bytes, in any order. Nothing is really synced, only the model is told: that is quick.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import apsw
import pytest

from onrecord.store import location
from onrecord.store.sqlite import artifacts, connection
from onrecord.store.sqlite import file_checks as files

DIED = 77
SECTOR = 512


class File(apsw.VFSFile):
    def __init__(self, layer: Layer, name: Any, flags: list[int]) -> None:
        self.layer = layer
        self.path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self.layer.write(self.path, bytes(data), offset, lambda part: super(File, self).xWrite(part, offset))

    def xTruncate(self, size: int) -> None:
        self.layer.truncate(self.path, size)
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        self.layer.sync(self.path)


class Layer(apsw.VFS):
    """Between SQLite and the real files. Subclasses decide what happens to a write."""

    _number = 0

    def __init__(self) -> None:
        Layer._number += 1
        self.name = f"onrecord-faults-{os.getpid()}-{Layer._number}"
        super().__init__(self.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> File:
        file = File(self, name, flags)
        self.opened(file.path)
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self.deleted(filename, syncdir)

    def opened(self, path: str) -> None: ...

    def deleted(self, path: str, syncdir: bool) -> None: ...

    def write(self, path: str, data: bytes, offset: int, really: Callable[[bytes], None]) -> None: ...

    def truncate(self, path: str, size: int) -> None: ...

    def sync(self, path: str) -> None: ...

    # What Python does to the files of artifacts

    def file_written(self, path: str, data: bytes) -> bytes:
        """What of it reaches the file."""
        return data

    def file_synced(self, path: str) -> None: ...

    def folder_synced(self, path: str) -> None: ...

    def name_changed(self, path: str) -> None: ...


class _Os:
    """`os` as the artifacts see it."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if os.path.isdir(path):
            self._layer.folder_synced(path)
        else:
            self._layer.file_synced(path)

    def rename(self, old: str, new: str) -> None:
        self._layer.name_changed(new)
        os.rename(old, new)

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        self._layer.name_changed(path)
        os.mkdir(path, mode)


class _Written:
    def __init__(self, layer: Layer, file: Any) -> None:
        self._layer, self._file = layer, file

    def __enter__(self) -> _Written:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: memoryview) -> int:
        path = os.readlink(f"/proc/self/fd/{self._file.fileno()}")
        return self._file.write(self._layer.file_written(path, bytes(data)))


class _Connection(apsw.Connection):
    """SQLite ignores what fails while a connection is closed (the last checkpoint). An exception of a layer written in
    Python comes out nevertheless; a disk's error would not."""

    def close(self, force: bool = False) -> None:
        try:
            super().close(force)
        except apsw.Error as error:
            if "injected" not in str(error):
                raise


@contextmanager
def installed(layer: Layer, *, checkpoint_pages: int = 1000) -> Iterator[None]:
    """Every connection and every artifact of this process goes through the layer."""

    def connect(*arguments: Any, **options: Any) -> apsw.Connection:
        made = _Connection(*arguments, vfs=layer.name, **options)
        made.wal_autocheckpoint(checkpoint_pages)
        return made

    def opening(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        made = open(file, mode, *arguments, **options)  # noqa: SIM115 - closed by whoever asked for it
        return _Written(layer, made) if "w" in mode else made

    shim = _Os(layer)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection.apsw, "Connection", connect)
        patch.setattr(artifacts, "os", shim)
        patch.setattr(files, "os", shim)
        patch.setattr(location, "os", shim)
        patch.setattr(artifacts, "open", opening, raising=False)
        yield


# A disk that fails once


class Disk(Layer):
    """Fails at the operation number `at`: with an I/O error, because it is full, or by the death of the process.

    A failing write leaves half of itself behind. `lasting`: everything from there on fails, until `mend`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.plan(0, "")

    def plan(self, at: int, fault: str, *, lasting: bool = False) -> None:
        self.count = 0
        self.kinds: list[str] = []
        """What each operation was, and on which kind of file."""
        self.hit: str | None = None
        self._at, self._fault, self._lasting = at, fault, lasting

    def mend(self) -> None:
        self._at = 0

    def _due(self, what: str, path: str) -> bool:
        self.count += 1
        self.kinds.append(f"{what} {_kind_of(path)}")
        due = self._at != 0 and (self.count == self._at or (self._lasting and self.count > self._at))
        if due and self.hit is None:
            self.hit = f"{what} of {os.path.basename(path)}"
        return due

    def _fail(self, kind: int) -> None:
        if self._fault == "die":
            os._exit(DIED)
        if self._fault == "full" and kind == apsw.SQLITE_IOERR_WRITE:
            raise apsw.FullError("injected: no space")
        error = apsw.IOError("injected: input/output error")
        error.extendedresult = kind
        raise error

    def _fail_file(self) -> None:
        if self._fault == "die":
            os._exit(DIED)
        number = errno.ENOSPC if self._fault == "full" else errno.EIO
        raise OSError(number, os.strerror(number))

    def write(self, path: str, data: bytes, offset: int, really: Callable[[bytes], None]) -> None:
        if self._due("write", path):
            if len(data) > 1:
                really(data[: len(data) // 2])
            self._fail(apsw.SQLITE_IOERR_WRITE)
        really(data)

    def truncate(self, path: str, size: int) -> None:
        if self._due("truncate", path):
            self._fail(apsw.SQLITE_IOERR_TRUNCATE)

    def sync(self, path: str) -> None:
        if self._due("sync", path):
            self._fail(apsw.SQLITE_IOERR_FSYNC)

    def file_written(self, path: str, data: bytes) -> bytes:
        if self._due("write", path):
            if len(data) <= 1 or self.count % 2:
                self._fail_file()
            return data[: len(data) // 2]  # a short write, which is no error
        return data

    def file_synced(self, path: str) -> None:
        if self._due("sync", path):
            self._fail_file()

    def folder_synced(self, path: str) -> None:
        if self._due("folder sync", path):
            self._fail_file()

    def name_changed(self, path: str) -> None:
        if self._due("rename", path):
            self._fail_file()


def _kind_of(path: str) -> str:
    return next((suffix for suffix in (".db", "-wal", "-journal") if path.endswith(suffix)), "artifact")


# A machine that loses power


class _Image:
    """One file: what is on the disk for certain, and what is on its way there."""

    def __init__(self, durable: bytes, named: bool) -> None:
        self.durable = bytearray(durable)
        self.pending: list[tuple[int, bytes | None]] = []
        """(offset, data) of a write, (size, None) of a truncation."""
        self.named = named

    def settle(self) -> None:
        for offset, data in self.pending:
            _apply(self.durable, offset, data)
        self.pending.clear()


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        if len(content) > offset:
            del content[offset:]
        return
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


class Power(Layer):
    """Remembers what is durable. `at_each` is called before every operation that matters."""

    def __init__(self) -> None:
        super().__init__()
        self.images: dict[str, _Image] = {}
        self.ghosts: dict[str, _Image] = {}
        """Removed, but a power cut may bring them back."""
        self.durable_names: set[str] = set()
        self.synced_files: set[int] = set()
        self.at_each: Callable[[], None] = lambda: None
        self.fail_syncs = 0
        """So many syncs fail, and what they should have written never gets to the disk: a kernel drops it."""

    def opened(self, path: str) -> None:
        if path.endswith("-shm") or path in self.images or not os.path.exists(path):
            return
        with open(path, "rb") as file:
            self.images[path] = _Image(file.read(), named=not path.endswith(("-wal", "-journal")))

    def deleted(self, path: str, syncdir: bool) -> None:
        self.at_each()
        image = self.images.pop(path, None)
        if image is not None and image.named and not syncdir:
            self.ghosts[path] = image

    def write(self, path: str, data: bytes, offset: int, really: Callable[[bytes], None]) -> None:
        self.at_each()
        really(data)
        self.images[path].pending.append((offset, data))

    def truncate(self, path: str, size: int) -> None:
        self.at_each()
        self.images[path].pending.append((size, None))

    def sync(self, path: str) -> None:
        self.at_each()
        image = self.images[path]
        if self.fail_syncs:
            self.fail_syncs -= 1
            image.pending.clear()
            error = apsw.IOError("injected: input/output error")
            error.extendedresult = apsw.SQLITE_IOERR_FSYNC
            raise error
        image.settle()
        if not image.named:
            image.named = True
            self.ghosts.clear()
            for one in self.images.values():
                one.named = True

    def file_synced(self, path: str) -> None:
        self.at_each()
        self.synced_files.add(os.stat(path).st_ino)

    def folder_synced(self, path: str) -> None:
        self.at_each()
        self.durable_names.update(os.path.join(path, name) for name in os.listdir(path))

    def name_changed(self, path: str) -> None:
        self.at_each()

    def after_a_cut(self, rng: random.Random, *, nothing_more: bool = False) -> dict[str, bytes]:
        """Path -> content of every file as a power cut now could leave it; `nothing_more`: only what was synced."""
        found: dict[str, bytes] = {}
        for path, image in [*self.ghosts.items(), *self.images.items()]:
            ghost = self.ghosts.get(path) is image
            if (ghost or not image.named) and (nothing_more or rng.random() < 0.5):
                if not ghost:
                    found.pop(path, None)
                continue
            found[path] = bytes(image.durable) if nothing_more else _torn(image, rng)
        return found

    def artifacts_after_a_cut(self, root: str, rng: random.Random, *, nothing_more: bool = False) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for folder, _, names in os.walk(root):
            for name in names:
                path = os.path.join(folder, name)
                if not self._name_stays(path, root) and (nothing_more or rng.random() < 0.5):
                    continue
                with open(path, "rb") as file:
                    data = file.read()
                found[path] = data if os.stat(path).st_ino in self.synced_files else data[: rng.randrange(len(data))]
        return found

    def _name_stays(self, path: str, root: str) -> bool:
        while path != os.path.dirname(root):
            if path not in self.durable_names:
                return False
            path = os.path.dirname(path)
        return True


def _torn(image: _Image, rng: random.Random) -> bytes:
    content = bytearray(image.durable)
    chance = rng.choice((0.0, 0.1, 0.5, 0.9, 1.0))
    size = rng.choice((SECTOR, 4096))
    pending = list(image.pending)
    manner = rng.choice(("any", "prefix", "whole writes"))
    if manner == "prefix":
        pending = pending[: rng.randint(0, len(pending))]
        chance = 1.0
    for number, (offset, data) in enumerate(pending):
        if data is None:
            if rng.random() < chance:
                _apply(content, offset, None)
            continue
        if manner == "whole writes":
            if rng.random() < chance:
                _apply(content, offset, data)
            continue
        torn = manner == "prefix" and number == len(pending) - 1
        at = 0
        while at < len(data):
            end = min(len(data), at + size - (offset + at) % size)
            if rng.random() < (0.5 if torn else chance):
                _apply(content, offset + at, data[at:end])
            at = end
    return bytes(content)
