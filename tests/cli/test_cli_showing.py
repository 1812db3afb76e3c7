"""`onrecord show`"""

from __future__ import annotations

from typing import Any

import pytest

from kit.cli import (
    asking,
    assert_two_lines,
    blocked_run,
    exported,
    flip_content,
    flip_link,
    onrecord,
    onrecord_json,
    opened,
    record,
)
from onrecord.core.events import Completed, Event, StateUpdated
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal


def test_the_timeline() -> None:
    record("one", facts={"agent": "tester", "command": ["python", "agent.py"]})
    text = onrecord("show", "one").stdout
    assert "run      one" in text
    assert 'command  ["python", "agent.py"]' in text
    lines = text.splitlines()
    events = lines[lines.index("") + 2 :]
    assert [line.split()[0] for line in events] == ["1", "2", "3", "4"]
    assert [line.split()[3] for line in events] == ["ActionRequested", "ActionSucceeded", "StateUpdated", "Completed"]
    assert '"the answer is 4"' in events[1]
    assert "ask" in events[0]


def test_the_timeline_as_json() -> None:
    record("one")
    shown = onrecord_json("show", "one")
    assert [event["kind"] for event in shown["timeline"]][-1] == "Completed"
    assert shown["timeline"][1]["content"]["output"] == "the answer is 4"
    assert shown["timeline"][1]["parent"] == 1
    assert shown["facts"] == {"agent": "tester"}
    assert shown["next"] is None
    assert shown["status"] == "completed"


def test_one_event_in_full() -> None:
    long = "x" * 5000
    record("one", [*asking("q", {"text": long, "more": [1, 2.0]}), Completed()])
    result = onrecord("show", "one", "--event", "2")
    assert long in result.stdout
    assert "2.0" in result.stdout
    assert onrecord_json("show", "one", "--event", "2")["content"]["output"] == {"text": long, "more": [1, 2.0]}


def test_an_answer_says_what_it_answers_and_what_it_used() -> None:
    usage = {"model": "m", "usage": {"input_tokens": 7, "output_tokens": 3, "cost": 0.25}}
    record("one", [*asking("q", usage), Completed()])
    text = onrecord("show", "one", "--event", "2").stdout
    assert "answers  event 1 ask" in text
    assert "took " in text
    assert "used     1 model call, 10 tokens, $0.2500" in text
    assert "answers" not in onrecord("show", "one", "--event", "1").stdout
    assert "used     1 model call, 10 tokens, $0.2500" in onrecord("show", "one").stdout


def test_values_without_a_json_form_are_shown_with_their_tags() -> None:
    record("one", [StateUpdated(payload={"data": b"\x00\x01", "pair": (1, 2)}), Completed()])
    assert onrecord_json("show", "one", "--event", "1")["content"]["payload"]["data"] == {"$bytes": "AAE="}
    assert onrecord_json("show", "one", "--state", "1")["state"]["pair"] == {"$tuple": [1, 2]}


def test_the_state_at_a_position() -> None:
    record("one", [StateUpdated(payload={"n": 1}), StateUpdated(payload={"n": 2}), Completed()])
    states = [onrecord_json("show", "one", "--state", str(n)) for n in range(4)]
    assert [state["state"] for state in states] == [None, {"n": 1}, {"n": 2}, {"n": 2}]
    assert states[2]["state_hash"] == states[3]["state_hash"] != states[1]["state_hash"]
    assert '"n": 1' in onrecord("show", "one", "--state", "1").stdout


class Counting:
    id = "counting/1"
    state_version = 1

    def initial(self) -> int:
        return 0

    def apply(self, state: int, event: Event) -> int:
        return state + 1


def test_the_state_of_a_foreign_reducer_is_not_guessed() -> None:
    with opened() as store, Journal.create(store, "one", reducer=Counting()) as journal:
        journal.append(StateUpdated(payload="update"))
    result = onrecord("show", "one", "--state", "1")
    assert result.exit_code == 2
    assert_two_lines(result.stderr, "other_reducer")


