"""Judge runs in parallel processes that may die.

1. Each process opens the store and loads code once. It gets the next run when it has answered the last one, so a long
   run delays only its own process.
2. If a process dies, its current run is reported with the signal or status, and a new process replaces it.
3. A run that exceeds the time limit is ended with its process, in the same way.
4. Each process leads its own process group. So Ctrl-C reaches only the parent, and processes that the agent's code
   started end with their group.
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

from onrecord.analysis.fleet.results import CHECK_FOUND_SOMETHING, Finding
from onrecord.cli.fleet.worker import START
from onrecord.errors import OnrecordError

POLL_SECONDS = 1.0
START_TIMEOUT_SECONDS = 300.0
EXIT_TIMEOUT_SECONDS = 2.0
KEPT_OUTPUT_BYTES = 4_000
MOST_OUTPUT_BYTES = 16 * 1024 * 1024


class WorkersFailed(OnrecordError):
    """Raised when a process cannot start. It concerns no single run."""

    code = "workers_failed"
    exit_status = 70


class PoolWorker:
    """Handle of one process."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.current_run: str | None = None
        self.ready = False
        self.is_leaving = False
        self.is_disconnected = False
        """True if its end of the pipe is closed: it has died, or the agent's code closed it."""
        self.since = time.monotonic()
        """The time of its start, or of the last assignment."""
        self.output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        fcntl.fcntl(
            self.output, fcntl.F_SETFL, os.O_APPEND
        )  # so that writing continues at the start after a truncation
        self.connection, child_end = Pipe()
        try:
            self.process = subprocess.Popen(  # noqa: S603 - this interpreter with fixed arguments
                [sys.executable, "-P", "-c", START, json.dumps(sys.path), str(child_end.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self.output,
                stderr=self.output,
                pass_fds=[child_end.fileno()],
                process_group=0,
            )
        finally:
            child_end.close()
        self.handle = os.pidfd_open(self.process.pid)
        with suppress(OSError):
            self.connection.send_bytes(json.dumps(settings).encode())

    def ask(self, run: str) -> None:
        self.current_run, self.since = run, time.monotonic()
        with suppress(OSError):  # a dead process is noticed by `judge_runs`
            self.connection.send_bytes(json.dumps({"run": run}).encode())

    def finish(self) -> None:
        """Let the process exit after its current run."""
        self.is_leaving = True
        with suppress(OSError):
            self.connection.send_bytes(b"null")

    def messages(self) -> Iterator[dict[str, Any]]:
        try:
            while self.connection.poll():
                yield json.loads(self.connection.recv_bytes())
        except (EOFError, OSError):
            self.is_disconnected = True

    def read_output_end(self) -> str:
        """Return the end of the process's output."""
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
        """Kill the process group and return the exit status, negative for a signal."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)  # not reaped yet, so the pid cannot be reused
        status = self.process.wait()
        os.close(self.handle)
        self.connection.close()
        self.output.close()
        return status


class ProcessPool:
    """Pool of processes, as a context manager that ends them all."""

    def __init__(
        self, settings: dict[str, Any], jobs: int, *, time_limit: float | None = None, isolated: bool = False
    ) -> None:
        self._settings, self._jobs, self._time_limit, self._isolated = settings, jobs, time_limit, isolated
        self._workers: list[PoolWorker] = []
        self._waiting: deque[str] = deque()

    def __enter__(self) -> ProcessPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            deadline = time.monotonic() + EXIT_TIMEOUT_SECONDS
            for worker in self._workers:
                worker.finish()
            for worker in self._workers:
                wait([worker.handle], max(0.0, deadline - time.monotonic()))
        while self._workers:
            self._workers[-1].end()
            self._workers.pop()

    def judge_runs(self, runs: Sequence[str]) -> Iterator[tuple[str, Finding]]:
        """Yield the finding of each run as soon as it is known."""
        self._waiting.extend(runs)
        while self._waiting or any(worker.current_run is not None for worker in self._workers):
            self._assign_runs()
            watched: list[Connection | int] = [worker.connection for worker in self._workers]
            watched += [worker.handle for worker in self._workers]
            ready_handles = wait(watched, self._seconds_to_wait())
            for worker in list(self._workers):
                ended = worker.handle in ready_handles
                yield from self._read_messages(worker)
                if worker.is_disconnected and not ended:
                    wait([worker.handle], EXIT_TIMEOUT_SECONDS)
                if ended or worker.is_disconnected:
                    yield from self._end_worker(worker)
                elif self._is_late(worker):
                    yield from self._end_worker(worker, timed_out=True)
                else:
                    worker.bound_output()

    def _assign_runs(self) -> None:
        available = [worker for worker in self._workers if worker.current_run is not None or not worker.is_leaving]
        busy = sum(worker.current_run is not None for worker in available)
        while len(available) < min(self._jobs, len(self._waiting) + busy):
            available.append(PoolWorker(self._settings))
            self._workers.append(available[-1])
        for worker in available:
            if self._waiting and worker.ready and worker.current_run is None:
                worker.ask(self._waiting.popleft())
                if self._isolated:
                    worker.finish()

    def _read_messages(self, worker: PoolWorker) -> Iterator[tuple[str, Finding]]:
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
                found = msgspec.structs.replace(found, output=worker.read_output_end())
            worker.current_run = None
            yield message["run"], found

    def _is_late(self, worker: PoolWorker) -> bool:
        limit = self._time_limit if worker.ready else START_TIMEOUT_SECONDS
        busy = worker.current_run is not None or not worker.ready
        return limit is not None and busy and time.monotonic() - worker.since > limit

    def _seconds_to_wait(self) -> float:
        """Return the seconds until the next time limit is reached."""
        if self._time_limit is None:
            return POLL_SECONDS
        ends = [
            worker.since + self._time_limit - time.monotonic()
            for worker in self._workers
            if worker.current_run is not None
        ]
        return min([POLL_SECONDS, *(max(0.0, end) + 0.001 for end in ends)])

    def _end_worker(self, worker: PoolWorker, *, timed_out: bool = False) -> Iterator[tuple[str, Finding]]:
        seconds = time.monotonic() - worker.since
        output = worker.read_output_end()
        self._workers.remove(worker)
        status = worker.end()
        if not worker.ready:
            raise WorkersFailed(
                f"a judging process {_describe_exit(status)} before it was ready",
                hint=f"Its last output: {output.splitlines()[-1]}" if output else "Check what the code does on import.",
            )
        if worker.current_run is None:
            return
        found = Finding(
            verdict="died",
            code="worker_died",
            message=f"the process that judged it {_describe_exit(status)}",
            hint="Another process judged the other runs. The code ended the process, or the memory ran out.",
            status=CHECK_FOUND_SOMETHING,
            output=output,
            seconds=seconds,
        )
        if timed_out:
            message = f"it took longer than {self._time_limit or 0.0:g} s and was stopped"
            hint = "Raise --time-limit, or find where it hangs: `onrecord replay RUN`."
            found = msgspec.structs.replace(found, verdict="timed_out", code="timed_out", message=message, hint=hint)
        yield worker.current_run, found


def _describe_exit(status: int) -> str:
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
