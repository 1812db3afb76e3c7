"""What was recorded, over HTTP: the same as on the command line, page by page."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kit.postgres_server import private_server
from kit.web import V1, Served, command, flip_content, once, problem, record, serving, states, until, whole_run
from onrecord.core.events import StateUpdated
from onrecord.core.wait_keys import WaitIdentity
from onrecord.runtime.waits import WaitRegistry
from onrecord.store.factory import open_store
from onrecord.web import read_endpoints as reading


def test_every_answer_is_what_the_command_line_prints(url: str) -> None:
    record(url, "first")
    record(url, "second", whole_run(answer={"n": 5}))
    with serving(url) as served:
        shown = command(url, "show", "first")
        header = {name: value for name, value in shown.items() if name not in ("timeline", "next")}
        assert served.json("/runs/first") == header
        assert served.json("/runs/first/events") == shown
        assert served.json("/runs/first/events", **{"from": 2, "limit": 1}) == command(
            url, "show", "first", "--from", "2", "--limit", "1"
        )
        assert served.json("/runs/first/events/2") == command(url, "show", "first", "--event", "2")
        assert served.json("/runs/first/state", at=3) == command(url, "show", "first", "--state", "3")
        assert served.json("/runs/first/state") == command(url, "show", "first", "--state", "4")
        assert served.json("/runs/first/verify") == command(url, "verify", "first")
        assert served.json("/runs/first/verify", deep="true") == command(url, "verify", "first", "--deep")
        assert served.json("/runs/first/diff/second") == command(url, "diff", "first", "second")
        assert served.json("/runs/first/receipts") == {**command(url, "receipt", "mint", "first"), "next": None}
        assert served.json("/runs/first/waits", all="true") == command(url, "waits", "first", "--all")
        listed, printed = served.json("/runs"), command(url, "ls")
        assert listed["runs"] == printed["runs"]
        assert listed["more"] is printed["more"] is False


def test_a_run_is_named_by_id_beginning_or_place(served: Served, path: str) -> None:
    record(path, "second-run")
    assert served.json("/runs/second")["run"] == "second-run"
    assert served.json("/runs/@last")["run"] == "second-run"
    assert served.json("/runs/@last~1")["run"] == "first"
    assert served.json("/runs/%40last")["run"] == "second-run"
    record(path, "second-other")
    assert served.code("/runs/second", 400) == "ambiguous_run"
    assert served.code("/runs/@first", 400) == "bad_run"
    assert served.code("/runs/@last~999999", 400) == "bad_run"
    assert served.code("/runs/@last~9", 404) == "unknown_run"


PATHS_OF_A_RUN = (
    "",
    "/events",
    "/events/1",
    "/timeline",
    "/recording",
    "/state",
    "/verify",
    "/receipts",
    "/replay",
    "/follow",
    "/waits",
    "/diff/first",
)


@pytest.mark.parametrize("rest", PATHS_OF_A_RUN)
def test_an_unknown_run_is_never_an_empty_success(shared: Served, rest: str) -> None:
    assert shared.code(f"/runs/nobody{rest}", 404) == "unknown_run"
    assert shared.code("/runs/first/diff/nobody", 404) == "unknown_run"


def test_a_run_of_another_namespace_is_unknown(served: Served, path: str) -> None:
    record(path, "theirs", namespace="other")
    assert served.code("/runs/theirs", 404) == "unknown_run"
    assert [one["run"] for one in served.json("/runs")["runs"]] == ["first"]
    with serving(path, "other") as other:
        assert other.json("/runs/theirs")["namespace"] == "other"


def test_pages_of_events_are_resumed_by_seq(served: Served, path: str) -> None:
    record(path, "long", states(25))
    seen: list[int] = []
    after = 0
    while True:
        page = served.json("/runs/long/events", after=after, limit=10)
        seen += [one["seq"] for one in page["timeline"]]
        if page["next"] is None:
            break
        assert page["next"] == seen[-1] + 1
        after = seen[-1]
    assert seen == list(range(1, 26))
    assert served.json("/runs/long/events", after=25)["timeline"] == []


def test_a_page_ends_early_when_it_grows_large(served: Served, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record(path, "wide", states(10, 4_000))
    monkeypatch.setattr(reading, "PAGE_BYTES", 10_000)
    page = served.json("/runs/wide/events")
    assert [one["seq"] for one in page["timeline"]] == [1, 2]
    assert page["next"] == 3
    monkeypatch.setattr(reading, "PAGE_BYTES", 10)
    assert len(served.json("/runs/wide/events")["timeline"]) == 1, "one event always comes"


@pytest.mark.parametrize(
    ("path_of_run", "parameters"),
    [
        ("/events", {"limit": "0"}),
        ("/events", {"limit": "-1"}),
        ("/events", {"limit": "1001"}),
        ("/events", {"limit": "9" * 40}),
        ("/events", {"limit": "ten"}),
        ("/events", {"limit": "1e1"}),
        ("/events", {"limit": "٣"}),
        ("/events", {"after": "-1"}),
        ("/events", {"after": "5"}),
        ("/events", {"after": "1\n"}),
        ("/events", {"from": "0"}),
        ("/events", {"from": "1", "after": "1"}),
        ("/events", {"limits": "1"}),
        ("/events/0", {}),
        ("/events/-1", {}),
        ("/events/one", {}),
        ("/events/1%20", {}),
        ("/events/" + "9" * 30, {}),
        ("/state", {"at": "-1"}),
        ("/state", {"at": "99"}),
        ("/timeline", {"after": "99"}),
        ("/verify", {"deep": "yes"}),
        ("/receipts", {"after": "-1"}),
        ("/replay", {"limit": "0"}),
        ("/replay", {"after": "99"}),
        ("/diff/first", {"limit": "10001"}),
        ("/follow", {"after": "99"}),
        ("", {"verbose": "true"}),
    ],
)
def test_what_cannot_be_is_refused(shared: Served, path_of_run: str, parameters: dict[str, str]) -> None:
    shared.code(f"/runs/first{path_of_run}", 400, **parameters)


def test_a_parameter_given_twice_is_refused(served: Served) -> None:
    answer = served.client.get(V1 + "/runs/first/events?limit=1&limit=2")
    assert problem(answer, 400) == "repeated_parameter"


def test_an_event_behind_the_end_is_not_there(served: Served) -> None:
    assert served.code("/runs/first/events/5", 404) == "bad_position"


def test_runs_are_filtered(url: str) -> None:
    record(url, "done")
    record(url, "open", states(1), facts={"agent": "other"})
    record(url, "doubtful", [once(1)])
    with serving(url) as served:

        def names(**parameters: str) -> list[str]:
            return [one["run"] for one in served.json("/runs", **parameters)["runs"]]

        assert names() == ["doubtful", "open", "done"]
        assert names(status="completed") == ["done"]
        assert names(status="in_doubt") == ["doubtful"]
        assert names(status="interrupted") == ["open"]
        assert names(agent="other") == ["open"]
        assert names(agent="tester", status="completed") == ["done"]
        assert names(agent="nobody") == []
        several = served.client.get(V1 + "/runs?status=completed&status=in_doubt&agent=tester&agent=other")
        assert [one["run"] for one in several.json()["runs"]] == ["doubtful", "done"]
        printed = command(url, "ls", "--status", "completed", "--status", "in_doubt")
        assert several.json()["runs"] == printed["runs"]
        times = {one["run"]: one["created"] for one in served.json("/runs")["runs"]}
        assert names(since=times["open"]) == ["doubtful", "open"]
        assert names(until=times["open"]) == ["done"]
        assert names(since=times["open"], until=times["doubtful"]) == ["open"]


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"status": "asleep"}, "bad_status"),
        ({"since": "yesterday"}, "bad_time"),
        ({"since": "2026-01-31T12:00:00"}, "bad_time"),
        ({"until": "9999-99-99T00:00Z"}, "bad_time"),
        ({"cursor": "nonsense"}, "bad_cursor"),
        ({"cursor": "MTox'--"}, "bad_cursor"),
        ({"cursor": "MTouLi9ldGM"}, "bad_cursor"),
        ({"limit": "1000000"}, "bad_parameter"),
        ({"order": "run; DROP TABLE runs"}, "unknown_parameter"),
    ],
)
def test_filters_that_cannot_be_are_refused(shared: Served, parameters: dict[str, str], code: str) -> None:
    assert shared.code("/runs", 400, **parameters) == code


def test_pages_of_runs_hold_each_run_once_while_others_begin(url: str) -> None:
    for number in range(7):
        record(url, f"run-{number}", states(1))
    with serving(url) as served:
        page = served.json("/runs", limit=3)
        found = [one["run"] for one in page["runs"]]
        record(url, "newcomer", states(1))
        while page["next"] is not None:
            page = served.json("/runs", limit=3, cursor=page["next"])
            found += [one["run"] for one in page["runs"]]
    assert found == [f"run-{number}" for number in reversed(range(7))]


def test_a_rare_run_is_found_behind_pages_that_are_short(served: Served, path: str, monkeypatch: Any) -> None:
    for number in range(6):
        record(path, f"run-{number}", states(1))
    monkeypatch.setattr("onrecord.journal.reader.RUNS_AT_ONCE", 2)
    monkeypatch.setattr("onrecord.reports.runs.LOOKED_AT_MOST", 2)
    page = served.json("/runs", status="completed")
    assert (page["runs"], page["more"]) == ([], True)
    pages = 1
    while not page["runs"]:
        page = served.json("/runs", status="completed", cursor=page["next"])
        pages += 1
    assert [one["run"] for one in page["runs"]] == ["first"]
    assert pages == 4


def test_what_is_kept_beside_runs_is_not_taken_for_one(served: Served, path: str) -> None:
    record(path, "kept", states(1), facts={"kind": "difference"})
    assert [one["run"] for one in served.json("/runs")["runs"]] == ["first"]
    assert served.json("/runs/@last")["run"] == "first"
    assert served.json("/runs", all_kinds="true")["runs"] == command(path, "ls", "--all-kinds")["runs"]
    assert served.json("/runs/kept")["events"] == 1, "by its name it is there"


def test_open_waits_of_all_runs_are_listed_without_their_keys(url: str) -> None:
    store = open_store(url)
    desk = WaitRegistry(store)
    record(url, "first")
    keys = [desk.key(run, WaitIdentity.named("approval")).text for run in ("asking", "asking-too")]
    store.close()
    with serving(url) as served:
        answer = served.get("/waits")
        assert [(one["run"], one["name"], one["state"]) for one in answer.json()["waits"]] == [
            ("asking-too", "approval", "open"),
            ("asking", "approval", "open"),
        ]
        assert not any(key in answer.text for key in keys)
        page = served.json("/waits", limit=1)
        assert [one["run"] for one in page["waits"]] == ["asking-too"]
        page = served.json("/waits", limit=1, cursor=page["next"])
        assert [one["run"] for one in page["waits"]] == ["asking"]
        assert served.json("/runs/asking/waits") == command(url, "waits", "asking")


def test_damage_is_shown_where_it_is(served: Served, path: str) -> None:
    flip_content(path, "first", 2)
    page = served.json("/runs/first/events")
    assert [one["seq"] for one in page["timeline"] if one["damage"]] == [2]
    assert served.get("/runs/first/events/2").status_code == 409
    assert served.code("/runs/first/events/2", 409) == "damaged"
    verdict = served.json("/runs/first/verify")
    assert (verdict["valid"], verdict["first_bad_seq"]) == (False, 2)
    assert served.code("/runs/first/receipts", 409)
    assert served.json("/runs/first/replay")["verdict"] == "damaged"
    assert served.get("/runs/first/recording").status_code == 409, "a damaged run is not exported as a whole one"
    lines = [json.loads(line) for line in served.get("/runs/first/timeline").text.splitlines()]
    assert lines[1]["damage"]
    assert lines[-1]["end"]["damaged"] == 1


def test_odd_values_are_served(served: Served, path: str) -> None:
    deep: Any = "bottom"
    for _ in range(400):
        deep = [deep]
    odd = ["\x00\x1b[2J\u202e<script>alert(1)</script>", "\ud800", 2**200, -0.0, float("nan"), {"__proto__": 1}, deep]
    for number, value in enumerate(odd):
        run = record(path, f"odd-{number}", [StateUpdated(payload=value)])
        printed = command(path, "show", run, "--event", "1")
        answer = served.get(f"/runs/{run}/events/1")
        assert answer.json() == printed
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_empty_runs_are_told(served: Served, path: str) -> None:
    record(path, "empty", [])
    shown = served.json("/runs/empty")
    assert (shown["events"], shown["status"]) == (0, "interrupted")
    assert served.json("/runs/empty/events")["timeline"] == []
    assert served.json("/runs/empty/state")["position"] == 0
    assert served.json("/runs/empty/replay")["verdict"] == "empty"


def test_head_answers_like_get_without_a_body(served: Served) -> None:
    for path in ("/runs", "/runs/first/timeline", "/runs/first/recording", "/runs/first/follow", "/runs/first/verify"):
        answer = served.client.head(V1 + path)
        assert answer.status_code == 200, path
        assert answer.content == b""
    assert served.client.head(V1 + "/runs/nobody").status_code == 404


def test_a_database_that_is_away_is_503_and_comes_back() -> None:
    with private_server() as database:
        url = database.url(database.fresh_database())
        record(url, "first")
        with serving(url) as served:
            served.json("/runs/first")
            database.stop_immediately()
            answer = served.get("/runs/first")
            problem(answer, 503)
            assert "onrecord@" not in answer.text
            assert answer.headers["retry-after"]
            database.start()
            until(lambda: served.get("/runs/first").status_code == 200)
