"""Recordings as files: read and verified as a whole, written in one piece, and left alone where nothing has changed.

What differs every time a test is recorded, although it does the same: times, the values of the clock and of chance, the
gaps of streams, and headers by which servers number and date their answers. A recording that differs in nothing else
from the one that is there is not written, so that version control shows what has changed and nothing but that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reenact.core.canonical import stored_bytes
from reenact.core.matching import VOLATILE_MEMBERS
from reenact.errors import ReenactError, StoreUnavailable
from reenact.journal.exporting import export_lines
from reenact.journal.importing import import_file
from reenact.journal.output_files import place_for
from reenact.journal.reader import JournalReader
from reenact.store.contract import Store
from reenact.store.memory import MemoryStore

_NUMBERED_HEADERS = frozenset(
    {
        *("age", "alt-svc", "cf-cache-status", "cf-ray", "date", "etag", "expires", "last-modified", "nel"),
        *("openai-processing-ms", "report-to", "request-id", "server-timing", "set-cookie", "traceparent"),
        *("traceresponse", "via", "x-amzn-requestid", "x-amzn-trace-id", "x-cloud-trace-context"),
        *("x-ms-request-id", "x-request-id", "x-runtime", "x-served-by", "x-timer"),
    }
)
_NUMBERED_BEGINNINGS = ("anthropic-ratelimit-", "x-envoy-", "x-ratelimit-")
_PASSED_OVER = frozenset({"AttemptRecorded", "ProcessAttached"})


def read_recording(path: Path) -> tuple[MemoryStore, str]:
    """The recording in a store of its own, and its run. A file that was altered is refused."""
    store = MemoryStore()
    return store, import_file(store, path).run


def write_recording(store: Store, run: str, path: Path) -> bool:
    """False: there is one that says the same."""
    reader = JournalReader(store, run)
    path = place_for(path)
    if path.exists() and _says_the_same(path, reader):
        return False
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            for line in export_lines(reader):
                file.write(line + b"\n")
        os.replace(temporary, path)
    except OSError as error:
        raise StoreUnavailable(f"cannot write {path}: {error.strerror}", code="cannot_write") from None
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _says_the_same(path: Path, reader: JournalReader) -> bool:
    try:
        store, run = read_recording(path)
    except ReenactError:
        return False  # whatever it is, it is replaced
    return said(JournalReader(store, run)) == said(reader)


def said(reader: JournalReader) -> list[bytes]:
    """What a recording says, without what differs every time."""
    facts = {name: value for name, value in (reader.facts_tree() or {}).items() if name != "process"}
    return [stored_bytes(facts), *(stored_bytes(one) for one in _events(reader))]


def _events(reader: JournalReader) -> Iterator[list[Any]]:
    for row in reader.store.scan(reader.namespace, reader.run):
        link = reader.link(row)
        tree = reader.content_tree(row, link)
        if link.kind in _PASSED_OVER or tree is None:
            continue
        yield [link.kind, link.lane, link.key, _without_chance(link.kind, tree)]


def _without_chance(kind: str, tree: dict[str, Any]) -> Any:
    if kind == "ValuesDrawn":
        return [draw[:2] for draw in tree["draws"]]
    if kind == "ChunkReceived":
        chunk = tree["chunk"]
        return [tree["index"], chunk[1:] if isinstance(chunk, list) else _without_numbers(chunk)]
    members = {name: value for name, value in tree.items() if name not in VOLATILE_MEMBERS}
    if kind == "ActionSucceeded":
        members["output"] = _without_numbers(members["output"])
    return members


def _without_numbers(answer: Any) -> Any:
    if not isinstance(answer, dict) or not isinstance(answer.get("headers"), list):
        return answer
    kept = [pair for pair in answer["headers"] if not (isinstance(pair, list) and _is_numbered(str(pair[0]).lower()))]
    return {**answer, "headers": kept}


def _is_numbered(name: str) -> bool:
    return name in _NUMBERED_HEADERS or name.startswith(_NUMBERED_BEGINNINGS)
