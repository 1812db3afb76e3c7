"""`onrecord replay --all` over runs of programs: each replayed by a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from kit import command_server
from kit.cli import onrecord, onrecord_json, onrecord_process
from kit.fleet import codes, verdicts

PROGRAM = """
import random, sys, time
with open("ran", "a") as ran:
    ran.write("x")
print("drawn", random.random(), *sys.argv[1:])
time.time()
"""
CHANGED = PROGRAM.replace("time.time()", "sys.exit(3)")
PARENT = """
import subprocess, sys, time
time.time()
subprocess.run([sys.executable, "-c", "import time; time.time()"], check=True)
"""
CALLER = """
import time, onrecord

@onrecord.step
def add(left):
    return left + 1

@onrecord.agent
def support(start):
    return add(start)

if __name__ == "__main__":
    time.time()
    print(support.run(1))
"""


@pytest.fixture(autouse=True)
def folder(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked_workers: None) -> None:
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))


def recorded(run: str, text: str, *arguments: str, name: str = "program.py") -> None:
    Path(name).write_text(text)
    done = onrecord_process("run", "--run-id", run, name, *arguments)
    assert done.returncode == 0, done.stderr


def replay_all(*arguments: str, status: int = 0) -> Any:
    return onrecord_json("replay", "--all", *arguments, status=status)


def test_runs_of_programs_are_judged_like_those_of_agents() -> None:
    """With what they were called with; that of its processes is not a run by itself, nor that of an agent in it."""
    recorded("one", PROGRAM, "--name", "bob")
    recorded("two", PARENT, name="parent.py")
    recorded("three", CALLER, name="caller.py")
    document = replay_all()
    found = verdicts(document)
    assert {run: found[run] for run in ("one", "two", "three")} == dict.fromkeys(("one", "two", "three"), "same")
    others = set(codes(document)) - {"one", "two", "three"}
    assert [codes(document)[other] for other in others] == ["child"], "the agent's, and no process's"


def test_a_program_that_does_something_else_is_a_failure_of_its_own() -> None:
    recorded("one", PROGRAM)
    recorded("two", PROGRAM, name="other.py")
    Path("program.py").write_text(CHANGED)
    done = onrecord_process("replay", "--all", "--junit", "results.xml")
    assert done.returncode == 1, done.stderr
    assert "1 same, 1 diverged" in done.stdout
    assert "--isolate" not in done.stderr, "it is in a process of its own already"
    (suite,) = ElementTree.parse("results.xml").getroot()
    failed = {case.get("name"): [child.tag for child in case] for case in suite}
    assert failed["two"] == []
    assert "failure" in failed["one"]


def test_a_failure_says_where_the_program_parted() -> None:
    served = CALLER.replace("support.run(1)", "add(1)")
    recorded("one", served)
    Path("program.py").write_text(served.replace("add(1)", "add(2)"))
    (found,) = replay_all(status=1)["runs"]
    problem = found["problem"]
    assert (found["verdict"], problem["code"]) == ("diverged", "conflicting_request")
    assert problem["line"].startswith("program.py:")
    assert problem["differences"][0]["actual"] == 2
    assert problem["record_anew"] == "onrecord run program.py"


def test_a_script_that_is_named_is_replayed_and_never_run() -> None:
    """It would do for real what it does, if it were loaded as the code of agents."""
    recorded("one", PROGRAM)
    Path("ran").unlink()
    assert verdicts(replay_all("program.py")) == {"one": "same"}
    assert Path("ran").read_text() == "x", "once, in the replay"


def test_a_module_that_is_named_is_replayed_and_never_run() -> None:
    Path("shop.py").write_text(PROGRAM)
    assert onrecord_process("run", "--run-id", "one", "-m", "shop").returncode == 0
    Path("ran").unlink()
    assert verdicts(replay_all("-m", "shop")) == {"one": "same"}
    assert Path("ran").read_text() == "x", "once, in the replay"


def test_another_script_of_the_name_is_replayed_in_its_place() -> None:
    recorded("one", PROGRAM)
    Path("new").mkdir()
    Path("new/program.py").write_text(CHANGED)
    assert verdicts(replay_all()) == {"one": "same"}
    assert verdicts(replay_all("new/program.py", status=1)) == {"one": "diverged"}


def test_a_named_program_that_has_agents_is_still_their_code() -> None:
    recorded("one", CALLER, name="caller.py")
    again = "import caller; caller.support.run(5, run_id='two')"
    assert command_server.call([], code=again).returncode == 0
    found = verdicts(replay_all("caller.py"))
    assert (found["one"], found["two"]) == ("same", "same")


def test_an_agent_whose_caller_is_not_there_is_replayed_by_itself() -> None:
    recorded("one", CALLER, name="caller.py")
    found = codes(replay_all())
    (inner,) = set(found) - {"one"}
    assert found[inner] == "child"
    assert onrecord("export", inner, "-o", "inner.jsonl").exit_code == 0
    assert onrecord("--store", "other.db", "import", "inner.jsonl").exit_code == 0
    assert verdicts(replay_all("--store", "other.db", "caller.py")) == {inner: "same"}


def test_nothing_to_compare_is_no_pass() -> None:
    recorded("one", "print(1)\n")
    document = replay_all(status=1)
    assert codes(document) == {"one": "no_effects"}


def test_an_imported_program_is_told_as_such() -> None:
    recorded("one", PROGRAM)
    assert onrecord("export", "one", "-o", "one.jsonl").exit_code == 0
    assert onrecord("--store", "other.db", "import", "one.jsonl").exit_code == 0
    for named in ((), ("program.py",)):
        document = replay_all("--store", "other.db", *named, status=1)
        assert codes(document) == {"one": "imported_run"}


def test_a_program_that_is_gone_or_hangs_is_an_error_of_its_run_alone() -> None:
    recorded("one", PROGRAM)
    recorded("two", PROGRAM, name="gone.py")
    recorded("three", PROGRAM, name="slow.py")
    Path("gone.py").unlink()
    Path("slow.py").write_text("import signal\nsignal.pause()\n")
    document = replay_all("--time-limit", "5", status=1)
    assert codes(document) == {"one": None, "two": "no_file", "three": "timed_out"}


def test_what_a_program_prints_is_not_the_result() -> None:
    recorded("one", PROGRAM)
    done = onrecord_process("replay", "--all")
    assert done.returncode == 0
    assert "drawn" not in done.stdout + done.stderr
