"""A run that `python agent.py` starts records where its agent is: `onrecord resume` continues it after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kit.cli import assert_two_lines, onrecord, onrecord_json, onrecord_process

AGENT = """
import os
import time
from dataclasses import dataclass

import onrecord


@dataclass
class Order:
    number: str
    cents: int


class NotPaid(Exception):
    pass


def write(line):
    with open("ledger", "a") as ledger:
        ledger.write(line + "\\n")


@onrecord.step
def look_up(number):
    write("look_up")
    return Order(number, 4200)


@onrecord.tool
def charge(order):
    write("charge")
    raise NotPaid(order.number)


@onrecord.tool
def mail(order):
    write("mail")
    return "sent"


@onrecord.tool(idempotent=True)
def label(order):
    if not os.path.exists("killed"):
        open("killed", "w").close()
        time.sleep(60)
    write("label")
    return "L-1"


@onrecord.agent
def support(number):
    order = look_up(number)
    try:
        charge(order)
    except NotPaid as error:
        reason = str(error)
    return f"{mail(order)} {label(order)} {order.cents} {reason}"
"""
GUARDED = '\n\nif __name__ == "__main__":\n    print(support.run("A-17", run_id="first"))\n'
UNGUARDED = '\n\nprint(support.run("A-17", run_id="first"))\nwrite("after")\n'
ONCE = ["look_up", "charge", "mail", "label"]
RESULT = "sent L-1 4200 A-17\n"


def killed(*command: str) -> None:
    """Start Python and kill it in the middle of the agent."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not Path("killed").exists():
        assert process.poll() is None, "it ended before the middle"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def ledger() -> list[str]:
    return Path("ledger").read_text().split()


@pytest.mark.parametrize("end", [GUARDED, UNGUARDED])
def test_a_killed_script_is_resumed_by_its_run_alone(end: str) -> None:
    Path("agent.py").write_text(AGENT + end)
    killed("agent.py")
    done = onrecord_process("resume", "first")
    assert (done.returncode, done.stdout) == (0, RESULT), done.stderr
    assert ledger() == ONCE
    assert onrecord("verify", "first").exit_code == 0
    assert onrecord_process("replay", "first").returncode == 0
    assert ledger() == ONCE
    assert [run["run"] for run in onrecord_json("ls")["runs"]] == ["first"]


def test_an_asynchronous_agent_that_asyncio_run_starts() -> None:
    text = AGENT.replace("def support", "async def support")
    Path("agent.py").write_text(text + '\n\nimport asyncio\nasyncio.run(support.run("A-17", run_id="first"))\n')
    killed("agent.py")
    done = onrecord_process("resume", "first")
    assert (done.returncode, done.stdout) == (0, RESULT), done.stderr
    assert ledger() == ONCE


@pytest.mark.parametrize("command", [["main.py"], ["-m", "shop.main"]])
def test_an_agent_in_another_module(command: list[str]) -> None:
    Path("shop").mkdir()
    Path("shop/agents.py").write_text(AGENT)
    Path("shop/main.py").write_text("from shop.agents import support\nsupport.run('A-17', run_id='first')\n")
    Path("main.py").write_text("import shop.main\n")
    killed(*command)
    done = onrecord_process("resume", "first")
    assert (done.returncode, done.stdout) == (0, RESULT), done.stderr
    assert ledger() == ONCE


def test_a_module_that_python_m_starts() -> None:
    Path("shop").mkdir()
    Path("shop/agents.py").write_text(AGENT + GUARDED)
    killed("-m", "shop.agents")
    done = onrecord_process("resume", "first")
    assert (done.returncode, done.stdout) == (0, RESULT), done.stderr
    assert ledger() == ONCE


OTHER_FIRST = """

@onrecord.agent
def other():
    return look_up("B-1")


if os.path.exists("killed"):
    other()
print(support.run("A-17", run_id="first"))
"""


def test_a_file_that_starts_another_run_while_it_is_loaded_starts_nothing() -> None:
    Path("agent.py").write_text(AGENT + OTHER_FIRST)
    killed("agent.py")
    before = ledger()
    done = onrecord_process("resume", "first")
    assert done.returncode == 6
    assert_two_lines(done.stderr, "starts_while_loading")
    assert '`if __name__ == "__main__":`' in done.stderr
    assert ledger() == before
    assert [run["run"] for run in onrecord_json("ls")["runs"]] == ["first"]


def test_an_imported_run_names_no_code_to_load() -> None:
    Path("agent.py").write_text(AGENT + GUARDED)
    Path("killed").touch()
    assert subprocess.run([sys.executable, "agent.py"], capture_output=True, check=False).returncode == 0
    assert onrecord("export", "first", "-o", "run.jsonl").exit_code == 0
    assert onrecord("import", "run.jsonl", "--store", "other.db").exit_code == 0
    Path("agent.py").write_text("open('loaded', 'w')")
    done = onrecord_process("replay", "first", "--store", "other.db")
    assert_two_lines(done.stderr, "imported_run")
    assert not Path("loaded").exists()


def test_a_second_start_under_the_same_id_says_what_to_do() -> None:
    Path("agent.py").write_text(AGENT + GUARDED)
    Path("killed").touch()
    for _ in range(2):
        done = subprocess.run([sys.executable, "agent.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[-2] == "onrecord.errors.RunExists: there is a run first already"
    assert "`onrecord resume first`" in lines[-1]
    assert "`onrecord replay first`" in lines[-1]
    assert "another run_id" in lines[-1]
    assert len([line for line in lines if line.startswith("  File ")]) == 2, "the caller's line, and ours that raises"
    assert ledger() == ONCE
    assert onrecord_process("resume", "first").stdout == RESULT


def test_classes_of_a_script_have_the_name_of_its_file() -> None:
    """So that a script, `onrecord run agent.py:support` and a worker read each other's runs."""
    Path("agent.py").write_text(AGENT + GUARDED)
    Path("killed").touch()
    assert subprocess.run([sys.executable, "agent.py"], capture_output=True, check=False).returncode == 0
    found = onrecord_process("run", "agent.py:support", "--input", '["A-17"]', "--run-id", "second")
    assert found.returncode == 0, found.stderr
    assert onrecord_process("diff", "first", "second").returncode == 0
    assert '"agent:NotPaid"' in onrecord("show", "first", "--json").stdout