@pytest.mark.parametrize(
    "arguments",
    [["--event", "5"], ["--event", "0"], ["--state", "5"], ["--from", "9"], ["--event", "1", "--state", "1"]],
)
def test_a_position_that_is_not_there_is_refused(arguments: list[str]) -> None:
    record("one")
    result = onrecord("show", "one", *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 2


def test_a_long_run_is_shown_in_parts() -> None:
    record("one", [*(StateUpdated(payload=number) for number in range(120)), Completed()])
    first = onrecord("show", "one")
    assert "--from 101" in first.stderr
    rest = onrecord_json("show", "one", "--from", "101")
    assert [event["seq"] for event in rest["timeline"]] == list(range(101, 122))
    assert rest["next"] is None
    assert onrecord_json("show", "one", "--from", "3", "--limit", "2")["next"] == 5
    assert onrecord("show", "one", "--limit", "121").stderr == ""


def test_hostile_contents_are_inert() -> None:
    hostile = "\x1b[2J\x1b]8;;http://evil\x07\u202e\u2066\x9b\x7f\r\nfake: VALID"
    record(
        "one",
        [
            Draft(StateUpdated(payload={hostile: hostile}, step_id=hostile), key=hostile),
            *asking(hostile, hostile, at=2),
            Completed(output=hostile),
        ],
        facts={"agent": hostile, hostile: hostile},
    )
    outputs = [
        onrecord("show", "one"),
        onrecord("show", "one", "--event", "1"),
        onrecord("show", "one", "--state", "1"),
        onrecord("show", "one", "--json"),
        onrecord("show", "one", "--event", "3", "--json"),
    ]
    for result in outputs:
        assert result.exit_code == 0
        assert not set("\x1b\x07\x9b\x7f\r\u202e\u2066") & set(result.output)
        assert not any(line.startswith("fake") for line in result.output.splitlines())


def test_erased_events_say_so() -> None:
    record("one", [StateUpdated(payload="keep"), StateUpdated(payload="forget me"), Completed()])
    assert onrecord("erase", "--value", "forget me", "--yes").exit_code == 0
    assert "(erased)" in onrecord("show", "one").stdout
    assert "was erased" in onrecord("show", "one", "--event", "2").stdout
    assert onrecord_json("show", "one", "--event", "2")["erased"] is True
    # The state after an erased update is unknown: neither the one before it nor null.
    result = onrecord("show", "one", "--state", "2")
    assert result.exit_code == 2
    assert_two_lines(result.stderr, "erased")
    assert onrecord_json("show", "one", "--state", "1")["state"] == "keep"


@pytest.mark.parametrize("damage", [flip_content, flip_link])
def test_a_damaged_event_is_marked_and_the_others_are_shown(damage: Any) -> None:
    record("one")
    damage("one", 2)
    result = onrecord("show", "one")
    assert result.exit_code == 4
    assert result.stdout.count("DAMAGED") == 1
    assert '"4"' in result.stdout
    assert_two_lines(result.stderr, "damaged")
    shown = onrecord_json("show", "one", status=4)
    assert [event["seq"] for event in shown["timeline"] if event["damage"]] == [2]
    single = onrecord("show", "one", "--event", "2")
    assert single.exit_code == 4
    assert_two_lines(single.stderr, "damaged")


def test_a_blocked_and_an_imported_run() -> None:
    record("one", blocked_run())
    assert "blocked" in onrecord("show", "one").stdout
    exported("one")
    onrecord("import", "run.jsonl", "--store", "other.db")
    assert "recorded elsewhere" in onrecord("show", "one", "--store", "other.db").stdout


def test_a_deeply_nested_value() -> None:
    deep: Any = "core"
    for _ in range(200):
        deep = [deep]
    record("one", [StateUpdated(payload=deep), Completed()])
    for arguments in (["--event", "1"], ["--event", "1", "--json"], ["--state", "1"], []):
        assert onrecord("show", "one", *arguments).exit_code == 0
    assert "core" in onrecord("show", "one", "--event", "1").stdout
