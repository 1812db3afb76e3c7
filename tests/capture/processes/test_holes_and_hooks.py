"""What is not recorded is named; what the user has put into his Python stays there."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest


@pytest.mark.parametrize("option", ["-S", "-I", "-E", "-sE"])
def test_a_python_that_cannot_be_recorded_is_named(box: Any, option: str) -> None:
    box.write(
        "program.py",
        f"import subprocess, sys\nprint(subprocess.call([sys.executable, {option!r}, '-c', 'print(1)']))\n",
    )
    recorded = box.onrecord("run", "program.py")
    assert recorded.returncode == 0
    assert "1 not recorded: a process (python" in recorded.stderr
    assert "at program.py:2" in recorded.stderr
    refused = box.onrecord("run", "--strict", "program.py")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"it is started with -{option[-1]} [unseen]" in refused.stderr
    replayed = box.onrecord("replay", "@last~1")
    assert (replayed.returncode, replayed.stdout) == (1, "")
    assert "[trapped]" in replayed.stderr
    assert "Only Python processes are recorded" in replayed.stderr


def test_another_environment_without_onrecord_works_and_is_named(box: Any) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(box.folder / "other")], check=True)
    box.write(
        "child.py",
        "import sys, os\nprint(sys.prefix, 'PYTHONPATH' in os.environ, any('hook' in p for p in sys.path))\n",
    )
    box.write("program.py", "import subprocess\nsubprocess.run(['other/bin/python', 'child.py'])\n")
    recorded = box.onrecord("run", "program.py")
    assert recorded.stdout.split()[0].endswith("other"), recorded.stderr
    assert recorded.stdout.split()[2] == "False", "nothing of ours is on its path"
    assert "1 not recorded: a process (python) at program.py:2" in recorded.stderr
    assert "it is another Python [unseen]" in box.onrecord("run", "--strict", "program.py").stderr


def test_programs_that_are_not_python_are_named_and_not_started_in_a_replay(box: Any) -> None:
    box.write(
        "program.py", "import subprocess, time\nprint(time.time())\nsubprocess.run('touch seen; echo x', shell=True)\n"
    )
    recorded = box.onrecord("run", "program.py")
    assert recorded.returncode == 0
    assert "1 not recorded: a process (touch) at program.py:3" in recorded.stderr
    (box.folder / "seen").unlink()
    replayed = box.onrecord("replay", "@last")
    assert replayed.returncode == 1
    assert "which has no record [trapped]" in replayed.stderr
    assert not (box.folder / "seen").exists()


def test_a_program_that_is_not_there_is_missing_in_a_replay_too(box: Any) -> None:
    box.write(
        "program.py",
        """
        import subprocess, time
        now = time.time()
        try:
            subprocess.run(["no-such-program"])
        except FileNotFoundError as error:
            print(error, now)
        """,
    )
    recorded = box.onrecord("run", "program.py")
    assert "no-such-program" in recorded.stdout
    assert "unseen" not in recorded.stderr
    replayed = box.onrecord("replay", "@last")
    assert (replayed.returncode, replayed.stdout) == (0, recorded.stdout), replayed.stderr


def test_the_users_own_sitecustomize_and_path_are_kept(box: Any) -> None:
    (box.folder / "site").mkdir()
    (box.folder / "lib").mkdir()
    box.write("site/sitecustomize.py", "import builtins\nbuiltins.MARK = 'of the user'\n")
    box.write("lib/helper.py", "NAME = 'helper'\n")
    box.write(
        "child.py",
        "import os, sys, sitecustomize, helper\nfrom work import work\n"
        "print(MARK, sitecustomize.__file__, helper.NAME, work(1), os.environ['PYTHONPATH'])\n"
        "print(sys.path, sorted(name for name in os.environ if 'ONRECORD' in name))\n",
    )
    box.write("program.py", "import subprocess, sys\nsubprocess.run([sys.executable, 'child.py'], check=True)\n")
    box.environment["PYTHONPATH"] = f"{box.folder / 'site'}:{box.folder / 'lib'}"
    plain = subprocess.run(
        [sys.executable, "program.py"], cwd=box.folder, env=box.environment, capture_output=True, text=True, check=True
    )
    recorded = box.onrecord("run", "program.py")
    assert recorded.stdout == plain.stdout, recorded.stderr
    replayed = box.onrecord("replay", "@last")
    assert (replayed.returncode, replayed.stdout) == (0, recorded.stdout), replayed.stderr


def test_what_an_effect_starts_belongs_to_it(box: Any) -> None:
    box.write("child.py", "from work import work\nprint(work(1))\n")
    box.write(
        "program.py",
        "import subprocess, sys, onrecord\n"
        "print(onrecord.run_step('x', subprocess.check_output, [sys.executable, '-W', 'ignore', 'child.py']))\n",
    )
    recorded = box.onrecord("run", "--strict", "program.py")
    assert (recorded.returncode, recorded.stdout) == (0, "b'10\\n'\n"), recorded.stderr
    assert "· 1 effect ·" in recorded.stderr
    assert "process" not in recorded.stderr
    assert box.onrecord("replay", "@last").returncode == 0
    assert box.ledger == [1]


def test_a_process_goes_on_only_with_its_parent(box: Any) -> None:
    box.write(
        "program.py", "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import work; work.work(1)'])\n"
    )
    assert box.onrecord("run", "--run-id", "one", "program.py").returncode == 0
    (child,) = [one["run"] for one in box.runs("--all-kinds") if one["kind"] == "process"]
    for command in ("replay", "resume"):
        refused = box.onrecord(command, child)
        assert refused.returncode not in (0, 1)
        assert "[process_of_run]" in refused.stderr
    assert [one["run"] for one in box.shown("one")["processes"]] == [child]
    assert f"process      {child}" in box.onrecord("show", "one").stdout
    assert box.shown(child)["parent"]["run"] == "one"


def test_nothing_anywhere_is_no_pass(box: Any) -> None:
    box.write("program.py", "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'print(1)'])\n")
    assert box.onrecord("run", "program.py").returncode == 0
    replayed = box.onrecord("replay", "@last")
    assert replayed.returncode == 1
    assert "[nothing_to_replay]" in replayed.stderr


def test_a_process_that_is_not_started_again_is_missed(box: Any) -> None:
    box.write("child.py", "from work import work\nprint(work(1))\n")
    both = "import os\nos.system('python child.py; python child.py')\n"
    box.write("program.py", both)
    assert box.onrecord("run", "program.py").returncode == 0
    box.write("program.py", both.replace("; python child.py", ""))
    replayed = box.onrecord("replay", "@last")
    assert replayed.returncode == 1
    assert "[missing_process]" in replayed.stderr


def test_a_process_that_could_not_be_recorded_goes_on_and_is_named(box: Any) -> None:
    box.write("child.py", "print('goes on')\n")
    box.write(
        "program.py",
        """
        import os, subprocess, sys
        from work import work
        work(1)
        store = os.path.join(".onrecord", "onrecord.db")
        os.rename(store, store + ".away")
        os.mkdir(store)
        subprocess.run([sys.executable, "child.py"], check=True)
        os.rmdir(store)
        os.rename(store + ".away", store)
        """,
    )
    recorded = box.onrecord("run", "program.py")
    assert (recorded.returncode, recorded.stdout) == (0, "goes on\n"), recorded.stderr
    assert "1 not recorded: a process (python" in recorded.stderr
