"""The inbox of a run: any process but its holder writes here. It is durable, and the first writer of a key wins.

A message is not part of the run; the holder reads the inbox in order and appends events for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from onrecord.core.canonical import parse_stored, stored_bytes
from onrecord.core.codec import decode, encode
from onrecord.errors import InvalidInput, InvalidValue
from onrecord.journal.sources import Sources, SystemSources
from onrecord.store.contract import InboxRow, Store

MAX_KEY_CHARACTERS = 1024
MAX_PAYLOAD_BYTES = 16 * 1024 * 1024


class Posted(NamedTuple):
    """The result of a post. `accepted`: the inbox holds this payload under the key, now or before.

    If another payload came first, `payload` is that one.
    """

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
    """Put a payload into the run's inbox under `key`. It is durable when this returns."""
    if not key or len(key) > MAX_KEY_CHARACTERS:
        raise InvalidInput(f"an inbox key has 1 to {MAX_KEY_CHARACTERS} characters", code="bad_key")
    encoded = encode(payload)
    if encoded.artifacts or not encoded.replayable:
        raise InvalidValue("a payload for an inbox must be plain data of moderate size", code="bad_payload")
    written = stored_bytes(encoded.tree)
    if len(written) > MAX_PAYLOAD_BYTES:
        raise InvalidValue(f"a payload for an inbox is larger than {MAX_PAYLOAD_BYTES} bytes", code="too_large")
    row = store.inbox_put(namespace, run, key, written, (sources or SystemSources()).now_us())
    return Posted(row.payload == written, row.number, _decode_payload(row))


def messages(store: Store, run: str, namespace: str = "default", *, after: int = 0) -> Iterator[Message]:
    """Yield the messages after number `after`, in order."""
    for row in store.inbox(namespace, run, after):
        yield Message(row.number, row.key, _decode_payload(row), row.time)


def _decode_payload(row: InboxRow) -> Any:
    return decode(parse_stored(row.payload))
