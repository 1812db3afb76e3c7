"""The ledger outside: what was really carried out, and what the agent has seen of it, in the order of events.

One file for both, opened for appending, each line on the disk before anything goes on:

    did TAG VALUE INPUT EPOCH   written by an effect, in the middle of it
    saw TAG VALUE EPOCH         written by the agent's own code, right after the effect: its outcome is acknowledged

The epoch is that under which the process held the run when the effect began, or when the agent saw its outcome.

A run that comes back writes its `saw` lines again, and has to see the same.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple


class Line(NamedTuple):
    what: str
    tag: str
    value: Any
    more: Any = None
    epoch: int | None = None


def write(path: str | Path, what: str, tag: str, value: Any, more: Any = None, epoch: int | None = None) -> None:
    line = json.dumps([what, tag, value, more, epoch]).encode() + b"\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(path: str | Path) -> list[Line]:
    file = Path(path)
    text = file.read_text() if file.exists() else ""
    return [Line(*json.loads(line)) for line in text[: text.rfind("\n") + 1].splitlines()]  # one may be being written


def done(path: str | Path, tag: str) -> list[Any]:
    """What came of each time that the effect was carried out."""
    return [line.value for line in read(path) if line.what == "did" and line.tag == tag]


def check(path: str | Path) -> None:
    """No effect after its outcome was acknowledged; nothing unknown twice; every look at the record shows the same.

    Tags of effects that may happen at most once begin with `once`. What may be repeated is sometimes still under way in
    a process that has lost the run without knowing: nobody can stop that, and its outcome is not recorded. So an effect
    under an older epoch than that of the acknowledgement is not held against anybody.
    """
    lines = read(path)
    acknowledged: dict[str, Any] = {}
    epochs: dict[str, int] = {}
    inputs: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        if line.what == "saw":
            first = acknowledged.setdefault(line.tag, line.value)
            assert first == line.value, f"{line.tag} was seen as {first!r} and as {line.value!r}"
            epochs.setdefault(line.tag, line.epoch or 0)
        else:
            is_outdated = (line.epoch or 0) < epochs.get(line.tag, 0) and not line.tag.startswith("once")
            known = line.tag in acknowledged and not is_outdated
            assert not known, f"{line.tag} was carried out after its outcome was acknowledged"
            inputs[line.tag].add(json.dumps(line.more))
    carried_out = Counter(line.tag for line in lines if line.what == "did")
    repeated = [tag for tag, count in carried_out.items() if tag.startswith("once") and count > 1]
    assert not repeated, f"carried out again, unasked: {repeated}"
    changed = {tag: found for tag, found in inputs.items() if len(found) > 1}
    assert not changed, f"repeated with another input or idempotency key: {changed}"
    for tag, value in acknowledged.items():
        values = [line.value for line in lines if line.what == "did" and line.tag == tag]
        assert not values or value in values, f"{tag} was seen as {value!r}, which never came of it: {values}"
