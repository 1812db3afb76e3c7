"""Postgres that goes away: connections cut in the middle of an append, partitions, crashes under load."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import psycopg
import pytest

from kit.children import no_hanging
from kit.postgres_server import (
    GENESIS,
    PostgresServer,
    assert_chained,
    event,
    head_of,
    header,
    pending,
    postgres_server,  # noqa: F401 - a fixture
    private_server,
)
from kit.soak import SOAK
from kit.tcp_proxy import Fault, TcpProxy, tcp_proxy
from onrecord.errors import MovedHead, OutcomeUnknown, SchemaMismatch, StoreUnavailable
from onrecord.store.contract import DuplicateIds, Head
from onrecord.store.postgres import PostgresStore, Timeouts

T = TypeVar("T")
SHORT = Timeouts(connect=2, statement=1.5, lock=1.0, answer=2.0, pool=2.0, resolve=4.0)
CRASHES = 20 if SOAK else 3


class Scene:
    """A store behind a proxy, and one that sees the database as it is."""

    def __init__(self, proxy: TcpProxy, store: PostgresStore, direct: PostgresStore, url: str) -> None:
        self.proxy = proxy
        self.store = store
        self.direct = direct
        self.url = url

    def append(self, *names: str) -> None:
        head = expected = head_of(self.direct.last_event("n", "r"))
        rows = []
        for name in names:
            rows.append(event(head, name))
            head = head_of(rows[-1])
        self.store.append("n", "r", rows, expected=expected, epoch=0)

    def ids(self) -> list[str]:
        rows = list(self.direct.scan("n", "r"))
        assert_chained(rows)
        return [row.id for row in rows]


@pytest.fixture
def scene(postgres_server: PostgresServer) -> Iterator[Scene]:  # noqa: F811
    database = postgres_server.fresh_database()
    with tcp_proxy(postgres_server.port) as proxy:
        direct = PostgresStore(postgres_server.url(database), timeouts=SHORT)
        store = PostgresStore(postgres_server.url(database, port=proxy.port), pool_size=2, timeouts=SHORT)
        direct.create_run("n", header("r"))
        # The second append is sent as a prepared statement in one piece, so that a fault hits the call
        # itself.
        found = Scene(proxy, store, direct, postgres_server.url(database))
        found.append("a1")
        found.append("a2")
        yield found
        store.close()
        direct.close()


@pytest.mark.parametrize(("fault", "keep"), [("cut_request", 0), ("cut_part", 1), ("cut_part", 60), ("cut_answer", 0)])
def test_a_cut_append_is_looked_up_and_happens_once(scene: Scene, fault: Fault, keep: int) -> None:
    scene.proxy.arm(fault, keep)
    scene.append("b")
    assert scene.proxy.hits == 1
    assert scene.ids() == ["a1", "a2", "b"]
    scene.append("c")
    assert scene.ids() == ["a1", "a2", "b", "c"]


@pytest.mark.parametrize("fault", ["cut_request", "cut_answer"])
def test_the_same_for_ids_that_the_journal_made(scene: Scene, fault: Fault) -> None:
    scene.proxy.arm(fault)
    scene.append("_m_3")
    assert scene.proxy.hits == 1
    assert scene.ids() == ["a1", "a2", "_m_3"]


@pytest.mark.parametrize("fault", ["cut_request", "cut_answer"])
def test_the_same_for_a_batch(scene: Scene, fault: Fault) -> None:
    scene.append("b1", "_m_4")  # warm
    scene.proxy.arm(fault)
    scene.append("b2", "_m_6")
    assert scene.proxy.hits == 1
    assert scene.ids() == ["a1", "a2", "b1", "_m_4", "b2", "_m_6"]


@pytest.mark.parametrize("fault", ["cut_request", "cut_answer"])
def test_the_same_for_a_group_of_appends(scene: Scene, fault: Fault) -> None:
    runs = ["q1", "q2", "q3"]
    for run in runs:
        scene.direct.create_run("n", header(run))
    group = [pending("n", run, GENESIS, f"e-{run}") for run in runs]
    assert scene.store.append_many([pending("n", "missing", GENESIS, "x")])[0] is not None  # warm
    # The first request of a group only checks: also there nothing may be doubled.
    scene.proxy.arm(fault)
    assert scene.store.append_many(group) == [None, None, None]
    for run in runs:
        assert [row.id for row in scene.direct.scan("n", run)] == [f"e-{run}"]


def test_an_answer_lost_after_the_group_was_committed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.direct.create_run("n", header("q"))
    appender = scene.store._appender
    write = appender._write_all

    def cut_at_commit(*arguments: object) -> None:
        scene.proxy.arm("cut_answer")
        write(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(appender, "_write_all", cut_at_commit)
    assert scene.store.append_many([pending("n", "q", GENESIS, "e")]) == [None]
    assert [row.id for row in scene.direct.scan("n", "q")] == ["e"]


def test_a_request_that_arrives_late_arrives_nowhere(scene: Scene) -> None:
    """The server's side is still open and has not read the call: only ending that process makes a second try
    safe."""
    (connection,) = scene.store._pool._idle
    scene.proxy.arm("hold_request")
    scene.append("b")
    with psycopg.connect(scene.url) as other:
        alive = other.execute("select 1 from pg_stat_activity where pid = %s", (connection.backend.pid,))
        assert alive.fetchone() is None
    scene.proxy.release()
    time.sleep(0.05)
    assert scene.ids() == ["a1", "a2", "b"]


def waiting_for_a_lock(scene: Scene) -> list[int]:
    """Return the pids of the server processes that wait for a lock in this database."""
    with psycopg.connect(scene.url) as connection:
        query = "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        return [pid for (pid,) in connection.execute(query)]


def test_a_server_process_still_waiting_for_the_lock_is_ended_first(scene: Scene) -> None:
    done: list[str] = []
    with psycopg.connect(scene.url) as other:
        other.execute("select from onrecord.runs for update")
        thread = threading.Thread(target=lambda: (scene.append("b"), done.append("b")))
        thread.start()
        (blocked,) = wait_for(lambda: waiting_for_a_lock(scene))
        scene.proxy.cut_all()
        wait_for(lambda: blocked not in waiting_for_a_lock(scene))
        other.rollback()
        thread.join(60)
    assert done == ["b"]
    assert scene.ids() == ["a1", "a2", "b"]


def test_a_silent_answer_is_not_waited_for_without_end(scene: Scene) -> None:
    scene.proxy.arm("swallow_answer")
    with no_hanging():
        scene.append("b")
    assert scene.ids() == ["a1", "a2", "b"]


def test_ids_that_stood_there_before_are_not_taken_for_ours(scene: Scene) -> None:
    scene.proxy.arm("cut_answer")
    with pytest.raises(DuplicateIds) as caught:
        scene.store.append("n", "r", [event(Head(2, b"x" * 32), "a2")], expected=Head(2, b"x" * 32), epoch=0)
    assert [row.id for row in caught.value.rows] == ["a2"]


def test_a_partition_ends_within_the_bounds_and_says_so(scene: Scene) -> None:
    scene.proxy.partitioned = True
    with no_hanging(), pytest.raises(OutcomeUnknown) as unknown:
        scene.append("b")
    assert "could not be determined" in unknown.value.message
    with no_hanging(), pytest.raises(StoreUnavailable):
        scene.store.last_event("n", "r")
    scene.proxy.partitioned = False
    # After that the store works again on a fresh connection.
    if "b" not in scene.ids():
        scene.append("b")
    assert scene.ids() == ["a1", "a2", "b"]
    assert scene.store.last_event("n", "r") == scene.direct.last_event("n", "r")


def test_a_slow_database_is_a_clear_error(scene: Scene) -> None:
    with psycopg.connect(scene.url) as other:
        other.execute("select from onrecord.runs for update")
        with no_hanging(), pytest.raises(StoreUnavailable, match="nothing was written"):
            scene.append("b")
    scene.append("b")
    assert scene.ids() == ["a1", "a2", "b"]


def test_an_idle_connection_that_was_cut_is_replaced(scene: Scene) -> None:
    scene.proxy.cut_all()
    time.sleep(0.05)
    scene.append("b")
    assert scene.store.event("n", "r", 3) is not None


def test_terminated_by_an_operator(scene: Scene) -> None:
    with psycopg.connect(scene.url, autocommit=True) as other:
        for number in range(5):
            other.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
            scene.append(f"t{number}")
    assert len(scene.ids()) == 7


def test_a_database_that_went_back_in_time_is_named(scene: Scene) -> None:
    ahead = Head(9, b"z" * 32)
    with pytest.raises(MovedHead, match="acknowledged events are missing"):
        scene.store.append("n", "r", [event(ahead, "b")], expected=ahead, epoch=0)


def test_a_standby_is_read_and_decides_nothing_and_a_lagging_one_is_noticed() -> None:
    with private_server() as primary, private_server(standby_of=primary) as standby:
        database = primary.fresh_database()
        first = PostgresStore(primary.url(database), timeouts=SHORT)
        first.create_run("n", header("r"))
        one = event(GENESIS, "e1")
        first.append("n", "r", [one], expected=GENESIS, epoch=0)
        second = wait_for(lambda: open_when_there(standby.url(database)))
        for decide in (
            lambda: second.append("n", "r", [event(head_of(one), "e2")], expected=head_of(one), epoch=0),
            lambda: second.claim("n", "r", "me", 5),
            lambda: second.create_run("n", header("s")),
        ):
            with pytest.raises(StoreUnavailable, match="standby"):
                decide()
        # Replication is asynchronous here: what the standby did not get is lost by the failover, and said to
        # be.
        with psycopg.connect(standby.url(database), autocommit=True) as connection:
            connection.execute("alter system set primary_conninfo = ''")
            connection.execute("select pg_reload_conf()")
            while connection.execute("select 1 from pg_stat_wal_receiver").fetchone():
                time.sleep(0.02)
        two = event(head_of(one), "e2")
        first.append("n", "r", [two], expected=head_of(one), epoch=0)
        primary.stop_immediately()
        standby.promote()
        with pytest.raises(MovedHead, match="acknowledged events are missing"):
            second.append("n", "r", [event(head_of(two), "e3")], expected=head_of(two), epoch=0)
        assert [row.id for row in second.scan("n", "r")] == ["e1"]
        first.close()
        second.close()


def open_when_there(url: str) -> PostgresStore | None:
    with contextlib.suppress(StoreUnavailable, SchemaMismatch):
        store = PostgresStore(url, timeouts=SHORT)
        if store.last_event("n", "r") is not None:
            return store
        store.close()
    return None


def wait_for(look: Callable[[], T]) -> T:
    """Return what `look` finds, as soon as it is something."""
    deadline = time.monotonic() + 60
    while not (found := look()):
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.02)
    return found


def test_a_deadlock_is_tried_again_with_the_same_ids(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = scene.store._pool
    connection = pool.connection
    failures = [psycopg.errors.DeadlockDetected("forced"), psycopg.errors.SerializationFailure("forced")]

    @contextlib.contextmanager
    def failing(**options: Any) -> Iterator[Any]:
        with connection(**options) as real:
            if failures:
                raise failures.pop()
            yield real

    monkeypatch.setattr(pool, "connection", failing)
    scene.append("b")
    assert failures == []
    assert scene.ids() == ["a1", "a2", "b"]


class Writer(threading.Thread):
    """Appends to its own run without a pause; what was acknowledged is remembered outside the database."""

    def __init__(self, store: PostgresStore, run: str, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.store = store
        self.run_id = run
        self.stop = stop
        self.acknowledged: list[str] = []
        self.troubles = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._write()
        except BaseException as failure:
            self.failure = failure

    def _write(self) -> None:
        head, number = GENESIS, 0
        while not self.stop.is_set():
            number += 1
            row = event(head, f"{self.run_id}-{number}")
            try:
                self.store.append("n", self.run_id, [row], expected=head, epoch=0)
            except (StoreUnavailable, OutcomeUnknown):
                self.troubles += 1
                head = self._reread()
                if head.hash != row.hash:
                    continue
            self.acknowledged.append(row.id)
            head = head_of(row)

    def _reread(self) -> Head:
        while True:
            with contextlib.suppress(StoreUnavailable):
                return head_of(self.store.last_event("n", self.run_id))
            time.sleep(0.02)


def test_crashes_under_load_lose_nothing_acknowledged() -> None:
    with private_server() as server:
        store = PostgresStore(server.url(server.fresh_database()), timeouts=Timeouts(resolve=30))
        runs = [f"w{number}" for number in range(4)]
        for run in runs:
            store.create_run("n", header(run))
        stop = threading.Event()
        writers = [Writer(store, run, stop) for run in runs]
        for writer in writers:
            writer.start()
        for _ in range(CRASHES):
            before = [len(writer.acknowledged) for writer in writers]
            deadline = time.monotonic() + 60
            # Each writer goes on after each restart, or the test does not.
            while any(len(w.acknowledged) < b + 20 for w, b in zip(writers, before, strict=True)):
                assert time.monotonic() < deadline, [(w.failure, len(w.acknowledged)) for w in writers]
                time.sleep(0.01)
            server.stop_immediately()
            server.start()
        stop.set()
        for writer in writers:
            writer.join(60)
            assert writer.failure is None
        for writer in writers:
            rows = list(store.scan("n", writer.run_id))
            assert_chained(rows)
            kept = {row.id for row in rows}
            lost = [name for name in writer.acknowledged if name not in kept]
            assert lost == []
            assert len(writer.acknowledged) >= 20 * CRASHES
        store.close()
