"""A long run is listed, shown, read and verified in memory that does not grow with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reenact.core.events import ActionRequested, ActionSucceeded, Event
from reenact.journal.journal import Journal
from reenact.store.opening import open_store

SHORT, LONG = 1_000, 60_000
ALLOWED_MB = 40  # a long run's contents alone are more than that
MEASURE = """
import contextlib, resource
from reenact.cli.main import run
try:
    with contextlib.redirect_stdout(open("/dev/null", "w")):
        run()
except SystemExit as ended:
    assert not ended.code, ended.code
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.fixture(scope="module")
def store_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("long") / "store.db"
    store = open_store(str(file), durability="relaxed")
    for run, events in (("short", SHORT), ("long", LONG)):
        with Journal.create(store, run) as journal:
            for start in range(0, events, 1_000):
                batch: list[Event] = []
                for number in range(start, start + 1_000, 2):
                    batch.append(ActionRequested(f"a{number}", {"text": f"{number} " * 120}, "ask", "model_call"))
                    batch.append(ActionSucceeded(f"a{number}", f"{number} " * 80))
                journal.append(batch, sync=False)
    store.close()
    assert file.stat().st_size > 2 * ALLOWED_MB * 1_000_000 / 4
    return file


def _peak_mb(*command: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *command], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.strip().isdecimal(), done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("command", [("show",), ("show", "--limit", "100000"), ("verify",)])
def test_what_looks_at_one_run(store_file: Path, command: tuple[str, ...]) -> None:
    verb, *options = command
    peaks = [_peak_mb("--store", str(store_file), verb, run, *options) for run in ("short", "long")]
    assert peaks[1] - peaks[0] < ALLOWED_MB, peaks


def test_listing(store_file: Path) -> None:
    assert (
        _peak_mb("--store", str(store_file), "ls") < _peak_mb("--store", str(store_file), "show", "short") + ALLOWED_MB
    )
