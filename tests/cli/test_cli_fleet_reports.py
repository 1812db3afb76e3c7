"""What `onrecord replay --all` writes: lines, a JSON document, JUnit XML; and the stores that it reads."""

from __future__ import annotations

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kit.cli import assert_two_lines, onrecord, onrecord_json
from kit.fleet import record_runs, steady_runs, verdicts, write_agents, written
from onrecord.core.events import Completed
from onrecord.journal.journal import Journal
from onrecord.store.factory import open_store


@pytest.fixture(autouse=True)
def program(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked_workers: None) -> Path:
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))
    return write_agents()


# What is written


def test_the_report_is_in_the_order_of_the_runs() -> None:
    """Ids in the other order than their creation, and the first to be begun is the last to end."""
    record_runs(
        ("z", "agents.py:steady", [1, 400]), ("y", "agents.py:steady", [1]), ("x", "agents.py:steady", [1]),
        *[(f"a{number}", "agents.py:steady", [1]) for number in range(4)],
    )  # fmt: skip
    expected = ["z", "y", "x", "a0", "a1", "a2", "a3"]
    assert list(verdicts(onrecord_json("replay", "--all", "--jobs", "2"))) == expected
    assert [line.split()[1] for line in onrecord("replay", "--all").stdout.splitlines()[:-1]] == expected


def test_the_document() -> None:
    record_runs(*steady_runs(1))
    result = onrecord("replay", "--all", "--json")
    document = json.loads(result.stdout)
    assert document.keys() == {
        *("command", "namespace", "passed", "exit_status", "interrupted", "shard", "selected", "verdicts"),
        *("seconds", "runs"),
    }
    (run,) = document["runs"]
    assert run.keys() == {"run", "agent", "created", "verdict", "outcome", "events", "seconds", "problem"}
    assert (run["outcome"], run["events"]) == ("passed", 9)


def test_the_junit_file() -> None:
    record_runs(*steady_runs(2), ("changing", "agents.py:changing", [5]), ("effectless", "agents.py:effectless", [5]))
    Path("changed").touch()
    Path("out.xml").write_text("what an earlier build left")
    assert onrecord("replay", "--all", "--junit", "out.xml").exit_code == 1
    (suite,) = ElementTree.parse("out.xml").getroot()
    assert [case.get("name") for case in suite] == ["steady-0", "steady-1", "changing", "effectless"]
    assert next(case.get("classname") for case in suite) == "onrecord.replay.steady"
    assert [[child.tag for child in case] for case in suite] == [[], [], ["failure", "system-err"], ["skipped"]]
    assert not list(Path().glob(".junit*"))
    assert os.stat("out.xml").st_mode & 0o777 == 0o644


@pytest.mark.parametrize("command", ["replay", "verify"])
def test_a_junit_file_that_cannot_be_written_is_told_before_anything_is_judged(command: str) -> None:
    record_runs(*steady_runs(1))
    os.mkdir("folder")
    for name in ("nowhere/out.xml", "folder"):
        result = onrecord(command, "--all", "--junit", name)
        assert result.exit_code == 2
        assert_two_lines(result.stderr, "bad_output")
    assert written("replayed") == []


def test_hostile_data_does_no_harm() -> None:
    evil = "\x1b[2J]]></testcase>\x01\u202e\n"
    step = "import onrecord\n\n@onrecord.step\ndef add(x):\n    return x\n\n"
    program = f"{step}@onrecord.agent(name={evil!r})\ndef evil(x):\n"
    Path("evil.py").write_text(
        f"{program}    return add({evil!r} + '\\ud800\\0' + str(__import__('os').path.exists('changed')))\n"
    )
    record_runs(("one", "evil.py:evil", [1]))
    Path("changed").touch()
    result = onrecord("replay", "--all", "--junit", "out.xml")
    assert result.exit_code == 1
    assert not set("\x1b\x01\u202e") & set(result.stdout)
    (suite,) = ElementTree.parse("out.xml").getroot()
    assert [child.tag for child in suite[0]] == ["failure"]
    assert onrecord_json("replay", "--all", status=1)["runs"][0]["agent"] == evil


def test_a_store_in_memory_is_not_seen_by_other_processes() -> None:
    store = open_store("memory://fleet")
    with Journal.create(store, "one", facts={"agent": "x"}) as journal:
        journal.append([Completed()])
    for words in (["--jobs", "2"], ["--time-limit", "5"], ["--isolate"]):
        result = onrecord("verify", "--all", "--store", "memory://fleet", *words)
        assert result.exit_code == 6
        assert_two_lines(result.stderr, "memory_store")
    assert onrecord("verify", "--all", "--store", "memory://fleet").exit_code == 0
    assert onrecord("verify", "--all", "--store", "memory://fleet", "--jobs", "1").exit_code == 0


def test_a_postgres_store(database_url: str) -> None:
    record_runs(*steady_runs(4), ("changing", "agents.py:changing", [5]), store=database_url)
    Path("changed").touch()
    document = onrecord_json("replay", "--all", "--store", database_url, "--jobs", "2", status=1)
    assert document["verdicts"] == {"same": 4, "diverged": 1}
    verified = onrecord_json("verify", "--all", "--store", database_url, "--jobs", "2")
    assert verified["verdicts"] == {"valid": 5}
