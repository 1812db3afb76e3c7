"""Processes that judge runs side by side, and outlive each other.

1. Each process is started afresh, opens the store and loads code once. It is handed a run, and the next when it has
   answered: a long run holds nobody up but its own process.
2. One that dies was at the run that it has not answered. That run is reported with the signal or status, and another
   process takes its place.
3. A run that takes longer than it may is ended with its process, in the same way.
4. Each process leads a group of its own, so that Ctrl-C is ours to handle and whatever the agent's code started ends
   with it.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from types import TracebackType
from typing import Any

import msgspec

from reenact.cli.fleet_worker import START
from reenact.errors import ReenactError
from reenact.replays.fleet.results import CHECK_FOUND_SOMETHING, Finding

LOOKED_AT_EVERY_SECONDS = 1.0
MAY_BEGIN_WITHIN_SECONDS = 300.0
MAY_END_WITHIN_SECONDS = 2.0
KEPT_OUTPUT_BYTES = 4_000
MOST_OUTPUT_BYTES = 16 * 1024 * 1024


class WorkersFailed(ReenactError):
    """The processes could not begin: nothing about any run."""

    code = "workers_failed"
    exit_status = 70


class Worker:
    """One process, seen from outside."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.asked: str | None = None
        self.ready = False
        self.left = False
        self.silent = False
        """Its end of the line is closed: it has died, or the agent's code has closed it."""
        self.began = time.monotonic()
        """When it was asked, or started."""
        self.output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        fcntl.fcntl(self.output, fcntl.F_SETFL, os.O_APPEND)  # once it is emptied, it begins anew
        self.connection, theirs = Pipe()
        try:
            self.process = subprocess.Popen(  # noqa: S603 - this interpreter, and words of our own
                [sys.executable, "-P", "-c", START, json.dumps(sys.path), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self.output,
                stderr=self.output,
                pass_fds=[theirs.fileno()],
                process_group=0,
            )
        finally:
            theirs.close()
        self.handle = os.pidfd_open(self.process.pid)
        with suppress(OSError):
            self.connection.send_bytes(json.dumps(settings).encode())

    def ask(self, run: str) -> None:
        self.asked, self.began = run, time.monotonic()
        with suppress(OSError):  # it has died, which is seen soon
            self.connection.send_bytes(json.dumps({"run": run}).encode())

    def leave(self) -> None:
        """It ends by itself when it has answered."""
        self.left = True
        with suppress(OSError):
            self.connection.send_bytes(b"null")

    def messages(self) -> Iterator[dict[str, Any]]:
        try:
            while self.connection.poll():
                yield json.loads(self.connection.recv_bytes())
        except (EOFError, OSError):
            self.silent = True

    def written(self) -> str:
        """The end of what it wrote."""
        with suppress(OSError, ValueError):
            size = os.fstat(self.output.fileno()).st_size
            start = max(0, size - KEPT_OUTPUT_BYTES)
            return os.pread(self.output.fileno(), KEPT_OUTPUT_BYTES, start).decode("utf-8", "replace").strip()
        return ""

    def bound_output(self) -> None:
        with suppress(OSError):
            if os.fstat(self.output.fileno()).st_size > MOST_OUTPUT_BYTES:
                os.ftruncate(self.output.fileno(), 0)

    def end(self) -> int:
        """Ends it and all that it started; its status, negative for a signal."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
        status = self.process.wait()
        os.close(self.handle)
        self.connection.close()
        self.output.close()
        return status


class Pool:
    """A context manager: no process outlives it."""

    def __init__(
        self, settings: dict[str, Any], jobs: int, *, time_limit: float | None = None, isolated: bool = False
    ) -> None:
        self._settings, self._jobs, self._time_limit, self._isolated = settings, jobs, time_limit, isolated
        self._workers: list[Worker] = []
        self._waiting: deque[str] = deque()

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            deadline = time.monotonic() + MAY_END_WITHIN_SECONDS
            for worker in self._workers:
                worker.leave()
            for worker in self._workers:
                wait([worker.handle], max(0.0, deadline - time.monotonic()))
        while self._workers:
            self._workers[-1].end()
            self._workers.pop()

    def judged(self, runs: Sequence[str]) -> Iterator[tuple[str, Finding]]:
        """What is found about each, in the order it is found."""
        self._waiting.extend(runs)
        while self._waiting or any(worker.asked is not None for worker in self._workers):
            self._hand_out()
            watched: list[Connection | int] = [worker.connection for worker in self._workers]
            watched += [worker.handle for worker in self._workers]
            woken = wait(watched, self._rest())
            for worker in list(self._workers):
                ended = worker.handle in woken
                yield from self._heard(worker)
                if worker.silent and not ended:
                    wait([worker.handle], MAY_END_WITHIN_SECONDS)
                if ended or worker.silent:
                    yield from self._ended(worker)
                elif self._is_late(worker):
                    yield from self._ended(worker, late=True)
                else:
                    worker.bound_output()

    def _hand_out(self) -> None:
        able = [worker for worker in self._workers if worker.asked is not None or not worker.left]
        at_work = sum(worker.asked is not None for worker in able)
        while len(able) < min(self._jobs, len(self._waiting) + at_work):
            able.append(Worker(self._settings))
            self._workers.append(able[-1])
        for worker in able:
            if self._waiting and worker.ready and worker.asked is None:
                worker.ask(self._waiting.popleft())
                if self._isolated:
                    worker.leave()

    def _heard(self, worker: Worker) -> Iterator[tuple[str, Finding]]:
        for message in worker.messages():
            if "failed" in message:
                failed = message["failed"]
                problem = WorkersFailed(failed["message"], hint=failed["hint"], code=failed["code"])
                problem.exit_status = failed["status"]
                raise problem
            if "ready" in message:
                worker.ready = True
                continue
            found = msgspec.convert(message["found"], Finding)
            if found.status:
                found = msgspec.structs.replace(found, output=worker.written())
            worker.asked = None
            yield message["run"], found

    def _is_late(self, worker: Worker) -> bool:
        limit = self._time_limit if worker.ready else MAY_BEGIN_WITHIN_SECONDS
        at_work = worker.asked is not None or not worker.ready
        return limit is not None and at_work and time.monotonic() - worker.began > limit

    def _rest(self) -> float:
        """Until the next one is late, if nothing happens."""
        if self._time_limit is None:
            return LOOKED_AT_EVERY_SECONDS
        ends = [
            worker.began + self._time_limit - time.monotonic() for worker in self._workers if worker.asked is not None
        ]
        return min([LOOKED_AT_EVERY_SECONDS, *(max(0.0, end) + 0.001 for end in ends)])

    def _ended(self, worker: Worker, *, late: bool = False) -> Iterator[tuple[str, Finding]]:
        seconds = time.monotonic() - worker.began
        output = worker.written()
        self._workers.remove(worker)
        status = worker.end()
        if not worker.ready:
            raise WorkersFailed(
                f"a process that was to judge runs {_how(status)} before it began",
                hint=f"What it wrote last: {output.splitlines()[-1]}" if output else "Look at what its code loads.",
            )
        if worker.asked is None:
            return
        found = _late(self._time_limit or 0.0) if late else _died(status)
        yield worker.asked, msgspec.structs.replace(found, output=output, seconds=seconds)


def _died(status: int) -> Finding:
    return Finding(
        verdict="died",
        code="worker_died",
        message=f"the process that judged it {_how(status)}",
        hint="The other runs were judged by another one. What ends a process is in its code, or the memory ran out.",
        status=CHECK_FOUND_SOMETHING,
    )


def _late(seconds: float) -> Finding:
    return Finding(
        verdict="timed_out",
        code="timed_out",
        message=f"it took longer than {seconds:g} s and was ended",
        hint="Give it more with --time-limit, or look where it hangs: `reenact replay RUN`.",
        status=CHECK_FOUND_SOMETHING,
    )


def _how(status: int) -> str:
    if status >= 0:
        return f"ended itself with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
