"""Writing the file: in one piece, so that a half-written one never stands under its name."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reenact.errors import StoreUnavailable
from reenact.journal.exporting import export_lines
from reenact.journal.output_files import place_for
from reenact.journal.reader import JournalReader
from reenact.reports.json_text import json_bytes
from reenact.sharing.blocks import COMPARISON_TYPE, RECORDING_TYPE, block
from reenact.sharing.page import page_pieces


def shared_run(reader: JournalReader, heads: list[str] | None = None) -> Iterator[bytes]:
    """The pieces of a file that shows one run. A damaged run is refused, as it is by `export`.

    `heads` is told the head that was written, as SEQ:HASH: a run that goes on has another one soon.
    """
    before, behind = page_pieces()
    yield before
    yield from block(RECORDING_TYPE, "recording-1", _noted(export_lines(reader), heads))
    yield behind


def shared_comparison(
    expected: JournalReader, actual: JournalReader, comparison: dict[str, Any], heads: list[str] | None = None
) -> Iterator[bytes]:
    """The pieces of a file that shows where two runs part: both recordings, and what `comparison_of` says of them."""
    before, behind = page_pieces()
    yield before
    yield from block(RECORDING_TYPE, "recording-1", _noted(export_lines(expected), heads))
    yield from block(RECORDING_TYPE, "recording-2", _noted(export_lines(actual), heads))
    yield from block(COMPARISON_TYPE, "comparison", [json_bytes(comparison)])
    yield behind


def _noted(lines: Iterator[bytes], heads: list[str] | None) -> Iterator[bytes]:
    line = b""
    for line in lines:
        yield line
    if heads is not None:
        end = json.loads(line)["end"]
        heads.append(f"{end['events']}:{end['head']}")


def write_share(pieces: Iterator[bytes], path: Path) -> int:
    """Returns the size in bytes."""
    path = place_for(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "xb") as file:
            os.chmod(temporary, 0o600)
            size = sum(map(file.write, pieces))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise StoreUnavailable(f"cannot write {path}: {error.strerror}", code="cannot_write") from None
    finally:
        temporary.unlink(missing_ok=True)
    return size
