"""`onrecord fork`, and going on with one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kit.cli import assert_two_lines, onrecord, onrecord_json, onrecord_process

PROGRAM = """
import onrecord


@onrecord.tool(kind="model_call")
def ask(model, prompt):
    return {"text": f"{model}: {prompt}", "usage": {"input_tokens": len(prompt), "output_tokens": 2, "cost": 0.5}}


@onrecord.tool
def mail(text):
    with open("ledger", "a") as ledger:
        ledger.write(text + "\\n")
    return "sent"


@onrecord.agent
def support(question):
    answer = ask("small", question)["text"]
    mail(answer)
    return [answer, ask("small", "and then?")["text"]]


@onrecord.agent
def failing(question):
    answer = ask("small", question)["text"]
    if not FIXED:
        raise ValueError(answer)
    return answer


FIXED = False
"""


@pytest.fixture(autouse=True)
def recorded(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))
    Path("shop.py").write_text(PROGRAM)
    assert onrecord_process("run", "shop.py:support", "--input", '["hello"]', "--run-id", "base").returncode == 0
    assert mails() == ["small: hello"]


def mails() -> list[str]:
    return Path("ledger").read_text().splitlines()


def test_what_it_may_cost_is_told_before_it_is_spent() -> None:
    done = onrecord_process("fork", "base", "--at", "2", "--dry-run")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [
        "shares 2 events with base; base has 2 effects after that",
        "executed again: 1 x ask · 11 tokens · cost 0.5000",
        "answered from the record: 1 x mail",
    ]
    told = onrecord_json("fork", "base", "--at", "0", "--dry-run")
    assert (told["carried_out"], told["answered"], told["tokens"], told["cost"]) == ({"ask": 2}, {"mail": 1}, 18, 1.0)
    assert [one["run"] for one in onrecord_json("ls")["runs"]] == ["base"], "nothing was begun"


def test_another_answer_and_a_tool_that_has_to_be_named() -> None:
    done = onrecord_process("fork", "base", "--event", "2", "--answer", '{"text": "bye"}', "--fork-id", "other")
    assert done.returncode == 6
    assert_two_lines("\n".join(done.stderr.splitlines()[-2:]) + "\n", "not_carried_out")
    assert "onrecord resume other --live-tool mail" in done.stderr
    assert mails() == ["small: hello"]
    gone_on = onrecord_json("resume", "other", "--live-tool", "mail")
    assert gone_on["result"] == ["bye", "small: and then?"]
    assert mails() == ["small: hello", "bye"]
    assert onrecord("verify", "other").exit_code == 0
    assert onrecord("replay", "other").exit_code == 0
    difference = onrecord_json("diff", "base", "other", status=1)
    assert difference["first"]["reason"] == "other_answer"
    assert difference["first"]["actual"]["run"] == "other"
    assert onrecord_json("show", "other")["parent"]["run"] == "base"


def test_a_patch_a_model_and_an_error() -> None:
    patch = '[{"op": "replace", "path": "/text", "value": "patched"}]'
    assert (
        onrecord_json("fork", "base", "--event", "2", "--patch", patch, "--live-tool", "mail")["result"][0] == "patched"
    )
    patch = '[{"op": "replace", "path": "/prompt", "value": "changed"}]'
    found = onrecord_json("fork", "base", "--event", "1", "--patch", patch, "--live-tool", "mail")
    assert found["result"][0] == "small: changed"
    found = onrecord_json("fork", "base", "--event", "5", "--with-input", '{"model": "big", "prompt": "why?"}')
    assert found["result"] == ["small: hello", "big: why?"]
    assert onrecord_json("fork", "base", "--at", "4", "--model", "big")["result"] == ["small: hello", "big: and then?"]
    failed = onrecord_json("fork", "base", "--event", "6", "--fail", "out of order", status=1)
    assert "out of order" in str(failed)
    assert mails() == ["small: hello", "patched", "small: changed"]


def test_tails() -> None:
    assert onrecord_json("fork", "base", "--at", "0", "--tail", "mocked")["result"] == [
        "small: hello",
        "small: and then?",
    ]
    stopped = onrecord_process("fork", "base", "--at", "2", "--tail", "stopped", "--fork-id", "stopped")
    assert stopped.returncode == 6
    assert "mail" in stopped.stderr
    assert onrecord_json("resume", "stopped", "--tail", "mocked")["result"] == ["small: hello", "small: and then?"]
    assert mails() == ["small: hello"]


def test_a_failed_run_goes_on_by_a_fork_with_the_code_mended() -> None:
    assert onrecord_process("run", "shop.py:failing", "--input", '["hello"]', "--run-id", "bad").returncode == 1
    assert onrecord_process("fork", "bad").returncode == 1, "the code is as it was"
    Path("shop.py").write_text(PROGRAM.replace("FIXED = False", "FIXED = True"))
    assert onrecord_json("fork", "bad", "--tail", "mocked")["result"] == "small: hello"


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (["fork", "nobody"], 3, "unknown_run"),
        (["fork", "base", "--at", "99"], 2, "bad_position"),
        (["fork", "base", "--at", "7"], 2, "bad_position"),
        (["fork", "base", "--event", "2"], 2, "usage"),
        (["fork", "base", "--answer", "1"], 2, "usage"),
        (["fork", "base", "--event", "2", "--answer", "1", "--fail", "x"], 2, "usage"),
        (["fork", "base", "--event", "7", "--answer", "1"], 2, "bad_change"),
        (["fork", "base", "--event", "7", "--patch", "[]"], 2, "bad_change"),
        (["fork", "base", "--event", "2", "--patch", '{"op": 1}'], 2, "bad_patch"),
        (["fork", "base", "--event", "2", "--answer", "{"], 2, "bad_value"),
        (["fork", "base", "--event", "2", "--at", "0", "--answer", "1"], 2, "bad_position"),
    ],
)
def test_what_cannot_be_begins_nothing(arguments: list[str], status: int, code: str) -> None:
    done = onrecord_process(*arguments)
    assert done.returncode == status, done.stderr
    assert_two_lines(done.stderr, code)
    assert [one["run"] for one in onrecord_json("ls")["runs"]] == ["base"]


def test_a_fork_that_is_refused_leaves_nothing_behind() -> None:
    done = onrecord_process("fork", "base", "shop.py:failing", "--at", "4")
    assert done.returncode == 2
    assert_two_lines("\n".join(done.stderr.splitlines()[-2:]) + "\n", "other_agent")
    assert [one["run"] for one in onrecord_json("ls")["runs"]] == ["base"]


def test_a_fork_that_stands_before_a_tool_says_so() -> None:
    assert onrecord_process("fork", "base", "--event", "2", "--answer", '{"text": "bye"}').returncode == 6
    listed = onrecord_json("ls", "--status", "stopped")["runs"]
    assert [(one["status"], one["about"]) for one in listed] == [("stopped", ["mail"])]


def test_nothing_is_made_or_replaced_that_was_not_asked_for(tmp_path: Path) -> None:
    done = onrecord_process("diff", "base", "base", "--against", str(tmp_path / "nowhere" / "none.db"))
    assert done.returncode == 3
    assert_two_lines(done.stderr, "no_store")
    assert not (tmp_path / "nowhere").exists()
    pipe, link, real = tmp_path / "pipe", tmp_path / "link", tmp_path / "real.jsonl"
    os.mkfifo(pipe)
    real.write_text("old")
    link.symlink_to(real)
    for arguments in (["export", "base", "--force", "-o"], ["replay", "--all", "--junit"]):
        done = onrecord_process(*arguments, str(pipe))
        assert done.returncode == 2, done.stderr
        assert_two_lines(done.stderr, "not_a_file")
        assert pipe.is_fifo()
    assert onrecord_process("export", "base", "--force", "-o", str(link)).returncode == 0
    assert link.is_symlink()
    assert real.read_text().startswith('{"onrecord"')
