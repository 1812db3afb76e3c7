"""The two things that can be changed over HTTP: a wait is resolved, an effect in doubt is settled."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from kit.web import PLAIN, V1, Served, command, once, problem, record, serving, status_of
from onrecord.core.wait_keys import Resolution, WaitIdentity
from onrecord.journal.journal import Journal
from onrecord.journal.sources import SystemSources
from onrecord.runtime.waits import WaitRegistry
from onrecord.runtime.waits import http_endpoint as http
from onrecord.store.factory import open_store
from onrecord.web import protocol
from onrecord.web import write_endpoints as writing

APPROVAL = WaitIdentity.named("approval")


@pytest.fixture
def desk(url: str) -> Iterator[WaitRegistry]:
    store = open_store(url)
    yield WaitRegistry(store)
    store.close()


class Somebody(SystemSources):
    """A process of another machine."""

    def holder(self) -> str:
        return "boot/elsewhere/pid:[1]/1/1"


def resolve(served: Served, key: str, body: Any) -> httpx.Response:
    return served.client.post(f"{V1}/waits/{key}", json=body)


# Resolving


def test_a_wait_is_resolved_by_its_key(url: str, desk: WaitRegistry) -> None:
    key = desk.key("asking", APPROVAL).text
    with serving(url) as served:
        assert resolve(served, key, {"value": {"ok": True}}).json() == {"status": "resolved"}
        assert resolve(served, key, {"value": {"ok": True}}).status_code == 200, "the same again is fine"
        other = resolve(served, key, {"value": {"ok": False}})
        assert other.status_code == 409
        assert other.json() == {"status": "already_resolved", "resolution": {"status": "ok", "value": {"ok": True}}}
        assert served.json("/waits")["waits"] == []
        assert served.json("/runs/asking/waits", all="true")["waits"][0]["state"] == "ok"
    assert desk.peek(key) == Resolution.ok({"ok": True})


def test_everything_else_that_a_key_can_be_is_one_and_the_same_404(url: str, desk: WaitRegistry) -> None:
    record(url, "first")
    key = desk.key("asking", APPROVAL, session="s").text
    other_space = WaitRegistry(desk.store, "other").key("asking", APPROVAL).text
    fine = desk.key("elsewhere", APPROVAL).text
    tampered = key[:-2] + ("AA" if key[-2:] != "AA" else "BB")
    desk.revoke_session("s")
    names = [key, other_space, tampered, "x", "..%2f..", "%00", "%ff%fe", "a%2fb", "a/b", "", key + "é", "k" * 4_000]
    with serving(url) as served:
        answers = {resolve(served, name, {"value": 1}).content for name in names}
        assert len(answers) == 1
        assert resolve(served, "x", {"value": 1}).status_code == 404
        assert json.loads(answers.pop())["error"]["code"] == "await_event_unknown_or_revoked"
        assert resolve(served, fine, {"value": 1}).status_code == 200


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"value": 1, "error": 2}', b'{"value": NaN}', b'{"a": 1, "a": 1}']
)
@pytest.mark.parametrize("target", ["/waits/some-key", "/runs/first/settle"])
def test_a_body_that_says_nothing_is_400(shared: Served, target: str, body: bytes) -> None:
    answer = shared.client.post(V1 + target, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 411)
    problem(answer, answer.status_code)


# Bodies that are too much


@pytest.mark.parametrize("target", ["/waits/some-key", "/runs/first/settle"])
def test_a_body_that_is_too_large_is_refused_before_it_comes(served: Served, target: str) -> None:
    head = served.head(f"POST {V1}{target}", "Content-Type: application/json", f"Content-Length: {10 * 2**30}")
    assert status_of(served.raw(head)) == 413
    large = served.client.post(V1 + target, json={"value": "x" * http.BODY_BYTES})
    assert large.status_code == 413


@pytest.mark.parametrize("target", ["/waits/some-key", "/runs/first/settle"])
def test_a_body_without_a_length_or_packed_is_refused(served: Served, target: str) -> None:
    chunked = served.client.post(V1 + target, content=iter([b"{}"] * 3), headers={"Content-Type": "application/json"})
    assert chunked.status_code == 411
    packed = served.client.post(
        V1 + target,
        content=gzip.compress(b'{"value":1}'),
        headers={"Content-Type": "application/json", "Content-Encoding": "gzip"},
    )
    assert packed.status_code == 415


@pytest.mark.parametrize("target", ["/waits/some-key", "/runs/first/settle"])
def test_a_body_that_drips_is_cut_off(served: Served, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_SECONDS", 0.5)
    monkeypatch.setattr(writing, "BODY_SECONDS", 0.5)
    monkeypatch.setattr(protocol, "LINGER_SECONDS", 0.1)
    head = served.head(f"POST {V1}{target}", "Content-Type: application/json", "Content-Length: 1000")
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
        connection.sendall(head)
        with pytest.raises(OSError):
            for _ in range(900):
                connection.sendall(b" ")
                time.sleep(0.05)
        try:
            answer = connection.recv(65536)
        except ConnectionResetError:
            answer = b""
    assert status_of(answer) in (0, 408)
    assert served.json("/runs")["runs"]


def test_a_body_that_is_cut_short_changes_nothing(served: Served, path: str) -> None:
    head = served.head(f"POST {V1}/runs/first/settle", "Content-Type: application/json", "Content-Length: 1000")
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
        connection.sendall(head + b'{"effect": 1')
    assert served.json("/runs/first")["events"] == 4


# Settling


def settle(served: Served, run: str, **body: Any) -> httpx.Response:
    return served.client.post(f"{V1}/runs/{run}/settle", json=body)


def test_who_settles_with_a_secret_may_say_it_again(url: str) -> None:
    redaction = {"version": 1, "rules": [], "environment": True}
    record(url, "redacted", [once(1)], facts={"agent": "tester", "redaction": redaction})
    value = {"access_token": "tok-CANARY-1234567890"}
    with serving(url) as served:
        assert settle(served, "redacted", effect=1, decision="done", value=value).status_code == 200
        assert "CANARY" not in served.client.get(f"{V1}/runs/redacted/events").text
        assert settle(served, "redacted", effect=1, decision="done", value=value).status_code == 200
        other = settle(served, "redacted", effect=1, decision="done", value={"access_token": "tok-CANARY-2"})
        assert problem(other, 409) == "already_settled"


def test_an_effect_in_doubt_is_settled(url: str) -> None:
    record(url, "doubtful", [once(1)])
    with serving(url) as served:
        assert served.json("/runs/doubtful")["status"] == "in_doubt"
        answer = settle(served, "doubtful", effect=1, decision="done", value={"id": 7}, by="dana")
        assert answer.status_code == 200, answer.text
        assert answer.json() == {"run": "doubtful", "effect": 1, "decision": "done"}
        assert served.json("/runs/doubtful")["status"] == "interrupted"
        settled, outcome = served.json("/runs/doubtful/events", after=1)["timeline"]
        assert settled["content"] == {"action_id": "a1", "decision": "done", "value": {"id": 7}, "by": "dana"}
        assert outcome["content"]["output"] == {"id": 7}
        assert settle(served, "doubtful", effect=1, decision="done", value={"id": 7}).status_code == 200
        assert problem(settle(served, "doubtful", effect=1, decision="done", value={"id": 8}), 409) == "already_settled"
        assert problem(settle(served, "doubtful", effect=1, decision="retry"), 409) == "already_settled"
        assert served.json("/runs/doubtful")["events"] == 3, "nothing was written but once"
        assert served.json("/runs/doubtful/verify")["valid"]


def test_retry_and_fail(url: str) -> None:
    record(url, "two", [once(1, "main>a"), once(2, "main>a#1")])
    with serving(url) as served:
        assert settle(served, "two", effect=1, decision="retry").json()["decision"] == "retry"
        assert settle(served, "two", effect=1, decision="retry").status_code == 200
        assert problem(settle(served, "two", effect=1, decision="fail", message="no"), 409) == "already_settled"
        assert settle(served, "two", effect=2, decision="fail", message="the post is closed").status_code == 200
        assert settle(served, "two", effect=2, decision="fail", message="the post is closed").status_code == 200
        assert problem(settle(served, "two", effect=2, decision="fail", message="lost"), 409) == "already_settled"
        kinds = [one["kind"] for one in served.json("/runs/two/events", after=2)["timeline"]]
        assert kinds == ["EffectSettled", "EffectSettled", "ActionFailed"]


def test_nothing_in_doubt_and_a_run_that_is_held(served: Served, path: str) -> None:
    assert problem(settle(served, "first", effect=1, decision="retry"), 404) == "no_doubt"
    assert problem(settle(served, "first", effect=99, decision="retry"), 404) == "no_doubt"
    assert problem(settle(served, "nobody", effect=1, decision="retry"), 404) == "unknown_run"
    store = open_store(path)
    journal = Journal.create(store, "held", sources=Somebody())
    journal.append([once(1)])
    assert problem(settle(served, "held", effect=1, decision="retry"), 409) == "run_busy"
    journal.release()
    store.close()
    assert settle(served, "held", effect=1, decision="retry").status_code == 200
    assert command(path, "show", "held")["timeline"][1]["content"]["decision"] == "retry"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"effect": 1},
        {"decision": "done", "value": 1},
        {"effect": 0, "decision": "retry"},
        {"effect": True, "decision": "retry"},
        {"effect": "1", "decision": "retry"},
        {"effect": 1, "decision": "done"},
        {"effect": 1, "decision": "fail"},
        {"effect": 1, "decision": "forget"},
        {"effect": 1, "decision": "retry", "value": 1},
        {"effect": 1, "decision": "retry", "by": 7},
    ],
)
def test_a_settlement_that_says_too_little_or_too_much_is_refused(shared: Served, body: dict[str, Any]) -> None:
    assert problem(settle(shared, "first", **body), 400) == "bad_body"


def test_of_many_who_settle_at_once_one_is_first(url: str) -> None:
    record(url, "doubtful", [once(1)])
    with serving(url) as served:
        statuses: list[int] = []

        def say(number: int) -> None:
            with httpx.Client(base_url=served.address.url, headers=served.client.headers, **PLAIN) as client:
                body = {"effect": 1, "decision": "done", "value": number}
                statuses.append(client.post(f"{V1}/runs/doubtful/settle", json=body).status_code)

        threads = [threading.Thread(target=say, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [200] + [409] * 7
        kinds = [one["kind"] for one in served.json("/runs/doubtful/events")["timeline"]]
        assert kinds == ["ActionRequested", "EffectSettled", "ActionSucceeded"]


def test_looking_never_opens_the_store_for_writing(path: str) -> None:
    record(path, "first")
    record(path, "doubtful", [once(1)])
    with serving(path) as served:
        for rest in ("", "/events", "/state", "/verify", "/replay", "/receipts", "/timeline", "/waits"):
            assert served.get(f"/runs/first{rest}").status_code == 200
        served.json("/runs")
        served.json("/waits")
        stores = served.server.stores
        assert stores.opened_for_writing is False
        assert settle(served, "doubtful", effect=1, decision="retry").status_code == 200
        assert stores.opened_for_writing is True
