"""Receipts from a journal: one for every effect that was answered, in the order of the answers.

Rules:

1. The same journal gives the same receipts, in whichever store it is kept: they speak of the run by what its header
   says, and take their time from the answer's link.
2. The nonce is a one-way function of the salts of request and answer. Whoever holds a receipt learns no salt from it,
   and once either content is erased with its salt, nothing that is left can be used to guess it: not the chain, and
   not the hash by which the next receipt names this one.
3. A request without an answer has no receipt yet, a denial of what was never requested has none at all. Receipts come
   in the order of the answers, so that those of a run that goes on stay as they are.
4. Where a content was erased the receipt says so in its place. (Receipts that were issued before still verify.)
5. A run that keeps receipts of no journal (`JournalReplayLog`) gives them back as they were appended.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, NamedTuple

from reenact.core.events import ANSWERS
from reenact.core.hashing import SALT_BYTES, render
from reenact.core.links import Link
from reenact.errors import Damaged, InvalidValue
from reenact.journal.reader import JournalReader
from reenact.store.contract import EventRow
from reenact.tokens.sampling import NAMES
from reenact.tokens.token import (
    ERASED,
    FORMAT,
    MAX_TAGS,
    MAX_TEXT,
    NONCE_BYTES,
    Place,
    ReplayToken,
    Status,
    TokenProblem,
    hash_of,
    sealed,
)

RECEIPT_SIGNAL = "reenact.receipt"
UNNAMED = "(unnamed)"
MODEL_CALL = "model_call"

_NONCE_TAG = b"reenact.tokennonce/1\0"
_STATUS: dict[str, Status] = {"ActionFailed": "failed", "ActionDenied": "denied"}
_OUTPUT = {
    "ActionSucceeded": "output",
    "ActionFailed": "error",
    "ActionDenied": "reason",
    "WaitResolved": "resolution",
    "Resumed": "value",
}


def mint(reader: JournalReader) -> Iterator[ReplayToken]:
    """The receipts of a run, in order. `Damaged` where the journal does not hold."""
    for _, token in mint_placed(reader):
        yield token


def mint_placed(
    reader: JournalReader, start: int = 1, previous: str | None = None
) -> Iterator[tuple[int, ReplayToken]]:
    """The same with the seq at which each ends. `previous` is the own hash of the last receipt before `start`."""
    facts = reader.facts() or {}
    kept = facts.get("receipts") == FORMAT
    tags = _tags(facts.get("tags"))
    for row in reader.store.scan(reader.namespace, reader.run, start):
        if kept:
            token = _kept(reader, row) if row.kind == "SignalReceived" else None
        else:
            token = _answered(reader, row, tags, previous) if row.kind in ANSWERS else None
        if token is not None:
            previous = token.token_hash
            yield row.seq, token


def keeps_receipts(reader: JournalReader) -> bool:
    """Whether this is a run of receipts that come from no journal."""
    return (reader.facts() or {}).get("receipts") == FORMAT


class _Effect(NamedTuple):
    """What request and answer say, before it is made into a receipt."""

    name: str
    kind: str | None
    status: Status
    inputs: Any
    outputs: Any
    model_version: str
    sampling: dict[str, Any]
    time: int
    nonce: str
    place: Place


def _answered(reader: JournalReader, row: EventRow, tags: dict[str, str], previous: str | None) -> ReplayToken | None:
    effect = _effect(reader, row)
    if effect is None:
        return None
    try:
        return sealed(
            ReplayToken(
                namespace=reader.header.namespace,
                flow=reader.header.run,
                effect_name=effect.name,
                effect_kind=effect.kind,
                status=effect.status,
                inputs=effect.inputs,
                inputs_hash="",
                outputs=effect.outputs,
                outputs_hash="",
                model_version=effect.model_version,
                sampling=effect.sampling,
                time=effect.time,
                nonce=effect.nonce,
                previous=previous,
                replaces=None,
                tags=tags,
                place=effect.place,
            )
        )
    except (Damaged, InvalidValue) as problem:
        raise Damaged(f"event {row.seq} of run {reader.run}: {problem.message}", code="bad_content") from None


def _effect(reader: JournalReader, row: EventRow) -> _Effect | None:
    link = reader.link(row)
    if link.parent is None:
        return None
    request_row = reader.store.event(reader.namespace, reader.run, link.parent)
    if request_row is None:
        raise Damaged(f"event {row.seq} of run {reader.run} answers one that is missing", code="missing_parent")
    request_link = reader.link(request_row)
    asked, answered = reader.content_tree(request_row, request_link), reader.content_tree(row, link)
    name, kind, inputs = _request(request_link, asked)
    model_version, sampling = _model(kind, inputs)
    return _Effect(
        name=name,
        kind=kind,
        status=_STATUS.get(row.kind, "succeeded"),
        inputs=inputs,
        outputs=ERASED if answered is None else answered.get(_OUTPUT[row.kind]),
        model_version=model_version,
        sampling=sampling,
        time=link.time,
        nonce=_nonce(request_row, row),
        place=Place(
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


def _request(link: Link, content: Any) -> tuple[str, str | None, Any]:
    """Name, kind and inputs of what was asked for."""
    if content is None:
        return UNNAMED, None, ERASED
    if link.kind == "WaitCreated":
        inputs = {member: content[member] for member in ("name", "deadline") if content.get(member) is not None}
        return _text(content.get("name")) or UNNAMED, "await_event", inputs
    if link.kind == "Interrupted":
        return "interrupt", "await_event", content.get("value")
    return _text(content.get("name")) or UNNAMED, _text(content.get("effect")) or None, content.get("payload")


def _nonce(request: EventRow, answer: EventRow) -> str:
    salts = (request.salt or bytes(SALT_BYTES)) + (answer.salt or bytes(SALT_BYTES))
    return sha256(_NONCE_TAG + salts + answer.hash).digest()[:NONCE_BYTES].hex()


def _text(value: Any) -> str:
    return value.strip()[:MAX_TEXT] if isinstance(value, str) else ""


def _model(kind: str | None, inputs: Any) -> tuple[str, dict[str, Any]]:
    """Model and sampling of a model call: from its inputs, the command or the request in them, the outermost first."""
    if kind != MODEL_CALL:
        return "", {}
    places = [inputs]
    for name in ("command", "request"):
        places += [place[name] for place in places if isinstance(place, dict) and isinstance(place.get(name), dict)]
    objects = [place for place in places if isinstance(place, dict)]
    model = next((_text(place["model"]) for place in objects if _text(place.get("model"))), "")
    sampling: dict[str, Any] = {}
    for place in objects:
        for name in NAMES:
            if place.get(name) is not None:
                sampling.setdefault(name, place[name])
        if place.get("max_completion_tokens") is not None:
            sampling.setdefault("max_tokens", place["max_completion_tokens"])
    return model, sampling


def _tags(tags: Any) -> dict[str, str]:
    """The run's own: `tags` of its facts, as far as they are what a receipt can hold."""
    if not isinstance(tags, dict):
        return {}
    fitting = [pair for pair in tags.items() if all(isinstance(text, str) and len(text) <= MAX_TEXT for text in pair)]
    return dict(fitting[:MAX_TAGS])


