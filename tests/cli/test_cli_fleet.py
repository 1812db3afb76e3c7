"""`onrecord replay --all`: which runs, by which code, and what the verdicts come to."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kit.cli import assert_two_lines, flip_content, onrecord, onrecord_json, onrecord_process, opened, record, tampering
from kit.fleet import AGENTS, codes, record_runs, steady_runs, verdicts, write_agents, written
from onrecord.analysis.compare.kept_differences import keep_difference
from onrecord.analysis.fleet.shard import shard_number
from onrecord.core.events import ActionRequested, Completed
from onrecord.journal.journal import Journal


@pytest.fixture(autouse=True)
def program(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked_workers: None) -> Path:
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))
    return write_agents()


# By which code


def test_each_run_is_replayed_by_its_own_agent() -> None:
    """Several agents of one file, a function that is none, another file of the same name, asynchronous ones."""
    write_agents("other/agents.py", AGENTS.replace("hello", "good evening"))
    record_runs(
        ("one", "agents.py:steady", [1]),
        ("two", "agents.py:greeter", ["bob"]),
        ("three", "agents.py:plain", [4]),
        ("four", "other/agents.py:greeter", ["bob"]),
        ("five", "agents.py:failing", ["no"]),
    )
    mails = written("mails")
    document = onrecord_json("replay", "--all")
    assert verdicts(document) == dict.fromkeys(["one", "two", "three", "four", "five"], "same")
    assert [run["agent"] for run in document["runs"]] == ["steady", "greeter", "plain", "greeter", "failing"]
    assert document["verdicts"] == {"same": 5}
    assert written("mails") == mails, "a replay does nothing outside"


def test_code_that_is_named_is_found_by_the_name_of_the_agent() -> None:
    """Runs that do not tell where their code is; two files; a module."""
    write_agents("more.py", "import onrecord\n\n@onrecord.agent(name='known as')\ndef other(x):\n    return add(x)\n\n"
                 "@onrecord.step\ndef add(x):\n    return x + 1\n")  # fmt: skip
    record_runs(("one", "agents.py:steady", [1]), ("two", "more.py:other", [1]), ("three", "agents.py:greeter", ["x"]),
                with_origin=False)  # fmt: skip
    nothing = onrecord_json("replay", "--all", status=1)
    assert codes(nothing) == dict.fromkeys(["one", "two", "three"], "no_origin")
    assert verdicts(nothing) == dict.fromkeys(["one", "two", "three"], "error")
    some = onrecord_json("replay", "--all", "agents.py", status=1)
    assert verdicts(some) == {"one": "same", "two": "error", "three": "same"}
    assert verdicts(onrecord_json("replay", "--all", "agents.py", "more.py")).keys() == {"one", "two", "three"}
    assert onrecord_json("replay", "--all", "agents.py", "-m", "more")["verdicts"] == {"same": 3}
    by_function = onrecord_json("replay", "--all", "agents.py:steady", "more.py:other", status=1)
    assert verdicts(by_function) == {"one": "same", "two": "same", "three": "error"}


def test_two_named_agents_of_one_name_are_an_error_of_their_runs() -> None:
    write_agents("again/copied.py")
    record_runs(("one", "agents.py:steady", [1]), with_origin=False)
    document = onrecord_json("replay", "--all", "agents.py", "again/copied.py", status=1)
    assert codes(document) == {"one": "which_agent"}


def test_code_that_is_gone_is_an_error_of_its_runs_alone() -> None:
    write_agents("gone.py")
    write_agents("broken.py")
    record_runs(("one", "gone.py:steady", [1]), ("two", "agents.py:steady", [1]), ("three", "broken.py:steady", [1]))
    Path("gone.py").unlink()
    for text in ("1 / 0", "raise SystemExit(0)"):
        Path("broken.py").write_text(text)
        document = onrecord_json("replay", "--all", status=1)
        assert verdicts(document) == {"one": "error", "two": "same", "three": "error"}
        assert codes(document) == {"one": "no_file", "two": None, "three": "load_failed"}


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (["missing.py"], 3, "no_file"),
        (["broken.py"], 1, "load_failed"),
        (["ends.py"], 1, "load_failed"),
        (["empty.py"], 2, "no_agent"),
        (["agents.py:nobody"], 3, "no_agent"),
        (["-m", "no.such.module"], 3, "no_module"),
    ],
)
def test_named_code_that_cannot_be_used_is_told_once(words: list[str], status: int, code: str) -> None:
    Path("broken.py").write_text("1 / 0")
    Path("ends.py").write_text("raise SystemExit(0)")
    Path("empty.py").write_text("")
    record_runs(*steady_runs(3))
    result = onrecord("replay", "--all", *words)
    assert result.exit_code == status, result.output
    assert_two_lines(result.stderr, code)


def test_a_run_that_another_called_is_replayed_by_itself() -> None:
    """Its code does not run with its caller's, so what has changed in it would go unseen."""
    record_runs(("caller", "agents.py:caller", [1]))
    called = onrecord_json("ls", "--agent", "child")["runs"][0]["run"]
    assert verdicts(onrecord_json("replay", "--all")) == {"caller": "same", called: "same"}
    assert verdicts(onrecord_json("replay", "--all", "agents.py")) == {"caller": "same", called: "same"}
    assert verdicts(onrecord_json("replay", "--all", "agents.py:caller")) == {"caller": "same", called: "same"}
    Path("changed").touch()
    assert verdicts(onrecord_json("replay", "--all", status=1)) == {"caller": "same", called: "diverged"}


