"""The inbox of a run: how everybody but its holder talks to it. Durable, and the first to write a key wins.

What stands in the inbox is not yet part of the run; the holder reads it in order and folds it into the journal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from reenact.core.canonical import parse_stored, stored_bytes
from reenact.core.codec import decode, encode
from reenact.errors import InvalidInput, InvalidValue
from reenact.journal.sources import Sources, SystemSources
from reenact.store.contract import InboxRow, Store

MAX_KEY_CHARACTERS = 1024
MAX_PAYLOAD_BYTES = 16 * 1024 * 1024


class Posted(NamedTuple):
    """`accepted`: the inbox holds this payload under the key (it may have been there already). Otherwise `payload` is
    the one that came first."""

    accepted: bool
    number: int
    payload: Any


class Message(NamedTuple):
    number: int
    key: str
    payload: Any
    time: int


def post(
    store: Store, run: str, key: str, payload: Any, namespace: str = "default", *, sources: Sources | None = None
) -> Posted:
    """Puts a payload into the run's inbox under `key`; durable when it returns."""
    if not key or len(key) > MAX_KEY_CHARACTERS:
        raise InvalidInput(f"an inbox key has 1 to {MAX_KEY_CHARACTERS} characters", code="bad_key")
    encoded = encode(payload)
    if encoded.artifacts or not encoded.replayable:
        raise InvalidValue("a payload for an inbox is plain data of moderate size", code="bad_payload")
    written = stored_bytes(encoded.tree)
    if len(written) > MAX_PAYLOAD_BYTES:
        raise InvalidValue(f"a payload for an inbox is larger than {MAX_PAYLOAD_BYTES} bytes", code="too_large")
    row = store.inbox_put(namespace, run, key, written, (sources or SystemSources()).now_us())
    return Posted(row.payload == written, row.number, _value(row))


def messages(store: Store, run: str, namespace: str = "default", *, after: int = 0) -> Iterator[Message]:
    """What others have said, in order, behind number `after`."""
    for row in store.inbox(namespace, run, after):
        yield Message(row.number, row.key, _value(row), row.time)


def _value(row: InboxRow) -> Any:
    return decode(parse_stored(row.payload))
