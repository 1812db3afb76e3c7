"""Run a measurement in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any


class ChildFailed(Exception):
    """A measuring process ended; the message is the last line of its log."""


class Child:
    """A measuring process: reads a line, does its work, and answers with a line of JSON."""

    def __init__(self, module: str, *arguments: str, log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                cwd=Path(__file__).parents[1],
            )
        self.hello = self._read_answer()

    def cpu_seconds(self) -> float:
        """Return the processor time of all its threads so far."""
        tasks = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def ask(self, line: object) -> Any:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ChildFailed(self._last_error_line()) from None
        return self._read_answer()

    def _read_answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.close()
            raise ChildFailed(self._last_error_line())
        return json.loads(line)

    def _last_error_line(self) -> str:
        lines = [line.strip() for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1][:160] if lines else "no output"

    def close(self) -> None:
        """Close the input, which ends the process; kill it if it does not end."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Parent:
    """The parent, as a `Child` process sees it. Answers go to standard output, other prints to the log."""

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def say(self, answer: Any) -> None:
        self._answers.write(json.dumps(answer) + "\n")
        self._answers.flush()

    def next_line(self) -> str | None:
        """Return the next line, or None when the parent has closed the pipe."""
        line = sys.stdin.readline()
        return line.strip() if line else None

    def exit_now(self) -> None:
        """End the process at once, without waiting for its open runs."""
        self._answers.flush()
        os._exit(0)
