"""What helps who types: completion, what was meant, examples, the next step."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kit.cli import asking, assert_two_lines, onrecord, onrecord_process, opened, record
from kit.numbered_server import Server
from kit.terminal import Terminal, shown
from onrecord.cli.main import COMMANDS, GROUPS, cli
from onrecord.core.events import ActionRequested, Failed, StateUpdated
from onrecord.journal.journal import Journal

SHELLS = ("bash", "zsh", "fish")


def completed(shell: str, *words: str) -> list[str]:
    """What the shell is offered for the last word."""
    env = {"_ONRECORD_COMPLETE": f"{shell}_complete", "COMP_WORDS": " ".join(["onrecord", *words])}
    env["COMP_CWORD"] = words[-1] if shell == "fish" else str(len(words))
    if shell == "fish":
        env["COMP_WORDS"] = " ".join(["onrecord", *words[:-1]])
    result = CliRunner().invoke(cli, prog_name="onrecord", env=env)
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    if shell == "bash":
        return [value for kind, _, value in (line.partition(",") for line in lines) if kind == "plain"]
    if shell == "zsh":
        return [lines[n + 1] for n in range(0, len(lines), 3) if lines[n] == "plain"]
    return [line.partition(",")[2].partition("\t")[0] for line in lines if line.startswith("plain")]


@pytest.mark.parametrize("shell", SHELLS)
def test_commands_options_runs_agents_and_statuses(shell: str) -> None:
    record("alpha-1", facts={"agent": "support"})
    record("alpha-2", facts={"agent": "sales"})
    record("beta", facts={"agent": "$(touch pwned)"})
    assert completed(shell, "sh") == ["show"]
    assert completed(shell, "show", "--con") == ["--context"]
    assert completed(shell, "show", "alp") == ["alpha-1", "alpha-2"]
    assert completed(shell, "diff", "beta", "alpha-1") == ["alpha-1"]
    assert completed(shell, "ls", "--status", "comp") == ["completed"]
    assert completed(shell, "ls", "--agent", "s") == ["sales", "support"]
    assert completed(shell, "verify", "be") == ["beta"]
    assert completed(shell, "ls", "--agent", "$") == [], "nothing that a shell would run"


def test_another_store_is_looked_into_when_it_is_named(workspace: Path) -> None:
    record("there", path="other.db")
    assert completed("bash", "show", "--store", "other.db", "th") == ["there"]
    assert completed("bash", "show", "th") == []
    assert not Path(".onrecord").exists(), "completing makes no store"


def test_a_store_that_cannot_be_read_offers_nothing() -> None:
    Path("bad.db").write_bytes(b"no database" * 100)
    assert completed("bash", "show", "--store", "bad.db", "a") == []


def test_completing_loads_only_the_command_that_is_asked_for() -> None:
    code = (
        "import sys; from onrecord.cli.main import cli\ntry:\n cli.main(prog_name='onrecord')\nexcept SystemExit: pass"
    )
    script = f"{code}\nprint('|'.join(sys.modules), file=sys.stderr)"
    env = {**os.environ, "_ONRECORD_COMPLETE": "bash_complete", "COMP_WORDS": "onrecord s", "COMP_CWORD": "1"}
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=env)
    loaded = set(result.stderr.split("|"))
    assert "plain,show" in result.stdout
    assert not loaded & {"apsw", "msgspec", "orjson", "onrecord.cli.commands.show", "onrecord.journal.reader"}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_a_shell(shell: str) -> None:
    script = onrecord("completion", shell).stdout
    assert "_ONRECORD_COMPLETE" in script
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")
    Path("script").write_text(script)
    assert subprocess.run([shell, "-n", "script"], capture_output=True, timeout=30).returncode == 0


def test_a_real_bash_completes_a_run() -> None:
    record("alpha-1")
    bin_folder = Path(sys.executable).parent
    script = (
        'eval "$(onrecord completion bash)"\n'
        "COMP_WORDS=(onrecord show alp) COMP_CWORD=2\n"
        '_onrecord_completion onrecord\necho "${COMPREPLY[@]}"'
    )
    env = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, env=env)
    assert result.stdout.split() == ["alpha-1"], result.stderr


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("shwo", "show"),
        ("verfy", "verify"),
        ("list", "ls"),
        ("log", "show"),
        ("compare", "diff"),
        ("rm", "gc"),
        ("token", "receipt"),
    ],
)
def test_a_command_that_was_meant(typed: str, meant: str) -> None:
    result = onrecord(typed)
    assert result.exit_code == 2
    assert_two_lines(result.stderr, "usage")
    assert f"`onrecord {meant}`" in result.stderr


def test_options_and_runs_that_were_meant() -> None:
    record("nightly-report")
    assert "--status" in onrecord("ls", "--staus", "failed").stderr
    for typed in ("nightly-reprot", "nihgtly"):
        result = onrecord("show", typed)
        assert result.exit_code == 3
        assert_two_lines(result.stderr, "unknown_run")
        assert "Did you mean nightly-report?" in result.stderr
    assert "Did you mean" not in onrecord("show", "something-else").stderr
    assert "Did you mean" not in onrecord("show", "\x1b[2J").stderr


def test_agents_and_statuses_that_were_meant() -> None:
    record("one", facts={"agent": "support"})
    for command in ("ls", "stats"):
        assert "no runs of suport in" in onrecord(command, "--agent", "suport").stderr
        assert "did you mean support?" in onrecord(command, "--agent", "suport").stderr
    assert "did you mean" not in onrecord("ls", "--agent", "\x1b[2J").stderr
    assert "Did you mean failed?" in onrecord("ls", "--status", "faild").stderr
    assert "Did you mean" not in onrecord("ls", "--status", "x").stderr


@pytest.mark.parametrize("command", [["--help"], ["show", "--help"], ["receipt", "mint", "--help"]])
def test_help_fits_a_narrow_terminal(command: list[str]) -> None:
    lines = shown(*command, columns=40).screen
    assert "Options:" in lines
    about = lines[lines.index("Options:") :]
    headings = ("Options", "Commands", *GROUPS)
    assert not [line for line in about if line and not line.startswith(" ") and line.rstrip(":") not in headings]
    assert any(line.split()[:2] == ["--store", "URL"] for line in about)


def test_every_command_has_examples() -> None:
    for name in COMMANDS:
        lines = [line.strip() for line in onrecord(name, "--help").stdout.splitlines()]
        assert any(line.startswith((f"onrecord {name}", 'eval "$(onrecord')) for line in lines), name


def test_the_next_step_goes_with_how_a_run_stands() -> None:
    record("done")
    record("broken", [StateUpdated(payload=1), Failed(error="x")])
    once = ActionRequested(action_id="a1", payload=1, name="mail", effect="tool_call", meta={"once": True})
    record("doubtful", [once])
    with opened() as store, Journal.create(store, "under-way") as journal:
        journal.append(StateUpdated(payload=1))
        assert "onrecord show under-way --follow" in shown("show", "under-way").text
    assert "onrecord resume under-way" in shown("show", "under-way").text
    assert "onrecord replay done" in shown("show", "done").text
    assert "onrecord step broken" in shown("show", "broken").text
    assert "onrecord settle doubtful" in shown("show", "doubtful").text
    assert "onrecord export done -o run.jsonl" in shown("verify", "done").text
    assert "onrecord show done --event 2" in shown("show", "done", "--event", "1").text
    assert "next " not in shown("show", "done", "--event", "4").text, "that is the last one"
    assert "onrecord verify ./run.jsonl" in shown("export", "done", "-o", "run.jsonl").text
    for arguments in (["show", "done"], ["verify", "done"], ["ls"]):
        assert "next " not in onrecord_process(*arguments).stderr


def test_steps_name_the_store_that_was_named() -> None:
    record("one", path="other.db")
    assert "onrecord show one --store other.db" in shown("ls", "--store", "other.db").text


AGENT = """
import asyncio, onrecord

