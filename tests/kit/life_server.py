"""Lives of a process under test: a server loads a module once, and forks for every life.

A life begins within milliseconds, in a process that has one thread and no open store. The server is the parent of its
lives: it signals them and waits for them, so a pid is never that of another process.

It reads one JSON list a line, and answers each with one value:

    ["begin", WORK, OPTIONS, FOLDER]   calls WORK(**OPTIONS) of the module in a fork; its pid
    ["signal", PID, NUMBER]            true; false if the life had ended
    ["wait", PID, SECONDS]             the exit status; null if it does not end
    ["end_all"]                        kills what still lives

What a life prints is appended to `errors.txt` in its folder, and its keys are there.
"""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

HANG_SECONDS = 120
PATIENCE_SECONDS = 60.0
"""For anything that takes a moment: the machine may be busy with something else."""
USUAL_ENDS = (0, -signal.SIGKILL, -signal.SIGTERM, 130, 143)


class LifeServer:
    """Serves test after test; each says in which folder it is."""

    def __init__(self, module: Path) -> None:
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = Path()

    def serve_in(self, folder: Path) -> None:
        self._folder = folder
        if self._process is not None:
            return
        tests = Path(__file__).resolve().parents[1]
        paths = [os.environ.get("PYTHONPATH", ""), str(self._module.parent), str(tests), str(tests.parent)]
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "kit.life_server", self._module.stem],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            start_new_session=True,
        )

    def _ask(self, *command: Any, seconds: float = PATIENCE_SECONDS) -> Any:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(command).encode() + b"\n")
        came, _, _ = select.select([process.stdout], [], [], seconds)
        answer = process.stdout.readline() if came else b""
        if not answer:
            self.close()
            how = f"ended with {process.wait()}" if came else f"did not answer within {seconds:g} seconds"
            raise AssertionError(f"the life server {how}, asked for {command[:2]}: {self.errors()}")
        return json.loads(answer)

    def end_all(self) -> None:
        if self._process is not None:
            self._ask("end_all")

    def begin(self, work: str, **options: Any) -> int:
        """Begin a life and return its pid."""
        pid: int = self._ask("begin", work, options, str(self._folder))
        return pid

    def signal(self, pid: int, number: int) -> bool:
        """Send a signal. Return False if the life had ended."""
        lived: bool = self._ask("signal", pid, number)
        return lived

    def wait(self, pid: int, seconds: float = HANG_SECONDS + 30, ends: tuple[int, ...] = USUAL_ENDS) -> int:
        """Wait for the end and return the exit status; negative: the signal that ended it."""
        status: int | None = self._ask("wait", pid, seconds, seconds=seconds + PATIENCE_SECONDS)
        if status not in ends:
            how = f"ended with {status}" if status is not None else f"does not end ({state_of(pid)})"
            raise AssertionError(f"a process {how}: {self.errors()}")
        return status

    def live(self, work: str, ends: tuple[int, ...] = USUAL_ENDS, **options: Any) -> int:
        """Begin a life, wait for its end and return the exit status."""
        return self.wait(self.begin(work, **options), ends=ends)

    def kill(self, pid: int) -> int:
        self.signal(pid, signal.SIGKILL)
        return self.wait(pid)

    def errors(self) -> str:
        """Return the end of what the lives in this folder printed."""
        errors = self._folder / "errors.txt"
        return errors.read_text()[-6000:] if errors.exists() else ""

    def until(self, pid: int, what: str, holds: Callable[[], object]) -> None:
        """Wait for something that the process does in its life."""
        until = time.monotonic() + PATIENCE_SECONDS
        state = state_of(pid)
        while not holds():
            assert state not in ("Z", ""), f"{what}: the process is over. {self.errors()}"
            assert time.monotonic() < until, f"{what}: not within {PATIENCE_SECONDS} s ({state}). {self.errors()}"
            time.sleep(0.003)
            state = state_of(pid)

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()  # it kills what lives, and ends
        try:
            process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def state_of(pid: int, thread: int | None = None) -> str:
    """Return the kernel's letter for the state (R, S, D, T, Z), or nothing if there is no such process any more."""
    try:
        text = Path(f"/proc/{pid}/task/{thread or pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return text.rpartition(")")[2].split()[0]


def report(out: str | Path, value: Any) -> None:
    """Write the report of a life: whole, or not at all."""
    fresh = Path(f"{out}.{os.getpid()}")
    fresh.write_text(json.dumps(value))
    fresh.rename(out)


def reported(out: Path) -> Any:
    """Return the report of a life; None if it was killed before."""
    return json.loads(out.read_text()) if out.exists() else None


# The server


class _Server:
    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._children: set[int] = set()

    def begin(self, work: str, options: dict[str, Any], folder: str) -> int:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.close(0)
            _live(getattr(self._module, work), options, folder)
        self._children.add(pid)
        return pid

    def signal(self, pid: int, number: int) -> bool:
        assert pid in self._children, f"{pid} is not ours"
        state = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        os.kill(pid, number)
        return state is None

    def wait(self, pid: int, seconds: float) -> int | None:
        assert pid in self._children, f"{pid} is not ours"
        descriptor = os.pidfd_open(pid)
        try:
            if not select.select([descriptor], [], [], seconds)[0]:
                return None
        finally:
            os.close(descriptor)
        self._children.discard(pid)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def end_all(self) -> None:
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
        for pid in self._children:
            os.waitpid(pid, 0)
        self._children.clear()


def _live(work: Callable[..., Any], options: dict[str, Any], folder: str) -> None:
    os.environ["ONRECORD_KEY_FILE"] = f"{folder}/keys"
    descriptor = os.open(f"{folder}/errors.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 2)
    os.dup2(descriptor, 1)
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True, file=descriptor)
    status = 1
    try:
        status = work(**options) or 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except KeyboardInterrupt:
        status = 130
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _load(module: str) -> ModuleType:
    """Import what lives import, and read the code of every agent: once for all lives."""
    from onrecord.runtime.api.agent import Agent

    for store in ("sqlite", "postgres"):
        import_module(f"onrecord.store.{store}.store")
    loaded = import_module(module)
    for value in vars(loaded).values():
        if isinstance(value, Agent):
            value.code()
    return loaded


def _serve(module: str) -> None:
    server = _Server(_load(module))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for line in sys.stdin:
            command, *args = json.loads(line)
            print(json.dumps(getattr(server, command)(*args)), flush=True)
    finally:
        server.end_all()


if __name__ == "__main__":
    _serve(sys.argv[1])
