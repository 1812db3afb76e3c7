"""Recordings as files: verified when read, written in one piece, and not rewritten if nothing has changed.

Some values differ with every recording of the same behaviour: times, clock and random values, the gaps of streams, and
headers by which servers number and date their answers. A recording that differs from the existing file only in these is
not written, so version control shows only real changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onrecord.core.canonical import stored_bytes
from onrecord.core.matching import VOLATILE_MEMBERS
from onrecord.errors import OnrecordError, StoreUnavailable
from onrecord.journal.atomic_files import resolve_target
from onrecord.journal.export import export_lines
from onrecord.journal.import_file import import_file
from onrecord.journal.reader import JournalReader
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore

_VOLATILE_HEADERS = frozenset(
    {
        *("age", "alt-svc", "cf-cache-status", "cf-ray", "date", "etag", "expires", "last-modified", "nel"),
        *("openai-processing-ms", "report-to", "request-id", "server-timing", "set-cookie", "traceparent"),
        *("traceresponse", "via", "x-amzn-requestid", "x-amzn-trace-id", "x-cloud-trace-context"),
        *("x-ms-request-id", "x-request-id", "x-runtime", "x-served-by", "x-timer"),
    }
)
_VOLATILE_PREFIXES = ("anthropic-ratelimit-", "x-envoy-", "x-ratelimit-")
_IGNORED_KINDS = frozenset({"AttemptRecorded", "ProcessAttached"})


def read_recording(path: Path) -> tuple[MemoryStore, str]:
    """Return the recording in a new store, and its run id. Refuse a file that was altered."""
    store = MemoryStore()
    return store, import_file(store, path).run


def write_recording(store: Store, run: str, path: Path) -> bool:
    """Write the recording. Return False if the file already holds an equal one."""
    reader = JournalReader(store, run)
    path = resolve_target(path)
    if path.exists() and _is_equal(path, reader):
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


def _is_equal(path: Path, reader: JournalReader) -> bool:
    try:
        store, run = read_recording(path)
    except OnrecordError:
        return False  # an unreadable file is replaced
    return comparable_content(JournalReader(store, run)) == comparable_content(reader)


def comparable_content(reader: JournalReader) -> list[bytes]:
    """Return the comparable content of a recording, without values that differ with every recording."""
    facts = {name: value for name, value in (reader.facts_tree() or {}).items() if name != "process"}
    return [stored_bytes(facts), *(stored_bytes(one) for one in _comparable_events(reader))]


def _comparable_events(reader: JournalReader) -> Iterator[list[Any]]:
    for row in reader.store.scan(reader.namespace, reader.run):
        link = reader.link(row)
        tree = reader.content_tree(row, link)
        if link.kind in _IGNORED_KINDS or tree is None:
            continue
        yield [link.kind, link.lane, link.key, _strip_volatile(link.kind, tree)]


def _strip_volatile(kind: str, tree: dict[str, Any]) -> Any:
    if kind == "ValuesDrawn":
        return [draw[:2] for draw in tree["draws"]]
    if kind == "ChunkReceived":
        chunk = tree["chunk"]
        return [tree["index"], chunk[1:] if isinstance(chunk, list) else _strip_volatile_headers(chunk)]
    members = {name: value for name, value in tree.items() if name not in VOLATILE_MEMBERS}
    if kind == "ActionSucceeded":
        members["output"] = _strip_volatile_headers(members["output"])
    return members


def _strip_volatile_headers(answer: Any) -> Any:
    if not isinstance(answer, dict) or not isinstance(answer.get("headers"), list):
        return answer
    kept = [
        pair for pair in answer["headers"] if not (isinstance(pair, list) and _is_volatile_header(str(pair[0]).lower()))
    ]
    return {**answer, "headers": kept}


def _is_volatile_header(name: str) -> bool:
    return name in _VOLATILE_HEADERS or name.startswith(_VOLATILE_PREFIXES)
