"""What waits leave in inboxes, and under which keys.

    in the inbox of the run
    wait:<wait>                 how the wait ended: the only truth about it
    wait-pin:<wait>             that it exists, which secret signs it, to which session it belongs
    wait-pin:<wait>:<key id>    that it was issued again under another secret
    wait-objection:<wait>       that somebody came with another resolution later
    first-of:<waits>            which of several was first

    in the inbox of the namespace's operations journal
    session-revoked:<session>           no key of the session opens anything, for ever
    session-cancelled:<session>:<n>     waits made before its n-th cancellation end as cancelled

Waits and sessions are named by digests: any store takes them, and erasing a value that a name held does not
find, and so not remove, a revocation.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, NamedTuple

from reenact.core.canonical import parse_stored
from reenact.core.codec import decode
from reenact.core.wait_keys import RESOLUTION_STATUSES, Resolution, WaitIdentity, session_id
from reenact.errors import Damaged
from reenact.store.contract import InboxRow

SESSION_ROWS = "session-"
PIN_ROWS = "wait-pin:"


class Pin(NamedTuple):
    key_id: str
    session: str | None
    generation: int
    """How often the session had been cancelled when the wait was made."""


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
    # A wait without a session is looked for under a name that no session has, so that every look-up is alike.
    return f"{SESSION_ROWS}revoked:{'none' if session is None else session_id(session)}"


def cancellation_key(session: str, number: int) -> str:
    return f"{SESSION_ROWS}cancelled:{session_id(session)}:{number}"


def session_of(key: str) -> str | None:
    """The digest of the session that a row of the operations journal's inbox is about."""
    return key.split(":")[1] if key.startswith(SESSION_ROWS) and ":" in key else None


def pin_payload(identity: WaitIdentity, pin: Pin) -> dict[str, Any]:
    return {"kind": identity.kind, "name": identity.name, "ordinal": identity.ordinal, **pin._asdict()}


def pin_of(payload: Any) -> Pin:
    try:
        return Pin(str(payload["key_id"]), payload["session"], int(payload["generation"]))
    except (KeyError, TypeError, ValueError):
        raise Damaged("the record of a wait in an inbox cannot be read", code="bad_wait_row") from None


def resolution_payload(resolution: Resolution, nonce: str) -> dict[str, Any]:
    """The nonce tells the writer that it was the first, also against somebody who says the same."""
    return {"status": resolution.status, "value": resolution.value, "nonce": nonce}


def resolution_of(payload: Any) -> Resolution:
    if not isinstance(payload, dict) or payload.get("status") not in RESOLUTION_STATUSES:
        raise Damaged("the resolution of a wait in an inbox cannot be read", code="bad_wait_row")
    return Resolution(payload["status"], payload.get("value"))


def payload_of(row: InboxRow) -> Any:
    return decode(parse_stored(row.payload))
