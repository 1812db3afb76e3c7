"""Taking the recordings out of a file that was shared. The page around them proves nothing, and is not looked at."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, NamedTuple

from onrecord.errors import BadRecording, NotFound
from onrecord.html_export.blocks import MOST_RECORDINGS, RECORDING_TYPE, lines_of, unescaped
from onrecord.html_export.page import page_digest
from onrecord.journal.atomic_files import open_regular

BEGINNING = b"<!doctype html>"


class SharedFile(NamedTuple):
    recordings: list[Path]
    """Each as `onrecord export` would have written it, for as long as the file is open."""
    own_page: bool
    """The page around them is the one that this version writes, to the byte."""


def is_shared_page(path: str | Path) -> bool:
    """Whether the file begins like a page. One that cannot be read is left to whoever reads it next."""
    try:
        with open_regular(Path(path), "a shared file") as file:
            return file.read(len(BEGINNING)).lower() == BEGINNING
    except (NotFound, BadRecording):
        return False


@contextmanager
def opened_share(path: str | Path) -> Iterator[SharedFile]:
    """The recordings in the file, as files of their own."""
    place = Path(path)
    with tempfile.TemporaryDirectory(prefix="onrecord-") as folder, open_regular(place, "a shared file") as file:
        around = sha256()
        found: dict[str, Path] = {}
        taken: BinaryIO | None = None
        try:
            for line in lines_of(file):
                if line.kind == RECORDING_TYPE:
                    if taken is None:
                        taken = _next(found, line.name or "", Path(folder), place)
                    if b"<" in line.text:
                        raise BadRecording(f"{place.name}: the recording inside is not as it was written")
                    taken.write(unescaped(line.text))
                    continue
                if taken is not None:
                    taken.close()
                    taken = None
                if line.kind is None:
                    around.update(line.text)
        finally:
            if taken is not None:
                taken.close()
        if not found:
            raise BadRecording(
                f"{place.name} is a page without a recording in it", hint="Give a file of `onrecord export --html`."
            )
        yield SharedFile(list(found.values()), around.hexdigest() == page_digest(len(found)))


def _next(found: dict[str, Path], name: str, folder: Path, place: Path) -> BinaryIO:
    if name != f"recording-{len(found) + 1}" or len(found) == MOST_RECORDINGS:
        raise BadRecording(f"{place.name}: its recordings are not those that one page has")
    # Under this name it is spoken of when something is wrong with it.
    found[name] = folder / f"{name} in {place.name}"[:200]
    return open(found[name], "xb")
