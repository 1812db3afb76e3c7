"""Draws of programs: by call site, in the program and in its libraries; `--strict` refuses one that is not recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.cli import onrecord_process

PROGRAM = """
import json, logging, os, sys, time, uuid
logging.basicConfig(format="%(created)f", stream=sys.stdout)

def stamp():
    return time.time()

print(stamp(), uuid.uuid4(), len(os.urandom(10)), os.urandom(10).hex(), os.urandom(16).hex())
logging.warning("a library reads the clock, too")
"""


@pytest.fixture(autouse=True)
def folder(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))


def recorded() -> str:
    Path("program.py").write_text(PROGRAM)
    done = onrecord_process("run", "--run-id", "one", "program.py")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_draw_comes_out_again() -> None:
    output = recorded()
    replayed = onrecord_process("replay", "one", "--strict")
    assert (replayed.returncode, replayed.stdout) == (0, output), replayed.stderr


def test_one_draw_more_is_served_anew_and_refused_by_a_strict_replay() -> None:
    output = recorded()
    Path("program.py").write_text(PROGRAM.replace("print(stamp()", "os.urandom(12), time.time(); print(stamp()"))
    replayed = onrecord_process("replay", "one")
    assert (replayed.returncode, replayed.stdout) == (0, output), replayed.stderr
    strict = onrecord_process("replay", "one", "--strict")
    assert strict.returncode == 1
    assert "urandom" in strict.stderr
    assert "unrecorded_draw" in strict.stderr


def test_one_draw_less_is_no_divergence() -> None:
    recorded()
    Path("program.py").write_text(PROGRAM.replace("len(os.urandom(10)), ", "").replace("uuid.uuid4(), ", ""))
    replayed = onrecord_process("replay", "one")
    assert replayed.returncode == 0, replayed.stderr
