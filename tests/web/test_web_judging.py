"""Verdicts, comparisons, receipts, what can be replayed, exports and artifacts, over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from kit.soak import SOAK
from kit.web import PLAIN, V1, Served, command, once, problem, record, serving, states, whole_run
from onrecord.analysis.compare.patches import apply_patch
from onrecord.cli.main import cli
from onrecord.core.events import ActionFailed, ActionRequested, ActionSucceeded, Completed, Event, StateUpdated
from onrecord.core.links import ParentRun
from onrecord.journal.chain import Draft
from onrecord.journal.import_file import verify_file
from onrecord.proof.receipts import ReplayToken
from onrecord.store.factory import open_store


def asked(number: int, name: str = "ask") -> Draft:
    request = ActionRequested(action_id=f"a{number}", payload=number, name=name, effect="model_call")
    return Draft(request, key=f"k{number}")


# Comparison


def test_a_comparison_carries_the_patch_of_its_first_divergence(url: str) -> None:
    record(url, "first", whole_run(answer={"n": 4, "why": ["sum"]}))
    record(url, "second", whole_run(answer={"n": 5, "why": ["sum", "guess"]}))
    with serving(url) as served:
        report = served.json("/runs/first/diff/second")
        assert (report["verdict"], report["first"]["expected"]["seq"]) == ("diverged", 2)
        before, after = (served.json(f"/runs/{run}/events/2")["content"] for run in ("first", "second"))
        assert report["first"]["patch"]
        assert apply_patch(before, report["first"]["patch"]) == after
        assert served.json("/runs/first/diff/second", first_only="true") == command(
            url, "diff", "first", "second", "--first-only"
        )
        assert served.json("/runs/first/diff/first")["verdict"] == "same"


def test_a_side_that_is_missing_has_no_patch(served: Served, path: str) -> None:
    record(path, "short", whole_run()[:2])
    assert served.json("/runs/first/diff/short")["first"]["patch"] is None


# What can be replayed


def test_what_can_be_replayed_is_told_effect_by_effect(url: str) -> None:
    events: list[Event | Draft] = [
        asked(1),
        Draft(ActionSucceeded(action_id="a1", output={"text": "4"}), parent=1),
        asked(2, "look"),
        Draft(ActionFailed(action_id="a2", error=ValueError("no")), parent=3),
        asked(3, "open_file"),
        Draft(ActionSucceeded(action_id="a3", output=object()), parent=5),
        once(4),
    ]
    record(url, "doubtful", events)
    with serving(url) as served:
        report = served.json("/runs/doubtful/replay")
        assert (report["status"], report["verdict"], report["events"]) == ("in_doubt", "not_replayable", 7)
        assert [
            (one["seq"], one["name"], one["answer"], one["outcome"], one["replay"]) for one in report["effects"]
        ] == [
            (1, "ask", 2, "succeeded", "replayable"),
            (3, "look", 4, "failed", "replayable"),
            (5, "open_file", 6, "succeeded", "not_replayable"),
            (7, "mail", None, None, "in_doubt"),
        ]
        assert report["counts"] == {"replayable": 2, "not_replayable": 1, "open": 0, "in_doubt": 1, "damaged": 0}
        assert report["live_replays"] == []
        page = served.json("/runs/doubtful/replay", limit=1, after=1)
        assert [one["seq"] for one in page["effects"]] == [3]
        assert page["next"] == 5
        assert page["counts"] == report["counts"], "counts are of the whole run, on every page"


def test_a_whole_and_an_unfinished_run(served: Served, path: str) -> None:
    assert served.json("/runs/first/replay")["verdict"] == "replayable"
    record(path, "going", whole_run()[:1])
    report = served.json("/runs/going/replay")
    assert (report["verdict"], report["effects"][0]["replay"]) == ("unfinished", "open")


def test_recorded_replays_are_named_with_their_verdicts(url: str) -> None:
    record(url, "before")
    record(url, "first")
    with serving(url) as served:
        head = served.json("/runs/first")["head"]
        parent = ParentRun(head=head, relation="replay", run="first", seq=4)
        record(url, "again", parent=parent)
        record(url, "otherwise", whole_run(answer="5"), parent=parent)
        record(url, "child", parent=ParentRun(head=head, relation="child", run="first", seq=4))
        report = served.json("/runs/first/replay")
        found = [(one["run"], one["status"], one["verdict"]) for one in report["live_replays"]]
        assert found == [("otherwise", "completed", "broken"), ("again", "completed", "pass")]
        judged = served.json("/runs/first/replay/otherwise")
        assert judged.pop("next") is None
        assert {**judged, "stopped_by": None} == command(url, "attempts", "first")
        page = served.json("/runs/first/replay/otherwise", limit=1)
        assert (page["steps"], page["next"]) == (judged["steps"][:1], 1)
        assert served.json("/runs/first/replay/otherwise", after=1)["steps"] == judged["steps"][1:]
        assert served.code("/runs/first/replay/first", 400) == "same_run"
        assert served.code("/runs/first/replay/nobody", 404) == "unknown_run"
        assert served.json("/runs/again")["parent"]["relation"] == "replay"
        assert served.json("/runs/before/replay")["live_replays"] == []


def test_looking_at_a_replay_runs_no_code(served: Served, path: str, tmp_path: Path) -> None:
    Path("agent.py").write_text("from pathlib import Path\nPath('ran').touch()\n\ndef work():\n    pass\n")
    facts = {"agent": "work", "origin": {"path": str(tmp_path / "agent.py"), "function": "work"}}
    record(path, "coded", facts=facts)
    served.json("/runs/coded/replay")
    assert not Path("ran").exists()


# Receipts


def test_receipts_are_paged_and_found_by_their_hash(url: str) -> None:
    events: list[Event | Draft] = []
    for number in range(1, 8):
        events += [asked(number), Draft(ActionSucceeded(action_id=f"a{number}", output=number), parent=2 * number - 1)]
    record(url, "many", events)
    with serving(url) as served:
        whole = served.json("/runs/many/receipts")["receipts"]
        assert len(whole) == 7
        paged: list[Any] = []
        page: dict[str, Any] = {"next": 0}
        while page["next"] is not None:
            page = served.json("/runs/many/receipts", after=page["next"], limit=3)
            paged += page["receipts"]
        assert paged == whole
        one = served.json(f"/receipts/{whole[3]['token_hash']}")
        assert one == whole[3]
        assert ReplayToken.from_json(json.dumps(one).encode()).problems() == []
        assert served.code("/receipts/sha256:" + "0" * 64, 404)
        for name in ("nothing", "sha256:" + "0" * 63, "..%2f..%2fetc", "sha256:" + "A" * 64):
            assert served.code(f"/receipts/{name}", 404) in ("no_receipt", "no_such_resource")


# Exports


def test_the_timeline_is_exported_line_by_line(url: str) -> None:
    record(url, "long", [*states(1_500, 400), Completed(output=None)])
    with serving(url) as served, served.client.stream("GET", V1 + "/runs/long/timeline") as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/x-ndjson"
        assert answer.headers["content-disposition"] == 'attachment; filename="long.timeline.jsonl"'
        assert "content-length" not in answer.headers, "it is streamed"
        lines = [json.loads(line) for line in answer.iter_lines()]
        end = lines.pop()["end"]
        assert [one["seq"] for one in lines] == list(range(1, 1_502))
        assert lines[700] == {k: v for k, v in served.json("/runs/long/events/701").items() if k != "run"}
        head = served.json("/runs/long")["head"]
        assert end == {"run": "long", "events": 1_501, "head": f"1501:{head}", "damaged": 0}
        resumed = served.get("/runs/long/timeline", after=1_500).text.splitlines()
        assert [json.loads(line).get("seq") for line in resumed] == [1_501, None]


def test_a_recording_is_what_export_writes(url: str) -> None:
    record(url, "first", [*whole_run()[:3], StateUpdated(payload="x" * 100_000), Completed(output=b"y" * 100_000)])
    with serving(url) as served:
        Path("served.jsonl").write_bytes(served.get("/runs/first/recording").content)
    assert CliRunner().invoke(cli, ["export", "first", "-o", "printed.jsonl", "--store", url]).exit_code == 0
    assert Path("served.jsonl").read_bytes() == Path("printed.jsonl").read_bytes()
    assert verify_file("served.jsonl", deep=True).valid


def test_an_export_takes_bounded_memory(path: str) -> None:
    """A run four times as long takes no more."""
    events = 4_000 if SOAK else 1_500
    record(path, "small", states(events, 6_000))
    record(path, "large", states(4 * events, 6_000))
    command_line = [sys.executable, "-m", "onrecord.cli.main", "serve", "--port", "0", "--json", "--store", path]
    with subprocess.Popen(command_line, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = json.loads(process.stdout.readline())
            assert exported_bytes(said, "small") > events * 6_000
            before = peak(process.pid)
            assert exported_bytes(said, "large") > 4 * events * 6_000
            assert peak(process.pid) - before < 12_000_000
        finally:
            process.terminate()
    assert process.returncode == 0


def exported_bytes(said: dict[str, str], run: str) -> int:
    headers = {"Authorization": f"Bearer {said['token']}"}
    with httpx.stream("GET", f"{said['url']}api/v1/runs/{run}/timeline", headers=headers, **PLAIN) as answer:
        return sum(len(part) for part in answer.iter_raw())


def peak(pid: int) -> int:
    """The most memory that the process has taken, in bytes."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


