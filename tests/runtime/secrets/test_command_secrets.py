"""What is given to a child on its command line is kept out of its parent's record and out of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kit import command_server
from kit.kept_bytes import places_of

PROGRAM = """
import multiprocessing, subprocess, sys, time

def work():
    return sys.argv[-1]

if __name__ == "__main__":
    given = ["--password", "CANARY-p56-xyz", "--api-key=CANARY-p57-xyz", "--token", "CANARY-p58"]
    for seed in ("1", "2"):
        subprocess.run([sys.executable, "child.py", seed, *given], check=True)
    if sys.argv[1:] != ["--seen"]:
        subprocess.run(["true", "--password", "CANARY-p59-xyz"])
        subprocess.run("true --client-secret CANARY-p60-xyz; true", shell=True)
        subprocess.run(["sh", "-c", "true --password CANARY-p61-xyz"])
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=work)
    child.start()
    child.join()
    print(child.exitcode, time.time())
"""
CHILD = """
import random, sys

print(sys.argv[1], len(sys.argv), random.Random().random(), flush=True)
raise SystemExit(0 if sys.argv[3] == "CANARY-p56-xyz" else 3)
"""


def onrecord(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return command_server.call(words, cwd=folder)


def test_options_of_children_are_on_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONRECORD_STORE", raising=False)
    (tmp_path / "agent.py").write_text(PROGRAM)
    (tmp_path / "child.py").write_text(CHILD)
    ran = onrecord(tmp_path, "run", "agent.py")
    assert ran.returncode == 0, ran.stderr
    assert places_of("CANARY", tmp_path / ".onrecord") == []
    scanned = onrecord(tmp_path, "scan", "--all")
    assert scanned.returncode == 0, scanned.stdout


def test_children_with_secrets_are_found_again_by_their_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONRECORD_STORE", raising=False)
    (tmp_path / "agent.py").write_text(PROGRAM)
    (tmp_path / "child.py").write_text(CHILD)
    ran = onrecord(tmp_path, "run", "agent.py", "--seen")
    assert ran.returncode == 0, ran.stderr
    again = onrecord(tmp_path, "replay", "@last")
    assert (again.returncode, again.stdout) == (0, ran.stdout), again.stderr


LEAKING = """
import sys, urllib.request

try:
    urllib.request.urlopen("http://127.0.0.1:9/" + sys.argv[2]).read()
except OSError as error:
    print(type(error).__name__)
"""


def test_a_child_knows_what_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONRECORD_STORE", raising=False)
    (tmp_path / "agent.py").write_text(
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, 'child.py', '--password', 'CANARY-p70-xyz'], check=True)\n"
    )
    (tmp_path / "child.py").write_text(LEAKING)
    ran = onrecord(tmp_path, "run", "agent.py")
    assert (ran.returncode, ran.stdout) == (0, "URLError\n"), ran.stderr
    assert places_of("CANARY", tmp_path / ".onrecord") == []
    alone = onrecord(tmp_path, "run", "child.py", "--password", "CANARY-p71-xyz")
    assert (alone.returncode, alone.stdout) == (0, "URLError\n"), alone.stderr
    assert "secrets kept out of 1 event" in alone.stderr, "a request counts, too"
    assert places_of("CANARY", tmp_path / ".onrecord") == []
