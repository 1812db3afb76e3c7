"""Create a run, or claim an existing one for this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onrecord.core.codec import encode
from onrecord.core.hashing import SALT_BYTES, commitment, header_hash, render
from onrecord.core.links import FORMAT, Header, ParentRun
from onrecord.core.matching import MatchRules, VolatilePath
from onrecord.core.member_checks import find_fact_problem
from onrecord.core.merkle import Sharer
from onrecord.core.packing import pack
from onrecord.core.state import StateUpdatedOnlyReducer
from onrecord.errors import InvalidInput, Refused
from onrecord.journal.sources import Sources, holder_is_gone
from onrecord.store.contract import HeaderRow, NodeRow, Store

LEASE_SECONDS = 30.0
MOST_DEAD = 4
"""How many dead holders in a row are superseded."""


def create_header(
    store: Store,
    run: str,
    namespace: str,
    facts: Mapping[str, Any],
    *,
    kind: str = "run",
    reducer: str = StateUpdatedOnlyReducer.id,
    parent: ParentRun | None = None,
    volatile: Sequence[VolatilePath] = (),
    sources: Sources,
) -> HeaderRow:
    """Write the header of a run and return it as stored."""
    rules = MatchRules(volatile)
    if volatile:
        facts = {**facts, "volatile": [list(path) for path in rules.volatile]}
    problem = find_fact_problem(facts)
    if problem is not None:
        raise InvalidInput(problem, code="bad_member")
    encoded = encode(dict(facts))
    for address, data in encoded.artifacts.items():
        store.put_artifact(namespace, address, data)
    sharer = Sharer()
    stored = sharer.share(encoded.tree)
    salt = sources.entropy(SALT_BYTES)
    match = rules.match("Header", encoded.tree)
    created = sources.now_us()
    header = Header(
        content=render(commitment(salt, match, stored)),
        created=created,
        format=FORMAT,
        kind="operations" if kind == "operations" else "run",
        namespace=namespace,
        parent=parent,
        reducer=reducer,
        rules=rules.id,
        run=run,
    ).to_bytes()
    row = HeaderRow(run, kind, created, header, header_hash(header), salt, match, pack(stored), imported=False)
    nodes = [NodeRow(address, pack(node)) for address, node in sharer.new_nodes.items()]
    store.create_run(namespace, row, nodes)
    return row


def claim_run(store: Store, namespace: str, run: str, sources: Sources, lease_seconds: float) -> int:
    holder = sources.holder()
    claim = store.claim(namespace, run, holder, lease_seconds)
    # The holders died on this machine: do not wait for their leases to end. The last claim of a dead process may still
    # be in its server's queue, so more than one holder may have to be superseded.
    for _ in range(MOST_DEAD):
        if claim.granted or not holder_is_gone(claim.holder):
            break
        claim = store.claim(namespace, run, holder, lease_seconds, superseding=claim.holder)
    if not claim.granted:
        raise Refused(
            f"run {run} is being written by another process",
            hint="Wait for it to end, or for its lease to expire.",
            code="run_busy",
        )
    return claim.epoch
