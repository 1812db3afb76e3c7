"""The inbox rows of waits, and their keys.

    in the inbox of the run
    wait:<wait>                 the resolution; the wait has ended if and only if this row exists
    wait-pin:<wait>             the wait exists: the id of its signing secret, and its session
    wait-pin:<wait>:<key id>    the key was issued again under another secret
    wait-objection:<wait>       a different resolution arrived later
    first-of:<waits>            the first of several waits

    in the inbox of the namespace's operations journal
    session-revoked:<session>           no key of the session is accepted, ever
    session-cancelled:<session>:<n>     waits created before its n-th cancellation end as cancelled

Waits and sessions are named by digests. Every store accepts a digest, and erasing a value that occurs in a name cannot
remove a revocation.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, NamedTuple

from onrecord.core.canonical import parse_stored
from onrecord.core.codec import decode
from onrecord.core.wait_keys import RESOLUTION_STATUSES, Resolution, WaitIdentity, session_id
from onrecord.errors import Damaged
from onrecord.store.contract import InboxRow

SESSION_ROWS = "session-"
PIN_ROWS = "wait-pin:"


class Pin(NamedTuple):
    """The facts of a wait that are fixed at its creation."""

    key_id: str
    session: str | None
    generation: int
    """The number of cancellations of the session when the wait was created."""


def resolution_key(wait_id: str) -> str:
    return f"wait:{wait_id}"


def pin_key(wait_id: str) -> str:
    return PIN_ROWS + wait_id


def reissue_key(wait_id: str, key_id: str) -> str:
    return f"{PIN_ROWS}{wait_id}:{key_id}"


def objection_key(wait_id: str) -> str:
    return f"wait-objection:{wait_id}"


def first_of_key(wait_ids: Iterable[str]) -> str:
    return "first-of:" + sha256(",".join(sorted(wait_ids)).encode()).hexdigest()[:32]


def revocation_key(session: str | None) -> str:
    # A wait without a session uses a name that no session has, so that every look-up costs the same.
    return f"{SESSION_ROWS}revoked:{'none' if session is None else session_id(session)}"


def cancellation_key(session: str, number: int) -> str:
    return f"{SESSION_ROWS}cancelled:{session_id(session)}:{number}"


def parse_session(key: str) -> str | None:
    """Return the digest of the session that a row key of the operations journal's inbox names."""
    return key.split(":")[1] if key.startswith(SESSION_ROWS) and ":" in key else None


def pin_payload(identity: WaitIdentity, pin: Pin) -> dict[str, Any]:
    return {"kind": identity.kind, "name": identity.name, "ordinal": identity.ordinal, **pin._asdict()}


def parse_pin(payload: Any) -> Pin:
    try:
        return Pin(str(payload["key_id"]), payload["session"], int(payload["generation"]))
    except (KeyError, TypeError, ValueError):
        raise Damaged("the record of a wait in an inbox cannot be read", code="bad_wait_row") from None


def resolution_payload(resolution: Resolution, nonce: str) -> dict[str, Any]:
    """Return the row of a resolution. With the nonce a writer knows its own row from an equal one of another writer."""
    return {"status": resolution.status, "value": resolution.value, "nonce": nonce}


def parse_resolution(payload: Any) -> Resolution:
    if not isinstance(payload, dict) or payload.get("status") not in RESOLUTION_STATUSES:
        raise Damaged("the resolution of a wait in an inbox cannot be read", code="bad_wait_row")
    return Resolution(payload["status"], payload.get("value"))


def decode_payload(row: InboxRow) -> Any:
    return decode(parse_stored(row.payload))
