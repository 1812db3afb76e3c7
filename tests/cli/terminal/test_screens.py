"""What stands on the screen: lists, timelines and statistics, on wide and narrow terminals, whatever was recorded."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import product

import pytest

from kit.cli import asking, blocked_run, onrecord, onrecord_process, opened, record, whole_run
from kit.soak import cases
from kit.terminal import SGR, assert_nothing_acted, shown
from onrecord.cli.render.text import cells
from onrecord.core.events import ActionFailed, ActionRequested, ActionSucceeded, Completed, Failed, StateUpdated
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal

HOSTILE = "\x1b[2J\x1b[H\x1b]0;owned\x07\x9b31m\u202eevil\u2066\u200b\r\nfake: VALID\x1b[10A\x08\x08\x7f\x0b\x0c"


def hostile_run() -> list[Draft | object]:
    chat = {"messages": [{"role": HOSTILE, "content": HOSTILE}], "model": HOSTILE}
    return [
        ActionRequested(action_id="a1", payload=chat, name=HOSTILE, effect="model_call"),
        Draft(ActionSucceeded(action_id="a1", output={"model": HOSTILE, "usage": {"tokens": 3}}), parent=1),
        ActionRequested(action_id="a3", payload={HOSTILE: HOSTILE}, name=HOSTILE, effect="tool_call"),
        Draft(ActionFailed(action_id="a3", error={HOSTILE: HOSTILE}), parent=3),
        StateUpdated(payload={HOSTILE: [HOSTILE]}),
        Completed(output=HOSTILE),
    ]


def lanes_run() -> list[Draft | object]:
    """Two lanes beside the first one, which are under way at the same time."""

    def asked(lane: str, at: int) -> Draft:
        return Draft(ActionRequested(action_id=f"a{at}", payload=at, name="search", effect="tool_call"), lane=lane)

    def answered(lane: str, at: int) -> Draft:
        return Draft(ActionSucceeded(action_id=f"a{at}", output=at), parent=at, lane=lane)

    return [
        *asking("q", "a"),
        asked("main>a", 3),
        asked("main>a#1", 4),
        answered("main>a", 3),
        answered("main>a#1", 4),
        Completed(output=1),
    ]


COMMANDS = (
    ["ls"],
    ["ls", "--usage"],
    ["show", "one"],
    ["show", "one", "--event", "1"],
    ["show", "one", "--context"],
    ["show", "one", "--context", "--full"],
    ["show", "one", "--state", "5"],
    ["show", "one", "--follow"],
    ["stats", "one"],
    ["stats"],
    ["verify", "one"],
    ["waits", "one"],
    ["show", "one", "--json"],
    ["stats", "--json"],
)


@pytest.mark.parametrize("columns", [40, 130])
def test_nothing_that_was_recorded_acts_on_a_terminal(columns: int) -> None:
    record("one", hostile_run(), facts={"agent": HOSTILE, HOSTILE: HOSTILE})
    for arguments in COMMANDS:
        terminal = shown(*arguments, columns=columns)
        assert terminal.screen, arguments
        assert_nothing_acted(terminal)
        assert not any(line.startswith("fake") for line in terminal.screen), arguments


@pytest.mark.parametrize("columns", [40, 130])
def test_nor_where_two_such_runs_are_compared(columns: int) -> None:
    record("one", hostile_run())
    record("two", [*asking(HOSTILE + "other", HOSTILE), Completed(output=f"{HOSTILE}!")])
    for arguments in (["diff", "one", "two"], ["diff", "one", "two", "--full"]):
        assert_nothing_acted(shown(*arguments, columns=columns, status=1))


def test_a_list_fits_forty_columns_and_says_what_matters() -> None:
    record("a-rather-long-name-of-a-run", whole_run(), facts={"agent": "a-rather-long-name-of-an-agent"})
    record("blocked", blocked_run())
    terminal = shown("ls", columns=40)
    assert max(map(len, terminal.screen)) <= 40
    assert any("blocked" in line and "tester" in line for line in terminal.screen)
    assert any("a-rather" in line and "completed" in line for line in terminal.screen)
    assert "2 runs" in terminal.text


def test_a_list_sums_up_and_suggests_for_people_only() -> None:
    record("one")
    record("two", [Failed(error="x")])
    terminal = shown("ls")
    assert "2 runs · 1 failed, 1 completed · 5 events" in terminal.text
    assert "onrecord show two" in terminal.text
    piped = onrecord_process("ls")
    assert "next" not in piped.stderr
    assert "next " not in shown("ls", "--json").text


def test_lanes_have_columns_of_their_own() -> None:
    record("one", lanes_run())
    lines = [line for line in shown("show", "one", columns=140).screen if "Action" in line or "Completed" in line]
    gutters = [line.split()[3] for line in lines]
    assert gutters[:6] == ["○", "●", "│○", "│┃○", "│●┃", "│"], "the last one has its mark behind the free column"
    assert "│ ●" in lines[5]


def test_a_narrow_timeline_still_says_who_was_asked_and_what() -> None:
    record("one", lanes_run())
    lines = [line for line in shown("show", "one", columns=40).screen if "Requested" in line]
    assert all("ask" in line or "search" in line for line in lines)
    assert '"question"' in lines[0]
    assert max(map(len, lines)) <= 40


@pytest.mark.parametrize("options", [[], ["--follow"]])
def test_a_narrow_timeline_names_effects_beside_longer_kinds(options: list[str]) -> None:
    fetched = ActionRequested(
        action_id="a1", payload={"url": "https://example.com"}, name="fetch_page", effect="tool_call"
    )
    record(
        "one",
        [fetched, Draft(ActionSucceeded(action_id="a1", output="x"), parent=1), StateUpdated(payload={"turn": 1})],
    )
    onrecord("cancel", "one")
    lines = shown("show", "one", *options, columns=40).screen
    assert any("Requested" in line and "fetch_page" in line for line in lines)
    assert any("State" in line and "turn" in line for line in lines)
    assert max(map(len, lines)) <= 40


def test_a_run_of_one_lane_has_no_gutter() -> None:
    record("one")
    assert not set("○●│") & set(shown("show", "one", columns=140).text)


def test_colour_is_left_out_when_asked() -> None:
    record("one", lanes_run())
    record("two", [*asking("q", "b"), Completed()])
    for arguments, status in ((["ls"], 0), (["show", "one"], 0), (["stats"], 0), (["diff", "one", "two"], 1)):
        for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            assert not SGR.search(shown(*arguments, status=status, env=env).written), arguments
        assert SGR.search(shown(*arguments, status=status).written), arguments


def test_signs_that_an_encoding_lacks_have_plain_ones() -> None:
    record("one", lanes_run())
    for arguments in (["show", "one"], ["stats", "one"], ["ls"]):
        terminal = shown(*arguments, columns=140, env={"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"})
        assert terminal.written.isascii(), arguments
        assert "\\u" not in terminal.written, arguments


def test_windows_line_ends_are_line_ends() -> None:
    text = "first line\r\nsecond line\rstill the second\r\nthird"
    chat = {"model": "m", "messages": [{"role": "user", "content": text}]}
    record("one", [ActionRequested(action_id="a1", payload=chat, name="ask", effect="model_call"), Completed()])
    terminal = shown("show", "one", "--context")
    lines = [line.strip() for line in terminal.screen]
    assert "first line" in lines
    assert "second line\\rstill the second" in lines
    assert "third" in lines
    assert_nothing_acted(terminal)


def test_a_reader_that_takes_one_line_and_goes() -> None:
    record("one", [*(StateUpdated(payload="x" * 200) for _ in range(3000)), Completed()])
    with opened() as store:
        for number in range(60):
            with Journal.create(store, f"run-{number}") as journal:
                journal.append([Completed()])
    for arguments in ("ls --limit 5000", "show one --limit 5000", "stats", "ls --json --limit 5000"):
        script = f"set -o pipefail; {sys.executable} -m onrecord.cli.main {arguments} | head -1"
        result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, env=os.environ)
        assert result.stderr == "", arguments
        assert len(result.stdout.splitlines()) == 1, arguments
        assert result.returncode in (0, 141), arguments


def test_usage_filters_and_sums() -> None:
    def priced(tokens: int, cost: float) -> list[Draft | object]:
        output = {"model": "m", "usage": {"total_tokens": tokens, "cost": cost}}
        asked = ActionRequested(action_id="a1", payload={"model": "m"}, name="ask", effect="model_call")
        return [asked, Draft(ActionSucceeded(action_id="a1", output=output), parent=1), Completed()]

    record("cheap", priced(10, 0.01))
    record("dear", priced(20_000, 2.5))
    record("none", [Completed()])
    listed = json.loads(onrecord("ls", "--min-cost", "0.5", "--json").stdout)["runs"]
    assert [(one["run"], one["usage"]) for one in listed] == [("dear", {"calls": 1, "tokens": 20_000, "cost": 2.5})]
    assert [one["run"] for one in json.loads(onrecord("ls", "--min-tokens", "10", "--json").stdout)["runs"]] == [
        "dear",
        "cheap",
    ]
    everything = onrecord("ls", "--usage")
    assert "20.0k" in everything.stdout
    assert "20.0k tokens · $2.5100" in everything.stderr
    assert "no runs" in onrecord("ls", "--min-cost", "100").stderr
    assert onrecord("ls", "--min-cost", "-1").exit_code == 2
    assert onrecord("ls", "--min-cost", "nan").exit_code == 2


CLOSED = (">&-", "<&-", "2>&-", ">&- 2>&-")
LOOKING = ("ls", "show one --follow", "step one")
FEW_CLOSED = [(">&-", "ls"), ("<&-", "step one"), ("2>&-", "show one --follow"), (">&- 2>&-", "show one --follow")]


@pytest.mark.parametrize(
    ("closed", "arguments"), cases(FEW_CLOSED, [both for both in product(CLOSED, LOOKING) if both not in FEW_CLOSED])
)
def test_streams_that_somebody_has_closed(closed: str, arguments: str) -> None:
    record("one")
    command = f"{sys.executable} -m onrecord.cli.main {arguments} {closed}"
    assert subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, timeout=60).returncode == 0


@pytest.mark.parametrize("columns", ["0", "1", "20"])
def test_a_terminal_hardly_wide_enough_for_anything(columns: str) -> None:
    record("one", lanes_run())
    record("two", [*asking("q", "b"), Completed()])
    for arguments, status in (
        (["ls", "--usage"], 0),
        (["show", "one"], 0),
        (["stats"], 0),
        (["diff", "one", "two"], 1),
    ):
        assert shown(*arguments, columns=20, status=status, env={"COLUMNS": columns}).screen


def test_wide_characters_keep_their_columns() -> None:
    record("one", [*asking("日本語 の 質問\nあ", "はい"), Completed()], facts={"agent": "エージェント"})
    record("two", [*asking("日本語 の 回答\nあ", "いいえ"), Completed()], facts={"agent": "x"})
    for arguments, status in ((["ls"], 0), (["show", "one"], 0), (["diff", "one", "two"], 1)):
        terminal = shown(*arguments, columns=110, status=status)
        assert_nothing_acted(terminal)
    lines = [line for line in SGR.sub("", terminal.written).splitlines() if re.search(" [│≠] ", line)]
    assert len({cells(re.split(" [│≠] ", line)[0]) for line in lines}) == 1
