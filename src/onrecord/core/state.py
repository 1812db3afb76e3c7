"""State: a pure fold of events, and its hash (docs/format.md, section 9)."""

from __future__ import annotations

from typing import Any, Protocol

from msgspec.structs import replace

from onrecord.core.canonical import canonical_bytes
from onrecord.core.codec import Encoded, encode
from onrecord.core.events import Event, SnapshotTaken, StateUpdated
from onrecord.core.hashing import render, state_hash_of, state_link_of
from onrecord.errors import InvalidInput


class Reducer(Protocol):
    """A pure fold. `apply` returns the next state and does not change the one it gets.

    It gets every event but `SnapshotTaken`, and no state links (`next_state`): a state is the same with and without
    snapshots, while it is recorded and when it is read.
    """

    @property
    def id(self) -> str:
        """Return the name of the reducer in facts and snapshots. A changed rule needs another id."""
        ...

    @property
    def state_version(self) -> int: ...

    def initial(self) -> Any: ...

    def apply(self, state: Any, event: Event) -> Any: ...


class StateUpdatedOnlyReducer:
    """The default reducer: the state is the payload of the last `StateUpdated`."""

    id = "replace/1"
    state_version = 1

    def initial(self) -> Any:
        return None

    def apply(self, state: Any, event: Event) -> Any:
        return event.payload if isinstance(event, StateUpdated) else state


def next_state(reducer: Reducer, state: Any, event: Event) -> Any:
    """Return the state after an event. The reducer does not see state links: `after` depends on its result."""
    if isinstance(event, SnapshotTaken):
        return state
    if isinstance(event, StateUpdated) and (event.before is not None or event.after is not None):
        event = replace(event, before=None, after=None)
    return reducer.apply(state, event)


def encode_state(state: Any) -> Encoded:
    """Encode a state. Refuse one that holds an object without a data form: it could not be restored."""
    return check_state(encode(state))


def check_state(encoded: Encoded) -> Encoded:
    if encoded.opaque is not None:
        raise InvalidInput(
            f"the state holds an object that cannot be recorded as data: {encoded.opaque}",
            hint="Keep only data in the state; open clients, locks and files again after a resume.",
            code="state_without_value",
        )
    return encoded


def state_hash(state: Any) -> str:
    """Return the public hash of a state. Equal states have equal hashes, in any order of keys."""
    return render(state_hash_of(canonical_bytes(encode_state(state).tree)))


def state_link(state: Any, salt: bytes) -> str:
    """Return the hash of a state under the salt of its `StateUpdated` event, so that it is erased with the event."""
    return render(state_link_of(salt, canonical_bytes(encode_state(state).tree)))
