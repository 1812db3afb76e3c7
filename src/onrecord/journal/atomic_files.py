"""Files: written whole, so that a name never refers to a half-written file, and read only if they are regular."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from onrecord.errors import BadRecording, InvalidInput, NotFound, OnrecordError, StoreUnavailable


@contextmanager
def write_atomically(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path`. It is synced and renamed to `path` if the block ends without an error."""
    path = resolve_target(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "xb") as file:
            os.chmod(temporary, mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise StoreUnavailable(f"cannot write {path}: {error.strerror}", code="cannot_write") from None
    finally:
        temporary.unlink(missing_ok=True)


def resolve_target(path: Path) -> Path:
    """Return the path to write to, symbolic links resolved. Raise InvalidInput for a device, a pipe or a folder."""
    target = path.resolve()
    if target.exists() and not target.is_file():
        raise InvalidInput(
            f"{str(path)[:200]} is not a regular file and is not replaced",
            hint="Name a file; `-o -` writes to stdout where that is offered.",
            code="not_a_file",
        )
    return target


def open_regular(path: Path, what: str, refusal: Callable[[str], OnrecordError] = BadRecording) -> BinaryIO:
    """Open a file to read it. A device or a pipe is refused: reading it may block, or never end."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise NotFound(f"cannot read {path}: {error.strerror}", hint=f"Give the path of {what}.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise refusal(f"{path} is not a regular file")
    return os.fdopen(descriptor, "rb")
