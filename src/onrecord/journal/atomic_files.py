"""Files that are written whole: a name never refers to a half-written file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from onrecord.errors import InvalidInput, StoreUnavailable


@contextmanager
def write_atomically(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path`. It is synced and renamed to `path` if the block ends without an error."""
    path = resolve_target(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "xb") as file:
            os.chmod(temporary, 0o600)
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
