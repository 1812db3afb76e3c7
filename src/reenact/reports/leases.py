"""Does anybody hold a run? Looked at without claiming it: a listing must not fence anybody off."""

from __future__ import annotations

from reenact.journal.sources import holder_is_gone
from reenact.store.contract import Store

_PARTS_OF_A_PROCESS = 5


def is_held(store: Store, namespace: str, run: str) -> bool:
    """True while somebody holds an unexpired lease of the run and is not known to be dead."""
    holder = store.holder(namespace, run)
    return holder is not None and not holder_is_gone("/".join(holder.split("/")[:_PARTS_OF_A_PROCESS]))
