"""Keep the differences that a replay found, under their digests."""

from __future__ import annotations

import dataclasses

from onrecord.analysis.live.results import RunReplay, StepReplay
from onrecord.core.canonical import canonical_bytes
from onrecord.journal.sources import Sources
from onrecord.store.contract import Store

KEPT = frozenset({"drift", "broken", "missing", "unexpected"})


def keep_differences(
    store: Store, replay: RunReplay, namespace: str = "default", *, sources: Sources | None = None
) -> RunReplay:
    """Store each difference and return the result with their digests; `fetch_difference` reads them."""
    runs = [replay.run] if replay.replay is None else [replay.run, replay.replay]
    steps = [
        _keep_step(store, namespace, step, runs, sources) if step.verdict in KEPT else step for step in replay.steps
    ]
    return dataclasses.replace(replay, steps=tuple(steps))


def _keep_step(store: Store, namespace: str, step: StepReplay, runs: list[str], sources: Sources | None) -> StepReplay:
    from onrecord.analysis.compare.kept_differences import keep_difference

    data = {name: value for name, value in step.to_data().items() if name != "difference"}
    digest = keep_difference(store, namespace, canonical_bytes(data), runs=runs, sources=sources)
    return dataclasses.replace(step, difference=digest)
