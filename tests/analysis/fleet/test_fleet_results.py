"""One exit status of many findings: nothing of nothing is not a pass, and the worst wins."""

from __future__ import annotations

import json

import pytest

from onrecord.analysis.fleet.results import OUTCOMES, Finding, FleetReport, RunResult, skipped
from onrecord.analysis.fleet.shard import Shard

STATUS = {"damaged": 4, "diverged": 1, "not_replayable": 7, "died": 1, "timed_out": 1, "error": 1, "not_judged": 1}


def report(
    *verdicts: str,
    shard: Shard | None = None,
    elsewhere: int = 0,
    interrupted: int = 0,
    statuses: dict[str, int] = STATUS,
) -> FleetReport:
    results = [
        RunResult(f"run-{number}", "tester", None, Finding(verdict=verdict, status=statuses.get(verdict, 0)))
        for number, verdict in enumerate(verdicts)
    ]
    to_judge = sum(verdict != "skipped" for verdict in verdicts)
    return FleetReport(
        command="replay",
        namespace="default",
        results=results,
        selected=len(results) + elsewhere,
        to_judge=to_judge + elsewhere,
        to_judge_here=to_judge,
        shard=shard,
        interrupted=interrupted,
    )


@pytest.mark.parametrize(
    ("verdicts", "status"),
    [
        (["same"], 0),
        (["same", "unfinished", "valid", "skipped"], 0),
        (["same", "diverged"], 1),
        (["same", "died"], 1),
        (["same", "timed_out"], 1),
        (["same", "error"], 1),
        (["same", "not_replayable"], 7),
        (["not_replayable", "diverged"], 1),
        (["diverged", "not_replayable", "damaged", "died"], 4),
        (["skipped"], 1),
        (["skipped", "skipped"], 1),
        ([], 1),
    ],
)
def test_the_worst_wins_and_somebody_has_to_pass(verdicts: list[str], status: int) -> None:
    assert report(*verdicts).exit_status == status
    assert report(*verdicts).to_data()["passed"] is (status == 0)


@pytest.mark.parametrize(("own", "status"), [(5, 5), (70, 70), (1, 1)])
def test_trouble_of_our_own_outweighs_a_divergence(own: int, status: int) -> None:
    assert report("diverged", "error", statuses={"diverged": 1, "error": own}).exit_status == status
    assert report("damaged", "error", statuses={"damaged": 4, "error": own}).exit_status == 4


def test_an_empty_shard_of_a_selection_that_is_not_passes() -> None:
    shard = Shard(1, 2)
    assert report(shard=shard, elsewhere=3).exit_status == 0
    assert report("skipped", shard=shard, elsewhere=3).exit_status == 0
    assert report(shard=shard, elsewhere=0).exit_status == 1
    assert report("skipped", shard=shard, elsewhere=0).exit_status == 1
    assert report("diverged", shard=shard, elsewhere=3).exit_status == 1


def test_an_interruption_is_no_pass_whatever_was_found() -> None:
    assert report("same", "not_judged", interrupted=2).exit_status == 130
    assert report("same", interrupted=15).to_data()["interrupted"] == "SIGTERM"


def test_every_verdict_is_counted() -> None:
    everything = report(*OUTCOMES)
    assert everything.counts == dict.fromkeys(OUTCOMES, 1)
    assert sum(map(everything.outcomes, ("passed", "failed", "error", "skipped"))) == len(OUTCOMES)


def test_the_document() -> None:
    finding = Finding(
        verdict="diverged", code="divergence", message="m", hint="h", where={"seq": 3}, output="o", status=1
    )
    one = RunResult("r", "a", "2026-01-01T00:00:00Z", finding)
    data = one.to_data()
    assert json.loads(json.dumps(data)) == data
    assert data["problem"] == {"code": "divergence", "message": "m", "hint": "h", "seq": 3, "output": "o"}
    assert (data["verdict"], data["outcome"]) == ("diverged", "failed")
    assert RunResult("r", None, None, Finding(verdict="same")).to_data()["problem"] is None
    assert skipped("why", "because").outcome == "skipped"
