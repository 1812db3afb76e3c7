"""Bars on what takes long: how far, how long still, and never in the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.cli import asking, onrecord, opened, record
from kit.terminal import Terminal, assert_nothing_acted
from onrecord.cli.render.progress import Progress, Watched, progress_line
from onrecord.cli.render.text import cells
from onrecord.core.events import Completed, StateUpdated
from onrecord.journal.reader import JournalReader
from onrecord.journal.verify import verify_run


def test_a_line_tells_share_bar_time_and_what_is_left() -> None:
    line = progress_line("exporting", 25, 100, 10.0, 80)
    assert line.startswith("exporting 25 %")
    assert "━━━━━━──────────────────" in line
    assert line.endswith("10 s  about 30.0 s left")
    assert "left" not in progress_line("exporting", 100, 100, 10.0, 80)
    assert progress_line("looking", 0, 0, 3.0, 80) == "looking, 3 s"
    assert progress_line("looking", 7, 0, 3.0, 80) == "looking 7, 3 s"


@pytest.mark.parametrize("width", [20, 40, 59, 60, 200])
def test_a_line_never_wraps(width: int) -> None:
    for done, total in ((0, 0), (1, 3), (10**9, 10**12)):
        assert cells(progress_line("a rather long label of something", done, total, 12345.0, width)) < width


def test_what_reads_a_store_is_watched() -> None:
    record("one", [*(StateUpdated(payload=n) for n in range(9)), Completed()])
    told: list[tuple[int, int]] = []
    progress = Progress("reading")
    progress.step = lambda done, total: told.append((done, total))  # type: ignore[method-assign]
    with opened() as store:
        watched = Watched(store, progress, 10)
        assert verify_run(watched, "one").valid  # type: ignore[arg-type]
        assert JournalReader(watched, "one").head().seq == 10  # type: ignore[arg-type]
    assert told[-1] == (10, 10)
    assert told == sorted(told)


SLOW = """
import sys, time
import onrecord.cli.render.progress as progress
progress.FIRST_AFTER_SECONDS = progress.REDRAWN_EVERY_SECONDS = 0.01
from onrecord.store.sqlite.store import SqliteStore

scan, line, step = SqliteStore.scan, progress.progress_line, progress.Progress.step
lines, begun = [], []
def slowly(self, *place, **options):
    for row in scan(self, *place, **options):
        if begun and not ({ends} and any("left" in line for line in lines)):
            time.sleep(0.02)
        yield row
def noted_step(self, *terms):
    begun.append(self)
    return step(self, *terms)
def noted(*terms):
    lines.append(line(*terms))
    return lines[-1]
SqliteStore.scan, progress.progress_line, progress.Progress.step = slowly, noted, noted_step
from onrecord.cli.main import run
sys.argv[1:] = {arguments!r}
run()
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["export", "one", "-o", "out.jsonl", "--force"],
        ["scan", "one"],
        ["stats", "one"],
        ["recover", "one", "--to", "new.db"],
        ["receipt", "mint", "one"],
        ["diff", "one", "two"],
    ],
)
def test_a_bar_is_drawn_on_the_terminal_and_gone_at_the_end(arguments: list[str]) -> None:
    for run in ("one", "two"):
        record(run, [*(event for at in range(1, 40, 2) for event in asking(f"{run} {at}", "yes", at=at)), Completed()])
    with Terminal(code=SLOW.format(arguments=arguments, ends=True)) as terminal:
        assert terminal.end() in (0, 1)
    assert " %" in terminal.written
    assert "left" in terminal.written
    assert " left" not in terminal.text
    assert_nothing_acted(terminal)


@pytest.mark.parametrize("arguments", [["export", "one", "-o", "out.jsonl"], ["scan", "one"], ["stats", "one"]])
def test_who_is_tired_of_it_gets_two_lines_and_no_half_of_a_file(arguments: list[str], workspace: Path) -> None:
    record("one", [*(event for at in range(1, 400, 2) for event in asking("q", "yes", at=at)), Completed()])
    with Terminal(code=SLOW.format(arguments=arguments, ends=False)) as terminal:
        terminal.wait_for(" %")
        terminal.press_ctrl_c()
        assert terminal.end() == 130
    assert terminal.screen[-2:] == ["error: interrupted [interrupted]", "Unfinished work was not written."]
    assert {path.name for path in workspace.iterdir()} == {".onrecord"}
    assert onrecord("verify", "one").exit_code == 0
