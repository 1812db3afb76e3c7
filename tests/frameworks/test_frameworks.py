"""Agents of real frameworks: recorded, killed, resumed, replayed and changed. `make frameworks` tries all of them."""

from __future__ import annotations

import random
import signal
import sys
from pathlib import Path

import pytest

from frameworks.catalogue import FRAMEWORKS
from frameworks.server import serving
from frameworks.trial import LATE_SECONDS, PROGRAMS, Trial, is_same, names_both_words
from kit.programs import hide_optional_packages


@pytest.mark.parametrize("program", ["openai_async", "anthropic_messages", "mcp_stdio", "pydantic_ai_agent"])
def test_an_agent_resumes_and_replays(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if program != "pydantic_ai_agent":  # it needs one of them
        hide_optional_packages(monkeypatch)
    with serving() as server, Trial(program, Path(sys.executable).parent, tmp_path / "trial", server) as trial:
        run, killed = trial.kill(random.randint(1, 4), random.random() * LATE_SECONDS)
        assert killed.status == -signal.SIGKILL, killed
        resumed, _ = trial.resume(run)
        assert resumed.status == 0, resumed
        assert resumed.output
        replayed = trial.replay(run)
        assert is_same(replayed, resumed), f"{replayed}\nresumed: {resumed}"
        changed = trial.replay_changed(run)
        assert names_both_words(changed), changed


def test_every_program_has_a_framework() -> None:
    shared = {"task", "mcp_agent", "mcp_server"}
    listed = {program for framework in FRAMEWORKS for program in framework.programs}
    assert listed | shared == {path.stem for path in PROGRAMS.glob("*.py")}
