"""The command line as a process that is forked, not started.

Loading the command line takes ten times as long as most commands. One server for each pytest process loads it once and
forks a child for every call. The child is a process of its own: it has its own streams, working folder, environment and
exit status, and `onrecord run` replaces it by a new interpreter as it always does. Tests of the start itself, and tests
that send signals, start real processes instead.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

TIMEOUT_SECONDS = 120.0
MOST_DESCRIPTORS = 8
FIRST_FREE_DESCRIPTOR = 200
PYTHONPATH = os.environ.get("PYTHONPATH", "")
"""Path of the server. A test that hides packages from its programs may be the first to call it."""
_LENGTH = struct.Struct("!I")
_NUMBER = struct.Struct("!i")


def call(
    arguments: Sequence[str],
    *,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    input: str | None = None,  # noqa: A002 - as `subprocess.run` has it
    timeout: float = TIMEOUT_SECONDS,
    code: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run one command and return its status and output, as `subprocess.run(…, text=True, capture_output=True)` does.

    With `code`, run that Python code with the arguments instead.
    """
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        stdin.write((input or "").encode())
        stdin.seek(0)
        streams = {0: stdin.fileno(), 1: stdout.fileno(), 2: stderr.fileno()}
        process = ForkedProcess(arguments, streams, code=code, cwd=cwd, env=env)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = None
            _server().stop()
            _server.cache_clear()
        outputs = []
        for stream in (stdout, stderr):
            stream.seek(0)
            outputs.append(stream.read().decode().replace("\r\n", "\n"))
    if status is None:
        raise subprocess.TimeoutExpired(list(arguments), timeout, *outputs)
    return subprocess.CompletedProcess(list(arguments), status, *outputs)


class ForkedProcess:
    """A process that the server forks: the command line with these arguments, or the Python code with them.

    `descriptors` maps descriptors of the process to open ones of this process. With `terminal` the standard input is
    the controlling terminal of a new session. With `leads_group` the process leads a new process group.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        descriptors: Mapping[int, int],
        *,
        code: str | None = None,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        terminal: bool = False,
        leads_group: bool = False,
    ) -> None:
        self.arguments = [str(argument) for argument in arguments]
        self.returncode: int | None = None
        request = {
            "arguments": self.arguments,
            "code": code,
            "cwd": str(cwd or os.getcwd()),
            "env": dict(os.environ if env is None else env),
            "descriptors": list(descriptors),
            "terminal": terminal,
            "leads_group": leads_group,
        }
        self._news = _server().fork(request, list(descriptors.values()))
        self._news.settimeout(TIMEOUT_SECONDS)
        self.pid = self._read_number()

    def poll(self) -> int | None:
        """Return the exit status, or None while the process runs."""
        if self.returncode is None and select.select([self._news], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status, negative for a signal."""
        if self.returncode is None:
            self._news.settimeout(timeout)
            try:
                self.returncode = self._read_number()
            except TimeoutError:
                raise subprocess.TimeoutExpired(self.arguments, timeout or 0.0) from None
            self._news.close()
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _read_number(self) -> int:
        (number,) = _NUMBER.unpack(self._news.recv(_NUMBER.size, socket.MSG_WAITALL))
        return int(number)


class _Server:
    def __init__(self) -> None:
        self.owner = os.getpid()
        self._ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, str(Path(__file__)), str(theirs.fileno())]
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": PYTHONPATH},
            )
        atexit.register(self.stop)

    def fork(self, request: dict[str, Any], descriptors: list[int]) -> socket.socket:
        """Return the socket that receives the process id, and the exit status later."""
        ours, theirs = socket.socketpair()
        data = json.dumps(request).encode()
        with theirs:
            socket.send_fds(self._ours, [_LENGTH.pack(len(data))], [theirs.fileno(), *descriptors])
        self._ours.sendall(data)
        return ours

    def stop(self) -> None:
        """Kill the server and the commands it waits for."""
        if os.getpid() == self.owner:
            self._ours.close()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@cache
def _server() -> _Server:
    return _Server()


def _serve(descriptor: int) -> None:
    _load()
    requests = socket.socket(fileno=descriptor)
    running: dict[int, tuple[int, socket.socket]] = {}
    while True:
        for ready in select.select([requests.fileno(), *running], [], [])[0]:
            if ready in running:
                pid, news = running.pop(ready)
                _, status = os.waitpid(pid, 0)
                with contextlib.suppress(OSError), news:  # the caller may have left
                    news.sendall(_NUMBER.pack(os.waitstatus_to_exitcode(status)))
                os.close(ready)
                continue
            head, received, _, _ = socket.recv_fds(requests, _LENGTH.size, MOST_DESCRIPTORS)
            if not head:
                return
            (length,) = _LENGTH.unpack(head)
            request = json.loads(requests.recv(length, socket.MSG_WAITALL))
            news = socket.socket(fileno=received[0])
            pid = os.fork()
            if pid == 0:
                _become(request, received[1:])
            for stream in received[1:]:
                os.close(stream)
            news.sendall(_NUMBER.pack(pid))
            running[os.pidfd_open(pid)] = pid, news


def _load() -> None:
    """Load what commands load. What is missing here is loaded by the child, later."""
    from importlib import import_module

    from onrecord.cli.main import COMMANDS

    for module, _ in COMMANDS.values():
        import_module(f"onrecord.cli.commands.{module}")
    for name in (
        *("runtime.api.agent", "runtime.api.tool", "runtime.forks.fork", "runtime.waits.registry"),
        *("store.sqlite.store", "store.memory", "journal.verify", "capture.program_task", "capture.usage"),
        *("reports.runs", "reports.timelines", "reports.effects", "reports.statistics", "analysis.diff.runs"),
        *("cli.agent_loader", "cli.suspend", "cli.fleet.worker", "cli.render.model_context"),
    ):
        import_module(f"onrecord.{name}")


def _become(request: dict[str, Any], received: array.array[int] | list[int]) -> NoReturn:
    """Be the process of one command."""
    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, FIRST_FREE_DESCRIPTOR) for descriptor in received]
    os.closerange(3, FIRST_FREE_DESCRIPTOR)
    for number, descriptor in zip(request["descriptors"], moved, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request["terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if request["leads_group"]:
        os.setpgid(0, 0)
    _open_streams()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["onrecord" if request["code"] is None else "-c", *request["arguments"]]
    sys.path[0] = request["cwd"]
    status = 0
    try:
        if request["code"] is None:
            from onrecord.cli.entry import run

            run()
        else:
            main = sys.modules["__main__"] = ModuleType("__main__")
            exec(compile(request["code"], "<string>", "exec"), vars(main))
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    _leave(status)


def _open_streams() -> None:
    """Open the standard streams as an interpreter does at its start."""
    streams = (
        open(0, encoding="utf-8", closefd=False),  # noqa: SIM115 - open until the process ends
        open(1, "w", 1 if os.isatty(1) else -1, encoding="utf-8", closefd=False),  # noqa: SIM115
        open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False),  # noqa: SIM115
    )
    sys.stdin, sys.stdout, sys.stderr = streams
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = streams  # type: ignore[misc]


def _leave(status: int) -> NoReturn:
    """End as the interpreter does: threads are joined, exit handlers run, streams are flushed."""
    import threading

    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
