"""`onrecord doctor -- python agent.py`: what a program depends on that no interceptor records, with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kit.programs import onrecord

pytestmark = pytest.mark.usefixtures("folder")


def examined(text: str, *arguments: str, given: str = "") -> tuple[int, dict[str, Any]]:
    Path("agent.py").write_text(text)
    done = onrecord("doctor", "--json", "--", "python", "agent.py", *arguments, input=given)
    assert not Path(".onrecord").exists(), "what it records is thrown away"
    return done.returncode, json.loads(done.stdout)


def problems(seen: dict[str, Any]) -> list[str]:
    return [f"{one['what']} at {one['where']}" for one in seen["findings"] if one["level"] == "problem"]


def test_what_the_interceptors_record_is_no_problem() -> None:
    text = "import random, sys, time, uuid\nprint(time.time(), random.random(), uuid.uuid4(), {'a', 'b'}, input())\n"
    status, seen = examined(text, given="a line\n")
    assert (status, seen["status"], seen["compared"], problems(seen)) == (0, "nothing found", True, [])


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("print(os.getpid())", "the process id (getpid)"),
        ("print(socket.gethostname())", "the name of the machine (gethostname)"),
        ("print(id(os))", "the address of an object, which differs in every process (id)"),
        ("subprocess.run(['true'])", "a process (true)"),
        ("socket.socket().connect_ex(('127.0.0.1', 9))", "a connection to 127.0.0.1:9"),
    ],
)
def test_what_no_interceptor_records_is_named_with_its_line(line: str, what: str) -> None:
    status, seen = examined(f"import os, socket, subprocess, time\nprint(time.time())\n{line}\n")
    assert status == 1
    assert f"{what} at agent.py:3" in problems(seen), seen
    assert all(one["advice"] for one in seen["findings"])


def test_another_output_is_a_problem_although_nobody_knows_why() -> None:
    text = "import time\nprint(time.time())\nclass Thing: pass\nprint([str(Thing()) for _ in range(3)])\n"
    status, seen = examined(text)
    assert status == 1
    assert any(one.startswith("its output differs from line 2 on: first ") for one in problems(seen)), seen


def test_what_one_run_leaves_for_the_next() -> None:
    text = """
import os, time
print(time.time())
before = open("state").read() if os.path.exists("state") else ""
with open("state", "w") as file:
    file.write(before + "x")
print(before)
"""
    Path("state").write_text("x")
    status, seen = examined(text)
    assert status == 1
    assert any("state, which it reads and then writes at agent.py:4" in one for one in problems(seen)), seen
    assert any(one.startswith("its output differs from line 2") for one in problems(seen)), seen


def test_a_request_that_is_another_each_time(tmp_path: Path) -> None:
    text = """
import os, onrecord
onrecord.run_step("first", int, 1)
print(onrecord.run_step("ask", str, os.stat("agent.py").st_atime_ns + open("count").read().count("x")))
open("count", "a").write("x")
"""
    Path("count").write_text("")
    status, seen = examined(text)
    assert status == 1
    parted = [one for one in problems(seen) if one.startswith("a replay diverges")]
    assert parted, seen
    assert parted[0].endswith("at agent.py:4")


def test_nothing_to_compare_is_not_fine() -> None:
    status, seen = examined("x = 1\n")
    assert (status, seen["compared"]) == (1, False)
    assert problems(seen) == ["nothing could be compared at "]


def test_a_program_that_fails_or_is_killed() -> None:
    status, seen = examined("import time\ntime.time()\nraise ValueError('bad')\n")
    assert (status, seen["exit"]) == (0, 1), "it fails alike each time"
    status, seen = examined("import os, signal, time\nprint(time.time(), flush=True)\nos.kill(0 + os.getpid(), 9)\n")
    assert (status, seen["exit"]) == (1, -9)


def test_unseeded_numpy(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    text = "import numpy, time\ntime.time()\nprint(numpy.random.rand())\nprint(numpy.random.default_rng().random())\n"
    status, seen = examined(text)
    assert status == 1
    assert "numpy.random.rand without a seed at agent.py:3" in problems(seen)
    assert "numpy.random.default_rng() without a seed at agent.py:4" in problems(seen)


def test_what_is_no_program() -> None:
    done = onrecord("doctor", "--", "ls", "-l")
    assert done.returncode == 2
    assert "Write `-- python SCRIPT ARGS…`" in done.stderr


@pytest.mark.parametrize(("words", "code"), [(["none.py"], "no_file"), (["-m", "none_such"], "no_module")])
def test_a_program_that_is_not_there_is_not_examined(words: list[str], code: str) -> None:
    done = onrecord("doctor", "--", "python", *words)
    assert (done.returncode, done.stdout) == (3, "")
    assert f"[{code}]" in done.stderr
    assert "-- COMMAND" in onrecord("doctor", "--help").stdout
