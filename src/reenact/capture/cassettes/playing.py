"""A cassette as a run: kept like any other, or played in place of the world.

What a program asks for is answered by the recorded request that has the same method, URL and body, in the order in
which they were recorded, each once; headers take no part. What the cassette does not have stops the program: there is
no way from here to the network.
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

from reenact.capture.blocks import Block
from reenact.capture.cassettes.interactions import Exchange, Interaction, interactions_of
from reenact.capture.cassettes.reading import read_cassette
from reenact.capture.http.effects import HttpCall, exchange_blocking
from reenact.capture.served import EarlierRecord, Served
from reenact.core.canonical import stored_bytes
from reenact.core.codec import encode
from reenact.core.events import ActionRequested
from reenact.effect.boundary import perform_blocking
from reenact.effect.divergences import first_difference, source_line
from reenact.effect.live_run import LiveRun
from reenact.effect.other_records import Found
from reenact.effect.stopping import Divergence
from reenact.effect.tickets import EffectSpec, Ticket
from reenact.journal.reader import JournalReader
from reenact.store.contract import Store
from reenact.store.memory import MemoryStore

METHOD, URI, BODY = "method", "uri", "body"
ALL_OF_IT = (METHOD, URI, BODY)
_HTTP = frozenset({"http", "model_call"})
_DEFAULT_PORTS = {"http": 80, "https": 443}
_ODD = re.compile(r"[^A-Za-z0-9._-]+")


def run_id_of(path: Path, cassette: Any) -> str:
    """The same for the same cassette."""
    plain = _ODD.sub("-", path.name.partition(".yaml")[0].partition(".json")[0]).strip("-._")[:80]
    digest = sha256(repr(cassette).encode(errors="backslashreplace")).hexdigest()[:12]
    return f"{plain or 'cassette'}-{digest}"


def read_as_run(store: Store, path: Path, namespace: str = "default", *, redacts: bool = True) -> JournalReader:
    """The cassette in the store, as a run that has done what it says. Secrets are kept out, as of any run, unless it is
    read to be played and thrown away."""
    cassette = read_cassette(path)
    found = interactions_of(cassette, path.name)
    facts: dict[str, Any] = {"recording": path.name, "cassette": {"interactions": len(found)}}
    made_by = cassette.get("recorded_with") if isinstance(cassette, Mapping) else None
    if isinstance(made_by, str):
        facts["cassette"]["recorded_with"] = made_by[:100]
    block = Block.recorded(store, run_id_of(path, cassette), facts, namespace=namespace, redacts=redacts)
    try:
        with block.here():
            for one in found:
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
    perform_blocking(spec, lambda key: ActionRequested(key, {"said": one.said}, one.name, one.kind), lambda: one.heard)


class Played(Served):
    """Answers requests of HTTP. Whatever else a program does is its own."""

    is_mocked = True

    def __init__(self, run: LiveRun, record: EarlierRecord, match_on: Sequence[str] = ALL_OF_IT) -> None:
        super().__init__(run, record)
        self._match_on = tuple(match_on)
        self._payloads: dict[int, Any] = {}
        self._by_request: dict[bytes, deque[Found]] = {}
        for seq in sorted(record.answers):
            event = record.members(seq)
            if event.get("effect") in _HTTP:
                payload = self._payloads[seq] = run.secrets.value_without(event["payload"])
                self._by_request.setdefault(self._asked(payload), deque()).append(Found(seq, str(seq)))

    def _asked(self, payload: Mapping[str, Any]) -> bytes:
        """What of a request has to be the same."""
        parts: dict[str, Any] = {}
        if METHOD in self._match_on:
            parts[METHOD] = payload["method"]
        if URI in self._match_on:
            parts[URI] = _uri(payload["url"])
        if BODY in self._match_on:
            parts[BODY] = _sorted(payload.get("body"))
        return stored_bytes(encode(parts).tree)

    def _take(self, ticket: Ticket) -> Found | None:
        event = self._run.secrets.without(ticket.event)
        if not isinstance(event, ActionRequested) or event.effect not in _HTTP:
            return None
        with self._lock:
            waiting = self._by_request.get(self._asked(event.payload))
            return waiting.popleft() if waiting else None

    def _missing(self, ticket: Ticket) -> None:
        event = self._run.secrets.without(ticket.event)
        if not isinstance(event, ActionRequested) or event.effect not in _HTTP:
            return
        assert self._tail is not None
        named = (self._tail.reader.facts() or {}).get("recording", self._tail.reader.run)
        message = f"the cassette {named} has no answer to {event.name}"
        where: dict[str, Any] = {"actual": event.content(), "line": source_line()}
        nearest = self._nearest(event.payload)
        if nearest is not None:
            expected = {**event.content(), "payload": self._payloads[nearest]}
            path = first_difference(encode(expected).tree, encode(event.content()).tree)
            where.update(expected=expected, path=path, nearest=nearest)
            message += f"; the nearest of its requests that is left differs in {path}" if path else ""
        elif not self._payloads:
            message += ": it holds no requests of HTTP"
        else:
            message += " any more: each of its answers is given once"
        self._run.stop_here(
            Divergence(message, hint="Record the test anew, without the cassette.", code="not_in_cassette", **where)
        )

    def _nearest(self, payload: Mapping[str, Any]) -> int | None:
        left = [found.seq for waiting in self._by_request.values() for found in waiting]

        def unlikeness(seq: int) -> tuple[bool, bool, bool, int]:
            other = self._payloads[seq]
            asked, there = urlsplit(payload["url"]), urlsplit(other["url"])
            unlike = asked.path != there.path, other["method"] != payload["method"], asked.netloc != there.netloc
            return *unlike, seq

        return min(left, key=unlikeness, default=None)


def _uri(url: str) -> list[Any]:
    """The order of parameters says nothing, nor does a port that goes without saying."""
    parts = urlsplit(url)
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    return [parts.scheme, parts.hostname, port, parts.path or "/", sorted(parse_qsl(parts.query, True))]


def _sorted(value: Any) -> Any:
    """Nor does the order of members."""
    if isinstance(value, Mapping):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


@contextmanager
def played(path: Path, match_on: Sequence[str] = ALL_OF_IT) -> Iterator[Played]:
    """`with played(Path("login.yaml")):` — requests of HTTP inside are answered by the cassette."""
    from reenact.capture.seams.all_seams import http_seams

    store = MemoryStore()
    reader = read_as_run(store, path, redacts=False)
    block = Block.recorded(store, f"playing-{reader.run}"[:128], {"recording": f"playing {path.name}"})
    served = block.run.stand_ins = Played(block.run, EarlierRecord(reader), match_on)
    try:
        with http_seams(), block.here():
            yield served
        block.end()
    finally:
        block.close()
