"""`onrecord run script.py`: a program nobody changed, recorded, replayed, resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipapp
from pathlib import Path
from typing import Any

import pytest

from kit.kept_bytes import places_of
from kit.processes import restore_interrupts
from kit.programs import onrecord

pytestmark = pytest.mark.usefixtures("folder")

EVERYTHING = """
import asyncio, datetime, os, random, secrets, sys, time, uuid, uuid_utils, uuid_utils.compat
print(sys.argv[1:], __name__, os.path.basename(__file__))
print(time.time(), time.time_ns(), time.monotonic(), time.perf_counter())
print(datetime.datetime.now(), datetime.datetime.now(datetime.timezone.utc), datetime.date.today())
print(random.random(), random.choice("abc"), random.Random().random(), random.Random(3).random())
print(uuid.uuid4(), uuid.uuid1(), secrets.token_hex(8), os.urandom(4).hex(), random.SystemRandom().random())
print(uuid_utils.uuid4(), uuid_utils.uuid1(), uuid_utils.uuid6(), uuid_utils.uuid7(), uuid_utils.compat.uuid7())
print({"a", "b", "c", "d", "e"}, hash("x"))
print(time.strftime("%X"), time.ctime(), time.asctime(), tuple(time.localtime()), tuple(time.gmtime()))
print(time.clock_gettime(time.CLOCK_REALTIME), time.clock_gettime_ns(time.CLOCK_MONOTONIC), os.getrandom(4).hex())


async def draw():
    return [random.random(), uuid.uuid4().hex, time.time()]


async def main():
    print(await asyncio.gather(draw(), draw()))


asyncio.run(main())
print("to stderr", file=sys.stderr)
sys.exit(7)
"""
BAD_ARGUMENT = """
import os, time
assert time.time()  # something to compare
try:
    os.urandom(-1)
except ValueError as error:
    print("caught", error)
"""
STEPS = """
import os, signal, sys
import onrecord


@onrecord.step
def work(number):
    with open("ledger", "a") as ledger:
        ledger.write(f"{number}\\n")
    return number * 10


done = []
for number in range(5):
    done.append(work(number))
    if number == 2 and os.path.exists("die"):
        os.unlink("die")
        os.kill(os.getpid(), signal.SIGKILL)
