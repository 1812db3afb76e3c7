"""Real loops, threads, executors and locks on the scheduler: recorded, killed, resumed, and replayed in new processes.

Every process has other latencies, so whatever the drivers leave to chance shows as another result.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit.paths import ROOT, TESTS
from kit.scheduler.harness import DIED, DIVERGED, IN_DOUBT, TextJournal
from kit.scheduler.programs import PROGRAMS
from kit.soak import seeds
from onrecord.runtime.scheduler.items import Requested

LIVES = 25


def carry(name: str, mode: str, journal: Path, dies_after: int | None = None) -> tuple[int, str]:
    """Run a program in a process of its own; return its exit status and what it printed."""
    words = [name, mode, str(journal), *([] if dies_after is None else [str(dies_after)])]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{TESTS}", "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-P", "-m", "kit.scheduler.harness", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def settle(journal: Path) -> None:
    """Settle every payment in doubt as done."""
    kept = TextJournal(journal)
    answered = {item.key for item in kept.read() if type(item).__name__ in ("EffectOutcome", "SettledItem")}
    with journal.open("a") as file:
        for item in kept.read():
            if isinstance(item, Requested) and item.once and item.key not in answered:
                file.write(f"{('SettledItem', item.key, 'done', ('ok', 'settled'))!r}\n")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_replays_as_it_was_recorded(name: str, tmp_path: Path) -> None:
    for number in seeds(1, 20):
        journal = tmp_path / str(number)
        recorded = carry(name, "record", journal)
        assert recorded[0] == 0, recorded[1]
        before = journal.read_text() if journal.exists() else ""
        assert carry(name, "replay", journal) == recorded
        assert (journal.read_text() if journal.exists() else "") == before, "a replay writes nothing"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_killed_program_is_resumed_and_the_whole_record_replays(name: str, tmp_path: Path) -> None:
    for number in seeds(1, 10):
        journal = tmp_path / str(number)
        status, printed = carry(name, "record", journal, 2 + 3 * number)
        for life in range(LIVES):
            if status not in (DIED, IN_DOUBT):
                break
            if status == IN_DOUBT:
                settle(journal)
            status, printed = carry(name, "resume", journal, 3 if life % 3 == 0 else None)
        assert status == 0, printed
        outcomes = [
            item.key for item in TextJournal(journal).read() if type(item).__name__ in ("EffectOutcome", "SettledItem")
        ]
        assert len(outcomes) == len(set(outcomes)), "no effect has two outcomes"
        assert carry(name, "replay", journal) == (0, printed)


def test_runs_beside_each_other_in_one_loop(tmp_path: Path) -> None:
    recorded = carry("beside", "record", tmp_path / "runs")
    assert recorded[0] == 0, recorded[1]
    assert carry("beside", "replay", tmp_path / "runs") == recorded


def test_an_altered_request_is_a_divergence_in_its_lane(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    assert carry("task_group", "record", journal)[0] == 0
    journal.write_text(
        journal.read_text().replace("task_group.work#1', 'ask', (1,)", "task_group.work#1', 'ask', (9,)")
    )
    status, printed = carry("task_group", "replay", journal)
    assert status == DIVERGED, printed
    assert "work#1" in printed
    assert "'changed'" in printed
