"""What an operating system does to a process: stops it, forks it, refuses it files and space, fails its syncs."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from kit.children import Child, Pipe, no_hanging
from kit.soak import SOAK
from kit.store_writers import check_acknowledged, check_valid, go_on
from onrecord.core.events import SignalReceived
from onrecord.errors import OnrecordError, Refused, StaleEpoch, StoreUnavailable
from onrecord.journal.journal import Journal
from onrecord.store.sqlite import leases
from onrecord.store.sqlite.store import SqliteStore

RUN = "run"
Work = Callable[[Pipe, Callable[[], bool]], None]


def signal_event(payload: object = None) -> SignalReceived:
    return SignalReceived(name="s", payload=payload)


def hash_of(text: str) -> bytes:
    return bytes.fromhex(text[7:])


def python(code: str, *arguments: object, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [*before, sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


@cache
def allowed(*command: str) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, timeout=30).returncode == 0


def acknowledged_in(text: str) -> dict[int, bytes]:
    """What a script printed as `ack <seq> <hash>`."""
    return {int(seq): hash_of(digest) for seq, digest in re.findall(r"^ack (\d+) (sha256:\w+)$", text, re.MULTILINE)}


def check_left(path: Path, acked: dict[int, bytes], *, run: str = RUN) -> None:
    store = SqliteStore(path)
    check_acknowledged(store, run, acked)
    go_on(store, run, acked)
    check_valid(store, run, deep=True)
    store.close()


# Stopped and continued


@pytest.mark.parametrize("events_before", [0, 5])
def test_a_stopped_holder_comes_back_too_late(
    tmp_path: Path, events_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    SqliteStore(path).close()

    def work(pipe: Pipe, stopped: Callable[[], bool]) -> None:
        store = SqliteStore(path)
        journal = Journal.create(store, RUN, lease_seconds=60)
        for number in range(events_before):
            (done,) = journal.append(signal_event(number))
            pipe.ack([(done.seq, done.hash)])
        pipe.ready()
        while not stopped():
            time.sleep(0.005)
        for attempt in range(3):  # refused as often as it tries
            with pytest.raises(StaleEpoch):
                journal.append(signal_event(attempt))
        assert [row.seq for row in store.scan("default", RUN)] == list(range(1, events_before + 3))

    with no_hanging(), Child(work) as child:
        child.wait_ready()
        os.kill(child.pid, signal.SIGSTOP)
        store = SqliteStore(path)
        with pytest.raises(Refused) as refusal:  # it may only be slow
            Journal.open(store, RUN)
        assert refusal.value.code == "run_busy"
        let_leases_expire(monkeypatch)
        journal = Journal.open(store, RUN)
        journal.append([signal_event("new"), signal_event("holder")])
        child.stop()
        os.kill(child.pid, signal.SIGCONT)
        status, acked, error = child.end()
        assert error == ""
        assert status == 0
        journal.append(signal_event("undisturbed"))
        check_acknowledged(store, RUN, dict(acked))
        assert check_valid(store, RUN).events == events_before + 3
        store.close()


def let_leases_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the clock of this process forward."""
    now = leases.now
    monkeypatch.setattr(leases, "now", lambda: now() + 3600 * 10**9)