print(done)
"""


def runs() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(onrecord("ls", "--json").stdout)["runs"]
    return found


def write(text: str, name: str = "program.py") -> None:
    Path(name).write_text(text)


def test_a_bad_argument_is_an_error_of_the_program() -> None:
    Path("program.py").write_text(BAD_ARGUMENT)
    recorded = onrecord("run", "--run-id", "one", "program.py")
    assert (recorded.returncode, recorded.stdout) == (0, "caught negative argument not allowed\n"), recorded.stderr
    assert onrecord("replay", "one").stdout == recorded.stdout


def test_clock_and_chance_come_back_as_they_were() -> None:
    write(EVERYTHING)
    recorded = onrecord("run", "program.py", "--flag", "value", "-v")
    assert recorded.returncode == 7, recorded.stderr
    assert recorded.stdout.startswith("['--flag', 'value', '-v'] __main__ program.py\n")
    assert "to stderr" in recorded.stderr
    for _ in range(2):
        replayed = onrecord("replay", "@last")
        assert (replayed.returncode, replayed.stdout) == (0, recorded.stdout), replayed.stderr
    again = onrecord("run", "program.py", "--flag", "value", "-v")
    assert again.stdout != recorded.stdout, "a new run draws anew"


def test_output_input_and_exit_code_are_the_programs_own() -> None:
    write("import sys\nprint(sys.stdin.read().upper(), end='')\nprint('bad', file=sys.stderr)\nsys.exit('no good')\n")
    plain = subprocess.run([sys.executable, "program.py"], input="abc", capture_output=True, text=True)
    done = onrecord("run", "program.py", input="abc")
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout) == (1, "ABC")
    *own, summary = done.stderr.splitlines()
    assert own == plain.stderr.splitlines() == ["bad", "no good"]
    assert summary.startswith("onrecord: run ")


@pytest.mark.parametrize("text", ["1/0\n", "import missing_module\n", "def broken(:\n", "raise KeyboardInterrupt\n"])
def test_a_failure_looks_as_it_does_without_us(text: str) -> None:
    write(text)
    plain = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True)
    done = onrecord("run", "program.py")
    assert done.returncode == (plain.returncode if plain.returncode > 0 else 130), done.stderr
    if plain.returncode > 0:
        assert done.stderr.startswith(plain.stderr), done.stderr
        assert runs()[0]["status"] == "failed"


def test_a_module_is_a_program_too(folder: Path) -> None:
    (folder / "shop").mkdir()
    write("import sys\nprint(__name__, __package__, sys.argv[1:])\n", "shop/__main__.py")
    write("", "shop/__init__.py")
    done = onrecord("run", "--run-id", "one", "-m", "shop", "--json", "-x")
    assert (done.returncode, done.stdout) == (0, "__main__ shop ['--json', '-x']\n"), done.stderr
    done = onrecord("run", "-m", "missing_module", "x")
    assert done.returncode == 3
    assert done.stderr.splitlines()[0].endswith("[no_module]")
    assert "PYTHONPATH" in done.stderr


def test_an_argument_that_no_record_can_hold_is_told() -> None:
    write("print('run')")
    done = onrecord("run", "program.py", os.fsdecode(b"\xff"))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "not UTF-8" in done.stderr


def test_a_folder_or_an_archive_is_run_by_its_main(folder: Path) -> None:
    (folder / "shop").mkdir()
    write("import sys, helper\nprint(__name__, __package__, sys.argv, helper.WORD)\n", "shop/__main__.py")
    write("WORD = 'helped'\n", "shop/helper.py")
    zipapp.create_archive(folder / "shop", folder / "shop.pyz")
    for number, name in enumerate(("shop", "shop/", "shop.pyz")):
        plain = subprocess.run([sys.executable, name, "-x"], capture_output=True, text=True, check=True)
        done = onrecord("run", "--run-id", f"run-{number}", name, "-x")
        assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    (folder / "bare").mkdir()
    assert onrecord("run", "bare").returncode == 3


def test_killed_it_goes_on_where_it_stood() -> None:
    write(STEPS)
    Path("die").touch()
    killed = onrecord("run", "--run-id", "one", "program.py")
    assert killed.returncode == -signal.SIGKILL
    assert runs()[0]["status"] == "interrupted"
    resumed = onrecord("resume", "one")
    assert (resumed.returncode, resumed.stdout) == (0, "[0, 10, 20, 30, 40]\n"), resumed.stderr
    assert Path("ledger").read_text().split() == ["0", "1", "2", "3", "4"], "nothing was done twice"
    replayed = onrecord("replay", "one")
    assert (replayed.returncode, replayed.stdout) == (0, resumed.stdout)
    assert onrecord("verify", "one").returncode == 0


def test_ctrl_c_suspends_and_says_how_to_go_on() -> None:
    write("import time, onrecord\nonrecord.run_step('a', int, 1)\nprint('ready', flush=True)\ntime.sleep(60)\n")
    begun = subprocess.Popen(
        [sys.executable, "-m", "onrecord.cli.main", "run", "--run-id", "one", "program.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=restore_interrupts,
    )
    assert begun.stdout is not None
    assert begun.stdout.readline() == "ready\n"
    time.sleep(0.2)
    begun.send_signal(signal.SIGINT)
    _, said = begun.communicate(timeout=60)
    assert begun.returncode == 130
    assert "Resume it: onrecord resume one" in said
    assert runs()[0]["status"] == "interrupted"


def test_a_changed_program_is_a_divergence_and_does_nothing() -> None:
    write(STEPS)
    assert onrecord("run", "--run-id", "one", "program.py").returncode == 0
    write(STEPS.replace("work(number))", "work(number + 1))"))
    replayed = onrecord("replay", "one")
    assert replayed.returncode == 1
    assert "conflicting" in replayed.stderr or "differs" in replayed.stderr
    assert "has changed since it was recorded" in replayed.stderr
    assert Path("ledger").read_text().split() == ["0", "1", "2", "3", "4"]


def test_what_leaves_unseen_is_named_and_refused_when_strict() -> None:
    write(
        "import socket, subprocess, sys\n"
        "s = socket.socket()\n"
        "try:\n    s.connect(('127.0.0.1', 9))\nexcept OSError:\n    pass\n"
        "subprocess.run(['true'])\n"
        "print('end')\n"
    )
    done = onrecord("run", "program.py")
    assert (done.returncode, done.stdout) == (0, "end\n")
    assert "2 not recorded: a connection to 127.0.0.1:9 at program.py:4" in done.stderr
    assert "a process (true) at program.py:7" in done.stderr
    refused = onrecord("run", "--strict", "program.py")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "[unseen]" in refused.stderr
    replayed = onrecord("replay", "@last~1")
    assert replayed.returncode == 1, "nothing connects in a replay"


def test_inside_an_effect_nothing_is_unseen() -> None:
    write("import subprocess, onrecord\nprint(onrecord.run_step('x', subprocess.call, ['true']))\n")
    done = onrecord("run", "--strict", "program.py")
    assert (done.returncode, done.stdout) == (0, "0\n")
    assert "unseen" not in done.stderr


def test_nothing_of_nothing_is_no_pass() -> None:
    write("print('hello')\n")
    assert onrecord("run", "program.py").returncode == 0
    done = onrecord("replay", "@last")
    assert done.returncode == 1
    assert "nothing_to_replay" in done.stderr


def test_folder_and_arguments_are_those_of_the_record(folder: Path) -> None:
    write("import os, sys, time\nprint(os.getcwd(), sys.argv, time.time())\n")
    recorded = onrecord("run", "program.py", "one", "two")
    other = folder / "other"
    other.mkdir()
    replayed = onrecord("--store", str(folder / ".onrecord/onrecord.db"), "replay", "@last", cwd=other)
    assert (replayed.returncode, replayed.stdout) == (0, recorded.stdout), replayed.stderr


def test_a_recorded_command_line_is_run_only_where_it_was_recorded() -> None:
    write(STEPS)
    assert onrecord("run", "--run-id", "one", "program.py").returncode == 0
    assert onrecord("export", "one", "-o", "one.jsonl").returncode == 0
    assert onrecord("--store", "other.db", "import", "one.jsonl").returncode == 0
    done = onrecord("--store", "other.db", "replay", "one")
    assert done.returncode != 0
    assert "imported_run" in done.stderr


def test_secrets_are_kept_out_and_counted() -> None:
    secret = "sk-ant-api03-" + "a1B2c3D4" * 6
    write(f"import onrecord\nprint(onrecord.run_step('key', lambda: {secret!r}))\n")
    done = onrecord("run", "program.py")
    assert done.stdout == f"{secret}\n", "the program has it"
    assert "secrets kept out of 1 event" in done.stderr
    assert places_of(secret, Path(".onrecord")) == []
    assert onrecord("scan", "@last").returncode == 0


def test_a_program_that_leaves_at_once_has_ended() -> None:
    write("import os, onrecord\nprint(onrecord.run_step('x', int, 5), flush=True)\nos._exit(5)\n")
    done = onrecord("run", "program.py")
    assert (done.returncode, done.stdout) == (5, "5\n")
    assert "1 effect" in done.stderr
    assert runs()[0]["status"] == "completed"
    replayed = onrecord("replay", "@last")
    assert (replayed.returncode, replayed.stdout) == (0, "5\n"), replayed.stderr


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "raise ValueError('no')"])
def test_a_log_is_not_left_behind(end: str) -> None:
    write(f"import sys, onrecord\nfor number in range(20):\n    onrecord.run_step('x', int, number)\n{end}\n")
    onrecord("run", "program.py")
    assert not [file.name for file in Path(".onrecord").iterdir() if file.name.endswith("-wal")]
    assert runs()[0]["events"] > 40


def test_what_is_kept_beside_the_log_draws_nothing_from_the_program() -> None:
    write("import os, onrecord\nprint(len(onrecord.run_step('large', os.urandom, 3_000_000)), os.urandom(2).hex())\n")
    done = onrecord("run", "program.py")
    replayed = onrecord("replay", "@last")
    assert (replayed.returncode, replayed.stdout) == (0, done.stdout), replayed.stderr


def test_a_secret_in_an_address_or_behind_an_option_is_in_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOT_TOKEN", "hidden-in-the-path-1")
    write("import httpx, os\ntry:\n    httpx.get(f'http://127.0.0.1:1/{os.environ[\"BOT_TOKEN\"]}/send')\n"
          "except httpx.ConnectError as error:\n    print(error)\n")  # fmt: skip
    onrecord("run", "program.py", "--password", "behind-an-option-2", "--secret=behind-an-option-3")
    assert places_of("program.py", Path(".onrecord")) != [], "what is no secret is found"
    assert places_of("hidden-in-the-path", Path(".onrecord")) == []
    assert places_of("behind-an-option", Path(".onrecord")) == []
    replayed = onrecord("replay", "@last")
    assert replayed.returncode == 0, replayed.stderr


def test_an_agent_that_a_program_runs_is_part_of_its_run() -> None:
    write(
        "import onrecord\n\n@onrecord.tool\ndef pay(to):\n    open('paid', 'a').write(to)\n    return f'paid {to}'\n\n"
        "@onrecord.agent\ndef support(to):\n    return pay(to)\n\n\nprint(support.run('Ann'), support('Bo'))\n"
    )
    done = onrecord("run", "program.py")
    assert done.stdout == "paid Ann paid Bo\n"
    replayed = onrecord("replay", "@last")
    assert (replayed.returncode, replayed.stdout) == (0, done.stdout), replayed.stderr
    assert Path("paid").read_text() == "AnnBo"


AT_THE_END = """
import atexit, concurrent.futures, logging, sys, threading, time
import onrecord


