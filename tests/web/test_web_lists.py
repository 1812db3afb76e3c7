"""The endpoints over all runs: the list with what runs used, the search, what waits for somebody; and who may ask."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kit.web import (
    PLAIN,
    V1,
    Served,
    command,
    events_of_stream,
    once,
    problem,
    record,
    serving,
    states,
    status_of,
    until,
)
from onrecord.core.events import ActionRequested, ActionSucceeded, Completed, Interrupted, WaitCreated
from onrecord.core.wait_keys import WaitIdentity
from onrecord.journal.chain import Draft
from onrecord.journal.erasure import erase_value
from onrecord.journal.journal import Journal
from onrecord.runtime.forks.fork import begin_fork
from onrecord.runtime.secrets.keys import KeyRing
from onrecord.runtime.waits.registry import WaitRegistry
from onrecord.store.factory import open_store
from onrecord.web import list_feed as list_following

NEW = ["/overview", "/overview/follow", "/search?q=answer", "/attention"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def a_wait(url: str, run: str = "held", *, session: str | None = None, ring: KeyRing | None = None) -> str:
    record(url, run, [Interrupted({"question": "May I?"})])
    store = open_store(url)
    try:
        desk = WaitRegistry(store, keyring=ring)
        return desk.key(run, WaitIdentity.named("interrupt@main"), session=session).text
    finally:
        store.close()


def wait_of(served: Served, run: str = "held") -> dict[str, Any]:
    (found,) = [one for one in served.json("/attention")["runs"] if one["run"] == run]
    (wait,) = found["waits"]
    return dict(wait)


def resolve(served: Served, wait: str, body: Any, run: str = "held", **options: Any) -> httpx.Response:
    return served.client.post(f"{V1}/runs/{run}/waits/{wait}", json=body, **options)


# The list and the search


def test_the_list_with_what_runs_used(url: str) -> None:
    usage = {"input_tokens": 9, "output_tokens": 1, "cost": 0.5}
    asked = ActionRequested(action_id="a", payload="?", name="ask", effect="model_call")
    answered = Draft(ActionSucceeded(action_id="a", output={"model": "m", "usage": usage}), parent=1)
    record(url, "dear", [asked, answered, Completed(output=None)])
    record(url, "plain")
    store = open_store(url)
    begin_fork(store, "dear", 2, run_id="forked")
    store.close()
    with serving(url) as served:
        until(lambda: served.json("/overview")["runs"][2]["usage"] is not None)
        listed = served.json("/overview")
        assert [(line["run"], line["usage"]) for line in listed["runs"]] == [
            ("forked", None),
            ("plain", None),
            ("dear", {"tokens": 10, "cost": 0.5}),
        ]
        assert listed["runs"][0]["parent"] == {"run": "dear", "seq": 2, "relation": "fork"}
        plain = served.json("/runs")["runs"]
        assert [{name: line[name] for name in plain[0]} for line in listed["runs"]] == plain
        assert [one["run"] for one in served.json("/overview", min_cost=0.1)["runs"]] == ["dear"]
        assert [one["run"] for one in served.json("/overview", status="completed", limit=1)["runs"]] == ["plain"]


def test_the_search_is_that_of_the_command_line(url: str) -> None:
    record(url, "one")
    record(url, "two", states(3, 40))
    with serving(url) as served:
        assert served.json("/search", q="answer 4") == command(url, "search", "answer", "4")
        assert [hit["run"] for hit in served.json("/search", q='"the answer"')["hits"]] == ["one"]
        assert served.json("/search", q="zebra")["hits"] == []


def test_what_was_recorded_meanwhile_is_found_at_once(url: str) -> None:
    record(url, "one")
    with serving(url) as served:
        served.json("/search", q="answer")
        record(url, "two")
        assert [hit["run"] for hit in served.json("/search", q="answer")["hits"]] == ["two", "one"]
        store = open_store(url)
        erase_value(store, "the answer is 4", reason="asked to")
        store.close()
        until(lambda: served.json("/search", q="answer")["unread"] == 0)
        assert served.json("/search", q="answer")["hits"] == []


@pytest.mark.parametrize(
    ("target", "parameters"),
    [
        ("/overview", {"status": "odd"}),
        ("/overview", {"cursor": "x"}),
        ("/overview", {"limit": 0}),
        ("/overview", {"limit": "1; DROP TABLE runs"}),
        ("/overview", {"min_cost": "nan"}),
        ("/overview", {"max_cost": "-1"}),
        ("/overview", {"since": "yesterday"}),
        ("/overview", {"order": "cost"}),
        ("/overview/follow", {"after": "x"}),
        ("/overview/follow", {"after": "a.b"}),
        ("/overview/follow", {"after": "a" * 100}),
        ("/search", {}),
        ("/search", {"q": "+"}),
        ("/search", {"q": "x" * 201}),
        ("/search", {"q": "x", "cursor": "1.x"}),
        ("/search", {"q": "x", "limit": 101}),
        ("/attention", {"cursor": "!"}),
        ("/attention", {"limit": -1}),
    ],
)
def test_what_cannot_be_asked_is_refused(shared: Served, target: str, parameters: dict[str, Any]) -> None:
    shared.code(target, 400, **parameters)


def test_looking_opens_nothing_for_writing(served: Served) -> None:
    for path in ("/overview", "/attention", "/search?q=answer"):
        assert served.client.get(V1 + path).status_code == 200
    for path in ("/", "/waits", "/search?q=answer"):
        assert served.client.get(path, headers={"Accept": "text/html"}).status_code == 200
    assert served.server.stores.opened_for_writing is False


# Following the list


class Followed(threading.Thread):
    def __init__(self, served: Served, query: str = "", **headers: str) -> None:
        super().__init__(daemon=True)
        self.told: list[dict[str, str]] = []
        self._target = f"{served.address.url.rstrip('/')}{V1}/overview/follow{query}"
        self._headers = {"Authorization": f"Bearer {served.address.token}", **headers}
        self.start()

    def run(self) -> None:
        try:
            with httpx.stream("GET", self._target, headers=self._headers, **PLAIN) as answer:
                for event in events_of_stream(answer.iter_lines()):
                    self.told.append(event)
        except httpx.HTTPError:
            pass  # the server has ended

    @property
    def runs(self) -> list[tuple[str, str, bool]]:
        lines = [line for event in self.told if "data" in event for line in json.loads(event["data"]).get("runs", [])]
        return [(line["run"], line["status"], line["wanted"]) for line in lines]


def test_changes_of_the_list_are_followed(url: str) -> None:
    record(url, "before")
    with serving(url) as served:
        followed = Followed(served, "?status=completed")
        until(lambda: any("id" in event for event in followed.told))
        store = open_store(url)
        with Journal.create(store, "live", facts={"agent": "a"}) as journal:
            journal.append(states(1))
            until(lambda: ("live", "running", False) in followed.runs)
            journal.append([Completed(output=None)])
        store.close()
        until(lambda: ("live", "completed", True) in followed.runs)
        assert not [one for one in followed.runs if one[0] == "before"]


def test_a_follower_that_comes_back_misses_nothing(served: Served, path: str) -> None:
    place = served.json("/overview")["place"]
    record(path, "second")
    record(path, "third")
    followed = Followed(served, **{"Last-Event-ID": place})
    until(lambda: {"second", "third"} <= {run for run, _, _ in followed.runs})
    last = followed.told[-1]["id"]
    again = Followed(served, f"?after={last}")
    record(path, "fourth")
    until(lambda: again.runs)
    assert {run for run, _, _ in again.runs} == {"fourth"}


def test_a_place_of_another_index_is_told_to_begin_again(served: Served) -> None:
    served.json("/overview")
    followed = Followed(served, "?after=0123456789abcdef.7")
    until(lambda: any(event.get("event") == "again" for event in followed.told))


def test_not_too_many_follow_the_list(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_following, "FOLLOWERS", 2)
    both = [Followed(served) for _ in range(2)]
    until(lambda: all(one.told for one in both))
    assert served.code("/overview/follow", 503) == "busy"


# Waits and doubts


def test_what_waits_for_somebody(url: str) -> None:
    a_wait(url)
    record(url, "doubtful", [once(1)])
    record(url, "timed", [WaitCreated(wait_id="w", name="approval", deadline=1_900_000_000_000_000)])
    store = open_store(url)
    WaitRegistry(store).key("timed", WaitIdentity.named("approval"), session="team")
    store.close()
    record(url, "ended")
    with serving(url) as served:
        told = served.json("/attention")
        assert [one["run"] for one in told["runs"]] == ["timed", "doubtful", "held"]
        assert told["count"] == 3
        timed, doubtful, held = told["runs"]
        assert (timed["waits"][0]["session"], timed["waits"][0]["until"][:4]) == ("team", "2030")
        assert (doubtful["doubts"][0]["name"], doubtful["doubts"][0]["effect"]) == ("mail", 1)
        assert held["waits"][0]["question"] == {"question": "May I?"}
        assert held["waits"][0]["answerable"] is True
        assert "rwk1" not in served.get("/attention").text
        first = served.json("/attention", limit=2)
        assert [one["run"] for one in served.json("/attention", limit=2, cursor=first["next"])["runs"]] == ["held"]


def test_an_operator_resolves_a_wait_by_its_id(url: str) -> None:
    key = a_wait(url)
    with serving(url) as served:
        wait = wait_of(served)["wait"]
        body = {"value": {"approved": True}}
        assert resolve(served, wait, body).json() == {"run": "held", "wait": wait, "status": "resolved", "first": True}
        assert resolve(served, wait, body).json()["first"] is False, "the same again is fine"
        assert problem(resolve(served, wait, {"value": 2}), 409) == "already_resolved"
        assert served.json("/attention")["runs"] == []
    store = open_store(url)
    ended = WaitRegistry(store).peek(key)
    store.close()
    assert ended is not None
    assert (ended.status, ended.value) == ("ok", {"approved": True})


def test_many_at_once_resolve_it_once(path: str) -> None:
    a_wait(path)
    with serving(path) as served:
        wait = wait_of(served)["wait"]
        answers: list[Any] = []

        def send(value: int) -> None:
            answer = httpx.post(
                f"{served.address.url.rstrip('/')}{V1}/runs/held/waits/{wait}",
                json={"value": value},
                headers={"Authorization": f"Bearer {served.address.token}"},
                **PLAIN,
            )
            answers.append((answer.status_code, answer.json().get("first")))

        threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers, key=str) == sorted([(200, True), *[(409, None)] * 7], key=str)


def test_without_the_secret_it_cannot_be_resolved(path: str, tmp_path: Path) -> None:
    a_wait(path, ring=KeyRing(tmp_path / "elsewhere.json"))
    KeyRing().current_id()  # this machine has others
    with serving(path) as served:
        wait = wait_of(served)
        assert wait["answerable"] is False
        assert problem(resolve(served, wait["wait"], {"value": 1}), 409) == "no_key"
        assert wait_of(served)["wait"] == wait["wait"], "it is still open"


@pytest.mark.parametrize("wait", ["0" * 32, "x", "0" * 31 + "G", "..", "%2e%2e", "rwk1.x.y", "0" * 5000])
def test_another_id_resolves_nothing(path: str, wait: str) -> None:
    a_wait(path)
    with serving(path) as served:
        served.json("/attention")
        assert resolve(served, wait, {"value": 1}).status_code in (404, 405)
        assert wait_of(served)


@pytest.mark.parametrize("body", [{}, [], 7, {"value": 1, "error": 2}, {"cancel": False}, {"error": None}, "value"])
def test_bodies_that_are_no_resolution(path: str, body: Any) -> None:
    a_wait(path)
    with serving(path) as served:
        assert problem(resolve(served, wait_of(served)["wait"], body), 400) == "bad_body"


# Who may ask


@pytest.mark.parametrize("target", [V1 + one for one in NEW] + ["/search?q=a", "/waits"])
def test_who_may_not_come_in_is_told_nothing(shared: Served, target: str) -> None:
    assert problem(shared.stranger.get(target), 401) == "not_authorised"
    assert problem(shared.client.get(target, headers={"Origin": "https://evil.example"}), 403) == "bad_origin"
    assert problem(shared.client.get(target, headers={"Host": "evil.example"}), 403) == "bad_host"
    answer = shared.raw(shared.head(f"GET {target}", "Content-Length: 3", "Connection: close") + b"abc")
    assert status_of(answer) == 400
    for method in ("PUT", "DELETE", "PATCH", "TRACE", "OPTIONS"):
        assert shared.client.request(method, target).status_code == 405


@pytest.fixture
def browser(path: str) -> Iterator[tuple[Served, httpx.Client, str]]:
    a_wait(path)
    with serving(path) as served, httpx.Client(base_url=served.address.url, **PLAIN) as client:
        assert client.get(served.address.login_url).status_code == 303
        yield served, client, f"{V1}/runs/held/waits/{wait_of(served)['wait']}"


def test_only_our_own_pages_answer_for_a_browser(browser: tuple[Served, httpx.Client, str]) -> None:
    served, client, target = browser
    own = {"Origin": served.address.url.rstrip("/")}
    body = {"value": 1}
    assert problem(client.post(target, json=body), 403) == "no_origin"
    for origin in ("https://evil.example", "null", f"http://localhost.evil.com:{served.port}"):
        assert problem(client.post(target, json=body, headers={"Origin": origin}), 403) == "bad_origin"
    foreign = {**own, "Sec-Fetch-Site": "cross-site"}
    assert problem(client.post(target, json=body, headers=foreign), 403) == "bad_origin"
    assert problem(client.post(target, data={"value": "1"}, headers=own), 415) == "bad_type"
    plain = {**own, "Content-Type": "text/plain"}
    assert problem(client.post(target, content=b'{"value": 1}', headers=plain), 415) == "bad_type"
    packed = {**own, "Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert problem(client.post(target, content=b"{}", headers=packed), 415) == "bad_type"
    huge = {**own, "Content-Type": "application/json"}
    assert problem(client.post(target, content=b" " * (2 << 20), headers=huge), 413) == "too_large"
    assert client.get(target).status_code == 405
    assert wait_of(served), "nobody has answered it"
    assert client.post(target, json=body, headers=own).status_code == 200


def test_pages_have_a_strict_policy(served: Served) -> None:
    for path in ("/", "/waits", "/search?q=answer", "/search"):
        answer = served.client.get(path, headers={"Accept": "text/html"})
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "<script>" not in answer.text
        assert " style=" not in answer.text
        assert " onclick" not in answer.text