def test_stopped_in_the_middle_of_appends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the holder is stopped, the other process goes on, or reports a held write lock; nothing is lost."""
    path = tmp_path / "store.db"

    def work(pipe: Pipe, stopped: Callable[[], bool]) -> None:
        journal = Journal.create(SqliteStore(path), RUN)
        pipe.ready()
        while not stopped():
            try:
                (done,) = journal.append(signal_event("x" * 200))
            except StaleEpoch:
                return
            pipe.ack([(done.seq, done.hash)])

    for number in range(12 if SOAK else 4):
        path = tmp_path / f"store-{number}.db"
        with no_hanging(), Child(work) as child:
            child.wait_ready()
            time.sleep(0.002 * number)
            os.kill(child.pid, signal.SIGSTOP)
            taken: dict[int, bytes] = {}
            try:
                other = SqliteStore(path, busy_seconds=0.1)
                with monkeypatch.context() as patch:
                    let_leases_expire(patch)
                    (done,) = Journal.open(other, RUN).append(signal_event("other"))
                taken[done.seq] = hash_of(done.hash)
                other.close()
            except StoreUnavailable as error:  # it was stopped while it held the write lock
                if "write lock" not in error.message:
                    raise
            child.stop()
            os.kill(child.pid, signal.SIGCONT)
            status, acked, error = child.end()
            assert (status, error) == (0, "")
            assert not taken.keys() & dict(acked).keys(), "two writers for one seq"
            store = SqliteStore(path)
            check_acknowledged(store, RUN, {**dict(acked), **taken})
            check_valid(store, RUN)
            store.close()


# Forks


def in_child(work: Work) -> None:
    status, _, error = Child(work).end()
    assert error == ""
    assert status == 0


def test_a_forked_child_may_read_and_not_write(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    journal = Journal.create(store, RUN)
    journal.append(signal_event(1))

    def work(pipe: Pipe, _: object) -> None:
        with pytest.raises(Refused) as refusal:
            journal.append(signal_event("child"))
        assert refusal.value.code == "forked_handle"
        assert next(journal.scan()).event.payload == 1
        with pytest.raises(Refused) as refusal:
            Journal.open(store, RUN)
        assert refusal.value.code == "run_busy"
        own = Journal.create(store, f"of-{os.getpid()}")
        own.append([signal_event(n) for n in range(3)])

    with no_hanging():
        for number in range(3):
            in_child(work)
            journal.append(signal_event(number))
    assert [row.seq for row in store.scan("default", RUN)] == [1, 2, 3, 4]
    for row in store.list_runs("default"):
        check_valid(store, row.header.run)
    assert len(store.list_runs("default")) == 4
    store.close()


def test_a_forked_child_cannot_give_its_parents_run_away(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    journal = Journal.create(store, RUN)

    def leaves(pipe: Pipe, _: object) -> None:
        try:
            with journal:
                raise SystemExit  # as a child that leaves the block it was forked in
        except (SystemExit, Refused):
            pass

    def takes(pipe: Pipe, _: object) -> None:
        with pytest.raises(Refused):
            Journal.open(store, RUN)

    in_child(leaves)
    in_child(takes)
    journal.append(signal_event("mine still"))
    store.close()


def test_a_holder_in_another_container_is_not_taken_for_dead(tmp_path: Path) -> None:
    """Two containers on one machine share the boot id and a volume, and see none of each other's processes."""
    isolated = ("unshare", "-rpf", "--mount-proc")
    if not allowed(*isolated, "true"):
        pytest.skip("no private process namespaces here (unshare -rpf --mount-proc)")
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    journal = Journal.create(store, RUN)
    result = python(
        """
        import sys
        from onrecord.errors import Refused
        from onrecord.journal.journal import Journal
        from onrecord.store.sqlite.store import SqliteStore
        try:
            Journal.open(SqliteStore(sys.argv[1]), "run")
        except Refused as error:
            print(error.code)
        else:
            print("taken over")
        """,
        path,
        before=isolated,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "run_busy\n"
    journal.append(signal_event("mine still"))
    store.close()


# Limits


def use_up_descriptors(spare: int = 0) -> list[int]:
    """Opens what may be opened but `spare`; returns the descriptors."""
    taken: list[int] = []
    with suppress(OSError):
        while True:
            taken.append(os.dup(0))
    for _ in range(spare):
        os.close(taken.pop())
    return taken


def limited(path: Path, kind: int, limit: int, act: Callable[[Journal], None]) -> dict[int, bytes]:
    """Runs `act` on a fresh run in a child under a resource limit, lifts the limit, and goes on with the same handle;
    what was acknowledged."""

    def work(pipe: Pipe, _: object) -> None:
        store = SqliteStore(path)
        journal = Journal.create(store, RUN)
        (done,) = journal.append(signal_event("before"))
        pipe.ack([(done.seq, done.hash)])
        soft, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (limit, hard))
        taken = use_up_descriptors() if kind == resource.RLIMIT_NOFILE else []
        failures: list[OnrecordError] = []
        for _ in range(400):
            try:
                act(journal)
            except OnrecordError as error:
                failures.append(error)
                break
            last = journal.event(journal.head().seq)
            pipe.ack([(last.seq, last.hash)])
        resource.setrlimit(kind, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)
        assert failures, "the limit was never felt"
        assert str(path) in failures[0].message, failures[0].message
        if failures[0].code == "outcome_unknown":
            journal.reopen()
        (done,) = journal.append(signal_event("after"))
        pipe.ack([(done.seq, done.hash)])

    status, acked, error = Child(work).end()
    assert error == ""
    assert status == 0
    return dict(acked)


@pytest.mark.parametrize("payload", ["x" * 4000, b"artifact" * 60_000])
def test_the_largest_file_size_is_reached(tmp_path: Path, payload: object) -> None:
    path = tmp_path / "store.db"
    with no_hanging():
        acked = limited(path, resource.RLIMIT_FSIZE, 400_000, lambda j: j.append(signal_event(payload)) and None)
    assert len(acked) >= 2
    check_left(path, acked)


