"""Writing the file: in one piece, so that a half-written one never stands under its name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onrecord.html_export.blocks import COMPARISON_TYPE, RECORDING_TYPE, block
from onrecord.html_export.page import page_pieces
from onrecord.journal.atomic_files import write_atomically
from onrecord.journal.export import export_lines
from onrecord.journal.reader import JournalReader
from onrecord.reports.json_text import json_bytes


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
    """Write the file atomically and return its size in bytes."""
    with write_atomically(path) as file:
        return sum(map(file.write, pieces))
