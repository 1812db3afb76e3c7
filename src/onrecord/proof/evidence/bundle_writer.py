"""Make a bundle: text exports of runs, findings about them, and one signature over everything.

envelope, one line (DSSE)            signs the statement, which names every part by size and digest
part 1 … part n, verbatim            each followed by one line feed, in the order of the statement
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from onrecord.analysis.compare.kept_differences import fetch_difference
from onrecord.core.canonical import stored_bytes
from onrecord.core.codec import encode
from onrecord.core.events import TERMINAL_KINDS
from onrecord.core.hashing import render
from onrecord.core.links import FORMAT as RECORDING_FORMAT
from onrecord.errors import InvalidInput
from onrecord.journal.atomic_files import resolve_target, write_atomically
from onrecord.journal.export import export_lines
from onrecord.journal.reader import JournalReader
from onrecord.journal.sources import Sources, SystemSources
from onrecord.proof.evidence.envelope import (
    MAX_ENVELOPE_BYTES,
    PAYLOAD_TYPE,
    Envelope,
    pre_authentication_encoding,
    write_envelope,
)
from onrecord.proof.evidence.problems import FlawError
from onrecord.proof.evidence.signing_keys import SigningKeys
from onrecord.proof.evidence.statement import Part, RunClaim, Statement, read_statement
from onrecord.store.contract import Store

ARTIFACT_TAG = b"onrecord.artifact/1\0"
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
    """Return a bundle as bytes. For large runs use `write_bundle`, which does not hold them in memory.

    `result` is a finding about the runs, any value that can be encoded. `differences` are digests from
    `keep_difference`. The runs are verified first: a damaged run is never signed.
    """
    bundle = BytesIO()
    with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as spool:
        _write_bundle(bundle, spool, store, runs, namespace, result, differences, keys, sources)
    return bundle.getvalue()


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
    """Write a bundle atomically and return its size in bytes."""
    target = resolve_target(Path(path))
    with write_atomically(target) as file, tempfile.TemporaryFile(dir=target.parent) as spool:
        _write_bundle(file, spool, store, runs, namespace, result, differences, keys, sources)
        return file.tell()


def _write_bundle(
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
        raise InvalidInput("evidence needs at least one run", code="no_runs")
    keys = keys or SigningKeys()
    signer = keys.current_public_key()
    added = _BundleParts(spool)
    claims = [added.add_run(JournalReader(store, name, namespace)) for name in names]
    result_digest = None if result is None else added.add("result", [_result_text(result)])
    for digest in dict.fromkeys(differences):
        added.add("difference", [fetch_difference(store, namespace, digest)])
    # Never before the creation of the key, whatever the clock says: a checker would reject it.
    created = max((sources or SystemSources()).now_us(), signer.not_before or 0)
    statement = Statement(created=created, runs=claims, result=result_digest, parts=added.parts)
    payload = _check_statement(statement)
    signature = keys.sign_bytes(pre_authentication_encoding(PAYLOAD_TYPE, payload))
    line = write_envelope(Envelope(payload, PAYLOAD_TYPE, [signature]))
    if len(line) > MAX_ENVELOPE_BYTES:
        raise InvalidInput("the bundle would have too many parts", hint="Make several bundles.", code="too_many_parts")
    file.write(line + b"\n")
    spool.seek(0)
    shutil.copyfileobj(spool, file)


def _check_statement(statement: Statement) -> bytes:
    """Return the statement's bytes. Refuse a statement that no checker would accept."""
    payload = statement.to_bytes()
    try:
        read_statement(payload)
    except FlawError as flaw:
        raise InvalidInput(f"this evidence would be invalid: {flaw.problem.message}", code=flaw.problem.code) from None
    return payload


def _result_text(result: Any) -> bytes:
    encoded = encode(result)
    if not encoded.replayable or encoded.artifacts:
        raise InvalidInput(
            "the result holds a value that cannot be encoded, or bytes of more than 64 KiB",
            hint="Give plain data; store bytes with keep_difference and give their digest.",
            code="bad_result",
        )
    return stored_bytes(encoded.tree)


class _BundleParts:
    """Parts of a bundle, written and digested one by one."""

    def __init__(self, spool: BinaryIO) -> None:
        self._spool = spool
        self.parts: list[Part] = []

    def add(self, kind: Any, pieces: Iterable[bytes]) -> str:
        size, digest = 0, sha256(ARTIFACT_TAG)
        for piece in pieces:
            size += self._spool.write(piece)
            digest.update(piece)
        self._spool.write(b"\n")
        part = Part(kind=kind, size=size, digest=render(digest.digest()))
        self.parts.append(part)
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
            raise InvalidInput(f"run {reader.run} has no events, so it is no evidence", code="empty_run")
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