# Verdicts


def test_one_that_diverges_does_not_hide_the_others() -> None:
    record_runs(*steady_runs(2), ("changing", "agents.py:changing", [5]), *steady_runs(2, first=2))
    Path("changed").touch()
    document = onrecord_json("replay", "--all", status=1)
    assert list(verdicts(document).values()) == ["same", "same", "diverged", "same", "same"]
    problem = document["runs"][2]["problem"]
    assert (problem["seq"], problem["path"]) == (1, "/payload/right")
    assert problem["expected"]["payload"] == {"left": 5, "right": 1}
    assert problem["actual"]["payload"] == {"left": 5, "right": 2}
    assert problem["output"] == "about to differ", "what its code wrote, and no other's"
    result = onrecord("replay", "--all")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert sum(line.startswith("same ") for line in lines) == 4
    assert lines[2].startswith("diverged  changing")
    assert '"payload": {"left": 5, "right": 2}' in result.stdout
    assert lines[-1] == "5 runs: 4 same, 1 diverged"


def test_the_worst_wins() -> None:
    record_runs(*steady_runs(1))
    assert onrecord("replay", "--all").exit_code == 0
    record_runs(("odd", "agents.py:odd", []))
    assert onrecord_json("replay", "--all", status=7)["verdicts"] == {"same": 1, "not_replayable": 1}
    record_runs(("changing", "agents.py:changing", [5]))
    Path("changed").touch()
    assert onrecord("replay", "--all").exit_code == 1
    flip_content("steady-0", 2)
    document = onrecord_json("replay", "--all", status=4)
    assert document["verdicts"] == {"diverged": 1, "not_replayable": 1, "damaged": 1}


def test_damaged_facts_are_damage_and_not_skipped() -> None:
    record_runs(*steady_runs(2))
    with tampering() as connection:
        connection.execute("UPDATE runs SET content = x'00' WHERE run = 'steady-0'")
    assert verdicts(onrecord_json("replay", "--all", status=4)) == {"steady-0": "damaged", "steady-1": "same"}


def test_an_unfinished_run_is_replayed_as_far_as_it_goes() -> None:
    Path("trouble").touch()
    assert onrecord_process("run", "agents.py:troubled", "--input", '"killed"', "--run-id", "killed").returncode == -9
    Path("trouble").unlink()
    document = onrecord_json("replay", "--all")
    assert verdicts(document) == {"killed": "unfinished"}
    assert document["runs"][0]["outcome"] == "passed"


def test_a_run_that_has_just_begun_is_no_pass() -> None:
    record_runs(*steady_runs(1))
    facts = {"agent": "steady", "input": {"args": [1], "kwargs": {}}}
    with opened() as store, Journal.create(store, "begun", facts=facts):
        pass
    document = onrecord_json("replay", "--all", "agents.py")
    assert verdicts(document) == {"steady-0": "same", "begun": "skipped"}
    assert codes(document)["begun"] == "no_effects", "nothing of nothing is not a pass"


