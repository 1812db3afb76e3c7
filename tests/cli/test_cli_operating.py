"""`onrecord cancel`, `settle`, `worker` and `replay`."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from kit.agent_programs import begun, change_program, ledger, until, write_program
from kit.cli import assert_two_lines, exported, onrecord, onrecord_json, onrecord_process, record, whole_run
from onrecord.core.events import ActionRequested
from onrecord.journal.chain import Draft


@pytest.fixture(autouse=True)
def program(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))
    return write_program()


def killed() -> str:
    """A run that was killed inside the mail."""
    Path("die").touch()
    assert onrecord_process("run", "shop.py:support", "--input", '["bob"]', "--run-id", "r1").returncode == -9
    Path("die").unlink()
    return "r1"


def once(seq: int, lane: str = "main") -> Draft:
    request = ActionRequested(action_id=f"a{seq}", payload=seq, name="mail", effect="tool_call", meta={"once": True})
    return Draft(request, lane=lane, key=f"a{seq}")


# Settling


def test_retry_does_it_again_and_fail_raises() -> None:
    run = killed()
    assert onrecord_json("settle", run, "--retry", "--by", "dana") == {"run": run, "effect": 1, "decision": "retry"}
    assert onrecord_json("ls")["runs"][0]["status"] == "interrupted"
    assert onrecord_process("resume", run).returncode == 0
    assert ledger() == ["mail bob", "mail bob"]


def test_fail_is_an_error_for_the_agent() -> None:
    run = killed()
    assert onrecord("settle", run, "--fail", "the post is closed").exit_code == 0
    done = onrecord_process("resume", run)
    assert done.returncode == 1
    assert "SettledAsFailed: the post is closed" in done.stderr
    assert ledger() == ["mail bob"]


@pytest.mark.parametrize("arguments", [[], ["--retry", "--done", "1"], ["--done", "1", "--fail", "x"]])
def test_settling_needs_exactly_one_word(arguments: list[str]) -> None:
    record("one", [once(1)])
    result = onrecord("settle", "one", *arguments)
    assert result.exit_code == 2
    assert_two_lines(result.stderr, "usage")


def test_nothing_in_doubt_and_several_in_doubt() -> None:
    record("one", whole_run())
    result = onrecord("settle", "one", "--retry")
    assert result.exit_code == 3
    assert_two_lines(result.stderr, "no_doubt")
    record("two", [once(1, "main>a"), once(2, "main>a#1")])
    assert onrecord_json("ls")["runs"][0]["about"] == ["mail", "mail"]
    result = onrecord("settle", "two", "--retry")
    assert result.exit_code == 2
    assert_two_lines(result.stderr, "which_effect")
    assert onrecord_json("settle", "two", "--effect", "2", "--done", "null")["effect"] == 2
    assert onrecord_json("settle", "two", "--retry")["effect"] == 1
    result = onrecord("settle", "two", "--retry")
    assert result.exit_code == 6
    assert_two_lines(result.stderr, "already_settled")


def test_the_word_of_the_operator_is_on_record() -> None:
    record("one", [once(1)])
    onrecord_json("settle", "one", "--done", '{"id": 7}', "--by", "dana")
    settled, answer = onrecord_json("show", "one")["timeline"][1:]
    assert settled["content"] == {"action_id": "a1", "decision": "done", "value": {"id": 7}, "by": "dana"}
    assert answer["content"] == {"action_id": "a1", "output": {"id": 7}}


# Cancelling


def test_a_run_that_nobody_holds_ends_at_once() -> None:
    record("one", [once(1)])
    assert onrecord_json("cancel", "one", "--reason", "enough")["status"] == "cancelled"
    assert onrecord_json("show", "one")["timeline"][-1]["content"] == {"reason": "enough"}
    result = onrecord("cancel", "one")
    assert result.exit_code == 6
    assert_two_lines(result.stderr, "closed_run")


# Workers


def test_a_worker_carries_on_what_somebody_left() -> None:
    run = killed()
    assert onrecord("settle", run, "--retry").exit_code == 0
    done = onrecord_process("worker", "shop.py", "--once")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"{run} completed"), done.stderr
    assert onrecord_json("ls")["runs"][0]["status"] == "completed"
    assert json.loads(onrecord_process("worker", "shop.py", "--once", "--json").stdout) == {"runs": []}


def test_what_a_worker_cannot_carry_on_is_told() -> None:
    run = killed()
    done = onrecord_process("worker", "-m", "shop", "--once")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"{run} in_doubt"), done.stderr
    assert ledger() == ["mail bob"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_worker_sweeps_until_it_is_stopped(number: signal.Signals) -> None:
    run = killed()
    process = begun("worker", "shop.py", "--every", "0.1")
    assert onrecord("settle", run, "--retry").exit_code == 0
    until("completed")
    assert process.stdout is not None
    assert any(line == f"{run} completed\n" for line in iter(process.stdout.readline, ""))
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_worker_without_agents_is_a_mistake() -> None:
    write_program("x = 1", "empty.py")
    result = onrecord_process("worker", "empty.py")
    assert result.returncode == 2
    assert_two_lines(result.stderr, "no_agent")


# Replaying


def recorded(name: str = "greeter", given: str = '["bob"]') -> None:
    assert onrecord_process("run", f"shop.py:{name}", "--input", given, "--run-id", "r1").returncode in (0, 1)


@pytest.mark.parametrize(("agent", "given"), [("greeter", '["bob"]'), ("support", '["bob"]'), ("failing", '["x"]')])
def test_the_same_comes_out_and_nothing_happens(agent: str, given: str) -> None:
    recorded(agent, given)
    before = ledger()
    done = onrecord_process("replay", "@last")
    assert (done.returncode, done.stdout.splitlines()) == (0, [f"replayed r1: the same in all {events()} events"])
    assert ledger() == before


def events() -> int:
    found: int = onrecord_json("ls")["runs"][0]["events"]
    return found


def test_a_divergence_is_shown_with_its_place() -> None:
    recorded("support", '["bob"]')
    change_program("add(1, 2)}", "add(1, 3)}")
    done = onrecord_process("replay", "r1")
    assert done.returncode == 1
    assert_two_lines("\n".join(done.stderr.splitlines()[-2:]), "conflicting_request")
    shown = dict(line.split(None, 1) for line in done.stdout.splitlines())
    assert shown["asked"].startswith("add, at shop.py:"), "as for a program"
    assert shown["differs"] == "/payload/right: recorded 2, now 3"
    assert done.stderr.splitlines()[-1].endswith("`onrecord fork r1 --at 2`."), "the request is event 3"
    as_json = json.loads(onrecord_process("replay", "r1", "--json").stdout)
    assert (as_json["status"], as_json["divergence"]["code"]) == ("diverged", "conflicting_request")
    assert as_json["divergence"]["expected"]["payload"] == {"left": 1, "right": 2}
    assert as_json["divergence"]["miss"]["differences"][0]["path"] == "/payload/right"


def test_another_result_is_a_divergence() -> None:
    recorded()
    change_program("hello {name}", "good day {name}")
    done = onrecord_process("replay", "r1")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-2].endswith("[other_end]")


def test_an_unfinished_record_is_said_to_be_one() -> None:
    assert onrecord_process("run", "shop.py:asking", "--no-wait", "--run-id", "r1").returncode == 6
    done = onrecord_process("replay", "r1")
    assert done.returncode == 0, done.stderr
    assert "the record is unfinished" in done.stdout
    assert json.loads(onrecord_process("replay", "r1", "--json").stdout)["status"] == "unfinished"


def test_what_has_no_value_ends_with_7() -> None:
    write_program(
        "import onrecord, threading\n"
        "@onrecord.tool\ndef client():\n    return threading.Lock()\n"
        "@onrecord.agent\ndef user():\n    client()\n",
        "one.py",
    )
    assert onrecord_process("run", "one.py", "--input", "{}", "--run-id", "r1").returncode == 0
    done = onrecord_process("replay", "r1")
    assert done.returncode == 7
    assert_two_lines(done.stderr, "not_replayable")


def test_an_imported_run_is_replayed_when_its_code_is_named() -> None:
    recorded()
    exported("r1")
    assert onrecord_process("import", "run.jsonl", "--store", "other.db").returncode == 0
    done = onrecord_process("replay", "r1", "shop.py:greeter", "--store", "other.db")
    assert done.returncode == 0, done.stderr
