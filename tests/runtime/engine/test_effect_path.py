"""The path of one effect: how many files of ours a lone step passes, recorded and replayed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import onrecord

PACKAGE = str(Path(onrecord.__file__).parent)
RECORDED, REPLAYED = 22, 17
"""Files that one step passes at most. A new one needs a reason: a reader of the path opens them all."""

passed: set[str] = set()


@onrecord.step
def look_up(number: int) -> int:
    return number


def _note(frame: FrameType, event: str, _: Any) -> None:
    if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
        passed.add(frame.f_code.co_filename.removeprefix(PACKAGE))


def _work() -> int:
    look_up(0)  # what is done once
    passed.clear()
    before = sys.getprofile()
    sys.setprofile(_note)
    try:
        return look_up(1)
    finally:
        sys.setprofile(before)


@pytest.fixture
def agent() -> Any:
    return onrecord.agent(name="path", store=onrecord.open_store("memory://"))(_work)


def test_step_passes_few_files(agent: Any) -> None:
    agent.run(run_id="path")
    recorded = sorted(passed)
    agent.replay("path")
    replayed = sorted(passed)
    assert "/journal/journal.py" in recorded
    assert "/journal/journal.py" not in replayed
    assert len(recorded) <= RECORDED, recorded
    assert len(replayed) <= REPLAYED, replayed