def test_a_run_without_effects_is_no_pass() -> None:
    record_runs(("one", "agents.py:effectless", [1]))
    document = onrecord_json("replay", "--all", status=1)
    assert codes(document) == {"one": "no_effects"}
    assert document["verdicts"] == {"skipped": 1}


def test_what_cannot_be_replayed_is_skipped_with_the_reason() -> None:
    record_runs(("left", "agents.py:steady", [987654321]), *steady_runs(1))
    assert onrecord("erase", "--value", "987654321", "--yes").exit_code == 0
    whole = {"agent": "steady", "input": {"args": [1], "kwargs": {}}}
    record("no-agent", facts={"recording": "nightly"})
    once = ActionRequested(action_id="a1", payload=1, name="mail", effect="tool_call", meta={"once": True})
    record("doubtful", [once], facts=whole)
    record_runs(("imported", "agents.py:steady", [4]), store="elsewhere.db")
    assert onrecord("export", "imported", "-o", "run.jsonl", "--store", "elsewhere.db").exit_code == 0
    assert onrecord("import", "run.jsonl").exit_code == 0
    with opened() as store, Journal.create(store, "running", facts=whole) as journal:
        journal.append([ActionRequested(action_id="a1", payload=1, name="add", effect="durable_step")])
        document = onrecord_json("replay", "--all")
        text = onrecord("replay", "--all").stdout
        named = onrecord_json("replay", "--all", "agents.py")
    assert codes(document) == {
        "left": "erased",
        "steady-0": None,
        "no-agent": "no_agent",
        "doubtful": "in_doubt",
        "imported": "imported_run",
        "running": "running",
    }
    assert document["verdicts"] == {"same": 1, "skipped": 5}
    assert "6 runs: 1 same, 5 skipped" in text
    assert "it is still running [running]" in text
    assert verdicts(named)["imported"] == "same", "its code was named"


def test_an_erased_answer_is_skipped() -> None:
    record_runs(("one", "agents.py:changing", [987654320]), *steady_runs(1))
    assert onrecord("erase", "--value", "987654321", "--yes").exit_code == 0
    document = onrecord_json("replay", "--all")
    assert codes(document) == {"one": "erased", "steady-0": None}


def test_skipped_alone_is_no_pass() -> None:
    record("no-agent", facts={"recording": "nightly"})
    result = onrecord("replay", "--all")
    assert result.exit_code == 1
    assert_two_lines(result.stderr, "nothing_replayed")
    assert onrecord_json("replay", "--all", status=1)["passed"] is False


def test_kept_differences_and_receipts_are_left_out() -> None:
    record_runs(*steady_runs(1))
    with opened() as store:
        keep_difference(store, "default", b"difference", runs=["steady-0"])
    record("receipts-1", [Completed()], facts={"receipts": "onrecord.receipt/1"})
    assert verdicts(onrecord_json("replay", "--all")) == {"steady-0": "same"}


# Which runs


def test_nothing_to_replay_is_not_a_pass() -> None:
    with opened() as store:
        keep_difference(store, "default", b"difference")
    result = onrecord("replay", "--all")
    assert result.exit_code == 3
    assert_two_lines(result.stderr, "no_runs")
    record_runs(*steady_runs(1))
    for words in (["--agent", "nobody"], ["--status", "failed"], ["--since", "2100-01-01"], ["--until", "2000-01-01"]):
        result = onrecord("replay", "--all", *words)
        assert result.exit_code == 3, words
        assert_two_lines(result.stderr, "no_runs")
        assert onrecord("replay", "--all", "--shard", "1/2", *words).exit_code == 3


def test_the_filter_is_that_of_ls() -> None:
    record_runs(*steady_runs(2), ("greeter-0", "agents.py:greeter", ["x"]), ("failing-0", "agents.py:failing", ["x"]))
    middle = onrecord_json("ls", "--agent", "greeter")["runs"][0]["created"]
    for words in (
        ["--agent", "steady"],
        ["--agent", "steady", "--agent", "greeter"],
        ["--status", "failed"],
        ["--status", "FAILED", "--status", "completed"],
        ["--since", middle],
        ["--until", middle],
        ["--since", "1h", "--agent", "failing"],
    ):
        listed = [run["run"] for run in onrecord_json("ls", *words)["runs"]]
        assert listed
        for command in ("replay", "verify"):
            document = onrecord_json(command, "--all", *words)
            assert list(verdicts(document)) == listed[::-1], (command, words)
            assert document["selected"] == len(listed)


