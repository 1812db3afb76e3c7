"""Check the tables and the shard matrix of docs/guides/replay-in-ci.md against the code."""

from __future__ import annotations

import re

from kit.paths import DOCS
from onrecord.analysis.fleet.results import OUTCOMES, FleetReport

DOCUMENT = (DOCS / "guides" / "replay-in-ci.md").read_text()


def test_every_verdict_and_every_member_is_told() -> None:
    named = set(re.findall(r"`([a-z_]+)`", DOCUMENT))
    assert OUTCOMES.keys() - {"not_judged"} <= named
    report = FleetReport(command="replay", namespace="", results=[], selected=0, to_judge=0, to_judge_here=0)
    assert report.to_data().keys() <= named


def test_the_matrix_asks_for_every_shard() -> None:
    (shards,) = re.findall(r"shard: \[([\d, ]+)\]", DOCUMENT)
    (total,) = re.findall(r"--shard \$\{\{ matrix\.shard \}\}/(\d+)", DOCUMENT)
    assert [int(one) for one in shards.split(",")] == list(range(1, int(total) + 1))
