"""Each example is run as its first comment says, and prints what a reader expects."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from kit.chat_server import ANSWERS, ModelServer
from kit.commands import run
from kit.paths import ROOT

EXAMPLES = ROOT / "examples"
PRINTED = {
    "agent.py": [ANSWERS[4], ANSWERS[4], "2 model calls"],
    "durable.py": ["mail to customer: A-17 is on its way", "customer informed about A-17"],
    "approval.py": ["waits for approval", "approval", "", "paid 4200 cents for A-17\npaid, approved by dana"],
    "fork.py": ["reply: We are very sorry.", "reply: Thank you for writing.", "calm"],
    "test_support.py": ["1 passed", "1 passed"],
    "proof.py": ["T-70000", "- VALID", "", "- VALID", "transfer", "- VALID"],
}
"""For each command of the comment, in order: a text that it prints."""


def commands(name: str) -> list[tuple[str, int]]:
    """Return the commands of an example's comment, each with its exit status."""
    comment = (EXAMPLES / name).read_text().partition("\n\n")[0]
    found = re.findall(r"^#   (\S.*?)(?: {3,}\((.*)\))?$", comment, re.MULTILINE)
    statuses = [re.match(r"exits with (\d+)", about) for _, about in found]
    return [(words, int(status[1]) if status else 0) for (words, _), status in zip(found, statuses, strict=True)]


def test_every_example_is_run() -> None:
    assert sorted(PRINTED) == sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_an_example_does_what_its_comment_says(name: str, tmp_path: Path, environment: dict[str, str]) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    shutil.copy(EXAMPLES / name, folder)
    found = commands(name)
    assert len(found) == len(PRINTED[name])
    for (command, status), expected in zip(found, PRINTED[name], strict=True):
        ended, printed = run(command, folder, environment)
        assert ended == status, (command, printed)
        assert expected in printed, command


def test_a_replay_needs_no_model_and_no_key(tmp_path: Path, environment: dict[str, str], model: ModelServer) -> None:
    shutil.copy(EXAMPLES / "agent.py", tmp_path)
    assert run('onrecord run agent.py "Where is it?"', tmp_path, environment)[0] == 0
    assert len(model.requests) == 2
    del environment["OPENAI_API_KEY"]
    status, printed = run("onrecord replay @last", tmp_path, environment)
    assert status == 0, printed
    assert len(model.requests) == 2


def test_without_an_answer_the_agent_ends_with_one_sentence(tmp_path: Path, environment: dict[str, str]) -> None:
    shutil.copy(EXAMPLES / "agent.py", tmp_path)
    del environment["OPENAI_API_KEY"]
    environment["OPENAI_BASE_URL"] = "http://127.0.0.1:9/v1"  # nothing listens there
    status, printed = run('python agent.py "Where is it?"', tmp_path, environment)
    assert status == 1
    (sentence,) = printed.splitlines()
    assert "OPENAI_API_KEY" in sentence


def test_an_agent_that_is_killed_mails_once(tmp_path: Path, environment: dict[str, str]) -> None:
    shutil.copy(EXAMPLES / "durable.py", tmp_path)
    _, first = run("timeout -s KILL 8 python durable.py", tmp_path, environment)
    ended, second = run("onrecord resume first", tmp_path, environment)
    assert ended == 0, second
    assert (first + second).count("mail to") == 1
