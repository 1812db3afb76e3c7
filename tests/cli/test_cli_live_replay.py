"""`onrecord replay --live`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.cli import assert_two_lines, onrecord_json, onrecord_process

PROGRAM = """
import os
import onrecord


@onrecord.tool(kind="model_call")
def ask(prompt):
    tokens = int(os.environ.get("TOKENS", "100"))
    return {"text": os.environ.get("SAYS", "yes"), "usage": {"input_tokens": tokens, "output_tokens": 5}}


@onrecord.tool
def mail(text):
    with open("ledger", "a") as ledger:
        ledger.write(text + "\\n")
    return "sent"


@onrecord.agent
def support(question):
    answer = ask(question)["text"]
    mail(answer)
    return answer


@onrecord.agent
def mailing(text):
    return mail(text)
"""


@pytest.fixture(autouse=True)
def recorded(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))
    Path("shop.py").write_text(PROGRAM)
    assert onrecord_process("run", "shop.py:support", "--input", '["hello"]', "--run-id", "base").returncode == 0
    assert mails() == ["yes"]


def mails() -> list[str]:
    return Path("ledger").read_text().splitlines()


def test_the_same_again_passes_and_sends_no_mail() -> None:
    done = onrecord_process("replay", "base", "--live", "--live-run-id", "again")
    assert done.returncode == 0, done.stderr
    assert "pass" in done.stdout
    assert mails() == ["yes"]
    shown = onrecord_json("show", "again")
    assert (shown["parent"]["run"], shown["parent"]["relation"]) == ("base", "replay")


def test_counters_move_within_a_tolerance_or_break(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENS", "101")
    assert onrecord_json("replay", "base", "--live", "--tokens", "1%")["verdict"] == "drift"
    broken = onrecord_json("replay", "base", "--live", status=1)
    assert broken["verdict"] == "broken"
    assert "input_tokens" in str(broken)


def test_another_answer_breaks_and_what_follows_from_it_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAYS", "no")
    assert onrecord_process("replay", "base", "--live").returncode == 1
    assert mails() == ["yes"]
    assert onrecord_process("replay", "base", "--live", "--live-tool", "mail").returncode == 1
    assert mails() == ["yes", "no"], "named"


def test_a_run_of_which_nothing_is_carried_out_is_no_pass() -> None:
    assert onrecord_process("run", "shop.py:mailing", "--input", '["a"]', "--run-id", "mails").returncode == 0
    done = onrecord_process("replay", "mails", "--live")
    assert done.returncode == 1
    assert mails() == ["yes", "a"]


@pytest.mark.usefixtures("forked_workers")
def test_all_runs_are_done_again_and_told_to_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once: neither the replays that this makes nor those that are there already are carried out again."""
    for number in range(3):
        onrecord_process("run", "shop.py:support", "--input", f'["question {number}"]', "--run-id", f"more-{number}")
    assert onrecord_process("replay", "base", "--live", "--live-run-id", "again").returncode == 0
    before = mails()
    found = onrecord_json("replay", "--all", "--live", "--jobs", "2", "--junit", "all.xml")
    verdicts = {one["run"]: one["verdict"] for one in found["runs"]}
    assert verdicts == {"base": "pass", "again": "skipped", **{f"more-{number}": "pass" for number in range(3)}}
    assert mails() == before
    monkeypatch.setenv("TOKENS", "104")
    drifted = onrecord_json(
        "replay", "--all", "--live", "--tokens", "5%", "--status", "completed", "--agent", "support"
    )
    assert {one["verdict"] for one in drifted["runs"]} == {"drift", "skipped"}
    broken = onrecord_process("replay", "--all", "--live", "--junit", "broken.xml")
    assert broken.returncode == 1
    assert Path("broken.xml").read_text().count("<failure") == 4
    assert "input_tokens" in Path("broken.xml").read_text()


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (["replay", "nobody", "--live"], 3, "unknown_run"),
        (["replay", "base", "--live-tool", "mail"], 2, "usage"),
        (["replay", "base", "--tokens", "1%"], 2, "usage"),
        (["replay", "--all", "--live", "--live-run-id", "x"], 2, "usage"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], status: int, code: str) -> None:
    done = onrecord_process(*arguments)
    assert done.returncode == status, done.stderr
    assert_two_lines(done.stderr, code)
