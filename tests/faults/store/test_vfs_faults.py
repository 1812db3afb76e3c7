"""Disks that fail under SQLite: every write, sync and truncation of a recording fails once, in every way; and power
cuts at any moment.

Whatever happens: a OnrecordError or success, nothing else; everything acknowledged is there; the store verifies; it can
be appended to again.
"""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.chance import repeatable, seeded
from kit.children import Child, Pipe, no_hanging
from kit.fault_vfs import DIED, Disk, Power, installed
from kit.soak import SOAK, seeds
from kit.store_writers import PERSONA, Agent, check_acknowledged, check_valid, go_on
from onrecord.core.events import (
    ActionRequested,
    ActionSucceeded,
    Completed,
    Event,
    Interrupted,
    Resumed,
    SignalReceived,
    StateUpdated,
    ValuesDrawn,
)
from onrecord.core.state import StateUpdatedOnlyReducer
from onrecord.errors import OnrecordError, OutcomeUnknown, Poisoned, RunExists, StoreUnavailable
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.journal.snapshots import load_snapshot, take_snapshot
from onrecord.store.sqlite.store import SqliteStore

RUN = "run"
EVENTS = 50
STEP = 1 if SOAK else 29
"""The distance between two operations that fail. The first and the last of each kind always do."""
PAGES = 25
"""A checkpoint after so many pages: several of them in one recording."""


