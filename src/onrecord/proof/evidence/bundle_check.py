"""Check a bundle without the store that made it.

Rules:

1. Sizes are checked before anything is parsed. The statement is not trusted before the signature of a trusted key is
   valid for it.
2. Parts are read in the order of the statement, with exactly the stated sizes, and digested. No file name comes from
   the bundle; a recording is read through a private temporary file that is deleted afterwards.
3. Each recording is verified like a foreign one, including its match digests, and must be the run that was signed.
4. A bad bundle gives a report with a stable code, never an exception.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from onrecord.core.codec import decode
from onrecord.core.hashing import parse_hash, render
from onrecord.core.strict_json import read_strict
from onrecord.errors import Damaged, InvalidInput, OnrecordError
from onrecord.journal.atomic_files import open_regular
from onrecord.journal.import_file import verify_file
from onrecord.journal.recording_file import RecordingFile
from onrecord.journal.verify import VerificationReport
from onrecord.proof.evidence.bundle_writer import ARTIFACT_TAG
from onrecord.proof.evidence.envelope import MAX_ENVELOPE_BYTES, read_envelope, verified_signers
from onrecord.proof.evidence.problems import BundleProblem, FlawError
from onrecord.proof.evidence.public_keys import PublicKey, public_key
from onrecord.proof.evidence.statement import Part, RunClaim, Statement, read_statement
from onrecord.store.contract import Head

MAX_BUNDLE_BYTES = 4 * 1024**3
PIECE_BYTES = 1024 * 1024


class BundleReport(msgspec.Struct):
    """The result of a check. `statement` is set only if its signature is valid."""

    problems: list[BundleProblem] = []
    signed_by: list[str] = []
    statement: Statement | None = None
    recordings: list[VerificationReport] = []
    result: Any = None
    differences: dict[str, bytes] = {}

    @property
    def valid(self) -> bool:
        """Return True if the bundle is signed, complete and verified."""
        return (
            not self.problems
            and bool(self.signed_by)
            and self.statement is not None
            and len(self.recordings) == len(self.statement.runs) > 0
        )

    @property
    def code(self) -> str:
        return self.problems[0].code if self.problems else "valid" if self.valid else "unchecked"

    @property
    def line(self) -> str:
        if self.problems:
            return f"Evidence: {self.problems[0].message} - INVALID"
        events = sum(report.verified for report in self.recordings)
        signers = ", ".join(self.signed_by)
        verdict = "VALID" if self.valid else "UNCHECKED"
        runs = "1 run" if len(self.recordings) == 1 else f"{len(self.recordings)} runs"
        return f"Evidence: {runs}, {events} events verified, signed by {signers} - {verdict}"

    def __str__(self) -> str:
        return self.line

    def raise_if_invalid(self) -> None:
        if not self.valid:
            raise Damaged(self.line, code=self.code, hint="Get the bundle again from its signer.")


def check_bundle(
    data: bytes | str | Path, public_keys: Iterable[PublicKey | bytes | str], *, max_bytes: int = MAX_BUNDLE_BYTES
) -> BundleReport:
    """Check a bundle, given as bytes or by its path, against the keys that the checker trusts."""
    trusted = {key.id: key for key in map(public_key, public_keys)}
    report = BundleReport()
    with (
        BytesIO(data)
        if isinstance(data, bytes)
        else open_regular(Path(data), "a bundle", partial(InvalidInput, code="not_a_file")) as file
    ):
        try:
            _check(file, trusted, max_bytes, report)
        except FlawError as flaw:
            report.problems.append(flaw.problem)
    return report


def _check(file: BinaryIO, trusted: dict[str, PublicKey], max_bytes: int, report: BundleReport) -> None:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size > max_bytes:
        raise FlawError("too_large", f"the bundle has {size:,} bytes, the limit is {max_bytes:,}")
    if not trusted:
        raise FlawError("no_keys", "no public key was given for the check")
    envelope = read_envelope(_first_line(file))
    signers = verified_signers(envelope, trusted)
    statement = read_statement(envelope.payload)
    for key in signers:
        if not key.signed_at(statement.created):
            raise FlawError("key_not_in_use", f"key {key.id} was not in use at the stated time of signing")
    report.signed_by = [key.id for key in signers]
    report.statement = statement
    claims = iter(statement.runs)
    for number, part in enumerate(statement.parts, 1):
        _read_part(file, number, part, claims, report)
    if file.read(1):
        raise FlawError("trailing_bytes", "the bundle continues after the last part")


def _first_line(file: BinaryIO) -> bytes:
    line = file.readline(MAX_ENVELOPE_BYTES + 1)
    if line.endswith(b"\n"):
        return line[:-1]
    if len(line) > MAX_ENVELOPE_BYTES:
        raise FlawError("too_large", f"the first line is longer than {MAX_ENVELOPE_BYTES:,} bytes")
    raise FlawError("truncated", "the bundle ends in its first line")


def _read_part(file: BinaryIO, number: int, part: Part, claims: Any, report: BundleReport) -> None:
    """Read one part. Its content is parsed only if its digest is the signed one."""
    if part.kind == "recording":
        with tempfile.NamedTemporaryFile(prefix="onrecord-evidence-") as kept:
            _copy(file, kept, number, part)
            kept.flush()
            report.recordings.append(_verify_recording(Path(kept.name), number, next(claims)))
        return
    kept_bytes = BytesIO()
    _copy(file, kept_bytes, number, part)
    if part.kind == "difference":
        report.differences = {**report.differences, part.digest: kept_bytes.getvalue()}
        return
    try:
        report.result = decode(read_strict(kept_bytes.getvalue()))
    except OnrecordError as problem:
        raise FlawError("bad_result", f"part {number}: {problem.message}") from None


def _copy(file: BinaryIO, to: Any, number: int, part: Part) -> None:
    digest, left = sha256(ARTIFACT_TAG), part.size
    while left:
        piece = file.read(min(left, PIECE_BYTES))
        if not piece:
            raise FlawError("truncated", f"the bundle ends in part {number} ({part.kind})")
        digest.update(piece)
        to.write(piece)
        left -= len(piece)
    if render(digest.digest()) != part.digest:
        raise FlawError("bad_part", f"part {number} ({part.kind}) is not the part that was signed")
    after = file.read(1)
    if after != b"\n":
        code = "bad_part" if after else "truncated"
        raise FlawError(code, f"part {number} ({part.kind}) is not followed by a line feed")


def _verify_recording(path: Path, number: int, claim: RunClaim) -> VerificationReport:
    where = f"part {number}, run {claim.run}"
    try:
        with RecordingFile(path) as recording:
            header, digest = recording.header, recording.header_row.hash
        found = verify_file(path, deep=True, expected=Head(claim.events, parse_hash(claim.head)))
    except OnrecordError as problem:
        # The name of the temporary file means nothing to the caller.
        message = problem.message.replace(f"{path.name}, ", "").replace(str(path), "it")
        raise FlawError("bad_recording", f"{where}: {message}") from None
    if not found.valid:
        first = found.problems[0]
        raise FlawError("bad_recording", f"{where}, event {first.seq}: {first.message}")
    claimed = (claim.namespace, claim.run, claim.header_hash, claim.head, claim.events, claim.terminal)
    if claimed != (header.namespace, header.run, render(digest), found.head, found.events, found.terminal):
        raise FlawError("other_run", f"{where}: the recording is of another run, or of another state of it")
    return found
