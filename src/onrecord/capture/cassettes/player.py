"""Cassette as a run: stored like any other run, or played instead of the network.

A request of the program is answered by the recorded request with the same method, URL and body, in recorded order, each
once. Headers are not compared. A request that is not in the cassette stops the program: nothing reaches the network.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from onrecord.capture.block_run import BlockRun
from onrecord.capture.cassettes.file import read_cassette
from onrecord.capture.cassettes.interactions import Exchange, Interaction, read_interactions
from onrecord.capture.earlier_record import EarlierRecord, RecordSubstitutes
from onrecord.capture.http.effects import HttpCall, exchange_blocking
from onrecord.core.canonical import stored_bytes
from onrecord.core.codec import encode
from onrecord.core.events import ActionRequested
from onrecord.journal.reader import JournalReader
from onrecord.runtime.engine.boundary import perform_blocking
from onrecord.runtime.engine.open_effect import EffectSpec, OpenEffect
from onrecord.runtime.engine.run import LiveRun
from onrecord.runtime.engine.stops import Divergence
from onrecord.runtime.forks.recorded_answers import SubstituteAnswer
from onrecord.runtime.replay.divergence import first_difference, source_line
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore

METHOD, URI, BODY = "method", "uri", "body"
MATCH_ALL = (METHOD, URI, BODY)
_HTTP = frozenset({"http", "model_call"})
_DEFAULT_PORTS = {"http": 80, "https": 443}
_NOT_IN_RUN_ID = re.compile(r"[^A-Za-z0-9._-]+")


def run_id_of(path: Path, cassette: Any) -> str:
    """Return a run id made of the file's name and the cassette's digest."""
    plain = _NOT_IN_RUN_ID.sub("-", path.name.partition(".yaml")[0].partition(".json")[0]).strip("-._")[:80]
    digest = sha256(repr(cassette).encode(errors="backslashreplace")).hexdigest()[:12]
    return f"{plain or 'cassette'}-{digest}"


def read_as_run(store: Store, path: Path, namespace: str = "default", *, redacts: bool = True) -> JournalReader:
    """Store the cassette as a run and return its reader. `redacts=False` keeps secrets, in a temporary store."""
    cassette = read_cassette(path)
    interactions = read_interactions(cassette, path.name)
    facts: dict[str, Any] = {"recording": path.name, "cassette": {"interactions": len(interactions)}}
    recorder = cassette.get("recorded_with") if isinstance(cassette, Mapping) else None
    if isinstance(recorder, str):
        facts["cassette"]["recorded_with"] = recorder[:100]
    block = BlockRun.recorded(store, run_id_of(path, cassette), facts, namespace=namespace, redacts=redacts)
    try:
        with block.here():
            for one in interactions:
                _perform(one)
        block.end()
    finally:
        block.close()
    return JournalReader(store, block.run.name, namespace)


def _perform(one: Interaction) -> None:
    if isinstance(one, Exchange):
        exchange_blocking(HttpCall(one.request), lambda _: (one.head, one.body))
        return
    spec = EffectSpec(one.name, one.kind, once=False)
    perform_blocking(
        spec, lambda key: ActionRequested(key, {"said": one.sent}, one.name, one.kind), lambda: one.received
    )


class CassetteSubstitutes(RecordSubstitutes):
    """Substitutes for HTTP requests from a cassette. Other effects are executed."""

    is_mocked = True

    def __init__(self, run: LiveRun, record: EarlierRecord, match_on: Sequence[str] = MATCH_ALL) -> None:
        super().__init__(run, record)
        self._match_on = tuple(match_on)
        self._payloads: dict[int, Any] = {}
        self._by_request: dict[bytes, deque[SubstituteAnswer]] = {}
        for seq in sorted(record.answers):
            event = record.members(seq)
            if event.get("effect") in _HTTP:
                payload = self._payloads[seq] = run.secrets.redact_value(event["payload"])
                self._by_request.setdefault(self._match_key(payload), deque()).append(SubstituteAnswer(seq, str(seq)))

    def _match_key(self, payload: Mapping[str, Any]) -> bytes:
        """Return the parts of a request that must be equal, as bytes."""
        parts: dict[str, Any] = {}
        if METHOD in self._match_on:
            parts[METHOD] = payload["method"]
        if URI in self._match_on:
            parts[URI] = _normalize_url(payload["url"])
        if BODY in self._match_on:
            parts[BODY] = _sort_members(payload.get("body"))
        return stored_bytes(encode(parts).tree)

    def _take(self, effect: OpenEffect) -> SubstituteAnswer | None:
        event = self._run.secrets.redact_event(effect.event)
        if not isinstance(event, ActionRequested) or event.effect not in _HTTP:
            return None
        with self._lock:
            unused = self._by_request.get(self._match_key(event.payload))
            return unused.popleft() if unused else None

    def _missing(self, effect: OpenEffect) -> None:
        event = self._run.secrets.redact_event(effect.event)
        if not isinstance(event, ActionRequested) or event.effect not in _HTTP:
            return
        assert self._record is not None
        cassette = (self._record.reader.facts() or {}).get("recording", self._record.reader.run)
        message = f"the cassette {cassette} has no answer to {event.name}"
        where: dict[str, Any] = {"actual": event.content(), "line": source_line()}
        nearest = self._nearest(event.payload)
        if nearest is not None:
            expected = {**event.content(), "payload": self._payloads[nearest]}
            path = first_difference(encode(expected).tree, encode(event.content()).tree)
            where.update(expected=expected, path=path, nearest=nearest)
            message += f"; the nearest unused request differs in {path}" if path else ""
        elif not self._payloads:
            message += ": it holds no HTTP requests"
        else:
            message += " any more: each answer is used once"
        self._run.stop_here(
            Divergence(message, hint="Record the test again, without the cassette.", code="not_in_cassette", **where)
        )

    def _nearest(self, payload: Mapping[str, Any]) -> int | None:
        candidates = [found.seq for unused in self._by_request.values() for found in unused]

        def distance(seq: int) -> tuple[bool, bool, bool, int]:
            other = self._payloads[seq]
            requested_url, recorded_url = urlsplit(payload["url"]), urlsplit(other["url"])
            differences = (
                requested_url.path != recorded_url.path,
                other["method"] != payload["method"],
                requested_url.netloc != recorded_url.netloc,
            )
            return *differences, seq

        return min(candidates, key=distance, default=None)


def _normalize_url(url: str) -> list[Any]:
    """Return the parts of a URL to compare: parameters sorted, and the default port filled in."""
    parts = urlsplit(url)
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    return [parts.scheme, parts.hostname, port, parts.path or "/", sorted(parse_qsl(parts.query, True))]


def _sort_members(value: Any) -> Any:
    """Return the value with the members of every object sorted."""
    if isinstance(value, Mapping):
        return {name: _sort_members(value[name]) for name in sorted(value)}
    return [_sort_members(item) for item in value] if isinstance(value, list) else value


@contextmanager
def play_cassette(path: Path, match_on: Sequence[str] = MATCH_ALL) -> Iterator[CassetteSubstitutes]:
    """Answer the HTTP requests inside the block from the cassette: `with play_cassette(Path("login.yaml")):`."""
    from onrecord.capture.interceptors.late_install import http_interceptors

    store = MemoryStore()
    reader = read_as_run(store, path, redacts=False)
    block = BlockRun.recorded(store, f"playing-{reader.run}"[:128], {"recording": f"playing {path.name}"})
    served = block.run.substitutes = CassetteSubstitutes(block.run, EarlierRecord(reader), match_on)
    try:
        with http_interceptors(), block.here():
            yield served
        block.end()
    finally:
        block.close()
