"""The processes of `replay --all`: what one of them does to itself is told of the run it was at, and of no other."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kit.agent_programs import begun
from kit.cli import onrecord, onrecord_json
from kit.fleet import record_runs, steady_runs, verdicts, write_agents, written


@pytest.fixture(autouse=True)
def program(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked_workers: None) -> Path:
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))
    return write_agents()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def soon(happened: Callable[[], object]) -> bool:
    deadline = time.monotonic() + 60
    while not happened():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_runs_are_shared_among_processes_that_load_the_code_once() -> None:
    """Two runs that go on until they are told: each has a process, at the same time."""
    record_runs(*[(f"waits-{one}", "agents.py:troubled", ["waits"]) for one in range(2)], *steady_runs(20))
    Path("trouble").touch()
    process = begun("replay", "--all", "--jobs", "2", "--json")
    assert soon(lambda: len(written("replayed")) == 2)
    at_work = {int(pid) for _, pid in written("replayed")}
    assert len(at_work) == 2
    assert process.pid not in at_work
    Path("go on").touch()
    stdout, _ = process.communicate(timeout=60)
    assert json.loads(stdout)["verdicts"] == {"same": 22}
    assert len(written("replayed")) == 22
    assert {int(pid) for _, pid in written("replayed")} == at_work
    assert len(written("loaded")) == 2, "once in each process"


def test_one_job_is_one_process() -> None:
    record_runs(*steady_runs(5))
    assert onrecord("replay", "--all", "--jobs", "1").exit_code == 0
    assert len({pid for _, pid in written("replayed")}) == 1


def test_there_are_no_more_processes_than_runs() -> None:
    record_runs(*steady_runs(2))
    assert onrecord("replay", "--all", "--jobs", "64").exit_code == 0
    assert len(written("loaded")) <= 2


def test_a_long_run_does_not_hold_up_the_others() -> None:
    """It goes on until all others have been replayed, which would be never if they were shared out beforehand."""
    record_runs(("waits", "agents.py:troubled", ["waits"]), *steady_runs(20))
    Path("trouble").touch()
    process = begun("replay", "--all", "--jobs", "2", "--json")
    assert soon(lambda: sum(name != "waits" for name, _ in written("replayed")) == 20)
    Path("go on").touch()
    stdout, _ = process.communicate(timeout=60)
    assert json.loads(stdout)["verdicts"] == {"same": 21}


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("killed", "the process that judged it was killed by SIGKILL"),
        ("segfault", "the process that judged it was killed by SIGSEGV"),
        ("exits", "the process that judged it exited with status 3"),
    ],
)
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_process_that_dies_fails_only_the_run_it_was_at(what: str, told: str, jobs: str) -> None:
    record_runs(*steady_runs(4), ("bad", "agents.py:troubled", [what]), *steady_runs(4, first=4))
    Path("trouble").touch()
    document = onrecord_json("replay", "--all", "--jobs", jobs, "--junit", "out.xml", status=1)
    expected = {f"steady-{number}": "same" for number in range(8)} | {"bad": "died"}
    assert verdicts(document) == expected
    problem = document["runs"][4]["problem"]
    assert (problem["code"], problem["message"]) == ("worker_died", told)
    assert "the last words" in problem["output"]
    assert ("Segmentation fault" in problem["output"]) == (what == "segfault")
    (suite,) = ElementTree.parse("out.xml").getroot()
    assert [case.get("name") for case in suite if len(case)] == ["bad"]
    assert (suite.get("errors"), suite.get("failures")) == ("1", "0")


def test_every_process_may_die() -> None:
    bad = [(f"bad-{number}", "agents.py:troubled", ["killed"]) for number in range(5)]
    record_runs(*bad, *steady_runs(2))
    Path("trouble").touch()
    document = onrecord_json("replay", "--all", "--jobs", "2", status=1)
    assert document["verdicts"] == {"same": 2, "died": 5}


def test_what_was_found_is_kept_when_no_process_can_begin_any_more() -> None:
    """The code that is named ends the second process that loads it."""
    record_runs(*steady_runs(1), ("bad", "agents.py:troubled", ["killed"]), *steady_runs(2, first=1))
    Path("trouble").touch()
    Path("once.py").write_text("import os\nif os.path.exists('loaded'):\n    os._exit(5)\nfrom agents import *\n")
    document = onrecord_json("replay", "--all", "once.py", "--jobs", "1", status=1)
    assert list(verdicts(document).values()) == ["same", "died", "error", "error"]
    problem = document["runs"][3]["problem"]
    assert problem["code"] == "workers_failed"
    assert problem["message"] == "a judging process exited with status 5 before it was ready"
    result = onrecord("replay", "--all", "once.py")
    assert result.exit_code == 70, "nobody could begin at all"


def test_a_process_whose_line_is_closed_is_ended() -> None:
    record_runs(("closes", "agents.py:troubled", ["closes"]), *steady_runs(2))
    Path("trouble").touch()
    document = onrecord_json("replay", "--all", "--jobs", "1", status=1)
    assert verdicts(document) == {"closes": "died", "steady-0": "same", "steady-1": "same"}


def test_an_agent_that_leaves_is_an_error_and_its_process_goes_on() -> None:
    record_runs(("leaves", "agents.py:troubled", ["leaves"]), *steady_runs(2))
    Path("trouble").touch()
    document = onrecord_json("replay", "--all", "--jobs", "1", status=1)
    assert verdicts(document)["leaves"] == "error"
    assert document["runs"][0]["problem"]["code"] == "agent_left"
    assert len(written("loaded")) == 1


def test_a_run_that_hangs_is_ended_and_the_others_go_on() -> None:
    record_runs(*steady_runs(2), ("hangs", "agents.py:troubled", ["hangs"]), *steady_runs(2, first=2))
    Path("trouble").touch()
    document = onrecord_json("replay", "--all", "--time-limit", "2", status=1)
    assert document["verdicts"] == {"same": 4, "timed_out": 1}
    problem = document["runs"][2]["problem"]
    assert problem["message"] == "it took longer than 2 s and was stopped"
    assert document["runs"][2]["seconds"] >= 2


@pytest.mark.parametrize("limit", ["0", "-1", "nan", "x"])
def test_a_limit_that_is_none(limit: str) -> None:
    record_runs(*steady_runs(1))
    assert onrecord("replay", "--all", "--time-limit", limit).exit_code == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_tells_what_it_has_and_leaves_nobody_behind(number: signal.Signals) -> None:
    hanging = [(f"hangs-{one}", "agents.py:troubled", ["waits"]) for one in range(2)]
    record_runs(*steady_runs(3), *hanging, *steady_runs(3, first=3))
    Path("trouble").touch()
    process = begun("replay", "--all", "--jobs", "2", "--json", "--junit", "out.xml")
    assert soon(lambda: sum(name == "waits" for name, _ in written("replayed")) == 2)
    workers = {int(pid) for (pid,) in written("loaded")}
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + number, stderr
    document = json.loads(stdout)
    assert document["interrupted"] == number.name
    found = verdicts(document)
    assert [found[f"steady-{one}"] for one in range(3)] == ["same"] * 3
    assert [found[f"hangs-{one}"] for one in range(2)] == ["not_judged"] * 2
    assert len(found) == 8
    assert not [pid for pid in workers if alive(pid)]
    assert ElementTree.parse("out.xml").getroot().get("tests") == "8"
    assert "Traceback" not in stderr


def test_processes_end_with_the_one_that_started_them() -> None:
    record_runs(("waits", "agents.py:troubled", ["waits"]))
    Path("trouble").touch()
    process = begun("replay", "--all")
    assert soon(lambda: written("replayed"))
    (worker,) = {int(pid) for _, pid in written("replayed")}
    assert alive(worker)
    process.kill()
    process.communicate(timeout=60)
    assert soon(lambda: not alive(worker))


def test_code_that_keeps_things_in_globals_is_replayed_in_isolation() -> None:
    for number in range(3):  # each in a process of its own, as they are recorded in life
        record_runs((f"one-{number}", "agents.py:remembering", [number]))
    together = onrecord("replay", "--all", "--jobs", "1")
    assert together.exit_code == 1
    assert "--isolate" in together.stderr
    Path("loaded").unlink()
    assert onrecord_json("replay", "--all", "--jobs", "1", "--isolate")["verdicts"] == {"same": 3}
    assert len({pid for (pid,) in written("loaded")}) == 3


def test_what_agents_print_is_not_on_stdout() -> None:
    record_runs(*steady_runs(2))
    process = begun("replay", "--all")
    stdout, stderr = process.communicate(timeout=60)
    assert "printed by the agent" not in stdout + stderr
    assert len(stdout.splitlines()) == 3


def test_a_password_is_in_no_command_line(database_url: str) -> None:
    url = database_url.replace("onrecord@", "onrecord:tellnobody@")
    record_runs(("waits", "agents.py:troubled", ["waits"]), store=url)
    Path("trouble").touch()
    process = subprocess.Popen(
        [sys.executable, "-m", "onrecord.cli.main", "replay", "--all"],
        env={**os.environ, "ONRECORD_STORE": url},
        stdout=subprocess.PIPE,
    )
    assert soon(lambda: written("replayed"))
    (worker,) = {pid for _, pid in written("replayed")}
    assert b"tellnobody" not in Path(f"/proc/{worker}/cmdline").read_bytes()
    Path("go on").touch()
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_progress_is_shown_to_who_watches() -> None:
    record_runs(*steady_runs(3), ("hangs", "agents.py:troubled", ["hangs"]))
    Path("trouble").touch()
    parent, child = pty.openpty()
    words = [sys.executable, "-m", "onrecord.cli.main", "replay", "--all", "--time-limit", "3"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=child, stdin=subprocess.DEVNULL)
    os.close(child)
    shown = b""
    try:
        while part := os.read(parent, 4096):
            shown += part
    except OSError:
        pass  # that is how a terminal ends
    assert process.wait(timeout=60) == 1
    assert re.search(rb"replaying 4 runs 75 %.* \d+ s", shown), shown
