"""Errors that a newcomer meets: each says what happened, and its hint is a command that works as printed."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from kit.cli import STORE, assert_two_lines, flip_content, onrecord, onrecord_process, record

AGENT = """
import onrecord


@onrecord.tool
def look(question):
    return f"looked for {question}"


@onrecord.agent
def support(question="hi"):
    return look(question)


if __name__ == "__main__":
    print(support.run("hi", run_id="first"))
"""


@pytest.fixture
def first() -> Path:
    path = Path("support.py")
    path.write_text(AGENT)
    done = onrecord_process("run", "support.py:support", "--run-id", "first")
    assert done.returncode == 0, done.stderr
    return path


def last_lines(stderr: str) -> list[str]:
    return stderr.splitlines()[-2:]


# A store that cannot be read


@pytest.mark.parametrize("content", [b"", b"not a database" * 100])
def test_a_file_that_is_no_store_is_not_to_be_recovered(content: bytes) -> None:
    record("a")
    data = Path(STORE).read_bytes()
    Path("cut.db").write_bytes(content or data[:5000])
    Path("cut.db").chmod(0o600)
    done = onrecord("ls", "--store", "cut.db")
    assert_two_lines(done.stderr, "damaged")
    assert "recover" not in done.stderr
    assert "onrecord import run.jsonl --store new.db" in done.stderr
    examined = onrecord("doctor", "--store", "cut.db")
    assert ". The file is not an Onrecord store" in examined.stdout


def test_a_damaged_run_is_named_in_the_commands_of_its_hint() -> None:
    record("a")
    flip_content("a", 2)
    done = onrecord("show", "a", "--event", "2")
    assert_two_lines(done.stderr, "damaged")
    assert "`onrecord verify a`" in done.stderr
    assert "`onrecord recover a --to saved.db`" in done.stderr
    assert onrecord("recover", "a", "--to", "saved.db").exit_code == 0


# Folders without permission


@pytest.fixture
def no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(os, "mkdir", refuse)
    monkeypatch.setattr(os, "access", lambda *_: False)


@pytest.mark.usefixtures("no_folder")
def test_a_folder_that_cannot_be_written_has_a_hint_and_doctor_finds_it() -> None:
    Path("agent.py").write_text(AGENT)
    done = onrecord("run", "agent.py:support")
    assert "Permission denied" in last_lines(done.stderr)[0]
    assert "export ONRECORD_STORE=$HOME/onrecord.db" in last_lines(done.stderr)[1]
    examined = onrecord("doctor")
    assert examined.exit_code == 1
    assert "cannot be written, so nothing can be recorded" in examined.stdout


def test_a_folder_that_cannot_be_entered_is_not_a_missing_store(monkeypatch: pytest.MonkeyPatch) -> None:
    original = os.lstat

    def refuse(path: str, *args: object, **kwargs: object) -> os.stat_result:
        if str(path).endswith("onrecord.db"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return original(path)

    monkeypatch.setattr(os, "lstat", refuse)
    done = onrecord("ls")
    assert_two_lines(done.stderr, "store_unavailable")
    assert "Permission denied" in done.stderr


# Runs that exist, diverge, or lack their code


def test_a_run_that_exists_is_told_in_few_lines_inside_another_run(first: Path) -> None:
    done = onrecord_process("run", "support.py")
    assert "there is a run first already" in done.stderr
    assert len(done.stderr.splitlines()) < 12, done.stderr
    assert "scheduler" not in done.stderr


def test_a_divergence_of_an_agent_is_shown_as_that_of_a_program(first: Path) -> None:
    first.write_text(AGENT.replace("look(question)\n\n\nif", "look(question + '!')\n\n\nif"))
    done = onrecord_process("replay", "first")
    assert "differs  /payload/question: recorded 'hi', now 'hi!'" in done.stdout
    assert "--accept-code" not in done.stderr, "the run has ended"
    command = last_lines(done.stderr)[1].rpartition("`onrecord ")[2].partition("`")[0]
    assert command == "fork first --at 0"
    forked = onrecord_process(*command.split(), "--live-tool", "look", "--fork-id", "f")
    assert (forked.returncode, forked.stdout) == (0, "looked for hi!\n")


def test_code_that_moved_is_named_after_the_run(first: Path) -> None:
    first.rename("moved.py")
    done = onrecord("replay", "first")
    assert_two_lines(done.stderr, "no_file")
    assert last_lines(done.stderr)[1].endswith("onrecord replay first FILE.PY:support")
    assert onrecord_process("replay", "first", "moved.py:support").returncode == 0


def test_an_ended_run_is_not_executed_again_and_says_so(first: Path) -> None:
    done = onrecord("resume", "first")
    assert (done.stdout, done.stderr) == ("looked for hi\n", "run first has ended; nothing is executed\n")
    Path("agent.py").write_text("import time\nprint(time.time())\n")
    assert onrecord_process("run", "--run-id", "one", "agent.py").returncode == 0
    assert onrecord_process("resume", "one").stderr.startswith("run one has ended; nothing is executed\n")


@pytest.mark.parametrize("target", ["nofile.py", "nofile.py:f", "."])
def test_a_missing_file_has_one_status(target: str) -> None:
    done = onrecord_process("run", target)
    assert done.returncode == 3
    assert_two_lines(done.stderr, "no_file")
    assert ("is a folder" in done.stderr) == (target == ".")


# Single messages


def test_messages_name_the_run_and_the_option(first: Path) -> None:
    for words, message, hint in (
        ("fork first --event 99 --answer 1", "has no event 99", "`onrecord show first` lists them."),
        ("fork first --at 0 --fork-id first", "there is a run first already", "Choose another --fork-id"),
        ("settle first --retry", "no effect in doubt", "`onrecord show first` shows its status."),
        ("show first --event x", "'x' is not a whole number", "show --help` shows the usage."),
        ("replay first --break-at 1", "--break-at is for the replay of one program", "`onrecord step first`"),
    ):
        done = onrecord(*words.split())
        lines = done.stderr.splitlines()
        assert len(lines) == 2, done.stderr
        assert message in lines[0]
        assert hint in lines[1]
    assert "no live replay yet: onrecord replay first --live" in onrecord("attempts", "first").stderr


def test_without_a_store() -> None:
    done = onrecord("verify", "nofile.jsonl")
    assert "there is no file nofile.jsonl, and there is no store" in done.stderr
    assert "`onrecord run agent.py`" in onrecord("ls").stderr


def test_a_fork_differs_in_plain_words(first: Path) -> None:
    done = onrecord_process("fork", "first", "--event", "2", "--answer", '"no"', "--fork-id", "f")
    assert "shares 1 event with first; first has 0 effects after that" in done.stderr
    shown = onrecord("diff", "first", "f").stdout
    assert "they began differently: how effects are answered, the change of the fork" in shown


def test_doctor_lists_only_variables_that_the_program_reads_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_REGION", "eu")
    Path("agent.py").write_text(
        "import os, time, urllib.request\n"
        "time.time(), urllib.request.getproxies(), dict(os.environ), list(os.environ.items())\n"
        "print(os.environ.get('SHOP_REGION'), os.environ['PATH'][:0])\n"
    )
    done = onrecord_process("doctor", "--", sys.executable, "agent.py")
    named = [line.split()[3] for line in done.stdout.splitlines() if line.startswith("note     the variable")]
    assert sorted(named) == ["PATH", "SHOP_REGION"]
    assert "compared  yes" in done.stdout


@pytest.mark.usefixtures("first")
def test_a_variable_that_is_gone_is_to_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))
    Path("agent.py").write_text("import os, time\ntime.time()\nos.environ['SHOP_REGION']\ntime.time()\n")
    assert onrecord_process("run", "--run-id", "one", "agent.py", env={"SHOP_REGION": "eu"}).returncode == 0
    done = onrecord_process("replay", "one")
    assert done.returncode == 1
    assert "Set what is gone since the recording (SHOP_REGION)." in last_lines(done.stderr)[1]
    assert "<frozen" not in last_lines(done.stderr)[0]
