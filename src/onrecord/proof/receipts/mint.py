"""Mint receipts from a journal: one for every answered effect, in the order of the answers.

Rules:

1. The same journal gives the same receipts in any store: the run's names come from its header, and the time from the
   answer's link.
2. The nonce is a one-way function of the salts of request and answer. A receipt reveals no salt. Once either content is
   erased with its salt, nothing that is left helps to guess it: not the chain, and not the hash in the next receipt.
3. A request without an answer has no receipt yet; a denial without a request has none at all. The order of the answers
   keeps existing receipts unchanged while a run continues.
4. Where a content was erased, the receipt has a marker. Receipts issued before the erasure still verify.
5. A run of appended receipts (`JournalReplayLog`) returns them as they were appended.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import msgspec

from onrecord.analysis.live.model_parameters import read_model
from onrecord.core.events import ANSWERS
from onrecord.core.hashing import SALT_BYTES, render
from onrecord.core.links import Link
from onrecord.errors import Damaged, InvalidValue
from onrecord.journal.reader import JournalReader
from onrecord.proof.receipts.token import (
    ERASED,
    FORMAT,
    MAX_TAGS,
    MAX_TEXT,
    NONCE_BYTES,
    JournalPosition,
    ReplayToken,
    Status,
    TokenProblem,
    hash_of,
    seal_token,
)
from onrecord.store.contract import EventRow

RECEIPT_SIGNAL = "onrecord.receipt"
UNNAMED = "(unnamed)"
MODEL_CALL = "model_call"

_NONCE_TAG = b"onrecord.tokennonce/1\0"
_STATUS: dict[str, Status] = {"ActionFailed": "failed", "ActionDenied": "denied"}
_OUTPUT = {
    "ActionSucceeded": "output",
    "ActionFailed": "error",
    "ActionDenied": "reason",
    "WaitResolved": "resolution",
    "Resumed": "value",
}


def mint(reader: JournalReader) -> Iterator[ReplayToken]:
    """Yield the receipts of a run, in order. Raise Damaged if the journal does not verify."""
    for _, token in mint_with_seqs(reader):
        yield token


def mint_with_seqs(
    reader: JournalReader, start: int = 1, previous: str | None = None
) -> Iterator[tuple[int, ReplayToken]]:
    """Yield each receipt with the seq of its answer. `previous` is the hash of the last receipt before `start`."""
    facts = reader.facts() or {}
    kept = facts.get("receipts") == FORMAT
    tags = _read_tags(facts.get("tags"))
    for row in reader.store.scan(reader.namespace, reader.run, start):
        if kept:
            token = _read_kept_receipt(reader, row) if row.kind == "SignalReceived" else None
        else:
            token = _mint_answer(reader, row, tags, previous) if row.kind in ANSWERS else None
        if token is not None:
            previous = token.token_hash
            yield row.seq, token


def keeps_receipts(reader: JournalReader) -> bool:
    """Return True if this is a run of appended receipts."""
    return (reader.facts() or {}).get("receipts") == FORMAT


def _mint_answer(
    reader: JournalReader, row: EventRow, tags: dict[str, str], previous: str | None
) -> ReplayToken | None:
    effect = _read_effect(reader, row)
    if effect is None:
        return None
    try:
        return seal_token(msgspec.structs.replace(effect, tags=tags, previous=previous))
    except (Damaged, InvalidValue) as problem:
        raise Damaged(f"event {row.seq} of run {reader.run}: {problem.message}", code="bad_content") from None


def _read_effect(reader: JournalReader, row: EventRow) -> ReplayToken | None:
    """Return the receipt of a request and its answer, without hashes, tags and the previous receipt."""
    link = reader.link(row)
    if link.parent is None:
        return None
    request_row = reader.store.event(reader.namespace, reader.run, link.parent)
    if request_row is None:
        raise Damaged(f"event {row.seq} of run {reader.run} answers a request that is missing", code="missing_parent")
    request_link = reader.link(request_row)
    request, answer = reader.content_tree(request_row, request_link), reader.content_tree(row, link)
    name, kind, inputs = _read_request(request_link, request)
    model, sampling = read_model(kind or "", inputs)
    salts = (request_row.salt or bytes(SALT_BYTES)) + (row.salt or bytes(SALT_BYTES))
    return ReplayToken(
        namespace=reader.header.namespace,
        flow=reader.header.run,
        effect_name=name,
        effect_kind=kind,
        status=_STATUS.get(row.kind, "succeeded"),
        inputs=inputs,
        inputs_hash="",
        outputs=ERASED if answer is None else answer.get(_OUTPUT[row.kind]),
        outputs_hash="",
        model_version=_text(model),
        sampling=sampling,
        time=link.time,
        nonce=sha256(_NONCE_TAG + salts + row.hash).digest()[:NONCE_BYTES].hex(),
        previous=None,
        replaces=None,
        tags={},
        place=JournalPosition(
            run=reader.header.run,
            header_hash=render(reader.header_row.hash),
            request=request_row.seq,
            request_hash=render(request_row.hash),
            answer=row.seq,
            answer_hash=render(row.hash),
            lane=request_link.lane,
            key=request_link.key,
        ),
    )


def _read_request(link: Link, content: Any) -> tuple[str, str | None, Any]:
    """Return the name, kind and inputs of a request."""
    if content is None:
        return UNNAMED, None, ERASED
    if link.kind == "WaitCreated":
        inputs = {member: content[member] for member in ("name", "deadline") if content.get(member) is not None}
        return _text(content.get("name")) or UNNAMED, "await_event", inputs
    if link.kind == "Interrupted":
        return "interrupt", "await_event", content.get("value")
    return _text(content.get("name")) or UNNAMED, _text(content.get("effect")) or None, content.get("payload")


def _text(value: Any) -> str:
    return value.strip()[:MAX_TEXT] if isinstance(value, str) else ""


def _read_tags(tags: Any) -> dict[str, str]:
    """Return the `tags` of the run's facts that a receipt can hold."""
    if not isinstance(tags, dict):
        return {}
    fitting = [pair for pair in tags.items() if all(isinstance(text, str) and len(text) <= MAX_TEXT for text in pair)]
    return dict(fitting[:MAX_TAGS])


