"""A clock to turn, other processes, and the operations journal, for tests of waits."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

from kit.command_server import ForkedProcess
from onrecord.journal.sources import SystemSources
from onrecord.store.contract import Store


class TurnedClock(SystemSources):
    """The real sources with a clock that the test turns."""

    def __init__(self, now_us: int = 1_800_000_000_000_000) -> None:
        self.now = now_us

    def now_us(self) -> int:
        return self.now


class Child:
    """Another process that executes Python code. It prints `ready`, and goes on when a line is written to it."""

    def __init__(self, code: str, *arguments: str, key_file: Path) -> None:
        stdin, to_child = os.pipe()
        from_child, stdout = os.pipe()
        self._input, self._output = os.fdopen(to_child, "w"), os.fdopen(from_child)
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the child
        try:
            self._process = ForkedProcess(
                arguments,
                {0: stdin, 1: stdout, 2: self._errors.fileno()},
                code=f"import warnings; warnings.simplefilter('error')\n{code}",
                env={**os.environ, "ONRECORD_KEY_FILE": str(key_file)},
            )
        finally:
            os.close(stdin)
            os.close(stdout)

    def wait_until_ready(self) -> None:
        assert self._output.readline() == "ready\n", self.errors()

    def go_on(self) -> None:
        self._input.write("\n")
        self._input.flush()

    def read(self) -> str:
        """Return the rest of the output of a child that ends well."""
        printed = self._output.read()
        assert self._process.wait(60) == 0, self.errors()
        return printed

    def errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read()

    def send_signal(self, number: int) -> None:
        """Send a signal that ends the child. It may have ended by itself before."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)
        self._process.wait(60)

    def close(self) -> None:
        self._process.kill()
        self._process.wait(60)
        for stream in (self._input, self._output, self._errors):
            stream.close()


def operations(store: Store, namespace: str = "default") -> list[tuple[str, Any]]:
    """Return the operations and their details from the operations journal."""
    from onrecord.core.links import OPERATIONS_RUN
    from onrecord.journal.reader import JournalReader

    if store.run_row(namespace, OPERATIONS_RUN) is None:
        return []
    events = JournalReader(store, OPERATIONS_RUN, namespace).scan()
    return [(one.event.operation, one.event.detail) for one in events if one.kind == "OperationNoted"]