def test_no_more_files_may_be_opened(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    def act(journal: Journal) -> None:
        journal.append(signal_event("needs none"))
        journal.append(signal_event(os.urandom(70_000)))

    with no_hanging():
        acked = limited(path, resource.RLIMIT_NOFILE, 200, act)
    check_left(path, acked)


def test_opening_a_store_without_file_descriptors(tmp_path: Path) -> None:
    """At every number of descriptors that are left: it works or it is a clear error, and it works afterwards."""
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    with Journal.create(store, RUN) as journal:
        journal.append(signal_event(1))
    store.close()

    def work(pipe: Pipe, _: object) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        opened = failed = 0
        leaked: list[BaseException] = []
        for spare in range(12):
            resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
            taken = use_up_descriptors(spare)
            leases.read_boot_id.cache_clear()  # as in a process that has just begun
            again = None
            try:
                again = SqliteStore(path)
                with Journal.open(again, RUN) as journal:
                    journal.append(signal_event(spare))
                opened += 1
            except OnrecordError:
                failed += 1
            except OSError as error:
                leaked.append(error)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                for descriptor in taken:
                    os.close(descriptor)
            if again is not None:
                again.close()
        assert opened
        assert failed
        if leaked:
            raise leaked[0]

    status, _, error = Child(work).end()
    check_left(path, {})
    if "OSError" in error:
        raise OSError(error)
    assert (status, error) == (0, "")


# A full disk


FULL_DISK = """
    import os, subprocess, sys
    from onrecord.core.events import SignalReceived
    from onrecord.errors import OnrecordError
    from onrecord.journal.journal import Journal
    from onrecord.journal.verify import verify_run
    from onrecord.store.sqlite.store import SqliteStore
    folder, size, ballast_bytes, kind = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    ballast = os.path.join(folder, "ballast")
    with open(ballast, "wb") as file:
        file.write(bytes(ballast_bytes))
    path = os.path.join(folder, "store.db")
    store = SqliteStore(path)
    journal = Journal.create(store, "run")
    acked = {}

    def append(payload, sync=True):
        for done in journal.append([SignalReceived(name="s", payload=payload)], sync=sync):
            acked[done.seq] = done.hash

    failures = []
    for number in range(3000):
        payload = os.urandom(70_000) if kind == "artifact" else os.urandom(2500).hex()
        try:
            append(payload, sync=number % 3 == 0)
        except OnrecordError as error:
            failures.append(error)
            if error.code in ("outcome_unknown", "poisoned"):
                journal.reopen()
            if len(failures) == 5:
                break
    assert len(failures) == 5, failures
    assert len(acked) > 3, acked
    first = failures[0]
    assert first.code == "disk_full", (first.code, first.message)
    assert path in first.message and "bytes free" in first.message, first.message
    report = verify_run(store, "run", deep=True)
    assert report.valid, report.problems
    os.unlink(ballast)
    append("space again")
    store.close()
    again = SqliteStore(path)
    there = {row.seq: "sha256:" + row.hash.hex() for row in again.scan("default", "run")}
    assert {seq: there.get(seq) for seq in acked} == acked
    assert there.keys() == acked.keys()
    assert verify_run(again, "run", deep=True).valid
    with Journal.open(again, "run") as journal:
        journal.append(SignalReceived(name="s", payload="went on"))
    again.close()
    left = [name for _, _, names in os.walk(folder) for name in names if ".tmp" in name]
    assert left == [], left
    print("done", len(acked))
"""


@pytest.mark.parametrize("kind", ["events", "artifact"])
def test_a_full_disk(tmp_path: Path, kind: str) -> None:
    if not allowed("unshare", "-rm", "true"):
        pytest.skip("no private mount namespaces here (unshare -rm)")
    result = python(FULL_DISK, tmp_path, "2m", 1_050_000, kind, before=("unshare", "-rm"))
    assert result.stdout.startswith("done"), result.stderr


def test_a_disk_that_is_full_from_the_start(tmp_path: Path) -> None:
    if not allowed("unshare", "-rm", "true"):
        pytest.skip("no private mount namespaces here (unshare -rm)")
    result = python(
        """
        import os, subprocess, sys
        from onrecord.core.events import SignalReceived
        from onrecord.errors import OnrecordError
        from onrecord.journal.journal import Journal
        from onrecord.store.sqlite.store import SqliteStore
        folder = sys.argv[1]
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", folder], check=True)
        path, ballast = os.path.join(folder, "store.db"), os.path.join(folder, "ballast")
        failed = 0
        for free in range(0, 400_000, int(sys.argv[2])):
            for name in os.listdir(folder):
                os.unlink(os.path.join(folder, name))
            with open(ballast, "wb") as file:
                file.write(bytes(512 * 1024 - free))
            store = None
            try:
                store = SqliteStore(path)
                Journal.create(store, "run").append(SignalReceived(name="s", payload="x" * 3000))
            except OnrecordError as error:
                failed += 1
                assert path in error.message, error.message
            os.unlink(ballast)
            if store is None:
                store = SqliteStore(path)
            Journal.create(store, "second").append(SignalReceived(name="s", payload=1))
            store.close()
        assert 3 < failed < 45, failed
        print("done")
        """,
        tmp_path,
        8192 if SOAK else 20_480,
        before=("unshare", "-rm"),
    )
    assert result.stdout == "done\n", result.stderr


# The end of an interpreter


@pytest.mark.parametrize(
    "ending",
    [
        "pass",
        "sys.exit(3)",
        "raise RuntimeError",
        "os._exit(0)",
        "os.kill(os.getpid(), 15)",
        "threading.Thread(target=forever, daemon=True).start(); time.sleep(0.05)",
        "import atexit; atexit.register(append)",
        "import gc; del store; gc.collect(); append()",
    ],
)
def test_an_interpreter_that_ends_without_closing(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "store.db"
    code = f"""
import os, sys, threading, time
from onrecord.core.events import SignalReceived
from onrecord.journal.journal import Journal
from onrecord.store.sqlite.store import SqliteStore
store = SqliteStore(sys.argv[1])
journal = Journal.create(store, "run")
def append(sync=True):
    for done in journal.append([SignalReceived(name="s", payload="x" * 1800)], sync=sync):
        os.write(1, f"ack {{done.seq}} {{done.hash}}\\n".encode())
def forever():
    while True:
        append(sync=False)
for number in range(10):
    append(sync=number % 2 == 0)
{ending}
"""
    result = python(code, path)
    acked = acknowledged_in(result.stdout)
    assert len(acked) >= 10, result.stderr
    assert "apsw" not in result.stderr, result.stderr
    check_left(path, acked)


# Syncs that fail


SYNCING = """
    import sys
    from onrecord.core.events import SignalReceived
    from onrecord.errors import OutcomeUnknown, Poisoned, OnrecordError
    from onrecord.journal.chain import Draft
    from onrecord.journal.journal import Journal
    from onrecord.store.sqlite.store import SqliteStore

    def retried(act):
        for attempt in range(3):
            try:
                return act()
            except OnrecordError as error:
                print("failed", error.code, flush=True)
                failures.append(error)
        raise AssertionError(failures)

    failures = []
    store = retried(lambda: SqliteStore(sys.argv[1]))
    def begin():
        return Journal.create(store, "run") if store.run_row("default", "run") is None else Journal.open(store, "run")
    journal = retried(begin)
    for number in range(8):
        draft = Draft(SignalReceived(name="s", payload="x" * 500), id=f"e{number}")
        try:
            (done,) = journal.append(draft)
        except OutcomeUnknown as error:
            print("failed", error.code, flush=True)
            try:
                journal.append(draft)
            except Poisoned as poisoned:
                print("failed", poisoned.code, flush=True)
            else:
                raise AssertionError("a handle was used after a failed sync")
            journal.reopen()
            (done,) = journal.append(draft)
        print("ack", done.seq, done.hash, flush=True)
    retried(store.close)
    print("done", flush=True)
"""


def test_fdatasync_fails(tmp_path: Path) -> None:
    """An fdatasync of a small recording fails: that is reported, and the handle is poisoned until it is reopened."""
    if not allowed("strace", "-f", "-o", "/dev/null", "true"):
        pytest.skip("no strace here, or not permitted")
    seen: set[str] = set()
    numbers = range(1, 60) if SOAK else (1, 2, 4, 7, 10, 14, 40)
    for number in numbers:
        path = tmp_path / str(number) / "store.db"
        inject = f"inject=fdatasync:error=EIO:when={number}"
        trace = tmp_path / "trace"
        before = ("strace", "-f", "-qq", "-o", str(trace), "-e", "trace=fdatasync", "-e", inject)
        result = python(SYNCING, path, before=before)
        assert result.stdout.endswith("done\n"), (number, result.stdout[-300:], result.stderr)
        acked = acknowledged_in(result.stdout)
        assert sorted(acked) == list(range(1, 9))
        check_left(path, acked)
        if "(INJECTED)" not in trace.read_text():
            break
        seen.update(re.findall(r"failed (\w+)", result.stdout))
    else:
        raise AssertionError("the faults do not end")
    assert number > 8, "hardly any sync was made to fail"
    assert {"outcome_unknown", "poisoned"} <= seen