def _kept(reader: JournalReader, row: EventRow) -> ReplayToken | None:
    content = reader.content_tree(row, reader.link(row))
    if content is None or content.get("name") != RECEIPT_SIGNAL:
        return None
    token = ReplayToken.from_members(content.get("payload"))
    if token.flow != reader.header.run or token.namespace != reader.header.namespace:
        raise Damaged(f"event {row.seq} of run {reader.run} keeps a receipt of another flow", code="other_flow")
    return token


def check_place(token: ReplayToken, reader: JournalReader) -> list[TokenProblem]:
    """Whether the effect of a receipt stands in this run where the receipt says; nothing when it does.

    What was erased since is not compared: the links are, and they hold.
    """
    place = token.place
    if place is None:
        return [TokenProblem("no_place", "the receipt does not come from a journal")]
    if place.header_hash != render(reader.header_row.hash) or place.run != reader.header.run:
        return [TokenProblem("other_run", "the receipt is of another run")]
    row = reader.store.event(reader.namespace, reader.run, place.answer) if place.answer > 0 else None
    effect = _effect(reader, row) if row is not None and row.kind in ANSWERS else None
    if effect is None or effect.place != place:
        return [TokenProblem("other_event", "the receipt is of another event")]
    return list(_differences(token, effect))


def _differences(token: ReplayToken, effect: _Effect) -> Iterator[TokenProblem]:
    erased = effect.inputs == ERASED or effect.outputs == ERASED
    pairs: list[tuple[str, Any, Any]] = [("status", token.status, effect.status), ("time", token.time, effect.time)]
    if effect.inputs != ERASED:
        pairs += [
            ("inputs", token.inputs_hash, hash_of(effect.inputs)),
            ("effect_name", token.effect_name, effect.name),
            ("effect_kind", token.effect_kind, effect.kind),
            ("model_version", token.model_version, effect.model_version),
            ("sampling", hash_of(token.sampling), hash_of(effect.sampling)),
        ]
    if effect.outputs != ERASED:
        pairs.append(("outputs", token.outputs_hash, hash_of(effect.outputs)))
    if not erased:
        pairs.append(("nonce", token.nonce, effect.nonce))
    for name, said, recorded in pairs:
        if said != recorded:
            yield TokenProblem("other_content", f"the journal has something else as {name}")


def receipt_tree(token: ReplayToken) -> Any:
    """What is kept of a receipt that comes from no journal: all of it but the bytes, which are kept as artifacts."""
    members = token.members()
    members.pop("artifacts", None)
    return members


__all__ = [
    "RECEIPT_SIGNAL",
    "check_place",
    "keeps_receipts",
    "mint",
    "mint_placed",
    "receipt_tree",
]