def _read_kept_receipt(reader: JournalReader, row: EventRow) -> ReplayToken | None:
    content = reader.content_tree(row, reader.link(row))
    if content is None or content.get("name") != RECEIPT_SIGNAL:
        return None
    token = ReplayToken.from_members(content.get("payload"))
    if token.flow != reader.header.run or token.namespace != reader.header.namespace:
        raise Damaged(f"event {row.seq} of run {reader.run} holds a receipt of another flow", code="other_flow")
    return token


def check_place(token: ReplayToken, reader: JournalReader) -> list[TokenProblem]:
    """Return the problems of a receipt's position in this run, or an empty list.

    Erased contents are not compared; their links are.
    """
    place = token.place
    if place is None:
        return [TokenProblem("no_place", "the receipt does not come from a journal")]
    if place.header_hash != render(reader.header_row.hash) or place.run != reader.header.run:
        return [TokenProblem("other_run", "the receipt is of another run")]
    row = reader.store.event(reader.namespace, reader.run, place.answer) if place.answer > 0 else None
    effect = _read_effect(reader, row) if row is not None and row.kind in ANSWERS else None
    if effect is None or effect.place != place:
        return [TokenProblem("other_event", "the receipt is of another event")]
    return list(_compare_effect(token, effect))


def _compare_effect(token: ReplayToken, effect: ReplayToken) -> Iterator[TokenProblem]:
    erased = effect.inputs == ERASED or effect.outputs == ERASED
    pairs: list[tuple[str, Any, Any]] = [("status", token.status, effect.status), ("time", token.time, effect.time)]
    if effect.inputs != ERASED:
        pairs += [
            ("inputs", token.inputs_hash, hash_of(effect.inputs)),
            ("effect_name", token.effect_name, effect.effect_name),
            ("effect_kind", token.effect_kind, effect.effect_kind),
            ("model_version", token.model_version, effect.model_version),
            ("sampling", hash_of(token.sampling), hash_of(effect.sampling)),
        ]
    if effect.outputs != ERASED:
        pairs.append(("outputs", token.outputs_hash, hash_of(effect.outputs)))
    if not erased:
        pairs.append(("nonce", token.nonce, effect.nonce))
    for name, claimed, recorded in pairs:
        if claimed != recorded:
            yield TokenProblem("other_content", f"the journal has another value for {name}")


def receipt_tree(token: ReplayToken) -> Any:
    """Return the content for an appended receipt: all members except the bytes, which are stored as artifacts."""
    members = token.members()
    members.pop("artifacts", None)
    return members
