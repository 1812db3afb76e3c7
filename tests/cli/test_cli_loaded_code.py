"""The code that a command loads is the code that recorded the run, or the command stops before the agent goes on."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kit.cli import assert_two_lines, onrecord, onrecord_json, onrecord_process

ORDER = """
import os
from dataclasses import dataclass

import onrecord


@dataclass
class Paid:
    cents: int


class Declined(Exception):
    pass


@onrecord.tool
def charge(number):
    return Paid(4200)


@onrecord.tool
def check(number):
    raise Declined(number)


@onrecord.tool(idempotent=True)
def ship(number, paid):
    if not os.path.exists("killed"):
        open("killed", "w").close()
        os.kill(os.getpid(), 9)
    return f"shipped for {paid.cents}"


@onrecord.tool
def refund(number):
    open("refunded", "w").close()
    return "refunded"


@onrecord.agent
def order(number):
    paid = charge(number)
    try:
        check(number)
    except Declined:
        return ship(number, paid) if isinstance(paid, Paid) else refund(number)
"""
GUARDED = '\n\nif __name__ == "__main__":\n    print(order.run("A-17", run_id="first"))\n'
SHIPPED = "shipped for 4200\n"


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def python(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)


def record_killed(path: str = "order.py", *command: str, text: str = ORDER + GUARDED) -> None:
    """Start Python with the file, or with the command; the agent kills it before it ships."""
    write(path, text)
    assert python(*(command or (path,))).returncode == -9


def event_count() -> int:
    found: int = onrecord_json("ls")["runs"][0]["events"]
    return found


def assert_class_missing(*command: str, label: str = "order:Paid") -> None:
    before = event_count()
    done = onrecord_process(*command)
    assert done.returncode == (7 if command[0] == "replay" else 6)
    assert f"the class {label} of the result of charge at seq 2 of run first" in done.stderr
    assert_two_lines(done.stderr.removeprefix("run first\n"), "class_missing")
    assert event_count() == before
    assert not Path("refunded").exists()


def test_a_moved_file_finds_the_recorded_classes() -> None:
    record_killed()
    shutil.move("order.py", "renamed.py")
    done = onrecord_process("resume", "first", "renamed.py")
    assert (done.returncode, done.stdout) == (0, SHIPPED), done.stderr
    assert onrecord_process("replay", "first", "renamed.py").returncode == 0


@pytest.mark.parametrize(
    ("old", "new"), [("Paid", "Receipt"), ("cents", "pence"), ("@dataclass\n", "class Base(int): pass\n\n\n")]
)
def test_a_class_that_was_renamed_or_changed_stops_the_run(old: str, new: str) -> None:
    record_killed()
    changed = ORDER.replace(old, new).replace("Paid:", "Paid(Base):" if "Base" in new else "Paid:")
    write("order.py", changed + GUARDED)
    assert_class_missing("resume", "first")
    assert_class_missing("replay", "first")
    done = onrecord_process("worker", "--once", "order.py")
    assert done.stdout == "first class_missing\n"
    write("order.py", ORDER + GUARDED)
    assert onrecord_process("resume", "first").stdout == SHIPPED


def test_an_error_class_that_was_renamed_stops_the_run() -> None:
    record_killed()
    write("order.py", ORDER.replace("Declined", "Refused") + GUARDED)
    done = onrecord_process("resume", "first")
    assert_two_lines(done.stderr.removeprefix("run first\n"), "class_missing")
    write("order.py", ORDER + GUARDED)
    assert onrecord_process("resume", "first").stdout == SHIPPED


def test_a_worker_that_knows_the_file_by_another_name_does_not_go_on() -> None:
    record_killed("shop/order.py")
    assert onrecord_process("worker", "--once", "-m", "shop.order").stdout == "first class_missing\n"
    assert not Path("refunded").exists()
    assert onrecord_process("resume", "first", "-m", "shop.order").stdout == SHIPPED


def test_an_input_of_a_missing_class_stops_the_run() -> None:
    text = ORDER.replace("def order(number):", "def order(given, number='A-17'):")
    record_killed(text=text + GUARDED.replace('"A-17"', "Paid(1)"))
    write("order.py", text.replace("Paid", "Receipt"))
    done = onrecord_process("resume", "first")
    assert "the class order:Paid of the input of run first" in done.stderr


def test_a_chunk_of_a_missing_class_stops_the_run() -> None:
    stream = "@onrecord.tool\nasync def charges(number):\n    yield Paid(4200)\n\n\n@onrecord.agent\nasync def order"
    text = ORDER.replace("@onrecord.agent\ndef order", stream)
    text = text.replace("paid = charge(number)", "paid = [one async for one in charges(number)][0]")
    start = '\n\nif __name__ == "__main__":\n    import asyncio\n    asyncio.run(order.run("A-17", run_id="first"))\n'
    record_killed(text=text + start)
    write("order.py", text.replace("Paid", "Receipt"))
    done = onrecord_process("resume", "first")
    assert "the class order:Paid of the chunk at seq 2 of run first" in done.stderr
    assert_two_lines(done.stderr.removeprefix("run first\n"), "class_missing")
    assert not Path("refunded").exists()


@pytest.mark.parametrize("name", ["click", "site", "__main__"])
def test_a_script_with_the_name_of_a_loaded_module(name: str) -> None:
    record_killed(f"{name}.py")
    done = onrecord_process("resume", "first")
    assert (done.returncode, done.stdout) == (0, SHIPPED), done.stderr
    assert onrecord_process("replay", "first").returncode == 0


def test_a_class_that_nobody_could_find_is_the_same_stand_in_again() -> None:
    made = "from dataclasses import make_dataclass\nMade = make_dataclass('Other', [('cents', int)])\n"
    text = made + ORDER.replace("return Paid(4200)", "return Made(4200)").replace("(paid, Paid)", "(paid, Made)")
    text = text.replace("else refund(number)", "else ship(number, Paid(4200))")
    record_killed(text=text + GUARDED)
    assert onrecord_process("resume", "first").stdout == SHIPPED
    assert onrecord_process("replay", "first").returncode == 0
    assert ':<unreachable>.Other"' in onrecord("show", "first", "--json").stdout


BANK = """
import onrecord
import shop


