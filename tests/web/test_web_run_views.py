"""What the page of a run is made of, over HTTP."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from kit.web import V1, Served, command, events_of_stream, flip_content, once, record, serving, states, whole_run
from onrecord.core.events import ActionFailed, ActionRequested, ActionSucceeded, Completed, StateUpdated
from onrecord.journal.chain import Draft
from onrecord.runtime.forks.fork import begin_fork
from onrecord.store.factory import open_store


def asked(number: int, payload: Any, lane: str = "main", effect: str = "model_call") -> Draft:
    request = ActionRequested(action_id=f"a{number}", payload=payload, name="ask", effect=effect)
    return Draft(request, lane=lane, key=f"{lane}/ask/{number}")


def answered(number: int, request: int, output: Any, lane: str = "main") -> Draft:
    return Draft(ActionSucceeded(action_id=f"a{number}", output=output), parent=request, lane=lane)


def chat(*texts: str) -> dict[str, Any]:
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)], "model": "gpt-4o"}


def reply(text: str, tokens: int = 0) -> dict[str, Any]:
    usage = {"prompt_tokens": tokens, "completion_tokens": 0}
    return {"choices": [{"message": {"role": "assistant", "content": text}}], "model": "gpt-4o", "usage": usage}


# Rows


def test_a_row_says_what_came_of_a_request(url: str) -> None:
    record(
        url, "first", [asked(1, chat("hi")), answered(1, 1, reply("hello", 7)), StateUpdated(payload=3), Completed()]
    )
    with serving(url) as served:
        page = served.json("/runs/first/spans")
        request, answer, state, end = page["rows"]
        assert (request["name"], request["effect"], request["model"]) == ("ask", "model_call", "gpt-4o")
        assert (request["answer"], request["outcome"], request["tokens"]) == (2, "succeeded", 7)
        assert request["took_us"] == answer["time"] - request["time"]
        assert (answer["parent"], answer["name"], answer["tokens"]) == (1, "ask", 7)
        assert state["gist"] == "3"
        assert end["kind"] == "Completed"
        assert (page["status"], page["events"], page["next"]) == ("completed", 4, None)
        assert (page["first_us"], page["last_us"]) == (request["time"], end["time"])


def test_an_answer_behind_the_page_is_found(served: Served, path: str) -> None:
    record(path, "far", [asked(1, chat("hi")), *states(100), answered(1, 1, reply("hello", 5)), asked(2, chat("x"))])
    page = served.json("/runs/far/spans", limit=1)
    assert (page["rows"][0]["answer"], page["rows"][0]["tokens"], page["next"]) == (102, 5, 2)
    rows = served.json("/runs/far/spans", **{"from": 102})["rows"]
    assert (rows[0]["parent"], rows[0]["name"]) == (1, "ask"), "its request stands before the page"
    assert "outcome" not in rows[1], "it has no answer yet"


def test_rows_of_a_damaged_run(served: Served, path: str) -> None:
    flip_content(path, "first", 2)
    rows = served.json("/runs/first/spans")["rows"]
    assert "does not match" in rows[1]["damage"]
    assert rows[0]["name"] == "ask"
    assert rows[3]["kind"] == "Completed"


def test_large_values_make_short_rows(served: Served, path: str) -> None:
    record(path, "large", [StateUpdated(payload={"text": "x" * 1_000_000, "list": list(range(100_000))})])
    answer = served.get("/runs/large/spans")
    assert len(answer.content) < 2_000


def test_positions_that_cannot_be(served: Served) -> None:
    assert served.code("/runs/first/spans", 400, **{"from": 99}) == "bad_position"
    assert served.code("/runs/first/spans", 400, limit=0) == "bad_parameter"
    assert served.code("/runs/first/overview", 400, buckets=0) == "bad_parameter"
    assert served.code("/runs/first/usage", 400, after=99) == "bad_position"
    for path in ("events/99/details", "events/99/difference", "context/99"):
        assert served.code(f"/runs/first/{path}", 404) == "bad_position"
    for path in ("spans", "standing", "overview", "usage", "conversation", "family", "events/1/details", "verifying"):
        assert served.code(f"/runs/nobody/{path}", 404) == "unknown_run"


def test_an_overview_has_few_parts(served: Served, path: str) -> None:
    record(path, "long", states(1_000))
    samples = served.json("/runs/long/overview", buckets=10)["samples"]
    assert [one["seq"] for one in samples] == [*range(1, 1_000, 100), 1_000]
    assert sorted(one["time"] for one in samples) == [one["time"] for one in samples]
    assert len(served.json("/runs/first/overview")["samples"]) == 4
    record(path, "empty", [])
    assert served.json("/runs/empty/overview")["samples"] == []


def test_usage_is_added_up_page_by_page(served: Served, path: str) -> None:
    events: list[Any] = []
    for number in range(10):
        events += [asked(number, chat("hi")), answered(number, 2 * number + 1, reply("x", 10))]
    record(path, "costly", events)
    whole = served.json("/runs/costly/usage")
    assert (whole["tokens"], whole["effects"], whole["next"]) == (100, 10, None)
    tokens, after, pages = 0, 0, 0
    while after is not None:
        page = served.json("/runs/costly/usage", after=after, limit=3)
        tokens, after, pages = tokens + page["tokens"], page["next"], pages + 1
    assert (tokens, pages) == (100, 7)


# One event


def test_an_event_in_detail(served: Served, path: str) -> None:
    details = served.json("/runs/first/events/2/details")
    plain = served.json("/runs/first/events/2")
    assert {name: details[name] for name in plain} == plain
    assert (details["request"], details["answer"], details["cut"]) == (1, None, False)
    assert json.loads(details["stored"]["link"])["seq"] == 2
    assert json.loads(details["stored"]["content"]) == plain["content"]
    assert details["previous"] == served.json("/runs/first/events/1")["hash"]
    assert served.json("/runs/first/events/1/details")["answer"] == 2
    flip_content(path, "first", 2)
    damaged = served.json("/runs/first/events/2/details")
    assert damaged["content"] is None
    assert "does not match" in damaged["damage"]


def test_long_parts_are_cut_and_artifacts_named(served: Served, path: str) -> None:
    value = {"text": "x" * 1_000_000, "many": list(range(5_000)), "file": b"y" * 100_000}
    record(path, "large", [StateUpdated(payload=value)])
    details = served.json("/runs/large/events/1/details")
    assert details["cut"]
    assert details["content"]["payload"]["text"].endswith("… (980,000 more characters)")
    assert details["content"]["payload"]["many"][-1] == "… (4,800 more)"
    (artifact,) = details["artifacts"]
    assert served.get(f"/artifacts/{artifact['digest']}").content == b"y" * 100_000
    assert served.json("/runs/large/events/1")["content"]["payload"]["text"] == value["text"]
    cut, whole = served.json("/runs/large/state", cut="true"), served.json("/runs/large/state")
    assert cut["cut"]
    assert len(json.dumps(cut)) < 40_000
    assert (cut["state_hash"], cut["set_by"]) == (whole["state_hash"], 1)


def test_the_difference_to_the_call_before(served: Served, path: str) -> None:
    record(
        path,
        "twice",
        [
            asked(0, chat("Where is order A-17?")),
            answered(0, 1, reply("lost")),
            asked(0, {}, lane="main>a"),
            asked(1, chat("Where is order B-4?", "lost", "again")),
            answered(1, 4, reply("found")),
        ],
    )
    assert served.json("/runs/twice/events/4/details")["before"] == 1, "of the same lane"
    found = served.json("/runs/twice/events/4/difference")
    assert (found["before"], found["total"]) == (1, 3)
    changed = next(one for one in found["differences"] if one["kind"] == "changed")
    assert changed["path"] == "/payload/messages/0/content"
    assert {"kind": "added", "text": "B"} in changed["words"]
    assert served.json("/runs/twice/events/5/difference")["before"] == 2, (
        "an answer is compared with that call's answer"
    )
    assert served.code("/runs/twice/events/1/difference", 404) == "no_call_before"
    same = served.json("/runs/twice/events/4/difference", to=4)
    assert (same["equal"], same["differences"]) == (True, [])


# Conversations


def test_what_was_said_before_is_not_said_again(served: Served, path: str) -> None:
    record(
        path,
        "talk",
        [
            asked(0, chat("one")),
            answered(0, 1, reply("two", 3)),
            asked(1, chat("one", "two", "three")),
            answered(1, 3, reply("four")),
            asked(2, chat("one", "changed")),
            Draft(ActionFailed(action_id="a2", error="no such model"), parent=5),
        ],
    )
    first, second, third = served.json("/runs/talk/conversation")["calls"]
    assert [one["text"] for one in first["messages"]] == ["one"]
    assert (first["message"]["text"], first["used"]["tokens"]) == ("two", 3)
    assert [one["text"] for one in second["messages"]] == ["three"]
    assert (second["before"], second["repeated"], second["own_answer"], second["dropped"]) == (1, 1, True, 0)
    assert (third["dropped"], third["outcome"], third["error"]) == (2, "failed", "no such model")
    page = served.json("/runs/talk/conversation", **{"from": 3})
    assert page["calls"] == [second, third], "a page tells the same, wherever it begins"
    assert served.json("/runs/talk/conversation", at=4)["from"] == 3
    assert served.json("/runs/talk/conversation", before=5, limit=1)["calls"] == [second]


def test_a_long_run_with_few_calls_is_read_in_parts(served: Served, path: str) -> None:
    record(path, "seldom", [*states(3_000), asked(0, chat("hi")), answered(0, 3_001, "hello")])
    page = served.json("/runs/seldom/conversation")
    assert (page["calls"], page["next"]) == ([], 2_001)
    (call,) = served.json("/runs/seldom/conversation", **{"from": page["next"]})["calls"]
    assert call["message"]["text"] == "hello"


# Families


def test_a_family(url: str) -> None:
    record(url, "first")
    record(url, "stranger")
    store = open_store(url)
    begin_fork(store, "first", 2, run_id="fork-one")
    begin_fork(store, "fork-one", 0, run_id="fork-of-fork")
    begin_fork(store, "first", 3, run_id="fork-two")
    store.close()
    with serving(url) as served:
        for run in ("first", "fork-of-fork"):
            members = served.json(f"/runs/{run}/family")["members"]
            told = {one["run"]: (one["depth"], one["relation"], one["parent"], one["at"]) for one in members}
            assert told == {
                "first": (0, None, None, None),
                "fork-one": (1, "fork", "first", 2),
                "fork-of-fork": (2, "fork", "fork-one", 0),
                "fork-two": (1, "fork", "first", 3),
            }
        assert len(served.json("/runs/stranger/family")["members"]) == 1


# Verification that tells how far it is


def watched(served: Served, run: str) -> list[dict[str, str]]:
    with served.client.stream("GET", f"{V1}/runs/{run}/verifying") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        return list(events_of_stream(answer.iter_lines()))


def test_verification_tells_how_far_it_is(served: Served, path: str) -> None:
    record(path, "long", states(5_000))
    *progress, end = watched(served, "long")
    assert [json.loads(one["data"])["done"] for one in progress] == [2_000, 4_000, 5_000]
    assert end["event"] == "end"
    assert json.loads(end["data"]) == served.json("/runs/long/verify") == command(path, "verify", "long")
    flip_content(path, "long", 77)
    assert json.loads(watched(served, "long")[-1]["data"])["first_bad_seq"] == 77


def test_whoever_leaves_ends_the_verification(served: Served, path: str) -> None:
    record(path, "long", states(8_000))
    for _ in range(40):  # more than there is room for at once
        with served.client.stream("GET", f"{V1}/runs/long/verifying") as answer:
            next(answer.iter_lines())
    assert served.json("/runs/first/verify")["valid"]


def test_followers_may_leave_contents_out(served: Served) -> None:
    with served.client.stream("GET", f"{V1}/runs/first/follow", params={"brief": "true"}) as answer:
        *found, end = (one for one in events_of_stream(answer.iter_lines()) if "data" in one)
    assert [json.loads(one["data"])["kind"] for one in found][-1] == "Completed"
    assert set(json.loads(found[0]["data"])) == {"seq", "kind", "lane", "time"}
    assert end["event"] == "end"


def test_what_is_in_doubt_is_told(served: Served, path: str) -> None:
    record(path, "doubtful", [once(1)])
    assert served.json("/runs/doubtful/standing")["status"] == "in_doubt"
    assert served.json("/runs/doubtful/spans")["status"] == "in_doubt"


@pytest.mark.parametrize("path", ["spans", "standing", "overview", "usage", "conversation", "family", "verifying"])
def test_a_stranger_is_not_let_in(served: Served, path: str) -> None:
    assert served.stranger.get(f"{V1}/runs/first/{path}").status_code == 401
    foreign = httpx.Headers({"origin": "https://evil.example"})
    assert served.client.get(f"{V1}/runs/first/{path}", headers=foreign).status_code == 403
    assert served.client.post(f"{V1}/runs/first/{path}", json={}).status_code == 405


def test_the_context_of_a_call_is_what_the_command_line_prints(served: Served, path: str) -> None:
    record(path, "talk", whole_run())
    assert served.json("/runs/talk/context/1")["messages"][0]["text"] == "2+2?"


def test_brief_followers_are_told_how_the_run_stands(served: Served, path: str) -> None:
    record(path, "doubtful", [once(1)])
    with served.client.stream("GET", f"{V1}/runs/doubtful/follow", params={"brief": "true"}) as answer:
        told = events_of_stream(answer.iter_lines())
        standing = next(one for one in told if one.get("event") == "standing")
    assert json.loads(standing["data"]) == served.json("/runs/doubtful/standing")
