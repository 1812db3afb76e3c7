"""`onrecord run -- any command`: every Python process below it is a run of its own."""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import Any

import pytest


@pytest.fixture
def scripts(box: Any) -> Any:
    box.write("a.py", "import sys\nfrom work import much\nprint('a', much(1), sys.argv[1:])\n")
    box.write("b.py", "from work import much\nprint('b', much(2))\n")
    return box


@pytest.mark.parametrize(
    "command",
    [
        ["python", "a.py", "--json", "-x"],
        ["bash", "-c", "python a.py; python b.py; exit 3"],
        ["bash", "-c", "python a.py > out & python b.py; wait; cat out"],
        ["env", "X=1", "python", "-m", "a"],
    ],
    ids=["python", "one after the other", "both at once", "through env"],
)
def test_a_command_is_recorded_and_replayed(scripts: Any, command: list[str]) -> None:
    recorded = scripts.onrecord("run", "--run-id", "one", "--", *command)
    assert recorded.returncode == (3 if "exit 3" in command[-1] else 0), recorded.stderr
    assert "unseen" not in recorded.stderr
    replayed = scripts.onrecord("replay", "one")
    assert (replayed.returncode, replayed.stdout) == (0, recorded.stdout), replayed.stderr
    assert scripts.ledger in ([1], [1, 2])
    other = scripts.onrecord("replay", "one", "--", *command)
    assert (other.returncode, other.stdout) == (0, recorded.stdout), other.stderr


def test_another_command_in_its_place(scripts: Any) -> None:
    assert scripts.onrecord("run", "--", "python", "a.py").returncode == 0
    parted = scripts.onrecord("replay", "@last", "--", "python", "-c", "from work import work; work(5)")
    assert parted.returncode == 1
    assert "[conflicting_request]" in parted.stderr
    recorded = scripts.onrecord("run", "a.py", "x")
    replayed = scripts.onrecord("replay", "@last", "--", "python", "a.py", "x")
    assert (replayed.returncode, replayed.stdout) == (0, recorded.stdout), replayed.stderr
    refused = scripts.onrecord("replay", "@last", "--", "bash", "-c", "true")
    assert refused.returncode == 2
    assert 5 not in scripts.ledger


def test_an_imported_run_is_replayed_by_a_command_that_is_named(scripts: Any) -> None:
    recorded = scripts.onrecord("run", "--run-id", "one", "a.py")
    assert scripts.onrecord("export", "one", "-o", "one.jsonl").returncode == 0
    assert scripts.onrecord("--store", "other.db", "import", "one.jsonl").returncode == 0
    assert "[imported_run]" in scripts.onrecord("--store", "other.db", "replay", "one").stderr
    replayed = scripts.onrecord("--store", "other.db", "replay", "one", "--", "python", "a.py")
    assert (replayed.returncode, replayed.stdout) == (0, recorded.stdout), replayed.stderr


def test_input_output_and_status_are_those_of_the_command(scripts: Any) -> None:
    scripts.write(
        "echo.py", "import sys\nfrom work import work\nwork(1)\nprint(sys.stdin.read().upper(), end='')\nsys.exit(9)\n"
    )
    done = scripts.onrecord("run", "--", "python", "echo.py", input="abc")
    assert (done.returncode, done.stdout) == (9, "ABC"), done.stderr
    missing = scripts.onrecord("run", "--", "no-such-command")
    assert missing.returncode == 2
    assert "[no_command]" in missing.stderr
    assert scripts.onrecord("run", "--").returncode == 2
    killed = scripts.onrecord("run", "--", "python", "-c", "import os, work; work.work(1); os.kill(os.getpid(), 9)")
    assert killed.returncode == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_reach_the_command(scripts: Any, number: signal.Signals) -> None:
    scripts.write(
        "waits.py",
        """
        import signal, sys, time
        from work import work
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(42))
        signal.signal(signal.SIGINT, lambda *_: sys.exit(42))
        work(1)
        print("ready", flush=True)
        time.sleep(60)
        """,
    )
    begun = scripts.begun("run", "--", "python", "waits.py", start_new_session=True)
    assert begun.stdout.readline() == "ready\n"
    time.sleep(0.2)
    begun.send_signal(number)
    begun.communicate(timeout=60)
    assert begun.returncode == 42
    assert scripts.runs()[0]["status"] == "completed"


def test_a_command_that_was_killed_goes_on(scripts: Any) -> None:
    scripts.write(
        "steps.py",
        """
        import os, signal
        from work import work
        for number in range(4):
            work(number)
            if number == 1 and os.path.exists("die"):
                os.unlink("die")
                os.killpg(os.getpgrp(), signal.SIGKILL)
        print("all")
        """,
    )
    (scripts.folder / "die").touch()
    killed = scripts.started("run", "--run-id", "one", "--", "python", "steps.py")
    assert killed.returncode == -signal.SIGKILL
    resumed = scripts.onrecord("resume", "one")
    assert (resumed.returncode, resumed.stdout) == (0, "all\n"), resumed.stderr
    assert scripts.ledger == [0, 1, 2, 3]


def test_pytest_is_a_command(scripts: Any) -> None:
    scripts.write("test_it.py", "from work import work\n\ndef test_it():\n    assert work(1) == 10\n")
    recorded = scripts.onrecord(
        "run", "--", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"
    )
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    assert "· 1 effect · 1 process ·" in recorded.stderr
    assert scripts.onrecord("replay", "@last").returncode == 0
    assert scripts.ledger == [1]


def test_what_a_process_becomes_is_a_run_of_its_own(scripts: Any) -> None:
    scripts.write(
        "again.py",
        "import os\nfrom work import much\nprint(much(3), flush=True)\nos.execvp('python', ['python', 'a.py', 'x'])\n",
    )
    recorded = scripts.onrecord("run", "again.py")
    assert recorded.returncode == 0, recorded.stderr
    assert recorded.stdout.count("\n") == 2
    assert recorded.stderr.count("onrecord: run") == 1
    assert "2 effects · 1 process" in recorded.stderr
    replayed = scripts.onrecord("replay", "@last")
    assert (replayed.returncode, replayed.stdout) == (0, recorded.stdout), replayed.stderr
    assert scripts.ledger == [1, 3]


def test_an_export_names_the_runs_that_it_leaves_out(scripts: Any) -> None:
    command = ["bash", "-c", "python a.py; python b.py"]
    recorded = scripts.onrecord("run", "--run-id", "one", "--", *command)
    told = scripts.onrecord("export", "one", "-o", "told.jsonl")
    left_out = json.loads(scripts.onrecord("export", "one", "-o", "one.jsonl", "--json").stdout)["left_out"]
    assert len(left_out) == 2
    assert f"a replay elsewhere needs them too: {', '.join(left_out)}" in told.stdout + told.stderr
    for number, run in enumerate(left_out):
        assert scripts.onrecord("export", run, "-o", f"{number}.jsonl").returncode == 0
    moved = scripts.onrecord("--store", "other.db", "import", "one.jsonl", "0.jsonl", "1.jsonl")
    assert moved.returncode == 0, moved.stderr
    replayed = scripts.onrecord("--store", "other.db", "replay", "one", "--", *command)
    assert (replayed.returncode, replayed.stdout) == (0, recorded.stdout), replayed.stderr
