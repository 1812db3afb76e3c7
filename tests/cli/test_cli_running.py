"""`onrecord run` and `resume`."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from kit.agent_programs import begun, change_program, ledger, until, write_program
from kit.cli import STORE, assert_two_lines, exported, onrecord_json, onrecord_process, opened
from onrecord.core.wait_keys import Resolution, WaitIdentity
from onrecord.journal.journal import Journal
from onrecord.runtime.waits.registry import WaitRegistry


@pytest.fixture(autouse=True)
def program(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))
    return write_program()


def test_the_result_goes_to_stdout_and_the_rest_to_stderr() -> None:
    done = onrecord_process("run", "shop.py:greeter", "--input", '["bob"]', "--run-id", "r1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello bob\n", "run r1\n")
    done = onrecord_process("run", "shop.py:support", "--input", '{"name": "bob"}')
    assert done.stdout.startswith("printed by the agent\n{\n")
    assert ledger() == ["mail bob"]


def test_json_is_one_document_whatever_the_agent_prints() -> None:
    done = onrecord_process("run", "shop.py:support", "--input", '{"name": "bob"}', "--run-id", "r1", "--json")
    assert json.loads(done.stdout) == {"run": "r1", "status": "completed", "result": {"told": "bob", "sum": 3}}
    assert "printed by the agent" in done.stderr


@pytest.mark.parametrize(
    ("given", "result"), [('{"left": 1}', 3), ("[1, 5]", 6), ("1", 3), ('{"left": 1, "right": 1}', 2)]
)
def test_a_plain_function_is_made_an_agent(given: str, result: int) -> None:
    done = onrecord_process("run", "shop.py:plain", "--input", given)
    assert (done.returncode, done.stdout) == (0, f"{result}\n")
    assert onrecord_json("ls")["runs"][0]["agent"] == "plain"


@pytest.mark.parametrize("given", [["--input", "{}"], ["--input", '{"other": 1}'], []])
def test_an_input_that_does_not_fit_begins_nothing(given: list[str]) -> None:
    done = onrecord_process("run", "shop.py:greeter", *given)
    assert done.returncode == 2
    assert_two_lines(done.stderr, "bad_input")
    assert not os.path.exists(STORE)


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (["missing.py:f"], 3, "no_file"),
        (["shop.py:missing"], 3, "no_agent"),
        (["shop.py:ledger.x"], 3, "no_agent"),
        (["shop.py", "--input", "{}"], 2, "which_agent"),
        (["shop.py:not a name"], 2, "bad_target"),
        ([], 2, "usage"),
        (["shop.py:plain", "-m", "shop:plain"], 2, "usage"),
        (["-m", "missing_module:f"], 3, "no_module"),
        (["shop.py:plain", "--input", "not json"], 2, "bad_value"),
        (["broken.py:f"], 1, "load_failed"),
    ],
)
def test_what_cannot_be_run_is_said_in_two_lines(arguments: list[str], status: int, code: str) -> None:
    write_program("raise KeyError('at the top')", "broken.py")
    done = onrecord_process("run", *arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert_two_lines(done.stderr, code)
    assert not os.path.exists(STORE)


def test_a_file_with_one_agent_needs_no_name_and_imports_from_its_folder() -> None:
    Path("inner").mkdir()
    write_program("WORD = 'helped'", "inner/helper.py")
    write_program("import helper, onrecord\n@onrecord.agent\ndef only():\n    return helper.WORD\n", "inner/one.py")
    assert onrecord_process("run", "inner/one.py", "--input", "{}").stdout == "helped\n"
    assert onrecord_json("show", "@last")["facts"]["origin"] == {
        "file": str(Path("inner/one.py").resolve()),
        "function": "only",
    }


def test_a_module_is_run_and_resumed_from_another_folder() -> None:
    done = onrecord_process("run", "-m", "shop:asking", "--no-wait", "--store", "s.db")
    assert done.returncode == 6
    run = done.stderr.split()[1]
    with opened("s.db") as store:
        desk = WaitRegistry(store)
        desk.resolve(desk.key(run, WaitIdentity.named("approval")), Resolution.ok("yes"))
    store_path = str(Path("s.db").resolve())
    Path("elsewhere").mkdir()
    os.chdir("elsewhere")
    done = onrecord_process("resume", run, "--store", store_path)
    assert (done.returncode, done.stdout) == (0, "yes\n"), done.stderr


def test_a_failed_agent_is_told_in_two_lines() -> None:
    done = onrecord_process("run", "shop.py:failing", "--input", '["no such \\u001b[31morder"]', "--run-id", "r1")
    assert (done.returncode, done.stdout) == (1, "")
    assert_two_lines(done.stderr.replace("run r1\n", "", 1), "agent_failed")
    assert "ValueError: no such \\x1b[31morder" in done.stderr
    assert "Traceback" not in done.stderr
    assert onrecord_json("ls")["runs"][0]["status"] == "failed"
    again = onrecord_process("resume", "r1")
    assert (again.returncode, again.stderr) == (1, done.stderr.replace("run r1\n", "", 1))


def test_a_traceback_of_the_agent_only_when_asked_for() -> None:
    done = onrecord_process("run", "shop.py:failing", "--input", '["x"]', "-v")
    assert done.returncode == 1
    assert "raise ValueError(message)" in done.stderr


def test_a_failure_of_our_own_ends_with_125() -> None:
    Path("other.db").write_text("this is no store, but long enough to be looked at as one" * 100)
    done = onrecord_process("run", "shop.py:plain", "--input", "1", "--store", "other.db")
    assert (done.returncode, done.stdout) == (125, "")
    assert len(done.stderr.splitlines()) == 2


def test_the_programs_own_status_is_passed_through() -> None:
    assert onrecord_process("run", "shop.py:leaving").returncode == 9
    assert onrecord_json("ls")["runs"][0]["status"] == "interrupted"


@pytest.mark.parametrize(
    ("agent", "number", "status"),
    [
        ("asking", signal.SIGINT, 130),
        ("asking", signal.SIGTERM, 143),
        ("asking_in_a_thread", signal.SIGTERM, 143),
        ("threaded", signal.SIGINT, 130),
    ],
)
def test_a_signal_suspends_and_the_run_goes_on(agent: str, number: signal.Signals, status: int) -> None:
    process = begun("run", f"shop.py:{agent}")
    run = until("waiting")
    while not onrecord_json("waits", run)["waits"]:  # its key is made once it is on record that it waits
        assert process.poll() is None
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (status, "")
    lines = stderr.splitlines()
    assert lines[-2].endswith("[suspended]")
    command = re.fullmatch(r"Go on: onrecord (.*)", lines[-1])
    assert command is not None
    assert onrecord_json("verify", run)["valid"] is True
    with opened() as store:
        desk = WaitRegistry(store)
        (wait,) = (one for one in onrecord_json("waits", run)["waits"])
        desk.resolve(desk.key(run, WaitIdentity.named(wait["name"], wait["ordinal"])), Resolution.ok("yes"))
    assert onrecord_json("ls")["runs"][0]["status"] == "interrupted", "the answer is there, and nobody to take it"
    done = onrecord_process(*command[1].split())
    assert done.returncode == 0, done.stderr
    assert "yes" in done.stdout


def test_a_signal_lets_go_of_the_lease() -> None:
    process = begun("run", "shop.py:sleeping")
    run = until("running", events=3)
    process.terminate()
    assert process.wait(timeout=60) == 143
    process.communicate()
    assert onrecord_json("ls")["runs"][0]["status"] == "interrupted"
    assert onrecord_json("cancel", run)["status"] == "cancelled", "nobody has to be told"


def test_an_interrupt_ends_with_6_and_the_decision_goes_on() -> None:
    done = onrecord_process("run", "shop.py:deciding", "--input", '["may I?"]', "--run-id", "r1")
    assert (done.returncode, done.stdout) == (6, "")
    assert_two_lines(done.stderr.replace("run r1\n", "", 1), "blocked")
    assert done.stderr.splitlines()[-1] == """Decide: onrecord resume r1 --decision '"yes"'"""
    assert onrecord_json("ls")["runs"][0]["status"] == "blocked"
    done = onrecord_process("resume", "r1", "--decision", '{"yes": true}', "--json")
    assert json.loads(done.stdout)["result"] == ["may I?", {"yes": True}]


def test_a_decision_for_a_run_that_is_not_blocked_is_refused() -> None:
    assert onrecord_process("run", "shop.py:asking", "--no-wait").returncode == 6
    done = onrecord_process("resume", "@last", "--decision", "true")
    assert done.returncode == 6
    assert_two_lines(done.stderr, "not_blocked")


def test_an_effect_in_doubt_is_not_repeated_until_it_is_settled() -> None:
    Path("die").touch()
    assert onrecord_process("run", "shop.py:support", "--input", '["bob"]', "--run-id", "r1").returncode == -9
    Path("die").unlink()
    assert onrecord_json("ls")["runs"][0]["status"] == "in_doubt"
    done = onrecord_process("resume", "r1")
    assert done.returncode == 6
    assert done.stderr.splitlines()[-2].endswith("[in_doubt]")
    for choice in ("--done null", "--retry", "--fail failed"):
        assert f"onrecord settle r1 --effect 1 {choice}" in done.stderr
    assert "|" not in done.stderr, "a pasted pipe would start another command"
    assert ledger() == ["mail bob"]
    settled = onrecord_process("settle", "r1", "--done", '"sent"')
    assert settled.stderr.splitlines()[-1] == "Go on: onrecord resume r1"
    assert onrecord_process("resume", "r1").returncode == 0
    assert ledger() == ["mail bob"]


def test_changed_code_does_nothing_and_the_old_code_goes_on() -> None:
    assert onrecord_process("run", "shop.py:asking", "--no-wait", "--run-id", "r1").returncode == 6
    change_program("add(1, 2)\n    return await", "add(1, 3)\n    return await")
    done = onrecord_process("resume", "r1", "--no-wait")
    assert done.returncode == 6
    assert done.stderr.splitlines()[-2].endswith("[conflicting_request]")
    change_program("add(1, 3)\n    return await", "add(1, 2)\n    return await")
    done = onrecord_process("resume", "r1", "--no-wait")
    assert done.stderr.splitlines()[-2].endswith("[waiting]")


def test_changed_code_is_pinned_or_accepted() -> None:
    Path("die").touch()
    assert onrecord_process("run", "shop.py:support", "--input", '["bob"]', "--run-id", "r1").returncode == -9
    Path("die").unlink()
    assert onrecord_process("settle", "r1", "--done", '"sent"').returncode == 0
    change_program("mail(name)", "mail(name + '!')")
    for option, code in (("--pin-code", "code_changed"), ("--no-wait", "conflicting_request")):
        done = onrecord_process("resume", "r1", option)
        assert done.returncode == 6
        assert done.stderr.splitlines()[-2].endswith(f"[{code}]")
    assert ledger() == ["mail bob"]
    done = onrecord_process("resume", "r1", "--accept-code")
    assert done.returncode == 0, done.stderr
    assert ledger() == ["mail bob", "mail bob!"]


def test_an_ended_run_gives_its_result_again_without_its_code() -> None:
    assert onrecord_process("run", "shop.py:greeter", "--input", '["bob"]').returncode == 0
    Path("shop.py").unlink()
    assert onrecord_process("resume", "@last").stdout == "hello bob\n"


def not_begun(run: str) -> None:
    """As a program without the command line leaves it when it dies at once."""
    facts = {"agent": "greeter", "input": {"args": ["bob"], "kwargs": {}}}
    with opened() as store:
        Journal.create(store, run, facts=facts).release()


def test_a_run_that_does_not_tell_its_code_needs_it_named() -> None:
    not_begun("one")
    done = onrecord_process("resume", "one")
    assert done.returncode == 2
    assert_two_lines(done.stderr, "no_origin")
    assert onrecord_process("resume", "one", "shop.py:greeter").stdout == "hello bob\n"
    not_begun("two")
    done = onrecord_process("resume", "two", "shop.py:support")
    assert (done.returncode, done.stderr.splitlines()[-2][-13:]) == (2, "[other_agent]")


def test_an_imported_run_never_names_code_to_run() -> None:
    assert onrecord_process("run", "shop.py:asking", "--no-wait", "--run-id", "r1").returncode == 6
    exported("r1")
    assert onrecord_process("import", "run.jsonl", "--store", "other.db").returncode == 0
    change_program("import onrecord\n", "import onrecord\nopen('loaded', 'w').close()\n")
    for command in ("resume", "replay"):
        done = onrecord_process(command, "r1", "--store", "other.db")
        assert done.returncode == 6
        assert_two_lines(done.stderr, "imported_run")
    assert not os.path.exists("loaded")


def test_a_run_that_somebody_holds_is_left_alone() -> None:
    process = begun("run", "shop.py:asking")
    run = until("waiting")
    done = onrecord_process("resume", run)
    assert done.returncode == 6
    assert done.stderr.splitlines()[-2].endswith("[run_busy]")
    assert onrecord_json("cancel", run, "--reason", "enough")["status"] == "told"
    process.communicate(timeout=60)
    assert process.returncode == 1
    assert onrecord_json("ls")["runs"][0]["status"] == "cancelled"


def test_an_unknown_run_makes_no_store() -> None:
    for command in (["resume", "x"], ["cancel", "x"], ["settle", "x", "--retry"], ["replay", "x"]):
        done = onrecord_process(*command)
        assert done.returncode == 3
        assert_two_lines(done.stderr, "no_store")
    assert not os.path.exists(STORE)


def test_a_decision_for_a_run_that_has_ended_is_refused() -> None:
    write_program("import onrecord\n\n@onrecord.agent\ndef ask():\n    return 1\n", "asks.py")
    assert onrecord_process("run", "asks.py", "--input", "{}", "--run-id", "one").returncode == 0
    done = onrecord_process("resume", "one", "--decision", "true")
    assert done.returncode == 6
    assert done.stdout == ""
    assert_two_lines(done.stderr, "not_blocked")


def test_an_id_that_is_taken_is_refused_before_anything_runs() -> None:
    write_program("import onrecord\n\n@onrecord.agent\ndef ask():\n    print('runs')\n    return 1\n", "asks.py")
    assert onrecord_process("run", "asks.py", "--input", "{}", "--run-id", "one").returncode == 0
    done = onrecord_process("run", "asks.py", "--input", "{}", "--run-id", "one")
    assert done.returncode == 6
    assert "runs" not in done.stdout
    assert_two_lines(done.stderr, "run_exists")
