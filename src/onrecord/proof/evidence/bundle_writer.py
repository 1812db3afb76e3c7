"""Making a bundle: the runs as text exports, what was found about them, and one signature over all of it.

envelope, one line (DSSE)            signs the statement, which names every part by size and digest
part 1 … part n, verbatim            each followed by one line feed, in the order of the statement
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from reenact.core.canonical import stored_bytes
from reenact.core.codec import encode
from reenact.core.events import TERMINAL_KINDS
from reenact.core.hashing import render
from reenact.core.links import FORMAT as RECORDING_FORMAT
from reenact.errors import InvalidInput, StoreUnavailable
from reenact.journal.exporting import export_lines
from reenact.journal.output_files import place_for
from reenact.journal.reader import JournalReader
from reenact.journal.sources import Sources, SystemSources
from reenact.replays.evidence.differences import fetch_difference
from reenact.replays.evidence.envelope import (
    MAX_ENVELOPE_BYTES,
    PAYLOAD_TYPE,
    Envelope,
    pre_authentication_encoding,
    write_envelope,
)
from reenact.replays.evidence.problems import FlawError
from reenact.replays.evidence.signing_keys import SigningKeys
from reenact.replays.evidence.statement import Part, RunClaim, Statement, read_statement
from reenact.store.contract import Store

ARTIFACT_TAG = b"reenact.artifact/1\0"
IN_MEMORY_BYTES = 16 * 1024 * 1024


def make_bundle(
    store: Store,
    runs: str | Sequence[str],
    namespace: str = "default",
    *,
    result: Any = None,
    differences: Sequence[str] = (),
    keys: SigningKeys | None = None,
    sources: Sources | None = None,
) -> bytes:
    """A bundle as bytes; for runs that are large, `write_bundle` needs no memory for them.

    `result` is what was found about the runs, anything that has a value. `differences` are digests of
    `keep_difference`. The runs are verified on the way: a damaged one is never signed.
    """
    made = BytesIO()
    with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as parts:
        _write(made, parts, store, runs, namespace, result, differences, keys, sources)
    return made.getvalue()


def write_bundle(
    path: str | Path,
    store: Store,
    runs: str | Sequence[str],
    namespace: str = "default",
    *,
    result: Any = None,
    differences: Sequence[str] = (),
    keys: SigningKeys | None = None,
    sources: Sources | None = None,
) -> int:
    """Writes a bundle in one piece: a half-written one never stands under its name. Returns its size in bytes."""
    path = place_for(Path(path))
    temporary = path.with_name(f".{path.name}.{SystemSources().entropy(8).hex()}.tmp")
    try:
        with tempfile.TemporaryFile(dir=path.parent) as parts, open(temporary, "xb") as file:
            os.chmod(temporary, 0o600)
            _write(file, parts, store, runs, namespace, result, differences, keys, sources)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        os.replace(temporary, path)
    except OSError as error:
        raise StoreUnavailable(f"cannot write {path}: {error.strerror}", code="cannot_write") from None
    finally:
        temporary.unlink(missing_ok=True)
    return size


def _write(
    file: Any,
    spool: Any,
    store: Store,
    runs: str | Sequence[str],
    namespace: str,
    result: Any,
    differences: Sequence[str],
    keys: SigningKeys | None,
    sources: Sources | None,
) -> None:
    names = [runs] if isinstance(runs, str) else list(dict.fromkeys(runs))
    if not names:
        raise InvalidInput("evidence is about at least one run", code="no_runs")
    keys = keys or SigningKeys()
    signer = keys.current_public_key()
    parts = _Parts(spool)
    claims = [parts.add_run(JournalReader(store, name, namespace)) for name in names]
    named = None if result is None else parts.add("result", [_result_text(result)])
    for digest in dict.fromkeys(differences):
        parts.add("difference", [fetch_difference(store, namespace, digest)])
    # Not before the key itself, whatever the clock says: who knows when it was made would take this for a forgery.
    created = max((sources or SystemSources()).now_us(), signer.not_before or 0)
    statement = Statement(created=created, runs=claims, result=named, parts=parts.made)
    payload = _checked(statement)
    signature = keys.sign_bytes(pre_authentication_encoding(PAYLOAD_TYPE, payload))
    line = write_envelope(Envelope(payload, PAYLOAD_TYPE, [signature]))
    if len(line) > MAX_ENVELOPE_BYTES:
        raise InvalidInput("the bundle would have too many parts", hint="Make several.", code="too_many_parts")
    file.write(line + b"\n")
    spool.seek(0)
    shutil.copyfileobj(spool, file)


def _checked(statement: Statement) -> bytes:
    """What no checker would take is not signed in the first place."""
    payload = statement.to_bytes()
    try:
        read_statement(payload)
    except FlawError as flaw:
        raise InvalidInput(f"there is no such evidence: {flaw.problem.message}", code=flaw.problem.code) from None
    return payload


def _result_text(result: Any) -> bytes:
    encoded = encode(result)
    if not encoded.replayable or encoded.artifacts:
        raise InvalidInput(
            "the result holds something that has no value, or bytes of more than 64 KiB",
            hint="Give plain data; keep bytes with keep_difference and name their digest.",
            code="bad_result",
        )
    return stored_bytes(encoded.tree)


class _Parts:
    """Parts on their way into the bundle: written out and digested as they come."""

    def __init__(self, spool: BinaryIO) -> None:
        self._spool = spool
        self.made: list[Part] = []

    def add(self, kind: Any, pieces: Iterable[bytes]) -> str:
        size, digest = 0, sha256(ARTIFACT_TAG)
        for piece in pieces:
            size += self._spool.write(piece)
            digest.update(piece)
        self._spool.write(b"\n")
        part = Part(kind=kind, size=size, digest=render(digest.digest()))
        self.made.append(part)
        return part.digest

    def add_run(self, reader: JournalReader) -> RunClaim:
        last = b""

        def lines() -> Iterable[bytes]:
            nonlocal last
            for last in export_lines(reader):
                yield last + b"\n"

        recording = self.add("recording", lines())
        end = json.loads(last)["end"]
        if not end["events"]:
            raise InvalidInput(f"run {reader.run} has no events: there is nothing to show", code="empty_run")
        row = reader.store.event(reader.namespace, reader.run, end["events"])
        return RunClaim(
            namespace=reader.header.namespace,
            run=reader.header.run,
            format=RECORDING_FORMAT,
            header_hash=render(reader.header_row.hash),
            head=end["head"],
            events=end["events"],
            terminal=row.kind if row is not None and row.kind in TERMINAL_KINDS else None,
            recording=recording,
        )