@onrecord.tool
def charge(number):
    raise shop.Declined(number)


def pay(number):
    try:
        charge(number)
    except shop.Declined:
        return "declined"
"""
SHOP = """
import onrecord


class Declined(Exception):
    pass


import bank


@onrecord.tool
def decline(number):
    raise Declined(number)


@onrecord.agent
def order(number):
    try:
        decline(number)
    except Declined:
        return bank.pay(number)


if __name__ == "__main__":
    print(order.run("A-17", run_id="first"))
"""


def test_a_script_that_its_helper_imports_has_two_classes_of_each_name() -> None:
    write("bank.py", BANK)
    write("shop.py", SHOP)
    assert python("shop.py").stdout == "declined\n"
    assert onrecord_process("replay", "first").returncode == 0


def test_a_folder_with_a_main_file() -> None:
    record_killed("app/__main__.py", "app/")
    done = onrecord_process("resume", "first")
    assert (done.returncode, done.stdout) == (0, SHIPPED), done.stderr


def test_an_archive_records_no_origin() -> None:
    write("app/__main__.py", ORDER + GUARDED)
    assert python("-m", "zipapp", "app").returncode == 0
    assert python("app.pyz").returncode == -9
    assert_two_lines(onrecord_process("resume", "first").stderr, "no_origin")
    assert onrecord_process("resume", "first", "app/__main__.py").stdout == SHIPPED


def test_another_module_of_the_recorded_name_is_refused() -> None:
    write("main.py", "import click\nclick.order.run('A-17', run_id='first')\n")
    record_killed("click.py", "main.py", text=ORDER)
    done = onrecord_process("resume", "first")
    assert_two_lines(done.stderr, "other_module")
    assert onrecord_process("resume", "first", str(Path("click.py").absolute()) + ":order").stdout == SHIPPED


def test_an_unguarded_main_module_is_resumed() -> None:
    record_killed("shop/__main__.py", "-m", "shop", text=ORDER + '\n\norder.run("A-17", run_id="first")\n')
    done = onrecord_process("resume", "first")
    assert (done.returncode, done.stdout) == (0, SHIPPED), done.stderr


def test_a_worker_leaves_runs_of_other_files_alone() -> None:
    record_killed()
    write("two.py", ORDER)
    before = event_count()
    done = onrecord_process("worker", "--once", "two.py")
    assert done.stdout == "first other_code\n"
    assert f"first was recorded by {Path('order.py').absolute()}" in done.stderr
    found = onrecord_json("worker", "--once", "two.py")["runs"]
    assert found == [{"run": "first", "outcome": "other_code", "recorded_by": str(Path("order.py").absolute())}]
    assert event_count() == before
    Path("moved").mkdir()
    shutil.move("order.py", "moved/order.py")
    assert onrecord_process("worker", "--once", "two.py", "moved/order.py").stdout == "first completed\n"


def test_a_worker_takes_the_runs_of_an_agent_that_its_file_imports() -> None:
    write("main.py", "from order import order\n\nif __name__ == '__main__':\n    order.run('A-17', run_id='first')\n")
    record_killed("order.py", "main.py", text=ORDER)
    assert onrecord_process("worker", "--once", "main.py").stdout == "first completed\n"


HELPED = "import helper\nimport onrecord\n\n\n@onrecord.agent\ndef {name}():\n    return helper.NAME\n"


def test_files_with_helpers_of_one_name_are_refused() -> None:
    for name in ("one", "two"):
        write(f"{name}/agent.py", HELPED.format(name=name))
        write(f"{name}/helper.py", f"NAME = '{name}'\n")
        assert onrecord_process("run", f"{name}/agent.py:{name}", "--input", "[]").stdout == f"{name}\n"
    done = onrecord_process("worker", "--once", "one/agent.py", "two/agent.py")
    assert done.returncode == 6
    assert_two_lines(done.stderr, "module_clash")
    assert_two_lines(onrecord_process("replay", "--all", "one/agent.py", "two/agent.py").stderr, "module_clash")
    assert "module_clash" in onrecord_process("replay", "--all", "--jobs", "1").stdout
    assert onrecord_process("worker", "--once", "one/agent.py", "one/agent.py").returncode == 0


def test_files_with_classes_of_one_name_are_refused() -> None:
    for name in ("one", "two"):
        write(f"{name}/agent.py", ORDER)
    assert_two_lines(onrecord_process("worker", "--once", "one/agent.py", "two/agent.py").stderr, "module_clash")


@pytest.mark.parametrize(
    ("ending", "message"),
    [
        ("import sys\nsys.exit(0)\n", "ends the program while it is loaded: SystemExit(0) at order.py:"),
        ("raise SystemExit('no key')\n", "ends the program while it is loaded: SystemExit('no key') at order.py:"),
        (
            "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('x')\nparser.parse_args()\n",
            "parses a command line while it is loaded at order.py:",
        ),
    ],
)
def test_a_file_that_ends_the_program_is_not_a_success(ending: str, message: str) -> None:
    record_killed()
    write("order.py", ORDER + ending)
    run = ["run", "order.py:order", "--input", '["A-17"]']
    for command in (["resume", "first"], ["replay", "first"], ["worker", "--once", "order.py"], run):
        done = onrecord_process(*command)
        assert done.returncode == 1, command
        assert message in done.stderr
        assert_two_lines("\n".join(done.stderr.splitlines()[-2:]), "load_failed")
    assert onrecord_json("resume", "first", status=1)["error"]["code"] == "load_failed"


TIMED = """
import threading

import onrecord


@onrecord.agent
def beat():
    return 1


@onrecord.agent
def main():
    return 2


threading.Thread(target=beat).start()
threading.Timer(0.3, beat).start()
if __name__ == "__main__":
    main.run(run_id="first")
"""


def test_a_replay_starts_no_run_from_a_thread() -> None:
    write("timed.py", TIMED)
    assert python("timed.py").returncode == 0
    before = len(onrecord_json("ls")["runs"])
    done = python("-m", "onrecord", "replay", "first")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("starts a run of beat") == done.stderr.count("[starts_while_loading]") == 2
    assert len(onrecord_json("ls")["runs"]) == before


def test_the_package_is_a_command() -> None:
    assert python("-m", "onrecord", "--version").stdout.startswith("onrecord ")
