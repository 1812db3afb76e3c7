"""What only a real process shows: exit statuses, pipes, terminals, what is imported."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import termios
import time
from pathlib import Path

import click
import pytest

from kit import terminal
from kit.cli import assert_two_lines, blocked_run, onrecord, onrecord_process, record
from onrecord import errors
from onrecord.cli.error_exit import complaint_of
from onrecord.cli.main import COMMANDS, cli
from onrecord.cli.render.progress import Progress
from onrecord.core.events import Completed, StateUpdated


class NotReplayable(errors.OnrecordError):
    exit_status = 7


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.InvalidInput("x"), 2),
        (errors.BadPosition("x"), 2),
        (click.UsageError("x"), 2),
        (click.BadParameter("x"), 2),
        (errors.NotFound("x"), 3),
        (errors.Damaged("x"), 4),
        (errors.BadRecording("x"), 4),
        (errors.StoreUnavailable("x"), 5),
        (errors.SchemaMismatch("x"), 5),
        (errors.OutcomeUnknown("x"), 5),
        (OSError(28, "No space left on device"), 5),
        (errors.Refused("x"), 6),
        (errors.RunExists("x"), 6),
        (NotReplayable("x"), 7),
        (errors.OnrecordError("x"), 70),
        (ValueError("x"), 70),
        (click.Abort(), 130),
    ],
)
def test_every_error_has_its_status_and_something_to_do(error: Exception, status: int) -> None:
    complaint = complaint_of(error)
    assert complaint.status == status
    assert complaint.code
    assert complaint.message
    assert complaint.hint


def test_statuses_of_a_process() -> None:
    record("one")
    assert onrecord_process("ls").returncode == 0
    assert onrecord_process("frobnicate").returncode == 2
    missing = onrecord_process("show", "missing")
    assert (missing.returncode, missing.stdout) == (3, "")
    assert_two_lines(missing.stderr, "unknown_run")


@pytest.mark.parametrize("arguments", [["--json", "show", "missing"], ["show", "missing", "--json"]])
def test_an_error_as_json_is_one_document_and_two_lines(arguments: list[str]) -> None:
    record("one")
    result = onrecord(*arguments)
    assert result.exit_code == 3
    error = json.loads(result.stdout)["error"]
    assert error.keys() == {"code", "message", "hint"}
    assert error["code"] == "unknown_run"
    assert_two_lines(result.stderr, "unknown_run")


def test_a_usage_error_as_json() -> None:
    result = onrecord("ls", "--nonsense", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["code"] == "usage"


def break_ls(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("recorded secret")

    monkeypatch.setattr("onrecord.cli.commands.ls._list_runs", broken)


def test_an_internal_error_says_how_to_report_it_and_quotes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    record("one")
    break_ls(monkeypatch)
    result = onrecord("ls")
    assert result.exit_code == 70
    assert_two_lines(result.stderr, "internal_error")
    assert "RuntimeError" in result.stderr
    assert "report it" in result.stderr
    assert "recorded secret" not in result.output


@pytest.mark.parametrize("arguments", [["-v", "ls"], ["ls", "-v"], ["ls", "--verbose"]])
def test_a_traceback_is_shown_when_asked_for(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    record("one")
    break_ls(monkeypatch)
    result = onrecord(*arguments)
    assert result.exit_code == 70
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-2].startswith("error: ")


def pipe_closed_early(*arguments: str, unbuffered: str) -> tuple[int, str]:
    """Runs the command with a reader that takes one line and goes."""
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "onrecord.cli.main", *arguments],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    os.close(write)
    os.read(read, 1)
    os.close(read)
    _, stderr = process.communicate(timeout=30)
    return process.returncode, stderr


def test_a_closed_pipe_ends_quietly_and_is_no_success() -> None:
    record("one", [*(StateUpdated(payload="x" * 150) for _ in range(1200)), Completed()])
    for command in ("show one --limit 3000", "show one --json --limit 3000", "export one -o -"):
        for unbuffered in ("", "1"):
            status, stderr = pipe_closed_early(*command.split(), unbuffered=unbuffered)
            assert (status, stderr) == (141, ""), (command, unbuffered)


def test_a_full_output_is_an_error() -> None:
    record("one")
    with open("/dev/full", "w") as full:
        for arguments in (["ls"], ["verify", "one"], ["ls", "--json"]):
            result = onrecord_process(*arguments, stdout=full)
            assert result.returncode == 5
            assert_two_lines(result.stderr, "io_error")


WHERE_NOBODY_IS = ["sh", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$@"', "sh"]
DOING_SOMETHING = "import time, onrecord\n@onrecord.agent\ndef doing():\n    return 7\nprint(time.time())\n"


def from_a_removed_folder(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [*WHERE_NOBODY_IS, sys.executable, "-m", "onrecord.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, env={**os.environ, **env})


def test_a_working_folder_that_was_removed_is_told(tmp_path: Path) -> None:
    Path("program.py").write_text(DOING_SOMETHING)
    store = str(tmp_path / "runs.db")
    assert onrecord_process("run", "--store", store, "--run-id", "one", "program.py").returncode == 0
    for command in (
        f"run {Path.cwd()}/program.py",
        "run -m json.tool",
        "run program.py:doing --input []",
        "run -m program:doing --input []",
        "run -- ls",
        f"replay one -- python {Path.cwd()}/program.py",
    ):
        done = from_a_removed_folder(*command.split(), ONRECORD_STORE=store)
        assert (done.returncode, done.stdout) == (2, ""), command
        assert_two_lines(done.stderr, "no_working_folder")
    for command in ("replay one", "resume one", "ls"):  # these need none
        done = from_a_removed_folder(*command.split(), ONRECORD_STORE=store)
        assert done.returncode == 0, done.stderr
        without = from_a_removed_folder(*command.split(), ONRECORD_STORE="")  # the store is relative to the folder
        assert without.returncode == 2, command
        assert_two_lines(without.stderr, "no_working_folder")


def test_help_loads_neither_rich_nor_a_store() -> None:
    code = "import sys; from onrecord.cli.main import cli; cli.main(['--help'], standalone_mode=False)"
    script = f"try:\n {code}\nexcept SystemExit: pass\nprint('|'.join(sys.modules), file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    loaded = set(result.stderr.split("|"))
    assert "click" in loaded
    assert not loaded & {"rich", "apsw", "psycopg", "msgspec", "orjson", "multiprocessing"}
    assert all(f"  {name} " in result.stdout for name in COMMANDS)


def test_reading_an_sqlite_store_loads_no_psycopg() -> None:
    record("one")
    code = "import sys; from onrecord.cli.main import cli; cli.main(['ls'])"
    script = f"try:\n {code}\nexcept SystemExit: pass\nprint('|'.join(sys.modules), file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    loaded = set(result.stderr.split("|"))
    assert "apsw" in loaded
    assert not loaded & {"rich", "psycopg"}


def test_every_command_has_help_and_the_shared_options() -> None:
    for name in COMMANDS:
        text = onrecord(name, "--help").stdout
        assert all(option in text for option in ("--store", "--namespace", "--json", "-v")), name
        assert cli.get_command(click.Context(cli), name) is not None
    assert onrecord("--version").stdout.startswith("onrecord ")


def on_terminal(columns: int, *arguments: str, env: dict[str, str] | None = None) -> str:
    """Return what the command writes to a terminal of that width."""
    return terminal.shown(*arguments, columns=columns, rows=24, env=env).written


def without_colour(text: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\r", "").splitlines()


@pytest.mark.parametrize("columns", [40, 80])
def test_tables_fit_the_terminal(columns: int) -> None:
    record("a-rather-long-name-for-a-run", facts={"agent": "日本語" * 30, "long": "x" * 500})
    for arguments in (["ls"], ["show", "@last"]):
        text = on_terminal(columns, *arguments)
        assert "\x1b[" in text
        lines = without_colour(text)
        assert len(lines) >= 2
        assert max(len(line.encode("utf-16-le")) // 2 + sum(c > "\u2fff" for c in line) for line in lines) <= columns
        assert "…" in text


def test_colour_is_given_up_when_asked() -> None:
    record("one", blocked_run(), facts={"agent": "\x1b[31mred\x1b]0;x\x07"})
    for arguments in (["ls"], ["show", "one"], ["verify", "one"], ["demo"]):
        text = on_terminal(100, *arguments, env={"NO_COLOR": "1"})
        assert not re.search(r"\x1b\[[0-9;]*3[0-7][;m]", text), text
        assert "\x07" not in text


def test_the_value_to_erase_is_asked_for_without_echo() -> None:
    record("one", [StateUpdated(payload="correct horse battery"), Completed()])
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "onrecord.cli.main", "erase"],
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    # What is typed before the prompt has switched the echo off would be thrown away.
    deadline = time.monotonic() + 20
    while termios.tcgetattr(follower)[3] & termios.ECHO and time.monotonic() < deadline:
        time.sleep(0.02)
    os.close(follower)
    os.write(leader, b"correct horse battery\n")
    stdout, stderr = process.communicate(timeout=30)
    os.close(leader)
    assert process.returncode == 0, stderr
    assert stdout == "one  1\n"
    assert "correct horse" not in stderr


class Terminal:
    def __init__(self, watching: bool) -> None:
        self.watching = watching
        self.text = ""

    def isatty(self) -> bool:
        return self.watching

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


@pytest.mark.parametrize(
    ("watching", "first_after", "shown"), [(True, 0.01, True), (True, 60.0, False), (False, 0.01, False)]
)
def test_progress_is_for_who_watches_and_waits(
    watching: bool, first_after: float, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Terminal(watching)
    monkeypatch.setattr("sys.stderr", watched)
    monkeypatch.setattr("onrecord.cli.render.progress.FIRST_AFTER_SECONDS", first_after)
    with Progress("working") as progress:
        progress.step(1, 4)
        deadline = time.monotonic() + (10 if shown else 0.1)
        while "25 %" not in watched.text and time.monotonic() < deadline:
            time.sleep(0.01)
    assert ("working 25 %" in watched.text) is shown
    assert watched.text.endswith("\x1b[2K") is shown


def test_an_output_that_lacks_characters() -> None:
    record("one", facts={"agent": "日本"})
    result = onrecord_process("ls", env={"PYTHONIOENCODING": "latin-1"})
    assert result.returncode == 0
    assert "\\u65e5" in result.stdout


def test_the_entry_point_is_installed() -> None:
    script = Path(sys.executable).with_name("onrecord")
    result = subprocess.run([script, "--version"], capture_output=True, text=True, timeout=30)
    assert (result.returncode, result.stdout.split()[0]) == (0, "onrecord")


def test_without_arguments_the_help_is_shown() -> None:
    result = onrecord_process()
    assert result.returncode == 0
    assert result.stderr == ""
    assert result.stdout == onrecord_process("--help").stdout
    assert len(result.stdout.splitlines()) > 15


@pytest.mark.parametrize(
    ("command", "example"), [("verify", "`onrecord verify @last`"), ("gc", "`onrecord gc --older-than 30d`")]
)
def test_a_usage_error_says_what_to_type(command: str, example: str) -> None:
    result = onrecord_process(command)
    assert result.returncode == 2
    assert_two_lines(result.stderr, "usage")
    assert example in result.stderr.splitlines()[1]
