"""What the crash tests share: seeds, an agent that writes, forked children that acknowledge over a pipe, and the check
of what a crash left behind.

`REENACT_SEED=n` repeats a failed test, `REENACT_SOAK=1` makes the rounds many more.
"""

from __future__ import annotations

import os
import random
import select
import signal
import struct
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reenact.core.events import (
    ActionRequested,
    ActionSucceeded,
    ChunkReceived,
    Event,
    SignalReceived,
    StateUpdated,
    ValuesDrawn,
)
from reenact.core.state import StateUpdatedOnlyReducer
from reenact.errors import ReenactError
from reenact.journal.chain import Draft
from reenact.journal.journal import Journal
from reenact.journal.reader import SequencedEvent
from reenact.journal.snapshots import take_snapshot
from reenact.journal.verify import VerificationReport, verify_run
from reenact.store.sqlite.store import SqliteStore

SEED = int(os.environ.get("REENACT_SEED") or random.SystemRandom().randrange(1 << 32))
SOAK = 20 if os.environ.get("REENACT_SOAK") == "1" else 1
HANG_SECONDS = 60


def seeded(*names: object) -> random.Random:
    return random.Random("/".join(map(str, (SEED, *names))))


@contextmanager
def told(**where: object) -> Iterator[None]:
    """Adds to any failure what is needed to repeat it."""
    try:
        yield
    except BaseException as failure:
        failure.add_note(f"REENACT_SEED={SEED} repeats this; {where}")
        raise


class Hangs(BaseException):
    """Not an Exception, so that nothing under test can take it for one of its own."""


