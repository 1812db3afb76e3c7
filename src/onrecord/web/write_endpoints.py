"""Endpoints that write: resolve a wait by its key or as its operator, settle an effect in doubt.

`onrecord.runtime.waits.http_endpoint` resolves by key, with its statuses. The key in the path is the credential there,
and the server's token is needed besides.

An operator, who is let in and whose secrets sign the wait, resolves it by its id: the server makes the key from these
secrets, as the agent did, and hands it to the same desk. The key never leaves the server.

Settling takes `{"effect": seq, "decision": "done" | "retry" | "fail"}` with `value` for done, `message` for fail, and
`by`. 200 settled so, now or before; 409 settled before in another way, or the run is held by somebody; 404 there is
nothing in doubt.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from onrecord.core.canonical import canonical_bytes
from onrecord.core.codec import encode
from onrecord.core.strict_json import read_strict
from onrecord.core.wait_keys import ResolveOutcome
from onrecord.errors import InvalidInput, KeysUnavailable, NotFound, Refused
from onrecord.journal.reader import JournalReader
from onrecord.reports.open_questions import wait_named
from onrecord.reports.timelines import SeenEvent, one_event, seen
from onrecord.runtime.api.settle import settle
from onrecord.runtime.replay.in_doubt import DONE, FAIL, RETRY
from onrecord.runtime.secrets.run_secrets import load_secrets
from onrecord.runtime.waits.http_endpoint import BODY_BYTES, BODY_SECONDS, MAX_BODY_DEPTH, WaitsApp, decode_resolution
from onrecord.web.responses import HttpProblem
from onrecord.web.stores import Stores
from onrecord.web.threads import Threads

_WAIT = re.compile(r"[0-9a-f]{32}\Z")
_MEMBERS = {
    DONE: {"effect", "decision", "value", "by"},
    RETRY: {"effect", "decision", "by"},
    FAIL: {"effect", "decision", "message", "by"},
}


class Resolving:
    """The door for wait keys, opened when the first one comes: nobody writes who only looks."""

    def __init__(self, stores: Stores, threads: Threads, hosts: frozenset[str], prefix: str) -> None:
        self._stores = stores
        self._threads = threads
        self._hosts = hosts
        self._prefix = prefix.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        desk = await self._threads.run(self._stores.desk)
        # Host and Origin were looked at before; the door wants them named.
        origins = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
        door = WaitsApp(desk, allowed_hosts=self._hosts, allowed_origins=origins)
        await door({**scope, "raw_path": scope["raw_path"].removeprefix(self._prefix)}, receive, send)


async def body_of(request: Request) -> Any:
    """The JSON of a body: of a known length, not too long, and there in time."""
    kind = [part.strip().lower() for part in request.headers.get("content-type", "").split(";")]
    if kind[0] != "application/json" or kind[1:] not in ([], ["charset=utf-8"]):
        raise HttpProblem(415, "bad_type", "a body is application/json in UTF-8")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HttpProblem(415, "bad_type", "a body is not compressed")
    length = request.headers.get("content-length", "")
    if not (length.isascii() and length.isdecimal() and len(length) <= 12):
        raise HttpProblem(411, "no_length", "a body needs a Content-Length")
    if int(length) > BODY_BYTES:
        raise HttpProblem(413, "too_large", f"a body has at most {BODY_BYTES} bytes")
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return read_strict(await request.body(), max_bytes=BODY_BYTES, max_depth=MAX_BODY_DEPTH)
    except TimeoutError:
        slow = f"the body did not arrive within {BODY_SECONDS:.0f} seconds"
        raise HttpProblem(408, "too_slow", slow, headers={"connection": "close"}) from None
    except ClientDisconnect:
        raise HttpProblem(400, "cut_off", "the body is shorter than announced") from None


def resolve_wait(stores: Stores, text: str, wait: str, body: Any) -> Any:
    """As `onrecord resolve --json`, by the id of the wait; the same again is fine, another one is refused."""
    resolution = decode_resolution(body)
    run = stores.run(text)
    found = wait_named(stores.reading, stores.namespace, run, wait) if _WAIT.match(wait) else None
    if found is None:
        raise NotFound(f"run {run} has no such wait", hint="`onrecord waits` lists its waits.", code="unknown_wait")
    identity, session = found
    try:
        outcome = stores.desk().resolve(stores.desk().key(run, identity, session=session), resolution)
    except KeysUnavailable:
        outcome = ResolveOutcome.unknown_or_revoked()
    if outcome.status == "unknown_or_revoked":
        raise Refused(
            "the key of this wait was revoked, or is signed with a secret that is not on this machine",
            hint="Resolve it with its key, or where its agent runs; `onrecord keys` lists the secrets here.",
            code="no_key",
        )
    if not outcome.confirms(resolution):
        ended = outcome.terminal.status if outcome.terminal is not None else "another way"
        raise Refused(
            f"the wait was resolved before, as {ended}",
            hint="The first resolution stands; nothing was written.",
            code="already_resolved",
        )
    return {"run": run, "wait": wait, "status": "resolved", "first": outcome.status == "accepted"}


def settle_effect(stores: Stores, text: str, body: Any) -> Any:
    """As `onrecord settle --json`."""
    asked = _settlement(body)
    run = stores.run(text)
    message = asked.get("message", "")
    try:
        settled = settle(
            stores.writing(),
            run,
            asked["effect"],
            stores.namespace,
            decision=asked["decision"],
            value=asked.get("value"),
            message=message,
            by=asked.get("by"),
        )
    except (NotFound, Refused, InvalidInput):
        reader = JournalReader(stores.reading, run, stores.namespace)
        before = _settled_before(reader, asked["effect"])
        if before is None:
            raise
        _check_same(reader.run, asked, before)
        settled = asked["effect"]
    return {"run": run, "effect": settled, "decision": asked["decision"]}


def _settlement(body: Any) -> dict[str, Any]:
    if isinstance(body, dict) and body.get("decision") in (DONE, RETRY, FAIL):
        effect = body.get("effect")
        known = set(body) <= _MEMBERS[body["decision"]]
        texts = all(isinstance(body.get(name, ""), str) for name in ("message", "by"))
        whole = (body["decision"] != DONE or "value" in body) and (body["decision"] != FAIL or body.get("message"))
        if type(effect) is int and 0 < effect < 2**53 and known and texts and whole:
            return body
    raise InvalidInput(
        "a settlement names the effect by its seq and says what came of it",
        hint='{"effect": 3, "decision": "done", "value": …} or "retry", or "fail" with a "message"; "by" may be added.',
        code="bad_body",
    )


def _settled_before(reader: JournalReader, effect: int) -> Mapping[str, Any] | None:
    """The content of the settlement of that effect, if there is one."""
    if not 1 <= effect <= reader.head().seq:
        return None
    request: SeenEvent = one_event(reader, effect)
    if request.kind != "ActionRequested" or not isinstance(request.content, dict):
        return None
    for row in reader.store.scan(reader.namespace, reader.run, effect + 1, contents=False):
        whole = reader.store.event(reader.namespace, reader.run, row.seq) if row.kind == "EffectSettled" else None
        content = None if whole is None else seen(reader, whole).content
        if isinstance(content, dict) and content.get("action_id") == request.content.get("action_id"):
            assert whole is not None
            # What was taken out of it is sealed: who says the same again has said it before.
            return {**content, "value": load_secrets(reader).unseal(reader, whole, content.get("value"), needed=False)}
    return None


def _check_same(run: str, asked: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    value = encode(asked.get("value")).tree if asked["decision"] == DONE else asked.get("message")
    same_value = canonical_bytes(before.get("value")) == canonical_bytes(value)
    if before.get("decision") != asked["decision"] or not same_value:
        raise Refused(
            f"the effect at seq {asked['effect']} of run {run} was settled before, in another way",
            hint="The first word on it stands; nothing was written.",
            code="already_settled",
        )
