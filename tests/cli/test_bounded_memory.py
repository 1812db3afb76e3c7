"""A long run is listed, shown, read and verified in memory that does not grow with it."""

from __future__ import annotations

import random
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from onrecord.core.events import ActionRequested, ActionSucceeded, Event
from onrecord.journal.journal import Journal
from onrecord.store.factory import open_store

SHORT, LONG = 500, 3_000
ALLOWED_MB = 8  # a long run's contents alone are more than that
MEASURE = """
import contextlib, re
from onrecord.cli.main import run
try:
    with contextlib.redirect_stdout(open("/dev/null", "w")):
        run()
except SystemExit as ended:
    assert not ended.code, ended.code
with open("/proc/self/status") as status:  # `ru_maxrss` is inherited from the process that starts this one
    print(int(re.search(r"VmHWM:\\s+(\\d+)", status.read())[1]) // 1024)
"""


@pytest.fixture(scope="module")
def store_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("long") / "store.db"
    numbers = random.Random(1)

    def text(size: int) -> str:  # a store compresses what repeats itself
        return numbers.randbytes(size).hex()

    store = open_store(str(file), durability="relaxed")
    for run, events in (("short", SHORT), ("long", LONG)):
        with Journal.create(store, run) as journal:
            for start in range(0, events, 500):
                batch: list[Event] = []
                for number in range(start, start + 500, 2):
                    batch.append(ActionRequested(f"a{number}", {"text": text(2000)}, "ask", "model_call"))
                    batch.append(ActionSucceeded(f"a{number}", text(1500)))
                journal.append(batch, sync=False)
    store.close()
    assert file.stat().st_size > 2 * ALLOWED_MB * 1_000_000 / 4
    return file


@cache
def _peak_mb(*command: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *command], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.strip().isdecimal(), done.stderr
    return int(done.stdout)


HELD = pytest.mark.xfail(reason="`show` holds every event up to --limit in memory")


@pytest.mark.parametrize("command", [("show",), pytest.param(("show", "--limit", "100000"), marks=HELD), ("verify",)])
def test_what_looks_at_one_run(store_file: Path, command: tuple[str, ...]) -> None:
    verb, *options = command
    peaks = [_peak_mb("--store", str(store_file), verb, run, *options) for run in ("short", "long")]
    assert peaks[1] - peaks[0] < ALLOWED_MB, peaks


def test_listing(store_file: Path) -> None:
    assert (
        _peak_mb("--store", str(store_file), "ls") < _peak_mb("--store", str(store_file), "show", "short") + ALLOWED_MB
    )
