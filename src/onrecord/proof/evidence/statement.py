"""What is signed: which runs, as they stood, and the digests of everything in the bundle."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from reenact.core.canonical import canonical_bytes
from reenact.core.hashing import parse_hash
from reenact.core.links import FORMAT as RECORDING_FORMAT
from reenact.core.links import MAX_TIME, is_name
from reenact.core.strict_json import read_strict
from reenact.errors import InvalidValue
from reenact.replays.evidence.problems import FlawError

FORMAT = "reenact.evidence/1"
MAX_PARTS = 10_000


class RunClaim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run, as it stood when it was signed."""

    namespace: str
    run: str
    format: str
    header_hash: str
    head: str
    events: int
    terminal: str | None
    """The kind of its last event if that ended it; otherwise the run may have gone on."""
    recording: str
    """The digest of the part that is its text export."""


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["recording", "result", "difference"]
    size: int
    digest: str
    """The artifact address of its bytes (docs/format.md, section 2)."""


class Statement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Literal["reenact.evidence/1"] = "reenact.evidence/1"
    created: int
    runs: list[RunClaim]
    result: str | None
    """The digest of the part that holds the result, for evidence of more than the runs themselves."""
    parts: list[Part]

    def to_bytes(self) -> bytes:
        return canonical_bytes(msgspec.to_builtins(self))


def read_statement(payload: bytes) -> Statement:
    """From bytes whose signature holds: they are still not trusted to make sense."""
    try:
        tree = read_strict(payload, max_depth=16)
        statement = msgspec.convert(tree, Statement, strict=True)
        if statement.to_bytes() != payload:
            raise FlawError("bad_statement", "the statement is not in canonical form")
        _check(statement)
    except (InvalidValue, msgspec.ValidationError) as refused:
        raise FlawError("bad_statement", f"the statement is not well formed: {_said(refused)}") from None
    return statement


def _said(error: Any) -> str:
    return str(error)[:200]


def _check(statement: Statement) -> None:
    parts = statement.parts
    kinds = [part.kind for part in parts]
    recordings = [part.digest for part in parts if part.kind == "recording"]
    results = [part.digest for part in parts if part.kind == "result"]
    if not statement.runs or len(parts) > MAX_PARTS:
        raise FlawError("bad_statement", "the statement speaks of no run, or of too many parts")
    if kinds != sorted(kinds, key=["recording", "result", "difference"].index):
        raise FlawError("bad_statement", "recordings come first, then the result, then differences")
    if recordings != [run.recording for run in statement.runs] or results != (
        [statement.result] if statement.result is not None else []
    ):
        raise FlawError("bad_statement", "the parts are not those that the statement speaks of")
    if len({(part.kind, part.digest) for part in parts}) != len(parts):
        raise FlawError("bad_statement", "a part stands there twice")
    for part in parts:
        parse_hash(part.digest)
        if part.size < 0:
            raise FlawError("bad_statement", "a part has a negative size")
    if not 0 <= statement.created <= MAX_TIME:
        raise FlawError("bad_statement", "the time is not one")
    for run in statement.runs:
        parse_hash(run.header_hash)
        parse_hash(run.head)
        if not is_name(run.run) or not is_name(run.namespace) or run.format != RECORDING_FORMAT or run.events < 1:
            raise FlawError("bad_statement", "a run that the statement speaks of cannot be one, or is empty")