@onrecord.step
def note(what):
    with open("ledger", "a") as ledger:
        ledger.write(f"{what}\\n")
    return what


def late(what):
    time.sleep(0.2)
    print(f"thread {note(what)}\\n", end="", flush=True)  # in one write: two threads print


logging.basicConfig(level="INFO", stream=sys.stdout, format="%(message)s")
atexit.register(lambda: print("first registered", note("atexit 1")))
atexit.register(lambda: logging.info("last registered %s", note("atexit 2")))
threading.Thread(target=late, args=("late",)).start()
pool = concurrent.futures.ThreadPoolExecutor(2)
pool.submit(late, "in a pool")
print("main", note("main"), flush=True)
"""


@pytest.mark.parametrize(
    ("end", "said"),
    [("", 0), ("sys.exit(3)", 0), ("sys.exit('a word')", "a word\n"), ("raise ValueError('no')", "ValueError: no\n")],
)
def test_threads_and_what_is_registered_for_the_end_belong_to_the_program(end: str, said: str | int) -> None:
    write(AT_THE_END + end)
    plain = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True, timeout=60)
    Path("ledger").unlink()
    done = onrecord("run", "program.py")
    assert done.returncode == plain.returncode
    assert sorted(done.stdout.splitlines()) == sorted(plain.stdout.splitlines())
    assert done.stdout.splitlines()[-2:] == ["last registered atexit 2", "first registered atexit 1"]
    assert not said or done.stderr.count(str(said)) == plain.stderr.count(str(said)) == 1
    assert "5 effects" in done.stderr
    replayed = onrecord("replay", "@last")
    assert replayed.stdout == done.stdout, replayed.stderr
    assert "the same in all" in replayed.stderr
    assert len(Path("ledger").read_text().splitlines()) == 5


def test_the_programs_own_hook_is_told_of_what_nobody_caught() -> None:
    write(
        "import sys\nsys.excepthook = lambda kind, error, trace: print('told', kind.__name__)\nraise ValueError('no')\n"
    )
    done = onrecord("run", "program.py")
    assert (done.returncode, done.stdout) == (1, "told ValueError\n"), done.stderr
    assert "Traceback" not in done.stderr


def test_a_program_is_where_python_says_that_it_is() -> None:
    write("import sys\nprint(__file__, sys.orig_argv[1:], sys.path[0], __annotations__, __cached__)\n")
    plain = subprocess.run([sys.executable, "program.py", "x"], capture_output=True, text=True, timeout=60)
    assert onrecord("run", "program.py", "x").stdout == plain.stdout


@pytest.mark.parametrize("name", ["onrecord.py", "uuid.py", "json.py", "click.py"])
def test_files_of_the_current_folder_are_not_taken_for_ours(name: str, folder: Path) -> None:
    (folder / "below").mkdir()
    write("import onrecord, uuid\nprint(onrecord.run_step('x', int, 5), uuid.uuid4().version)\n", "below/program.py")
    write("raise SystemExit('taken for another')\n", name)
    command = [str(Path(sys.executable).parent / "onrecord"), "run", "below/program.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "5 4\n"), done.stderr


def test_whoever_has_closed_its_output_is_run_all_the_same() -> None:
    write("import onrecord\nopen('here', 'w').write(str(onrecord.run_step('x', int, 5)))\n")
    command = [str(Path(sys.executable).parent / "onrecord"), "run", "program.py"]
    done = subprocess.run(["sh", "-c", 'exec "$@" >&- 2>&- <&-', "sh", *command], timeout=60)
    assert done.returncode == 0
    assert Path("here").read_text() == "5"


SCHEDULED = """
import sched, time
done = []
scheduler = sched.scheduler(CLOCKS)

def act(number):
    sum(range(20_000 * (number % 3)))  # takes its time, which is another one whenever it is done
    done.append(number)
    if number < 100:
        scheduler.enter(0.0004, 1, act, (number + 100,))

for number in range(40):
    scheduler.enter(number * 0.0005, 1, act, (number,))
scheduler.run()
print(done)
"""


@pytest.mark.parametrize("clocks", ["", "time.monotonic, time.sleep"])
def test_a_schedule_is_kept_by_the_recorded_clock(folder: Path, clocks: str) -> None:
    """What is due first depends on nothing but the clock, which Python's own scheduler reads for the program."""
    (folder / "program.py").write_text(SCHEDULED.replace("CLOCKS", clocks))
    recorded = onrecord("run", "program.py")
    assert recorded.returncode == 0, recorded.stderr
    for _ in range(2):
        assert onrecord("replay", "@last").stdout == recorded.stdout
