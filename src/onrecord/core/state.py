"""State as a pure fold of events, and its hash (docs/format.md, section 9)."""

from __future__ import annotations

from typing import Any, Protocol

from reenact.core.canonical import canonical_bytes
from reenact.core.codec import encode
from reenact.core.events import Event, StateUpdated
from reenact.core.hashing import render, state_hash_of, state_link_of


class Reducer(Protocol):
    """A pure fold. `apply` returns the next state and leaves the one it was given alone."""

    @property
    def id(self) -> str:
        """Names the reducer in the facts and in snapshots; a changed rule gets another id."""
        ...

    @property
    def state_version(self) -> int: ...

    def initial(self) -> Any: ...

    def apply(self, state: Any, event: Event) -> Any: ...


class StateUpdatedOnlyReducer:
    """The built-in reducer: the state is the payload of the last `StateUpdated`."""

    id = "replace/1"
    state_version = 1

    def initial(self) -> Any:
        return None

    def apply(self, state: Any, event: Event) -> Any:
        return event.payload if isinstance(event, StateUpdated) else state


def state_hash(state: Any) -> str:
    """The public hash of a state: the same for equal states, whatever the order of their keys."""
    return render(state_hash_of(canonical_bytes(encode(state).tree)))


def state_link(state: Any, salt: bytes) -> str:
    """The hash of a state as a `StateUpdated` event keeps it: under that event's salt, so that it is erased with it."""
    return render(state_link_of(salt, canonical_bytes(encode(state).tree)))