pytestmark = pytest.mark.filterwarnings(
    # When a layer in Python fails twice in one call, apsw raises one exception and prints the other.
    r"ignore:Exception ignored in. None:pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(autouse=True)
def nothing_left_for_other_tests() -> Iterator[None]:
    """A connection to a broken disk that is collected later would print its error into another test."""
    yield
    gc.collect()


def batches() -> list[tuple[list[Event], bool]]:
    """Fifty events but for the voucher of a snapshot, each batch with whether it is synced."""
    talk = [{"role": "system", "content": PERSONA}]
    found: list[tuple[list[Event], bool]] = []
    for number in range(6):
        talk.append({"role": "user", "content": f"question {number} " * 60})
        action = f"a{number}"
        found.append(([ActionRequested(action_id=action, payload={"messages": list(talk)}, name="ask")], number != 2))
        found.append(([ActionSucceeded(action_id=action, output=f"answer {number}")], True))
        found.append(([ValuesDrawn(draws=[number, n]) for n in range(4)], number % 2 == 0))
    found.append(([StateUpdated(payload={"talk": talk[:2]})], True))
    found.append(([SignalReceived(name="file", payload=b"artifact" * 9000)], True))
    found.append(([Interrupted(value="really?"), Resumed(value=True)], False))
    found.append(([SignalReceived(name=f"s{n}", payload="x" * 1800 * (n % 2)) for n in range(9)], True))
    return found


class Recording:
    """Carries the scenario out, and after each failure does what a careful caller does: reopen, look, try again."""

    def __init__(self, path: Path, ack: Callable[[list[tuple[int, str]], bool], None]) -> None:
        self._path = path
        self._ack = ack
        self.failures: list[OnrecordError] = []
        self.allowed = 1

    def _try(self, act: Callable[[], Any]) -> Any:
        while True:
            try:
                return act()
            except OnrecordError as error:
                self.failures.append(error)
                if len(self.failures) > self.allowed:
                    raise AssertionError(f"one fault, and still failing: {self.failures}") from error
                self.on_failure(error)

    def on_failure(self, error: OnrecordError) -> None: ...

    def on_opened(self) -> None: ...

    def run(self) -> None:
        store = self._try(lambda: SqliteStore(self._path))
        self.on_opened()
        journal = self._try(lambda: begin(store))
        for number, (events, sync) in enumerate(batches()):
            drafts = [Draft(event, id=f"e{number}-{at}") for at, event in enumerate(events)]
            done = self._try(lambda d=drafts, s=sync: append(journal, d, s))
            self._ack([(one.seq, one.hash) for one in done], sync)
            if isinstance(events[0], StateUpdated):
                self._snapshot(journal, done[-1].seq, events[0].payload)
        self._try(journal.release)
        self._try(store.close)

    def _snapshot(self, journal: Journal, position: int, state: Any) -> None:
        def take() -> None:
            if journal._poisoned:
                journal.reopen()
            if journal.head().seq == position:
                take_snapshot(journal, StateUpdatedOnlyReducer(), state, position)

        self._try(take)
        voucher = journal.event(position + 1)
        self._ack([(voucher.seq, voucher.hash)], True)


def begin(store: SqliteStore) -> Journal:
    try:
        return Journal.create(store, RUN)
    except RunExists:
        return Journal.open(store, RUN)


def append(journal: Journal, drafts: list[Draft], sync: bool) -> Any:
    try:
        return journal.append(drafts, sync=sync)
    except Poisoned:
        journal.reopen()
        return journal.append(drafts, sync=sync)


def check_after(path: Path, acked: dict[int, bytes], *, whole: bool) -> None:
    store = SqliteStore(path)
    try:
        if store.run_row("default", RUN) is None:
            assert not acked
            Journal.create(store, RUN).release()
        check_acknowledged(store, RUN, acked)
        report = check_valid(store, RUN, deep=True)
        if whole:
            assert report.events == EVENTS
            assert report.snapshots <= 1
        with Journal.open(store, RUN) as journal:
            assert load_snapshot(journal, StateUpdatedOnlyReducer())[1] == []
            journal.append([SignalReceived(name="more", payload=1), Completed(output="done")])
        assert check_valid(store, RUN).terminal == "Completed"
        leftovers = [n for _, _, names in os.walk(str(path) + ".artifacts") for n in names if n.startswith(".tmp")]
        assert leftovers == [] or not whole
    finally:
        store.close()


def fresh(tmp_path: Path, number: int) -> Path:
    folder = tmp_path / str(number)
    folder.mkdir()
    return folder / "store.db"


def acknowledging(acked: dict[int, bytes]) -> Callable[[list[tuple[int, str]], bool], None]:
    def ack(done: list[tuple[int, str]], synced: bool) -> None:
        acked.update((seq, bytes.fromhex(digest[7:])) for seq, digest in done)

    return ack


def test_the_scenario_without_a_fault(tmp_path: Path) -> None:
    disk, acked = Disk(), {}
    path = fresh(tmp_path, 0)
    with installed(disk, checkpoint_pages=PAGES):
        Recording(path, acknowledging(acked)).run()
    assert len(acked) == EVENTS
    assert disk.count > 200
    check_after(path, acked, whole=True)


def operations(folder: Path) -> tuple[list[int], list[int]]:
    """Return the numbers of the operations to fail: while the store is made, and of the recording after that."""
    disk = Disk()
    recording = Recording(fresh(folder, 0), lambda *_: None)
    made: list[int] = []
    recording.on_opened = lambda: made.append(disk.count)  # type: ignore[method-assign]
    with installed(disk, checkpoint_pages=PAGES):
        recording.run()
    return chosen(disk.kinds[: made[0]]), chosen(disk.kinds[made[0] :])


def chosen(kinds: list[str]) -> list[int]:
    numbers = range(1, len(kinds) + 1)
    ends = {kind: at for at, kind in zip(numbers, kinds, strict=True)}.values()
    begins = {kind: at for at, kind in zip(reversed(numbers), reversed(kinds), strict=True)}.values()
    return sorted({*begins, *ends, *numbers[::STEP]})


@pytest.mark.parametrize("fault", ["error", "full"])
def test_every_operation_fails_once(tmp_path: Path, fault: str) -> None:
    disk = Disk()
    made, recorded = operations(tmp_path)
    exercised = noticed = 0
    for at in [*made, *(made[-1] + number for number in recorded)]:
        path, acked = fresh(tmp_path, at), {}
        disk.plan(at, fault)
        recording = Recording(path, acknowledging(acked))
        with repeatable(fault=fault, at=at, hit=disk.hit), no_hanging():
            with installed(disk, checkpoint_pages=PAGES):
                recording.run()
            if disk.hit is None:  # the last ones depend on when a thread of the store gets its turn
                continue
            with repeatable(hit=disk.hit, failures=recording.failures):
                check_after(path, acked, whole=True)
                for failure in recording.failures:
                    assert isinstance(failure, (StoreUnavailable, OutcomeUnknown))
                    assert str(path) in failure.message
                    if failure.code == "disk_full":
                        assert "bytes free" in failure.message
        exercised += 1
        noticed += bool(recording.failures)
    assert exercised > (150 if SOAK else 15), "hardly anything was made to fail"
    assert noticed > exercised // 2, "most faults went unnoticed by the caller"


def dies_at(path: Path, at: int, *, while_opening: bool) -> tuple[int, dict[int, bytes]]:
    """The exit status of a child that records and dies at operation `at`, and what it acknowledged."""

    def work(pipe: Pipe, _: object) -> None:
        disk = Disk()
        recording = Recording(path, pipe.ack)
        if while_opening:
            disk.plan(at, "die")
            recording.on_opened = disk.mend  # type: ignore[method-assign]
        else:
            recording.on_opened = lambda: disk.plan(at, "die")  # type: ignore[method-assign]
        with installed(disk, checkpoint_pages=PAGES):
            recording.run()

    status, acked, error = Child(work).end()
    assert error == ""
    return status, dict(acked)


def test_the_process_dies_at_every_operation(tmp_path: Path) -> None:
    exercised = 0
    for at in operations(tmp_path)[1]:
        path = fresh(tmp_path, at)
        with repeatable(at=at), no_hanging():
            status, acked = dies_at(path, at, while_opening=False)
            if status == 0:
                continue
            assert status == DIED
            check_after(path, acked, whole=False)
        exercised += 1
    assert exercised > (150 if SOAK else 15)


def test_the_process_dies_while_the_store_is_made(tmp_path: Path) -> None:
    bad: list[str] = []
    numbers = operations(tmp_path)[0]
    for at in numbers:
        path = fresh(tmp_path, at)
        with repeatable(at=at), no_hanging():
            status, acked = dies_at(path, at, while_opening=True)
            assert status == DIED
            try:
                check_after(path, acked, whole=False)
            except OnrecordError as error:
                bad.append(f"operation {at}: {error}")
    assert bad == []
    assert len(numbers) > (20 if SOAK else 4)


@pytest.mark.parametrize("fault", ["error", "full"])
def test_a_disk_that_stays_broken_and_is_mended(tmp_path: Path, fault: str) -> None:
    """Everything fails from some operation on: each call gives one clear error, also close(), and once there is space
    again the same handles go on."""

    class Patient(Recording):
        def on_failure(self, error: OnrecordError) -> None:
            if len(self.failures) == self.allowed:
                disk.mend()

    disk = Disk()
    exercised = 0
    for at in range(1, 500, 7 if SOAK else 43):
        path, acked = fresh(tmp_path, at), {}
        disk.plan(at, fault, lasting=True)
        recording = Patient(path, acknowledging(acked))
        recording.allowed = 4
        with repeatable(fault=fault, at=at), no_hanging(), installed(disk, checkpoint_pages=PAGES):
            recording.run()
        if recording.failures:
            exercised += 1
            with repeatable(fault=fault, at=at, hit=disk.hit, failures=recording.failures):
                check_after(path, acked, whole=True)
    assert exercised > (30 if SOAK else 5)


def test_close_on_a_broken_disk_is_quiet_or_a_clear_error(tmp_path: Path) -> None:
    for at in range(1, 60, 1 if SOAK else 4):
        disk, path, acked = Disk(), fresh(tmp_path, at), {}
        with repeatable(at=at), no_hanging(), installed(disk):
            store = SqliteStore(path)
            journal = Journal.create(store, RUN)
            for number in range(20):
                (done,) = journal.append(SignalReceived(name="s", payload="x" * 300 * number))
                acked[done.seq] = bytes.fromhex(done.hash[7:])
            assert store.run_row("default", RUN) is not None
            disk.plan(at, "error", lasting=True)
            try:
                journal.release()
                store.close()
            except OnrecordError:
                pass
            hit = disk.hit
        check_after(path, acked, whole=False)
        if hit is None:
            break
    assert at > 10


# Power cuts

RECORDINGS = 60 if SOAK else 2


class Cuts:
    """Collects what power cuts during a recording could leave, with what had been acknowledged as durable by then."""

    def __init__(self, power: Power, root: str, rng: random.Random, chance: float) -> None:
        self._power, self._root, self._rng, self._chance = power, root, rng, chance
        self.acked: dict[int, bytes] = {}
        self.ends: set[int] = {0}
        self.durable = 0
        self.found: list[tuple[int, int, dict[str, bytes]]] = []

    def begin(self) -> None:
        self._power.at_each = self.maybe

    def ack(self, done: list[tuple[int, str]], synced: bool) -> None:
        self.acked.update((seq, bytes.fromhex(digest[7:])) for seq, digest in done)
        self.ends.add(done[-1][0])
        if synced:
            self.durable = done[-1][0]

    def maybe(self) -> None:
        if self._rng.random() < self._chance:
            self.cut()

    def cut(self, *, nothing_more: bool = False) -> dict[str, bytes]:
        left = self._power.after_a_cut(self._rng, nothing_more=nothing_more)
        left.update(self._power.artifacts_after_a_cut(self._root, self._rng, nothing_more=nothing_more))
        self.found.append((self.durable, len(self.found), left))
        return left


def boot(tmp_path: Path, number: int, old: Path, left: dict[str, bytes]) -> Path:
    """The files after the reboot, in a folder of their own."""
    folder = tmp_path / f"boot-{number}"
    for name, content in left.items():
        target = folder / os.path.relpath(name, old)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(0o600)
    return folder / "store.db"


def check_boot(path: Path, cuts: Cuts, durable: int) -> int:
    """How many events that nobody was promised came through too."""
    if not path.exists():
        assert durable == 0
        return 0
    store = SqliteStore(path)
    try:
        if store.run_row("default", RUN) is None:
            assert durable == 0
            return 0
        check_acknowledged(store, RUN, {seq: digest for seq, digest in cuts.acked.items() if seq <= durable})
        report = check_valid(store, RUN, deep=True)
        there = {row.seq: row.hash for row in store.scan("default", RUN, contents=False)}
        assert all(cuts.acked.get(seq, digest) == digest for seq, digest in there.items()), "another history"
        # The batch in the middle of which it happened may be there, but only as a whole.
        assert report.events in cuts.ends
        with Journal.open(store, RUN) as journal:
            assert load_snapshot(journal, StateUpdatedOnlyReducer())[1] == []
        go_on(store, RUN, {})
        return report.events - durable
    finally:
        store.close()


@pytest.mark.parametrize("durability", ["full", "relaxed"])
@pytest.mark.parametrize("shard", seeds(1, 4))
def test_power_cuts_at_any_moment(tmp_path: Path, shard: int, durability: str) -> None:
    checked = bonus = 0
    for number in range(RECORDINGS):
        rng = seeded("power", durability, shard, number)
        old = tmp_path / f"old-{number}"
        old.mkdir()
        power = Power()
        cuts = Cuts(power, str(old / "store.db.artifacts"), rng, 0.06)
        with repeatable(shard=shard, number=number), no_hanging():
            with installed(power, checkpoint_pages=rng.choice((5, 25, 1000))):
                record_with_cuts(old, durability, rng, cuts)
            # Only a full store promises anything for the moment of the cut.
            for durable, at, left in cuts.found:
                path = boot(tmp_path, number * 1000 + at, old, left)
                with repeatable(cut=at):
                    bonus += check_boot(path, cuts, durable if durability == "full" else 0)
                checked += 1
    assert checked >= 13 * RECORDINGS, checked
    assert bonus > 0, "nothing unsynced ever came through: the model is too strict to show anything"


def record_with_cuts(folder: Path, durability: str, rng: random.Random, cuts: Cuts) -> None:
    store = SqliteStore(folder / "store.db", durability=durability)
    cuts.begin()
    journal = Journal.create(store, RUN)
    for part in range(2):
        agent = Agent(journal, rng, cuts.ack)
        for _ in range(20):
            agent.step()
            if rng.random() < 0.03:
                store._writer.checkpoint()
        cuts.cut(nothing_more=True)
        journal.release()
        store.close()
        cuts.cut()
        if part == 0:
            store = SqliteStore(folder / "store.db", durability=durability)
            journal = Journal.open(store, RUN)


def test_power_cuts_while_the_store_is_made(tmp_path: Path) -> None:
    bad: list[str] = []
    checked = 0
    for number in range(RECORDINGS):
        rng = seeded("making", number)
        old = tmp_path / f"old-{number}"
        old.mkdir()
        power = Power()
        cuts = Cuts(power, str(old / "store.db.artifacts"), rng, 0.7)
        with repeatable(number=number), no_hanging(), installed(power):
            cuts.begin()
            store = SqliteStore(old / "store.db")
            cuts.cut()
            store.close()
        for _, at, left in cuts.found:
            path = boot(tmp_path, number * 1000 + at, old, left)
            checked += 1
            with repeatable(number=number, cut=at):
                try:
                    store = SqliteStore(path)
                except OnrecordError as error:
                    bad.append(f"cut {at}: {error}")
                    continue
                Journal.create(store, RUN).append(event("a"))
                assert names_after(store) == ["a"]
                store.close()
    assert bad == []
    assert checked > 10 * RECORDINGS


class Lightning:
    """A store on a model disk, for one scenario and one cut at its end."""

    def __init__(self, tmp_path: Path) -> None:
        self.power = Power()
        self._tmp = tmp_path
        self.old = tmp_path / "old"
        self.old.mkdir()

    def open(self) -> Journal:
        self.store = SqliteStore(self.old / "store.db")
        return Journal.create(self.store, RUN)

    def strike(self) -> SqliteStore:
        left = self.power.after_a_cut(random.Random(0), nothing_more=True)
        self.booted = SqliteStore(boot(self._tmp, 0, self.old, left))
        return self.booted

    def close(self) -> None:
        self.store.close()
        self.booted.close()


def event(name: str) -> Draft:
    return Draft(SignalReceived(name=name, payload=name), id=name)


def names_after(store: SqliteStore) -> list[str]:
    check_valid(store, RUN)
    return [row.id for row in store.scan("default", RUN)]


def test_the_model_loses_what_was_not_synced(tmp_path: Path) -> None:
    scene = Lightning(tmp_path)
    with installed(scene.power):
        journal = scene.open()
        journal.append(event("a"))
        journal.append(event("b"), sync=False)
    assert names_after(scene.strike()) == ["a"]
    with installed(scene.power):
        scene.close()


def test_a_synced_append_makes_earlier_ones_durable(tmp_path: Path) -> None:
    scene = Lightning(tmp_path)
    with installed(scene.power):
        journal = scene.open()
        journal.append(event("a"), sync=False)
        journal.append(event("b"))
    assert names_after(scene.strike()) == ["a", "b"]
    with installed(scene.power):
        scene.close()


def test_a_synced_append_of_a_known_id_is_durable(tmp_path: Path) -> None:
    """The answer to a repeated append is an acknowledgement like any other."""
    scene = Lightning(tmp_path)
    with installed(scene.power):
        journal = scene.open()
        journal.append(event("a"), sync=False)
        (again,) = journal.append(event("a"))
        assert again.seq == 1
    names = names_after(scene.strike())
    with installed(scene.power):
        scene.close()
    assert names == ["a"]


def after_a_failed_sync(tmp_path: Path, following: str, *, crash: bool) -> list[str]:
    """`b` could not be synced; then the caller went on with `following`, which was acknowledged. What a power cut
    leaves. `crash`: the process ends in between, without a checkpoint, and another one goes on."""
    scene = Lightning(tmp_path)
    with installed(scene.power):
        journal = scene.open()
        journal.append(event("a"))
        scene.power.fail_syncs = 1
        with pytest.raises(OutcomeUnknown):
            journal.append(event("b"))
        with pytest.raises(Poisoned):
            journal.append(event("b"))
        if crash:
            scene.store._writer.drop()
            scene.store._readers.drop(checkpoint=False)
            scene.store = SqliteStore(scene.store.path)
            journal = Journal.open(scene.store, RUN)
        else:
            journal.reopen()
        journal.append(event(following))
    names = names_after(scene.strike())
    with installed(scene.power):
        scene.close()
    return names


def test_a_repeated_append_after_a_failed_sync_is_durable(tmp_path: Path) -> None:
    """A failed sync is never repeated and taken for success: also not by asking whether the event is there."""
    assert after_a_failed_sync(tmp_path, "b", crash=False) == ["a", "b"]


def test_another_append_after_a_failed_sync_is_durable(tmp_path: Path) -> None:
    assert after_a_failed_sync(tmp_path, "c", crash=False)[-1] == "c"


def test_a_repeated_append_of_the_next_process_is_durable(tmp_path: Path) -> None:
    assert after_a_failed_sync(tmp_path, "b", crash=True) == ["a", "b"]


def test_another_append_of_the_next_process_is_durable(tmp_path: Path) -> None:
    """A kernel forgets what it failed to write, and the next sync succeeds: nothing may build on those pages."""
    assert after_a_failed_sync(tmp_path, "c", crash=True)[-1] == "c"