@onrecord.step
async def work(number: int) -> int:
    return number

@onrecord.agent
async def slow() -> int:
    await work(1)
    print("working", flush=True)
    await asyncio.sleep(600)
    return await work(2)
"""


def test_ctrl_c_suspends_a_run_says_how_it_goes_on_and_leaves_a_whole_journal() -> None:
    Path("agent.py").write_text(AGENT)
    with Terminal("run", "agent.py:slow", "--run-id", "one") as terminal:
        terminal.wait_for("working")
        terminal.press_ctrl_c()
        assert terminal.end() == 130
        assert "onrecord resume one" in terminal.text
        assert any(line.startswith("error: run one was suspended") for line in terminal.screen), "not behind the ^C"
        assert "Traceback" not in terminal.text
    assert onrecord("verify", "one").exit_code == 0
    assert "interrupted" in onrecord("ls").stdout


PROGRAM = """
import sys, time, urllib.request
with urllib.request.urlopen(sys.argv[1] + "/second") as answer:
    print("working", len(answer.read()) > 0, flush=True)
time.sleep(600)
"""


def test_ctrl_c_suspends_a_program_and_what_resumes_it(server: Server) -> None:
    Path("program.py").write_text(PROGRAM)
    for arguments in (["run", "program.py", server.url], ["resume", "@last"]):
        with Terminal(*arguments) as terminal:
            terminal.wait_for("working True")
            terminal.press_ctrl_c()
            assert terminal.end() == 130
            assert "onrecord resume " in terminal.text
        assert onrecord("verify", "@last").exit_code == 0


def test_walking_on_a_terminal() -> None:
    record("one", [StateUpdated(payload="first"), StateUpdated(payload="second"), Failed(error="oh")])
    with Terminal("step", "one") as terminal:
        terminal.wait_for("0/3>")
        terminal.type("n\n")
        terminal.wait_for("first")
        terminal.type("!\n")
        terminal.wait_for("3/3>")
        assert "oh" in terminal.text
        terminal.press_ctrl_c()
        assert terminal.end() == 0
        assert "Traceback" not in terminal.text


def test_walking_shows_what_was_said_before_how_it_is_kept() -> None:
    record("one", asking("Where is it?", "In Hamburg, since Tuesday."))
    with Terminal("step", "one", columns=40) as terminal:
        terminal.wait_for("0/2>")
        terminal.type("n\n")
        terminal.wait_for("Where is it?")
        terminal.type("n\n")
        terminal.wait_for("In Hamburg")
        terminal.type("q\n")
        assert terminal.end() == 0


def test_from_a_request_to_its_answer_and_back() -> None:
    record("one")
    result = onrecord("step", "one", stdin="n\np\np\n$\np\nc\n1\nc\n")
    shown_seqs = [line.split()[0] for line in result.stdout.splitlines() if "  lane main" in line]
    assert shown_seqs == ["1", "2", "1", "4", "1"]
    assert "event 4 has no request or answer" in result.stderr
    assert "is no model call" in result.stderr
    assert "2+2?" in result.stdout