@contextmanager
def no_hanging(seconds: float = HANG_SECONDS) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise Hangs(f"nothing happened for {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# The agent

Ack = Callable[[list[tuple[int, str]], bool], None]
"""Told (seq, hash) of a batch after `append` returned, and whether it was a synced one."""

PERSONA = "You are a careful assistant. " * 30


class Agent:
    """Writes what agents write, in any order: single events, batches, conversations that share their past, artifacts,
    snapshots, appends that do not wait for the disk."""

    def __init__(self, journal: Journal, rng: random.Random, ack: Ack) -> None:
        self.journal = journal
        self._rng = rng
        self._ack = ack
        self._talk: list[dict[str, str]] = [{"role": "system", "content": PERSONA}]
        self._name = rng.randbytes(6).hex()
        self._count = 0
        self._moves = [self._signal, self._batch, self._call, self._state, self._snapshot, self._artifact]

    def step(self) -> None:
        (move,) = self._rng.choices(self._moves, weights=[8, 5, 6, 3, 1, 1])
        move()

    def append(self, *events: Event) -> list[SequencedEvent]:
        sync = self._rng.random() < 0.7
        done = self.journal.append([Draft(event) for event in events], sync=sync)
        self._ack([(one.seq, one.hash) for one in done], sync)
        return done

    def _fresh(self) -> str:
        self._count += 1
        return f"{self._name}-{self._count}"

    def _signal(self) -> None:
        self.append(SignalReceived(name=self._fresh(), payload=self._rng.random()))

    def _batch(self) -> None:
        self.append(*(ValuesDrawn(draws=[self._fresh(), n]) for n in range(self._rng.randint(2, 12))))

    def _call(self) -> None:
        action = self._fresh()
        self._talk.append({"role": "user", "content": action + "?" * self._rng.choice((10, 700, 5000))})
        self.append(ActionRequested(action_id=action, payload={"messages": self._talk}, name="ask"))
        if self._rng.random() < 0.5:
            self.append(ChunkReceived(action_id=action, index=0, chunk="4"))
        self.append(ActionSucceeded(action_id=action, output={"text": action * 5, "usage": [1, 2.5]}))

    def _state(self) -> None:
        self.append(StateUpdated(payload={"turn": self._fresh(), "talk": self._talk[-2:]}))

    def _snapshot(self) -> None:
        state = {"kept": self._fresh()}
        done = self.append(StateUpdated(payload=state))
        take_snapshot(self.journal, StateUpdatedOnlyReducer(), state, done[-1].seq)
        voucher = self.journal.event(done[-1].seq + 1)
        self._ack([(voucher.seq, voucher.hash)], True)

    def _artifact(self) -> None:
        data = self._rng.randbytes(16) * self._rng.randint(4200, 5000)
        self.append(SignalReceived(name="file", payload=data))


# Children

_RECORD = struct.Struct(">cQ32s")
_READY, _ACK, _ERROR = b"R", b"A", b"E"


class Pipe:
    """The child's end: what is written here was returned by `append` before. One write for each batch, which the
    kernel takes whole."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def ready(self) -> None:
        os.write(self._descriptor, _RECORD.pack(_READY, 0, bytes(32)))

    def ack(self, done: list[tuple[int, str]], synced: bool = True) -> None:
        os.write(self._descriptor, b"".join(_RECORD.pack(_ACK, seq, bytes.fromhex(h[7:])) for seq, h in done))

    def error(self, text: str) -> None:
        data = text.encode()[-30_000:]
        os.write(self._descriptor, _RECORD.pack(_ERROR, len(data), bytes(32)) + data)


class Child:
    """A forked process that runs `work(pipe, stop)` and is never allowed to come back into the test runner."""

    def __init__(self, work: Callable[[Pipe, Callable[[], bool]], None]) -> None:
        reading, writing = os.pipe()
        stop_reading, stop_writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the test runner has threads; none of them is ours
            self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                signal.setitimer(signal.ITIMER_REAL, 0)
                os.close(reading)
                os.close(stop_writing)
                pipe = Pipe(writing)
                try:
                    work(pipe, lambda: bool(select.select([stop_reading], [], [], 0)[0]))
                    status = 0
                except BaseException:
                    pipe.error(traceback.format_exc())
            finally:
                os._exit(status)
        os.close(writing)
        os.close(stop_reading)
        self._reading = reading
        self._stop_writing = stop_writing
        self._data = b""
        self._ended = False

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        """Whatever failed, no stopped or endless child stays behind."""
        if not self._ended:
            self.kill()
            self.end()

    def wait_ready(self) -> None:
        while not any(self._data[at : at + 1] == _READY for at in range(0, len(self._data), _RECORD.size)):
            more = os.read(self._reading, 1 << 16)
            if not more:
                return
            self._data += more

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def stop(self) -> None:
        os.write(self._stop_writing, b"x")

    def end(self) -> tuple[int, list[tuple[int, bytes]], str]:
        """Waits for the end; the exit status (negative: the signal), what was acknowledged, and what went wrong."""
        chunks = [self._data]
        while more := os.read(self._reading, 1 << 20):
            chunks.append(more)
        _, status = os.waitpid(self.pid, 0)
        self._ended = True
        os.close(self._reading)
        os.close(self._stop_writing)
        return os.waitstatus_to_exitcode(status), *_parse(b"".join(chunks))


def _parse(data: bytes) -> tuple[list[tuple[int, bytes]], str]:
    acked: list[tuple[int, bytes]] = []
    at = 0
    while at < len(data):
        sort, number, digest = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        if sort == _ACK:
            acked.append((number, digest))
        elif sort == _ERROR:
            return acked, data[at : at + number].decode()
    return acked, ""


# What is left


def check_acknowledged(store: SqliteStore, run: str, acked: dict[int, bytes]) -> None:
    there = {row.seq: row.hash for row in store.scan("default", run, contents=False)}
    lost = sorted(seq for seq in acked if seq not in there)
    assert not lost, f"acknowledged and gone: {lost[:10]} of run {run}, which ends at {max(there, default=0)}"
    changed = sorted(seq for seq, digest in acked.items() if there[seq] != digest)
    assert not changed, f"acknowledged with another hash: {changed[:10]} of run {run}"


def check_valid(store: SqliteStore, run: str, *, deep: bool = False) -> VerificationReport:
    report = verify_run(store, run, deep=deep)
    assert report.valid, (report.line, report.problems[:5])
    return report


def go_on(store: SqliteStore, run: str, acked: dict[int, bytes]) -> None:
    """Takes the run over and appends, at once: a dead holder's lease is in nobody's way."""
    began = time.monotonic()
    with Journal.open(store, run) as journal:
        (done,) = journal.append(SignalReceived(name="went on", payload=None))
        acked[done.seq] = bytes.fromhex(done.hash[7:])
    assert time.monotonic() - began < 20, "the lease of a dead process was waited for"


def open_run(store: SqliteStore, run: str) -> Journal:
    return Journal.create(store, run) if store.run_row("default", run) is None else Journal.open(store, run)


def check_crash_site(path: Path, runs: dict[str, dict[int, bytes]], *, deep: bool = False) -> None:
    """A fresh look at the file: nothing acknowledged is lost, everything verifies, and every run goes on."""
    store = SqliteStore(path)
    try:
        for run, acked in runs.items():
            if store.run_row("default", run) is None:
                assert not acked, f"run {run} is gone with {len(acked)} acknowledged events"
                Journal.create(store, run).release()
            check_acknowledged(store, run, acked)
            go_on(store, run, acked)
            check_valid(store, run, deep=deep)
    finally:
        store.close()


__all__ = [
    "SEED",
    "SOAK",
    "Agent",
    "Child",
    "Hangs",
    "Pipe",
    "ReenactError",
    "check_acknowledged",
    "check_crash_site",
    "check_valid",
    "go_on",
    "no_hanging",
    "open_run",
    "seeded",
    "told",
]
