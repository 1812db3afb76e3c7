"""The waits of a run, for people. Reading them needs no secret, so no key is shown."""

from __future__ import annotations

from typing import NamedTuple

from onrecord.errors import Damaged
from onrecord.runtime.waits import records
from onrecord.store.contract import Store


class ListedWait(NamedTuple):
    kind: str
    name: str
    ordinal: int
    session: str | None
    state: str
    """`open`, or the status of its resolution."""


def load_waits(store: Store, run: str, namespace: str = "default") -> list[ListedWait]:
    """Return the waits of a run in the order of their creation."""
    payloads = {row.key: records.decode_payload(row) for row in store.inbox(namespace, run)}
    waits = []
    for key, payload in payloads.items():
        wait_id = key.removeprefix(records.PIN_ROWS)
        if not key.startswith(records.PIN_ROWS) or ":" in wait_id:
            continue
        resolution = payloads.get(records.resolution_key(wait_id))
        state = "open" if resolution is None else records.parse_resolution(resolution).status
        try:
            waits.append(ListedWait(payload["kind"], payload["name"], payload["ordinal"], payload["session"], state))
        except (KeyError, TypeError):
            raise Damaged("the record of a wait in an inbox cannot be read", code="bad_wait_row") from None
    return waits
