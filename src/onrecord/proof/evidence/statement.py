"""The signed statement: the state of each run, and the digests of everything in the bundle."""

from __future__ import annotations

from typing import Literal

import msgspec

from onrecord.core.canonical import canonical_bytes
from onrecord.core.hashing import parse_hash
from onrecord.core.links import FORMAT as RECORDING_FORMAT
from onrecord.core.links import MAX_TIME, is_name
from onrecord.core.strict_json import read_strict
from onrecord.errors import InvalidValue
from onrecord.proof.evidence.problems import FlawError

FORMAT = "onrecord.evidence/1"
MAX_PARTS = 10_000


class RunClaim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The state of one run when it was signed."""

    namespace: str
    run: str
    format: str
    header_hash: str
    head: str
    events: int
    terminal: str | None
    """The kind of its last event if that ended the run; None if the run may have continued."""
    recording: str
    """The digest of the part with its text export."""


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["recording", "result", "difference"]
    size: int
    digest: str
    """The artifact address of its bytes (docs/format.md, section 2)."""


class Statement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Literal["onrecord.evidence/1"] = "onrecord.evidence/1"
    created: int
    runs: list[RunClaim]
    result: str | None
    """The digest of the part with the result, if there is one."""
    parts: list[Part]

    def to_bytes(self) -> bytes:
        return canonical_bytes(msgspec.to_builtins(self))


def read_statement(payload: bytes) -> Statement:
    """Parse and check a statement. A valid signature does not mean that it is well formed."""
    try:
        tree = read_strict(payload, max_depth=16)
        statement = msgspec.convert(tree, Statement, strict=True)
        if statement.to_bytes() != payload:
            raise FlawError("bad_statement", "the statement is not in canonical form")
        _check(statement)
    except (InvalidValue, msgspec.ValidationError) as refused:
        raise FlawError("bad_statement", f"the statement is not well formed: {str(refused)[:200]}") from None
    return statement


def _check(statement: Statement) -> None:
    parts = statement.parts
    kinds = [part.kind for part in parts]
    recordings = [part.digest for part in parts if part.kind == "recording"]
    results = [part.digest for part in parts if part.kind == "result"]
    if not statement.runs or len(parts) > MAX_PARTS:
        raise FlawError("bad_statement", "the statement names no run, or too many parts")
    if kinds != sorted(kinds, key=["recording", "result", "difference"].index):
        raise FlawError("bad_statement", "the parts are not in the order recordings, result, differences")
    if recordings != [run.recording for run in statement.runs] or results != (
        [statement.result] if statement.result is not None else []
    ):
        raise FlawError("bad_statement", "the parts are not those that the statement names")
    if len({(part.kind, part.digest) for part in parts}) != len(parts):
        raise FlawError("bad_statement", "a part is listed twice")
    for part in parts:
        parse_hash(part.digest)
        if part.size < 0:
            raise FlawError("bad_statement", "a part has a negative size")
    if not 0 <= statement.created <= MAX_TIME:
        raise FlawError("bad_statement", "the time is out of range")
    for run in statement.runs:
        parse_hash(run.header_hash)
        parse_hash(run.head)
        if not is_name(run.run) or not is_name(run.namespace) or run.format != RECORDING_FORMAT or run.events < 1:
            raise FlawError("bad_statement", "a run in the statement has an invalid name or format, or no events")
