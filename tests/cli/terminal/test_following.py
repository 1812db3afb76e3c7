"""`onrecord show --follow`: a live run on the screen of somebody else."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kit.cli import STORE, asking, onrecord, onrecord_json, opened, record, whole_run
from kit.terminal import Terminal, assert_nothing_acted
from onrecord.core.events import ActionRequested, ActionSucceeded, Completed, StateUpdated, WaitCreated
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.store.contract import EventRow
from onrecord.store.sqlite.reads import SqliteReads


def test_events_appear_as_they_come_and_the_end_ends_it() -> None:
    with opened() as store, Journal.create(store, "one", facts={"agent": "tester"}) as journal:
        journal.append(ActionRequested(action_id="a1", payload="first", name="ask", effect="tool_call"))
        with Terminal("show", "one", "--follow", columns=120) as terminal:
            terminal.wait_for("first")
            journal.append(Draft(ActionSucceeded(action_id="a1", output="then this"), parent=1))
            terminal.wait_for("then this")
            assert " ms" in terminal.text or " s " in terminal.text, "how long the answer took"
            journal.append(Completed(output="over"))
            assert terminal.end() == 0
            assert "Completed" in terminal.text
            assert_nothing_acted(terminal)


def test_an_end_that_is_committed_after_the_scan_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened() as store, Journal.create(store, "one") as journal:
        journal.append(StateUpdated(payload=1))
        scan = SqliteReads.scan

        def scan_then_end(self: SqliteReads, *position: Any) -> Iterator[EventRow]:
            yield from scan(self, *position)
            if journal.head().seq == 1:
                journal.append(Completed())

        monkeypatch.setattr(SqliteReads, "scan", scan_then_end)
        shown = onrecord("show", "one", "--follow")
    assert [line.split()[0] for line in shown.stdout.splitlines()[1:]] == ["1", "2"], shown.output


def test_a_run_that_has_ended_is_shown_and_left() -> None:
    record("one")
    result = onrecord("show", "one", "--follow")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == ["1", "2", "3", "4"]
    assert onrecord("show", "one", "--follow", "--from", "5").exit_code == 0
    assert onrecord("show", "one", "--follow", "--from", "9").exit_code == 2


def test_a_long_run_begins_with_its_last_events() -> None:
    record("one", [*(StateUpdated(payload=number) for number in range(200)), Completed()])
    lines = onrecord("show", "one", "--follow", "--limit", "3").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["199", "200", "201"]


def test_why_nothing_comes_is_said() -> None:
    record("one", [WaitCreated(wait_id="w", name="approval")])
    with Terminal("show", "one", "--follow") as terminal:
        terminal.wait_for("the run is waiting (approval)")
        terminal.press_ctrl_c()
        assert terminal.end() == 130


RESTING = """
import sys, time, types
import onrecord.cli.render.follow as follow
from onrecord.cli.main import run
def sleep(seconds):
    print("resting", flush=True)
    time.sleep(seconds)
follow.time = types.SimpleNamespace(sleep=sleep, monotonic=time.monotonic)
sys.argv[1:] = ["show", "one", "--follow"]
run()
"""


def test_ctrl_c_ends_it_and_the_run_goes_on() -> None:
    with opened() as store, Journal.create(store, "one") as journal:
        journal.append(StateUpdated(payload=1))
        with Terminal(code=RESTING) as terminal:
            terminal.wait_for("StateUpdated")
            terminal.wait_for("resting")
            terminal.press_ctrl_c()
            assert terminal.end() == 130
            assert "Go on: onrecord show one --follow --from 2" in terminal.text
            assert "Traceback" not in terminal.text
        journal.append(Completed())
    assert onrecord("verify", "one").exit_code == 0


def test_as_json_each_line_is_an_event_and_the_last_says_where_it_ended() -> None:
    record("one")
    lines = [json.loads(line) for line in onrecord("show", "one", "--follow", "--json").stdout.splitlines()]
    assert lines[:-1] == onrecord_json("show", "one")["timeline"]
    head = onrecord_json("show", "one")["head"]
    assert lines[-1] == {"end": {"run": "one", "events": 4, "head": f"4:{head}", "damaged": 0}}


def test_many_lanes_of_a_live_run_share_few_columns() -> None:
    with opened() as store, Journal.create(store, "one") as journal:
        for number in range(30):
            at, lane = 2 * number + 1, f"main>a#{number + 1}"
            asked = ActionRequested(action_id=f"a{at}", payload=number, name="job", effect="tool_call")
            journal.append(Draft(asked, lane=lane))
            journal.append(Draft(ActionSucceeded(action_id=f"a{at}", output=1), parent=at, lane=lane))
        journal.append(Completed())
    with Terminal("show", "one", "--follow", columns=120, rows=200) as terminal:
        assert terminal.end() == 0
        gutters = [line.split()[3] for line in terminal.screen if "Action" in line]
        assert max(map(len, gutters)) <= 2


def test_followers_hold_nobody_up() -> None:
    """A process that follows while another one records: both come to their ends."""
    with opened() as store, Journal.create(store, "one") as journal:
        journal.append(asking("q", "a"))
        command = [sys.executable, "-m", "onrecord.cli.main", "show", "one", "--follow", "--json", "--store", STORE]
        followers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        outputs: list[str] = []
        readers = [threading.Thread(target=lambda one=one: outputs.append(one.communicate()[0])) for one in followers]
        for reader in readers:
            reader.start()
        for number in range(200):
            journal.append(StateUpdated(payload=number))
        journal.append(Completed())
        for reader in readers:
            reader.join(60)
    assert all(one.returncode == 0 for one in followers)
    assert outputs[0] == outputs[1]
    assert [json.loads(line)["seq"] for line in outputs[0].splitlines()[:-1]] == list(range(1, 204))


def test_a_run_that_is_not_there() -> None:
    record("one", whole_run())
    assert onrecord("show", "another", "--follow").exit_code == 3