# Artifacts


def test_an_artifact_is_an_attachment_of_plain_bytes(url: str) -> None:
    data = b"<html><script>alert(1)</script>" * 5_000
    record(url, "first", [StateUpdated(payload=data)])
    store = open_store(url)
    (address,) = store.all_artifacts("default")
    store.close()
    with serving(url) as served:
        answer = served.get(f"/artifacts/sha256:{address.hex()}")
        assert answer.content == data
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"] == f'attachment; filename="sha256-{address.hex()}.bin"'
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert served.code("/artifacts/sha256:" + "0" * 64, 404) == "no_artifact"


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "%2e%2e",
        "..%2f..%2fstore.db",
        "%2fetc%2fpasswd",
        "C:%5cwindows",
        "sha256:%00" + "0" * 63,
        "sha256:" + "0" * 64 + "%0d%0aX-Evil: 1",
        "sha256:..",
        "%ff%fe",
        "0" * 64,
    ],
)
def test_nothing_but_a_digest_names_an_artifact(shared: Served, name: str) -> None:
    answer = shared.client.get(f"{V1}/artifacts/{name}")
    problem(answer, 404)
    assert "x-evil" not in answer.headers


def test_an_artifact_that_was_altered_is_refused(served: Served, path: str) -> None:
    record(path, "big", [StateUpdated(payload=b"x" * 200_000)])
    (file,) = [one for one in Path(path + ".artifacts").rglob("*") if one.is_file()]
    file.chmod(0o600)
    file.write_bytes(file.read_bytes()[:-1] + b"y")
    digest = next(iter(open_store(path, read_only=True).all_artifacts("default"))).hex()
    assert served.get(f"/artifacts/sha256:{digest}").status_code == 409
