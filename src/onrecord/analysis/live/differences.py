"""The differences that a replay found, kept under their digests."""

from __future__ import annotations

import dataclasses

from reenact.core.canonical import canonical_bytes
from reenact.journal.sources import Sources
from reenact.replays.live.results import RunReplay, StepReplay
from reenact.store.contract import Store

KEPT = frozenset({"drift", "broken", "missing", "unexpected"})


def keep_differences(
    store: Store, replay: RunReplay, namespace: str = "default", *, sources: Sources | None = None
) -> RunReplay:
    """The same result, with the digest under which each difference is kept (`evidence.fetch_difference`)."""
    runs = [replay.run] if replay.replay is None else [replay.run, replay.replay]
    steps = [_kept(store, namespace, step, runs, sources) if step.verdict in KEPT else step for step in replay.steps]
    return dataclasses.replace(replay, steps=tuple(steps))


def _kept(store: Store, namespace: str, step: StepReplay, runs: list[str], sources: Sources | None) -> StepReplay:
    from reenact.replays.evidence.differences import keep_difference

    data = {name: value for name, value in step.to_data().items() if name != "difference"}
    digest = keep_difference(store, namespace, canonical_bytes(data), runs=runs, sources=sources)
    return dataclasses.replace(step, difference=digest)
