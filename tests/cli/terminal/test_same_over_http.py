"""`--json` says what the HTTP interface says: the same report, byte for byte the same values."""

from __future__ import annotations

import json

import pytest

from kit.cli import STORE, asking, onrecord, onrecord_json, record
from kit.web import V1, serving
from onrecord.core.events import ActionRequested, Completed, StateUpdated, WaitCreated

PAIRS = (
    (["ls"], "/runs", {}),
    (["ls", "--limit", "1"], "/runs", {"limit": 1}),
    (["ls", "--status", "completed", "--agent", "tester"], "/runs", {"status": "completed", "agent": "tester"}),
    (["ls", "--all-kinds"], "/runs", {"all_kinds": "true"}),
    (["show", "one"], "/runs/one/events", {}),
    (["show", "one", "--from", "2", "--limit", "1"], "/runs/one/events", {"from": 2, "limit": 1}),
    (["show", "one", "--event", "2"], "/runs/one/events/2", {}),
    (["show", "one", "--state", "3"], "/runs/one/state", {"at": 3}),
    (["show", "one", "--context", "--event", "1"], "/runs/one/context/1", {}),
    (["verify", "one"], "/runs/one/verify", {}),
    (["verify", "one", "--deep"], "/runs/one/verify", {"deep": "true"}),
    (["waits", "waiting"], "/runs/waiting/waits", {}),
    (["diff", "one", "two"], "/runs/one/diff/two", {}),
    (["diff", "one", "two", "--first-only"], "/runs/one/diff/two", {"first_only": "true"}),
)


def test_each_command_and_its_resource() -> None:
    record("one", [*asking("2+2?", "4"), StateUpdated(payload={"sum": 4}), Completed()])
    record("two", [*asking("2+2?", "5"), Completed()])
    record("waiting", [WaitCreated(wait_id="w", name="approval")])
    with serving(STORE) as served:
        for arguments, path, parameters in PAIRS:
            status = 1 if arguments[0] == "diff" else 0
            assert onrecord_json(*arguments, status=status) == served.json(path, **parameters), arguments


def test_a_timeline_line_by_line() -> None:
    record("one", [*asking("2+2?", "4"), Completed()])
    with serving(STORE) as served:
        answer = served.client.get(f"{V1}/runs/one/timeline")
    lines = onrecord("show", "one", "--follow", "--json").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [json.loads(line) for line in answer.text.splitlines()]


@pytest.mark.parametrize(
    ("arguments", "path"),
    [(["show", "nothing"], "/runs/nothing"), (["show", "one", "--context"], "/runs/one/context/1")],
)
def test_errors_have_the_same_code(arguments: list[str], path: str) -> None:
    record("one", [ActionRequested(action_id="a1", payload=1, name="mail", effect="tool_call")])
    said = json.loads(onrecord(*arguments, "--json").stdout)["error"]
    with serving(STORE) as served:
        answer = served.get(path).json()["error"]
    assert said.keys() == answer.keys()
    assert said["code"] == answer["code"]
