"""Keep differences between runs as artifacts under their digest.

Erasure and retention reach only artifacts that an event names. So each difference gets a small, completed run that
names it and can be erased and retired like any other run. Its id is random: an id made from the digest would outlive
the erasure and could confirm a guess.
"""

from __future__ import annotations

from collections.abc import Sequence

from onrecord.core.codec import UnknownTag
from onrecord.core.events import Completed
from onrecord.core.hashing import artifact_address, parse_hash, render
from onrecord.errors import Damaged, InvalidValue, NotFound
from onrecord.journal.journal import Journal
from onrecord.journal.sources import Sources, SystemSources
from onrecord.store.contract import Store

KIND = "difference"


def keep_difference(
    store: Store, namespace: str, data: bytes, *, runs: Sequence[str] = (), sources: Sources | None = None
) -> str:
    """Store the bytes and return their digest, which results refer to. `runs` are the compared runs."""
    sources = sources or SystemSources()
    address = artifact_address(data)
    digest = render(address)
    facts = {"kind": KIND, "runs": list(runs)}
    name = f"difference-{sources.entropy(10).hex()}"
    with Journal.create(store, name, namespace, facts=facts, sources=sources) as journal:
        store.put_artifact(namespace, address, data)
        # Small values are references too: `fetch_difference` finds only artifacts.
        reference = UnknownTag({"$artifact": {"digest": digest, "size": len(data), "type": "bytes"}})
        journal.append(Completed(reference))
    return digest


def fetch_difference(store: Store, namespace: str, digest: str) -> bytes:
    """Return the bytes stored under a digest, after checking the digest."""
    try:
        address = parse_hash(digest)
    except InvalidValue:
        raise _unknown() from None
    data = store.artifact(namespace, address)
    if data is None:
        raise _unknown()
    if artifact_address(data) != address:
        raise Damaged(f"the difference kept under {digest} is not the one that was found", code="bad_artifact")
    return data


def _unknown() -> NotFound:
    return NotFound(
        "no difference is kept under that digest", hint="Compare the runs again.", code="unknown_difference"
    )
