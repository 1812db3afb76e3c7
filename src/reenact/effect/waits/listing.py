"""The waits of a run, for people. Needs no secret, so it shows no key."""

from __future__ import annotations

from typing import NamedTuple

from reenact.effect.waits import rows
from reenact.errors import Damaged
from reenact.store.contract import Store


class ListedWait(NamedTuple):
    kind: str
    name: str
    ordinal: int
    session: str | None
    state: str
    """open, or how it ended"""


def waits_of(store: Store, run: str, namespace: str = "default") -> list[ListedWait]:
    """In the order they were made."""
    found = {row.key: rows.payload_of(row) for row in store.inbox(namespace, run)}
    listed = []
    for key, payload in found.items():
        wait_id = key.removeprefix(rows.PIN_ROWS)
        if not key.startswith(rows.PIN_ROWS) or ":" in wait_id:
            continue
        ended = found.get(rows.resolution_key(wait_id))
        state = "open" if ended is None else rows.resolution_of(ended).status
        try:
            listed.append(ListedWait(payload["kind"], payload["name"], payload["ordinal"], payload["session"], state))
        except (KeyError, TypeError):
            raise Damaged("the record of a wait in an inbox cannot be read", code="bad_wait_row") from None
    return listed
