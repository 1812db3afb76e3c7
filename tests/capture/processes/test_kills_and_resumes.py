"""Processes that die, alone or with their parent, and what goes on with them."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

from kit.soak import pairs

STEPS = """
import os, signal, sys
from work import work

def die(name):
    if os.path.exists(name):
        os.unlink(name)
        os.kill(int(os.environ.get("VICTIM") or os.getpid()), signal.SIGKILL)

def steps(first, name):
    done = []
    for number in range(first, first + 4):
        done.append(work(number))
        if number == first + 1:
            die(name)
    return done
"""
SUBPROCESS = """
import subprocess, sys
from steps import steps, die
if len(sys.argv) > 1:
    print(steps(10, "child_dies"), flush=True)
    sys.exit(0)
print(steps(0, "parent_dies_before"))
child = subprocess.run([sys.executable, __file__, "child"], capture_output=True, text=True)
print(child.returncode, child.stdout)
print(steps(20, "parent_dies_after"))
"""
SPAWN = """
import multiprocessing
from steps import steps

def child(pipe):
    pipe.send(steps(10, "child_dies"))

if __name__ == "__main__":
    print(steps(0, "parent_dies_before"))
    context = multiprocessing.get_context("{method}")
    mine, theirs = context.Pipe()
    process = context.Process(target=child, args=(theirs,))
    process.start()
    theirs.close()
    try:
        print(mine.recv())
    except EOFError:
        print("nothing came")
    process.join()
    print(process.exitcode)
    print(steps(20, "parent_dies_after"))