@pytest.mark.parametrize("time", ["", "yesterday", "5x", "12", "-3d", "2026-13-01", "d"])
def test_a_time_that_is_none(time: str) -> None:
    record("one")
    for command in (["ls"], ["replay", "--all"], ["verify", "--all"]):
        result = onrecord(*command, "--since", time)
        assert result.exit_code == 2, result.output
        assert_two_lines(result.stderr, "bad_time")


def test_one_run_alone_needs_one_place_of_code_and_one_process() -> None:
    record_runs(*steady_runs(1))
    assert onrecord("replay", "steady-0", "agents.py:steady").exit_code == 0
    assert onrecord("replay", "steady-0", "-m", "agents:steady").exit_code == 0
    for words in ([], ["steady-0", "a.py", "b.py"], ["steady-0", "a.py", "-m", "b"], ["steady-0", "--jobs", "2"]):
        result = onrecord("replay", *words)
        assert result.exit_code == 2, words
        assert_two_lines(result.stderr, "usage")


def test_an_agent_that_leaves_has_passed_no_check() -> None:
    Path("leaving.py").write_text(
        "import os, onrecord\n\n@onrecord.step\ndef add(x):\n    return x\n\n@onrecord.agent\ndef leaving():\n"
        "    add(1)\n    if os.path.exists('changed'):\n        raise SystemExit(0)\n"
    )
    record_runs(("one", "leaving.py:leaving", []))
    Path("changed").touch()
    result = onrecord_process("replay", "one")
    assert result.returncode == 1
    assert_two_lines(result.stderr, "agent_left")


@pytest.mark.parametrize("command", ["replay", "verify"])
def test_what_is_about_many_runs_is_refused_for_one(command: str) -> None:
    record_runs(*steady_runs(1))
    for words in (
        ["--shard", "1/2"],
        ["--junit", "out.xml"],
        ["--time-limit", "5"],
        ["--isolate"],
        ["--agent", "steady"],
        ["--since", "1d"],
    ):
        result = onrecord(command, "steady-0", *words)
        assert result.exit_code == 2, words
        assert_two_lines(result.stderr, "usage")
    assert not os.path.exists("out.xml")


def test_shards_are_disjoint_and_complete() -> None:
    record_runs(*steady_runs(12))
    for command in ("replay", "verify"):
        found = [onrecord_json(command, "--all", "--shard", f"{number}/3") for number in (1, 2, 3)]
        assert all(list(verdicts(one)) for one in found)
        assert sorted(run for one in found for run in verdicts(one)) == sorted(f"steady-{n}" for n in range(12))
        assert [one["selected"] for one in found] == [12, 12, 12]
        assert found[1]["shard"] == {"number": 2, "total": 3}
    fewer = onrecord_json("replay", "--all", "--shard", "1/3", "--status", "completed", "--since", "1h")
    assert verdicts(fewer) == verdicts(onrecord_json("replay", "--all", "--shard", "1/3"))


def test_an_empty_shard_passes_and_says_so() -> None:
    record_runs(*steady_runs(1))
    empty = next(number for number in (1, 2) if number != shard_number("steady-0", 2))
    for command in ("replay", "verify"):
        result = onrecord(command, "--all", "--shard", f"{empty}/2", "--junit", "out.xml")
        assert result.exit_code == 0, result.output
        assert "shard has no run" in result.stderr
        assert ElementTree.parse("out.xml").getroot().get("tests") == "0"
    document = onrecord_json("replay", "--all", "--shard", f"{empty}/2")
    assert (document["passed"], document["selected"], document["runs"]) == (True, 1, [])


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2", ""])
@pytest.mark.parametrize("command", ["replay", "verify"])
def test_a_shard_that_is_none(command: str, shard: str) -> None:
    record("one")
    result = onrecord(command, "--all", "--shard", shard)
    assert result.exit_code == 2
    assert_two_lines(result.stderr, "bad_shard")
