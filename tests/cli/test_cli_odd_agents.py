"""Agents that hand over what cannot be recorded, leave, or cannot even say why they failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit.agent_programs import write_program
from kit.cli import assert_two_lines, onrecord_json, onrecord_process

pytestmark = pytest.mark.usefixtures("workspace")

UNWRITABLE = """
import onrecord


def knot():
    value = []
    value.append(value)
    return value


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("nothing to say")


@onrecord.step
def tie(value=None):
    return knot()


@onrecord.agent
def odd(what):
    if what == "result":
        return knot()
    if what == "step":
        return tie()
    if what == "input":
        return tie(knot())
    if what == "deep":
        value = []
        for _ in range(5000):
            value = [value]
        return value
    if what == "mute":
        raise Mute
    raise SystemExit({"leave": 0, "say": "enough"}[what])
"""


@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        ("result", "cycle", "the result of the agent cannot be recorded: $.output[0]: the value contains itself"),
        ("step", "cycle", "the result of main/tie/0 cannot be recorded: $.output[0]: the value contains itself"),
        ("input", "cycle", "the input of main/tie/0 cannot be recorded: $.payload.value[0]"),
        ("deep", "too_deep", "the result of the agent cannot be recorded: $.output[0]"),
        ("leave", "suspended", "its code ended the process (0)"),
        ("say", "suspended", 'its code ended the process ("enough")'),
    ],
)
def test_an_agent_that_hands_over_no_data_or_leaves_stands_and_is_told_how_to_go_on(
    what: str, code: str, said: str
) -> None:
    write_program(UNWRITABLE, "odd.py")
    done = onrecord_process("run", "odd.py:odd", "--input", json.dumps([what]), "--run-id", "o1")
    assert (done.returncode, done.stdout) == (6, "")
    lines = done.stderr.removeprefix("run o1\n")
    assert_two_lines(lines, code)
    assert "run o1" in lines
    assert said in lines
    assert lines.endswith("onrecord resume o1\n")
    assert len(lines) < 500
    write_program(
        UNWRITABLE.replace("return knot()", 'return "mended"').replace("raise SystemExit", "return str"), "odd.py"
    )
    if what not in ("input", "deep"):
        assert onrecord_process("resume", "o1").returncode == 0


def test_an_error_that_cannot_say_anything_is_told_by_its_class() -> None:
    write_program(UNWRITABLE, "odd.py")
    done = onrecord_process("run", "odd.py:odd", "--input", '["mute"]', "--run-id", "o1")
    assert done.returncode == 1
    assert "error: the agent failed: Mute [agent_failed]\n" in done.stderr


def test_a_store_that_is_full_says_how_the_run_goes_on() -> None:
    write_program(
        "import os, onrecord, resource\n\n@onrecord.step\ndef load():\n    return os.urandom(400_000)\n\n"
        "@onrecord.agent\ndef loading():\n    load()\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))\n    return len(load())\n",
        "loading.py",
    )
    done = onrecord_process("run", "loading.py:loading", "--run-id", "o1")
    assert done.returncode == 125
    assert done.stderr.endswith("Then: onrecord resume o1\n")


def test_code_with_a_wrong_line_is_told_by_that_line() -> None:
    write_program("def f(:\n", "wrong.py")
    done = onrecord_process("run", "wrong.py:f")
    assert "(wrong.py, line 1)" in done.stderr
    assert "importlib" not in done.stderr


def test_a_run_whose_record_lacks_a_value_goes_on_as_a_fork_that_is_told_it() -> None:
    program = (
        "import ipaddress, os, onrecord\n\n"
        "@onrecord.step\ndef address():\n    return ipaddress.ip_address('127.0.0.1')\n\n"
        "@onrecord.step\ndef die():\n    if not os.path.exists('alive'):\n        os._exit(9)\n\n"
        "@onrecord.agent\ndef asking():\n    found = str(address())\n    die()\n    return found\n"
    )
    write_program(program, "odd.py")
    assert onrecord_process("run", "odd.py:asking", "--run-id", "o1").returncode == 9
    write_program("", "alive")
    done = onrecord_process("resume", "o1")
    assert (done.returncode, done.stdout) == (6, "")
    assert_two_lines(done.stderr.removeprefix("run o1\n"), "not_replayable")
    assert done.stderr.endswith("onrecord fork o1 --event 2 --answer null\n")
    forked = onrecord_process("fork", "o1", "--event", "2", "--answer", '"127.0.0.1"')
    assert (forked.returncode, forked.stdout) == (0, "127.0.0.1\n")


CALLING = """
import os, onrecord


@onrecord.tool
def pay(to):
    if os.path.exists("die"):
        os._exit(9)
    return f"paid {to}"


@onrecord.agent
def deciding():
    return onrecord.interrupt("go on?")


@onrecord.agent
async def asking():
    return await onrecord.wait_for("approval")


@onrecord.agent
def paying():
    return pay("Ann")


@onrecord.agent
def asks_for_a_decision():
    return deciding()


@onrecord.agent
async def asks_for_approval():
    return await asking()


@onrecord.agent
def has_paid():
    return paying()
"""


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))
    write_program(CALLING, "calling.py")


@pytest.mark.usefixtures("keys")
def test_a_decision_that_a_called_run_needs_is_asked_for_and_given_at_its_caller() -> None:
    done = onrecord_process("run", "calling.py:asks_for_a_decision", "--run-id", "o1")
    assert done.returncode == 6
    assert done.stderr.endswith("""Decide: onrecord resume o1 --decision '"yes"'\n""")
    done = onrecord_process("resume", "o1", "--decision", '"yes"')
    assert (done.returncode, done.stdout) == (0, "yes\n")


@pytest.mark.usefixtures("keys")
def test_a_run_that_waits_in_one_that_it_has_called_does_not_wait_when_it_is_told_not_to() -> None:
    done = onrecord_process("run", "calling.py:asks_for_approval", "--run-id", "o1", "--no-wait")
    assert done.returncode == 6
    assert_two_lines(done.stderr.removeprefix("run o1\n"), "waiting")
    called = next(one["run"] for one in onrecord_json("ls")["runs"] if one["run"] != "o1")
    command = done.stderr.partition("or here: onrecord ")[2].partition(";")[0]
    assert command.startswith(f"resolve --run {called} --wait ")
    assert onrecord_process(*command.split()).returncode == 0, "the hint works as printed"
    assert onrecord_process("resume", "o1").stdout == "true\n"


@pytest.mark.usefixtures("keys")
def test_the_command_that_settles_a_doubt_names_the_called_run() -> None:
    write_program("", "die")
    assert onrecord_process("run", "calling.py:has_paid", "--run-id", "o1").returncode == 9
    called = next(one["run"] for one in onrecord_json("ls")["runs"] if one["run"] != "o1")
    alone = onrecord_process("resume", called)
    assert_two_lines(alone.stderr, "no_origin")
    assert "Run o1 called it: resume that run" in alone.stderr
    done = onrecord_process("resume", "o1")
    assert done.returncode == 6
    assert f"onrecord settle {called} --effect 1 --retry" in done.stderr
    assert done.stderr.endswith(" Then: onrecord resume o1\n")
    assert onrecord_process("settle", "o1", "--effect", "1", "--done", '"paid"').returncode == 3
