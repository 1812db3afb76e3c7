"""Who works on a scope: each host instance is a holder of its own, also beside another one in the same process.

Two instances under one holder's name would both be let in, and each would take the other's effect in flight for one
that was left behind.
"""

from __future__ import annotations

from onrecord.journal.sources import Sources, SystemSources, holder_is_gone
from onrecord.store.contract import Claim, Store


class HostSources:
    """The given sources, with a holder that names this instance behind its process."""

    def __init__(self, inner: Sources | None = None) -> None:
        self._inner = inner or SystemSources()
        self._instance = self._inner.entropy(6).hex()

    def now_us(self) -> int:
        return self._inner.now_us()

    def entropy(self, size: int) -> bytes:
        return self._inner.entropy(size)

    def holder(self) -> str:
        # Asked anew each time: a forked child is another process, and another holder.
        return f"{self._inner.holder()}/{self._instance}"


def claim_scope(store: Store, namespace: str, run: str, sources: Sources, lease_seconds: float) -> Claim:
    """A claim that does not wait for the lease of a process that is known to be dead."""
    holder = sources.holder()
    claim = store.claim(namespace, run, holder, lease_seconds)
    if not claim.granted and holder_is_gone(claim.holder.rpartition("/")[0]):
        claim = store.claim(namespace, run, holder, lease_seconds, superseding=claim.holder)
    return claim