"""
ALL = [*range(4), *range(10, 14), *range(20, 24)]
METHODS = ["subprocess", "fork", "spawn", "forkserver"]


def prepare(box: Any, method: str) -> None:
    box.write("steps.py", STEPS)
    box.write("program.py", SUBPROCESS if method == "subprocess" else SPAWN.replace("{method}", method))


@pytest.mark.parametrize(("method", "when"), pairs(METHODS, ["before", "after"]))
def test_a_parent_that_was_killed_goes_on_with_its_children(box: Any, method: str, when: str) -> None:
    prepare(box, method)
    (box.folder / f"parent_dies_{when}").touch()
    killed = box.onrecord("run", "--run-id", "one", "program.py")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = box.onrecord("resume", "one")
    assert resumed.returncode == 0, resumed.stderr
    assert box.ledger == ALL, "nothing was done twice"
    replayed = box.onrecord("replay", "one")
    assert (replayed.returncode, replayed.stdout) == (0, resumed.stdout), replayed.stderr
    assert box.ledger == ALL


@pytest.mark.parametrize("method", METHODS)
def test_a_child_that_was_killed_alone_ends_the_same_in_a_replay(box: Any, method: str) -> None:
    prepare(box, method)
    (box.folder / "child_dies").touch()
    recorded = box.onrecord("run", "--run-id", "one", "program.py")
    assert recorded.returncode == 0, recorded.stderr
    assert "-9" in recorded.stdout
    assert box.ledger == [number for number in ALL if number not in (12, 13)]
    replayed = box.onrecord("replay", "one")
    assert (replayed.returncode, replayed.stdout) == (0, recorded.stdout), replayed.stderr
    assert box.ledger == [number for number in ALL if number not in (12, 13)]


def test_parent_and_child_are_killed_together(box: Any) -> None:
    """The child has done two of its four steps, and neither of them says how it ended."""
    box.write("steps.py", STEPS)
    box.write("program.py", SUBPROCESS)
    killer = """
        import os, signal
        os.killpg(os.getpgrp(), signal.SIGKILL)
    """
    box.write("killer.py", killer)
    box.write(
        "steps.py",
        STEPS.replace(
            'os.kill(int(os.environ.get("VICTIM") or os.getpid()), signal.SIGKILL)',
            "os.killpg(os.getpgrp(), signal.SIGKILL)",
        ),
    )
    (box.folder / "child_dies").touch()
    killed = box.started("run", "--run-id", "one", "program.py")
    assert killed.returncode == -signal.SIGKILL
    assert box.ledger == [0, 1, 2, 3, 10, 11]
    resumed = box.onrecord("resume", "one")
    assert resumed.returncode == 0, resumed.stderr
    assert "0 [100, 110, 120, 130]" in resumed.stdout
    assert box.ledger == ALL, "nothing was done twice"
    replayed = box.onrecord("replay", "one")
    assert (replayed.returncode, replayed.stdout) == (0, resumed.stdout), replayed.stderr


def test_a_grandchild_that_was_killed(box: Any) -> None:
    box.write("steps.py", STEPS)
    box.write("grandchild.py", "from steps import steps\nprint(steps(10, 'child_dies'))\n")
    box.write(
        "child.py",
        """
        import subprocess, sys
        from steps import steps
        print(subprocess.run([sys.executable, "grandchild.py"]).returncode, steps(0, ""))
        """,
    )
    box.write(
        "program.py", "import subprocess, sys\nsys.exit(subprocess.run([sys.executable, 'child.py']).returncode)\n"
    )
    (box.folder / "child_dies").touch()
    recorded = box.onrecord("run", "program.py")
    assert (recorded.returncode, recorded.stdout) == (0, "-9 [0, 10, 20, 30]\n"), recorded.stderr
    replayed = box.onrecord("replay", "@last")
    assert (replayed.returncode, replayed.stdout) == (0, recorded.stdout), replayed.stderr
    assert box.ledger == [0, 1, 2, 3, 10, 11]


def test_a_child_that_outlives_its_parent(box: Any) -> None:
    box.write(
        "child.py",
        """
        import os, time
        from work import work
        work(1)
        while os.path.exists("wait"):
            time.sleep(0.05)
        work(2)
        """,
    )
    box.write(
        "program.py",
        """
        import os, subprocess, sys, time
        subprocess.Popen([sys.executable, "child.py"], start_new_session=True)
        while not os.path.exists("ledger"):
            time.sleep(0.05)
        """,
    )
    (box.folder / "wait").touch()
    recorded = box.begun("run", "--run-id", "one", "program.py", stdout=None, stderr=None)
    recorded.wait(120)
    assert recorded.returncode == 0
    assert [one["status"] for one in box.runs("--all-kinds") if one["kind"] == "process"] == ["running"]
    (box.folder / "wait").unlink()
    until = time.monotonic() + 60
    while "completed" not in [one["status"] for one in box.runs("--all-kinds") if one["kind"] == "process"]:
        assert time.monotonic() < until
    replayed = box.onrecord("replay", "one")
    assert replayed.returncode == 0, replayed.stderr
    assert "of 2 processes" in replayed.stderr
    assert box.ledger == [1, 2]


def test_a_daemon_that_its_parent_ends(box: Any) -> None:
    box.write(
        "program.py",
        """
        import multiprocessing, time
        from work import work

        def child(pipe):
            pipe.send(work(1))
            while True:
                time.sleep(0.1)

        if __name__ == "__main__":
            mine, theirs = multiprocessing.Pipe()
            multiprocessing.Process(target=child, args=(theirs,), daemon=True).start()
            print(mine.recv(), work(2))
        """,
    )
    recorded = box.onrecord("run", "program.py")
    assert (recorded.returncode, recorded.stdout) == (0, "10 20\n"), recorded.stderr
    replayed = box.onrecord("replay", "@last")
    assert (replayed.returncode, replayed.stdout) == (0, recorded.stdout), replayed.stderr
    assert box.ledger == [1, 2]


def test_a_child_somebody_else_killed_ends_by_itself_in_a_replay(box: Any) -> None:
    """It would wait for ever: nobody is there who kills it."""
    box.write(
        "child.py", "import os, time\nfrom work import work\nwork(1)\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n"
    )
    box.write(
        "program.py",
        """
        import subprocess, sys
        child = subprocess.Popen([sys.executable, "child.py"], stdout=subprocess.PIPE)
        child.stdout.readline()
        print("ready", flush=True)
        print(child.wait())
        """,
    )
    begun = box.begun("run", "--run-id", "one", "program.py")
    assert begun.stdout.readline() == "ready\n"
    (child,) = [
        pid
        for pid in map(int, filter(str.isdecimal, os.listdir("/proc")))
        if _command(pid).endswith("child.py") and os.path.samefile(f"/proc/{pid}/cwd", box.folder)
    ]
    os.kill(child, signal.SIGTERM)
    assert begun.communicate(timeout=60)[0] == "-15\n"
    replayed = box.onrecord("replay", "one")
    assert (replayed.returncode, replayed.stdout) == (0, "ready\n-15\n"), replayed.stderr


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read().rstrip("\0")
    except OSError:
        return ""
