"""What a program does before its first line and behind its last: packages that it is in, files that nobody closed."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from kit.programs import Server, onrecord
from kit.soak import SOAK

pytestmark = pytest.mark.usefixtures("folder")

LEFT_OPEN = """
import os, sys, threading, time

class Held:
    def __del__(self):
        print("let go of", os.path.basename(file.name), flush=True)

forked = os.fork() if "fork" in sys.argv else None
file = open("child.txt" if forked == 0 else "out.txt", "w")
file.write(f"begun {time.time() > 0}")
held = Held()
if forked:
    os.waitpid(forked, 0)
if "fail" in sys.argv:
    raise RuntimeError("failed")
if "exit" in sys.argv:
    sys.exit(3)
"""


@pytest.mark.parametrize(("how", "status"), [("end", 0), ("fail", 1), ("exit", 3)])
def test_a_file_that_nobody_closed_is_written_at_the_end(how: str, status: int) -> None:
    Path("program.py").write_text(LEFT_OPEN)
    done = onrecord("run", "--run-id", "one", "program.py", how)
    assert (done.returncode, done.stdout) == (status, "let go of out.txt\n"), done.stderr
    assert Path("out.txt").read_text() == "begun True"
    assert onrecord("replay", "one").stdout == done.stdout


def test_so_is_that_of_a_forked_process() -> None:
    Path("program.py").write_text(LEFT_OPEN)
    done = onrecord("run", "--run-id", "one", "program.py", "fork")
    assert (done.returncode, done.stdout) == (0, "let go of child.txt\nlet go of out.txt\n"), done.stderr
    assert Path("child.txt").read_text() == Path("out.txt").read_text() == "begun True"


SERVED_BY_A_THREAD = """
import atexit, threading, time

def serve():
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    print("served")

threading.Thread(target=serve).start()
atexit.register(lambda: print(threading.main_thread().is_alive()))
print("last line")
"""


def test_a_thread_that_looks_whether_the_main_thread_lives_ends() -> None:
    """Exporters of traces do so."""
    Path("program.py").write_text(SERVED_BY_A_THREAD)
    done = onrecord("run", "--run-id", "one", "program.py")
    assert (done.returncode, done.stdout) == (0, "last line\nserved\nFalse\n"), done.stderr
    replayed = onrecord("replay", "one")
    assert replayed.stdout == done.stdout, replayed.stderr


FORKED_IN_A_LOOP = """
import asyncio, os, sys, time

async def main():
    assert time.time()  # something to compare
    forked = os.fork()
    if forked == 0:
        sys.exit(3)
    print(os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]))

asyncio.run(main())
"""


def test_one_that_was_forked_within_a_loop_ends_with_a_status_of_its_own() -> None:
    Path("program.py").write_text(FORKED_IN_A_LOOP)
    for command in (("run", "--run-id", "one", "program.py"), ("replay", "one")):
        done = onrecord(*command)
        assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (0, "3\n", False), done.stderr


@pytest.mark.parametrize("module", ["package", "package.tool"])
def test_the_packages_of_a_module_are_part_of_the_program(module: str, server: Server) -> None:
    package = Path("package")
    package.mkdir()
    ask = f"import httpx, sys, time\nprint(__name__, time.time(), httpx.get('{server.url}/number').json()['number'])\n"
    (package / "__init__.py").write_text(f"{ask}print(sys.argv)\n")
    for name in ("__main__", "tool"):
        (package / f"{name}.py").write_text(ask)
    done = onrecord("run", "--run-id", "one", "-m", module, "word")
    first, arguments, second = done.stdout.splitlines()
    assert (done.returncode, server.requests) == (0, 2), done.stderr
    assert (first.split()[0], arguments, second.split()[0]) == ("package", "['-m', 'word']", "__main__")
    assert "2 effects" in done.stderr
    server.stop()
    again = onrecord("replay", "one")
    assert (again.returncode, again.stdout) == (0, done.stdout), again.stderr


def test_a_module_that_is_not_there_is_told_before_its_package_is_run() -> None:
    package = Path("package")
    package.mkdir()
    (package / "__init__.py").write_text("print('run')")
    done = onrecord("run", "-m", "package.missing")
    assert (done.returncode, done.stdout) == (3, "")
    assert "no runnable module 'package.missing'" in done.stderr
    assert not Path("onrecord.db").exists()


ENDS_ITSELF = """
import os, signal, sys, httpx
httpx.get(sys.argv[1])
if os.path.exists("goes_on"):
    httpx.get(sys.argv[1])
{by}
"""
BY_A_SIGNAL = {
    "kill": ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
    "not to be caught": ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    "raise": ("signal.raise_signal(signal.SIGUSR1)", -signal.SIGUSR1),
    "abort": ("os.abort()", -signal.SIGABRT),
    "interrupt": ("os.kill(os.getpid(), signal.SIGINT)", 130),
}


@pytest.mark.parametrize("how", BY_A_SIGNAL if SOAK else ("kill", "not to be caught", "interrupt"))
def test_one_that_ends_itself_by_a_signal_is_judged_like_any_other(how: str, server: Server) -> None:
    by, status = BY_A_SIGNAL[how]
    Path("program.py").write_text(ENDS_ITSELF.format(by=by))
    assert onrecord("run", "--run-id", "one", "program.py", server.url).returncode == status
    again = onrecord("replay", "one")
    assert (again.returncode, "the record of run one ends at seq" in again.stderr) == (0, True), again.stderr
    verdict = json.loads(onrecord("replay", "one", "--json").stdout)
    assert (verdict["exit"], verdict["status"]) == (0, "unfinished")


def test_one_that_ends_itself_earlier_than_its_record_has_parted_from_it(server: Server) -> None:
    Path("program.py").write_text(ENDS_ITSELF.format(by="os.kill(os.getpid(), signal.SIGTERM)"))
    Path("goes_on").touch()
    assert onrecord("run", "--run-id", "one", "program.py", server.url).returncode == -signal.SIGTERM
    Path("goes_on").unlink()
    again = onrecord("replay", "one")
    assert (again.returncode, "error: run one" in again.stderr) == (1, True), again.stderr


def test_one_that_ends_itself_where_it_did_not_has_ended_differently(server: Server) -> None:
    Path("program.py").write_text(
        ENDS_ITSELF.format(by="os.path.exists('calm') or os.kill(os.getpid(), signal.SIGTERM)")
    )
    Path("calm").touch()
    assert onrecord("run", "--run-id", "one", "program.py", server.url).returncode == 0
    Path("calm").unlink()
    again = onrecord("replay", "one")
    assert (again.returncode, "[other_end]" in again.stderr) == (1, True), again.stderr


def test_a_signal_that_it_handles_itself_ends_nothing(server: Server) -> None:
    handled = "signal.signal(signal.SIGTERM, lambda *_: print('handled'))\nos.kill(os.getpid(), signal.SIGTERM)"
    Path("program.py").write_text(ENDS_ITSELF.format(by=handled))
    assert onrecord("run", "--run-id", "one", "program.py", server.url).stdout == "handled\n"
    again = onrecord("replay", "one")
    assert (again.returncode, again.stdout) == (0, "handled\n"), again.stderr
