"""Differences between runs, kept as artifacts under their digest.

An artifact that no event names would be out of reach of erasure and retention: what it quotes of a run could never be
taken back. So each difference gets a small run of its own that names it, has ended, and can be erased and retired like
any other. Its id is random: a name made from the digest would outlive the erasure, and could be guessed against.
"""

from __future__ import annotations

from collections.abc import Sequence

from reenact.core.codec import UnknownTag
from reenact.core.events import Completed
from reenact.core.hashing import artifact_address, parse_hash, render
from reenact.errors import Damaged, InvalidValue, NotFound
from reenact.journal.journal import Journal
from reenact.journal.sources import Sources, SystemSources
from reenact.store.contract import Store

KIND = "difference"


def keep_difference(
    store: Store,
    namespace: str,
    data: bytes,
    *,
    runs: Sequence[str] = (),
    sources: Sources | None = None,
) -> str:
    """Keeps the bytes; the digest is what a result names. `runs` are those that were compared."""
    sources = sources or SystemSources()
    address = artifact_address(data)
    digest = render(address)
    facts = {"kind": KIND, "runs": list(runs)}
    name = f"difference-{sources.entropy(10).hex()}"
    with Journal.create(store, name, namespace, facts=facts, sources=sources) as journal:
        store.put_artifact(namespace, address, data)
        # A reference also where the bytes are few: who fetches by digest finds them under it.
        named = UnknownTag({"$artifact": {"digest": digest, "size": len(data), "type": "bytes"}})
        journal.append(Completed(named))
    return digest


def fetch_difference(store: Store, namespace: str, digest: str) -> bytes:
    """The bytes under a digest, which is computed again."""
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
