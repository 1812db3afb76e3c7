"""What a run needs somebody for: its open waits with what is asked and until when, and its effects in doubt.

Keys are never among it. A wait is named by its id, which opens nothing by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onrecord.core.wait_keys import WaitIdentity
from onrecord.errors import InvalidInput, OnrecordError
from onrecord.journal.reader import JournalReader
from onrecord.reports.status import Open, open_requests
from onrecord.reports.timelines import seen
from onrecord.reports.times import iso_time
from onrecord.runtime.secrets.keys import KeyRing
from onrecord.runtime.waits import records
from onrecord.store.contract import Store

INTERRUPT = "interrupt@"


def open_waits(store: Store, namespace: str, run: str, signs: Callable[[str], bool]) -> list[dict[str, Any]]:
    """In the order they were made. `signs` tells of the id of a secret whether it is here: with it, whoever asks could
    make the key."""
    inbox = {row.key: row for row in store.inbox(namespace, run)}
    found = []
    asked = _asked(store, namespace, run)
    for key, row in inbox.items():
        wait = key.removeprefix(records.PIN_ROWS)
        if not key.startswith(records.PIN_ROWS) or ":" in wait or records.resolution_key(wait) in inbox:
            continue
        identity = _identity(records.decode_payload(row))
        if identity is None or identity.id != wait:
            continue  # a stranger's row: nobody could resolve it
        pin = records.parse_pin(records.decode_payload(row))
        secrets = [pin.key_id, *(other.rpartition(":")[2] for other in inbox if other.startswith(f"{key}:"))]
        told = _wait(identity, row.time, pin.session, asked)
        found.append({"run": run, **told, "answerable": any(signs(secret) for secret in secrets)})
    return found


def signs_here(secret: str) -> bool:
    """Whether the file of secrets on this machine holds that one. Looking makes none."""
    ring = KeyRing()
    try:
        return ring.path.exists() and ring.has(secret)
    except OnrecordError:
        return False  # whoever answers is told what is the matter with it


def wait_named(store: Store, namespace: str, run: str, wait: str) -> tuple[WaitIdentity, str | None] | None:
    """Which wait has that id, and to which session it belongs, whether it is open or not."""
    place = (run, records.pin_key(wait))
    row = store.inbox_find(namespace, [place]).get(place)
    identity = None if row is None else _identity(records.decode_payload(row))
    if row is None or identity is None or identity.id != wait:
        return None
    return identity, records.parse_pin(records.decode_payload(row)).session


def _identity(payload: Any) -> WaitIdentity | None:
    try:
        return WaitIdentity(payload["kind"], payload["name"], payload["ordinal"]).checked()
    except (KeyError, TypeError, InvalidInput):
        return None


def _wait(identity: WaitIdentity, since: int, session: str | None, asked: list[dict[str, Any]]) -> dict[str, Any]:
    name = identity.name.partition("@")[0] if identity.kind == "named" else identity.name
    event = next((one for one in asked if name in one["names"]), None)
    if event is not None:
        asked.remove(event)
    told = event or {"seq": None, "until": None, "question": None}
    return {
        "wait": identity.id,
        "kind": "interrupt" if identity.name.startswith(INTERRUPT) else identity.kind,
        "name": name,
        "ordinal": identity.ordinal,
        "session": session,
        "since": iso_time(since),
        "until": told["until"],
        "seq": told["seq"],
        "question": told["question"],
    }


def _asked(store: Store, namespace: str, run: str) -> list[dict[str, Any]]:
    """What the record says of what is waited for. A host that brings its own loop may have recorded nothing."""
    found = []
    for one in _open(store, namespace, run):
        if one.kind not in ("WaitCreated", "Interrupted"):
            continue
        members = _content(store, namespace, run, one.seq)
        deadline = members.get("deadline")
        names = ["interrupt"] if one.kind == "Interrupted" else [one.name, *one.name.split(" | ")]
        until = iso_time(deadline) if isinstance(deadline, int) else None
        found.append({"seq": one.seq, "names": names, "until": until, "question": members.get("value")})
        if " | " in one.name:  # several waits of which the first counts share one event
            found += [{**found[-1], "names": [name]} for name in one.name.split(" | ")[1:]]
    return found


def doubts(store: Store, namespace: str, run: str) -> list[dict[str, Any]]:
    """Effects that may have happened and have no answer on record."""
    found = []
    for one in _open(store, namespace, run):
        if one.once and not one.not_begun:
            members = _content(store, namespace, run, one.seq)
            row = store.event(namespace, run, one.seq)
            event = None if row is None else seen(JournalReader(store, run, namespace), row)
            time = None if event is None or event.time is None else iso_time(event.time)
            found.append(
                {"run": run, "effect": one.seq, "name": one.name, "asked": members.get("payload"), "since": time}
            )
    return found


def _open(store: Store, namespace: str, run: str) -> list[Open]:
    try:
        return open_requests(store, namespace, run)
    except OnrecordError:
        return []  # `verify` says what is the matter


def _content(store: Store, namespace: str, run: str, seq: int) -> dict[str, Any]:
    """As it is stored, never decoded: looking at a recording builds no objects."""
    try:
        row = store.event(namespace, run, seq)
        reader = JournalReader(store, run, namespace)
        found = None if row is None else reader.content_tree(row, reader.link(row))
    except OnrecordError:
        return {}
    return found if isinstance(found, dict) else {}
