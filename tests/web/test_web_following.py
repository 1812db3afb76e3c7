"""Following a run as it grows: nothing missed, nothing twice, nobody in the way of the others."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from kit.web import PLAIN, V1, Served, events_of_stream, problem, record, serving, states, status_of, until
from onrecord.cli.main import cli
from onrecord.core.events import Completed
from onrecord.journal.journal import Journal
from onrecord.store.contract import Store
from onrecord.store.factory import open_store
from onrecord.web import protocol, server
from onrecord.web import run_feed as following

LONG = 1_200
"""Events of 8,000 characters each: more than sockets buffer."""


@contextmanager
def writing(url: str, run: str = "live") -> Iterator[Journal]:
    """A run that goes on."""
    store: Store = open_store(url)
    journal = Journal.create(store, run)
    try:
        yield journal
    finally:
        journal.release()
        store.close()


class Follower(threading.Thread):
    """Follows until the stream ends."""

    def __init__(self, served: Served, run: str = "live", **headers: str) -> None:
        super().__init__(daemon=True)
        self.seqs: list[int] = []
        self.status = 0
        self.ended: Any = None
        self._served, self._run_followed, self._headers = served, run, headers
        self.start()

    def run(self) -> None:
        headers = {"Authorization": f"Bearer {self._served.address.token}", **self._headers}
        target = f"{self._served.address.url.rstrip('/')}{V1}/runs/{self._run_followed}/follow"
        try:
            with httpx.stream("GET", target, headers=headers, **PLAIN) as answer:
                self.status = answer.status_code
                for event in events_of_stream(answer.iter_lines()):
                    if "id" in event:
                        assert json.loads(event["data"])["seq"] == int(event["id"])
                        self.seqs.append(int(event["id"]))
                    elif event.get("event") == "end":
                        self.ended = json.loads(event["data"])
        except httpx.HTTPError:
            pass


def test_events_come_as_they_are_written_and_the_end_is_told(url: str) -> None:
    with writing(url) as journal:
        journal.append(states(3))
        with serving(url) as served:
            follower = Follower(served)
            until(lambda: follower.seqs == [1, 2, 3])
            journal.append(states(2))
            until(lambda: follower.seqs == [1, 2, 3, 4, 5])
            journal.append(Completed(output=None))
            follower.join(20)
            assert follower.seqs == [1, 2, 3, 4, 5, 6]
            assert follower.ended == {"run": "live", "status": "completed"}


def test_an_event_is_sent_as_it_is_shown(served: Served) -> None:
    with served.client.stream("GET", V1 + "/runs/first/follow") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        found = [json.loads(one["data"]) for one in events_of_stream(answer.iter_lines()) if "id" in one]
    assert found == served.json("/runs/first/events")["timeline"]


def test_whoever_was_cut_off_goes_on_where_it_was(url: str) -> None:
    record(url, "live", [*states(9), Completed(output=None)])
    with serving(url) as served:
        follower = Follower(served, **{"Last-Event-ID": "6"})
        follower.join(20)
        assert follower.seqs == [7, 8, 9, 10]
        with served.client.stream("GET", f"{V1}/runs/live/follow?after=9") as answer:
            assert [one["id"] for one in events_of_stream(answer.iter_lines()) if "id" in one] == ["10"]
        over = served.client.get(f"{V1}/runs/live/follow", headers={"Last-Event-ID": "10"})
        assert over.status_code == 204, "a browser stops asking"


@pytest.mark.parametrize("known", ["-1", "x", "1.5", "99", "9" * 30, "1, 2"])
def test_a_place_that_cannot_be_is_refused(shared: Served, known: str) -> None:
    problem(shared.client.get(V1 + "/runs/first/follow", headers={"Last-Event-ID": known}), 400)


def test_fifty_followers_of_one_run_all_get_everything(url: str) -> None:
    with writing(url) as journal, serving(url) as served:
        journal.append(states(5))
        followers = [Follower(served) for _ in range(50)]
        until(lambda: all(len(one.seqs) >= 5 for one in followers))
        for _ in range(20):
            journal.append(states(10))
        journal.append(Completed(output=None))
        for one in followers:
            one.join(60)
        assert all(one.seqs == list(range(1, 207)) for one in followers)
        assert all(one.ended for one in followers)


def test_however_many_follow_the_store_is_looked_at_once(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    read = following._read
    monkeypatch.setattr(following, "_read", lambda *asked: looks.append(asked[1]) or read(*asked))
    with writing(path) as journal, serving(path) as served:
        journal.append(states(1))
        followers = [Follower(served) for _ in range(30)]
        until(lambda: all(one.seqs for one in followers))
        looks.clear()
        begun = time.monotonic()
        journal.append(states(1))
        until(lambda: all(len(one.seqs) == 2 for one in followers))
        periods = (time.monotonic() - begun) / following.POLL_SECONDS
        assert len(looks) <= periods + 2


def test_beyond_so_many_followers_the_next_is_asked_to_wait(served: Served, path: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(following, "FOLLOWERS", 3)
    with writing(path) as journal:
        journal.append(states(1))
        followers = [Follower(served) for _ in range(3)]
        until(lambda: all(one.seqs for one in followers))
        answer = served.client.get(V1 + "/runs/live/follow")
        assert problem(answer, 503) == "busy"
        assert answer.headers["retry-after"] == "1"
        assert served.json("/runs/live")["events"] == 1, "the rest is served"
        journal.append(Completed(output=None))
        for one in followers:
            one.join(60)
        until(lambda: served.client.get(V1 + "/runs/first/follow").status_code == 200)


def test_a_follower_that_does_not_read_is_cut_off_and_harms_nobody(served: Served, path: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(protocol, "STALLED_SECONDS", 1.0)
    record(path, "long", states(LONG, 8_000))
    idle = socket.create_connection(("127.0.0.1", served.port), timeout=30)
    idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    idle.sendall(served.head(f"GET {V1}/runs/long/follow"))
    until(lambda: len(served.server.server_state.tasks) == 1)
    assert served.json("/runs/long")["events"] == LONG, "others are served meanwhile"
    until(lambda: not served.server.server_state.tasks)
    idle.close()


def test_an_export_that_nobody_reads_is_cut_off(served: Served, path: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(protocol, "STALLED_SECONDS", 1.0)
    record(path, "long", states(LONG, 8_000))
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as idle:
        idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        idle.sendall(served.head(f"GET {V1}/runs/long/timeline"))
        assert status_of(idle.recv(16)) == 200
        until(lambda: not served.server.server_state.tasks)


def test_a_follower_that_goes_away_leaves_nothing_behind(served: Served, path: str) -> None:
    with writing(path) as journal:
        journal.append(states(1))
        for _ in range(5):
            with served.client.stream("GET", V1 + "/runs/live/follow") as answer:
                next(events_of_stream(answer.iter_lines()))
        until(lambda: not served.server.server_state.tasks)


def test_following_ends_with_the_server(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that waited for its followers would not end while the test waits for it."""
    monkeypatch.setattr(server, "ENDING_SECONDS", 3_600)
    with writing(path) as journal:
        journal.append(states(1))
        with serving(path) as served:
            followers = [Follower(served) for _ in range(5)]
            until(lambda: all(one.seqs for one in followers))
        for one in followers:
            one.join(60)
            assert not one.is_alive()


def test_an_idle_stream_says_that_it_is_there(served: Served, path: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(following, "HEARTBEAT_SECONDS", 0.2)
    with writing(path) as journal:
        journal.append(states(1))
        with served.client.stream("GET", V1 + "/runs/live/follow?after=1") as answer:
            assert any(line.startswith(":") for line in answer.iter_lines())


def test_a_run_that_was_removed_is_unknown(served: Served, path: str) -> None:
    assert served.client.get(V1 + "/runs/first/follow").status_code == 200
    removed = CliRunner().invoke(cli, ["gc", "--keep", "0", "--yes", "--store", path])
    assert removed.exit_code == 0, removed.output
    assert problem(served.client.get(V1 + "/runs/first/follow"), 404) == "unknown_run"
    assert served.code("/runs/first/events", 404) == "unknown_run"
